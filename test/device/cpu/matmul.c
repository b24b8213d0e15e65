/* matmul.c - products and linear layers of all implementations against a plain sum in double. */
#include "device/cpu/drive.h"
#include "device/cpu/gemm/gemm_bf16.h"

typedef struct size3 {
    int64_t m, n, k;
} size3;

static const size3 sizes[] = {
    {1, 1, 1},    {8, 8, 8},     {1, 10, 7},     {3, 5, 0},      {0, 5, 3},     {5, 0, 3},
    {13, 31, 17}, {14, 32, 256}, {15, 33, 257},  {29, 65, 300},  {100, 10, 84}, {1, 700, 130},
    {257, 1, 90}, {64, 64, 64},  {130, 513, 70}, {20, 25, 3000}, {33, 40, 1100}};

static const char *const wishes[] = {NULL, "own", "openblas", "onednn"};

static double at(const operand *o, bool turned, int64_t row, int64_t col)
{
    const int64_t ld = o->layout.desc.dim[1];
    return turned ? o->value[col * ld + row] : o->value[row * ld + col];
}

static void expect(operand *c, const operand *a, bool ta, const operand *b, bool tb,
                   const operand *bias)
{
    const int64_t m = c->layout.desc.dim[0], n = c->layout.desc.dim[1];
    const int64_t k = a->layout.desc.dim[ta ? 0 : 1];
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? bias->value[j] : 0;
            for (int64_t p = 0; p < k; p++)
                sum += at(a, ta, i, p) * at(b, tb, p, j);
            c->value[i * n + j] = sum;
        }
}

/* True if a requested library is missing: then the refusal is all there is to check. */
static bool refused(weir_status s)
{
    return s == WEIR_ERR_NOKERNEL && strstr(weir_error(), "WEIR_") != NULL;
}

static void product(drive *v, weir_dtype t, size3 s, bool ta, bool tb)
{
    operand in[2] = {operand_of(ta ? weir_2d(t, s.k, s.m) : weir_2d(t, s.m, s.k)),
                     operand_of(tb ? weir_2d(t, s.n, s.k) : weir_2d(t, s.k, s.n))};
    operand c = operand_of(weir_2d(t, s.m, s.n));
    operand_random(&in[0]);
    operand_random(&in[1]);
    expect(&c, &in[0], ta, &in[1], tb, NULL);
    const weir_matmul_attr attr = {ta, tb};
    char                   impl[64] = "", what[200];
    const weir_status      status =
        drive_run(v, weir_cpu_matmul, WEIR_OP_MATMUL, 2, in, 1, &c, &attr, sizeof attr, impl);
    snprintf(what, sizeof what, "%s %s %lldx%lldx%lld ta %d tb %d", impl, weir_dtype_name(t),
             (long long)s.m, (long long)s.n, (long long)s.k, ta, tb);
    if (!refused(status)) {
        CHECK_OK(status);
        operand_check(&c, t == WEIR_F32 ? 1e-5 : 1e-13, what);
    }
    operand_free(&in[0]);
    operand_free(&in[1]);
    operand_free(&c);
}

static void linear(drive *v, weir_dtype t, size3 s, bool biased)
{
    operand in[3] = {operand_of(weir_2d(t, s.m, s.k)), operand_of(weir_2d(t, s.n, s.k)),
                     operand_of(weir_1d(t, s.n))};
    operand c = operand_of(weir_2d(t, s.m, s.n));
    for (int i = 0; i < 3; i++)
        operand_random(&in[i]);
    expect(&c, &in[0], false, &in[1], true, biased ? &in[2] : NULL);
    char              impl[64] = "", what[200];
    const weir_status status =
        drive_run(v, weir_cpu_linear, WEIR_OP_LINEAR, biased ? 3 : 2, in, 1, &c, NULL, 0, impl);
    snprintf(what, sizeof what, "%s linear %s %lldx%lldx%lld bias %d", impl, weir_dtype_name(t),
             (long long)s.m, (long long)s.n, (long long)s.k, biased);
    if (!refused(status)) {
        CHECK_OK(status);
        operand_check(&c, t == WEIR_F32 ? 1e-5 : 1e-13, what);
    }
    for (int i = 0; i < 3; i++)
        operand_free(&in[i]);
    operand_free(&c);
}

static void every_turn(drive *v, weir_dtype t, size_t i)
{
    for (int turn = 0; turn < 4; turn++) {
        product(v, t, sizes[i], turn & 1, turn & 2);
        if (turn < 2)
            linear(v, t, sizes[i], turn);
    }
}

static void everything(const char *wish, int threads)
{
    drive v;
    drive_env("WEIR_GEMM", wish);
    if (drive_open(&v, threads)) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int t = WEIR_F32; t <= WEIR_F64; t++)
                every_turn(&v, (weir_dtype)t, i);
        drive_close(&v);
    }
    drive_env("WEIR_GEMM", NULL);
}

CASE(all_implementations_and_transposes)
{
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
        everything(wishes[i], 2);
}

CASE(one_thread_and_three)
{
    everything("own", 1);
    everything(NULL, 1);
    everything(NULL, 3);
}

CASE(own_kernels_of_every_instruction_set)
{
    static const char *const sets[] = {"base", "avx2", "avx512"};
    const char *const        before = getenv("WEIR_ISA");
    char                     saved[16] = "";
    snprintf(saved, sizeof saved, "%s", before ? before : "");
    for (int i = 0; i < 3; i++) {
        drive_env("WEIR_ISA", sets[i]);
        everything("own", 2);
    }
    drive_env("WEIR_ISA", before ? saved : NULL);
}

/* Runs a product of 150 x 700 and 700 x 90, A or B stored transposed or not; a bias makes it a
 * linear layer. */
static operand run_own(const char *isa, int threads, bool ta, bool tb, bool bias)
{
    drive         v;
    const int64_t m = 150, n = 90, k = 700;
    operand       in[3] = {operand_of(ta ? weir_2d(WEIR_F32, k, m) : weir_2d(WEIR_F32, m, k)),
                           operand_of(tb ? weir_2d(WEIR_F32, n, k) : weir_2d(WEIR_F32, k, n)),
                           operand_of(weir_1d(WEIR_F32, n))};
    operand       c = operand_of(weir_2d(WEIR_F32, m, n));
    const weir_matmul_attr attr = {ta, tb};
    for (int i = 0; i < 3; i++)
        for (int64_t e = 0; e < in[i].n; e++)
            element_set(WEIR_F32, in[i].data, e, (double)(e * 7919 % 2003) / 997 - 1);
    if (isa)
        drive_env("WEIR_ISA", isa);
    if (drive_open(&v, threads)) {
        CHECK_OK(bias ? drive_run(&v, weir_cpu_linear, WEIR_OP_LINEAR, 3, in, 1, &c, NULL, 0, NULL)
                      : drive_run(&v, weir_cpu_matmul, WEIR_OP_MATMUL, 2, in, 1, &c, &attr,
                                  sizeof attr, NULL));
        drive_close(&v);
    }
    for (int64_t e = 0; e < c.n; e++)   /* what a product and an addition would give */
        c.value[e] = (double)(float)(operand_at(&c, e) + operand_at(&in[2], e % n));
    for (int i = 0; i < 3; i++)
        operand_free(&in[i]);
    return c;
}

/* The same bits from 1, 2 and 3 workers, and from AVX2 and AVX-512. */
CASE(own_bits_do_not_depend_on_threads_or_vector_width)
{
    static const struct {
        const char *isa;
        int         threads;
    } runs[] = {{"avx2", 1}, {"avx2", 2}, {"avx2", 3}, {"avx512", 1}, {"avx512", 3}};
    if (weir_cpu_isa_best() == WEIR_ISA_BASE)
        return;
    const char *const before = getenv("WEIR_ISA");
    char              saved[16] = "";
    snprintf(saved, sizeof saved, "%s", before ? before : "");
    drive_env("WEIR_GEMM", "own");
    for (int turn = 0; turn < 5; turn++) {
        operand first = run_own(runs[0].isa, 1, turn & 1, turn & 6, turn == 4);
        for (int i = 1; i < 5; i++) {
            operand c = run_own(runs[i].isa, runs[i].threads, turn & 1, turn & 6, turn == 4);
            CHECK_BITS(c.data, first.data, first.bytes);
            operand_free(&c);
        }
        operand_free(&first);
    }
    drive_env("WEIR_GEMM", NULL);
    drive_env("WEIR_ISA", before ? saved : NULL);
}

/* A bias is added to the finished sum: the bits are those of a product and an addition. */
CASE(own_bias_has_the_bits_of_an_addition)
{
    drive_env("WEIR_GEMM", "own");
    operand product_and_sum = run_own(NULL, 2, false, true, false);
    operand linear_layer = run_own(NULL, 2, false, true, true);
    bool    same = true;
    for (int64_t e = 0; e < linear_layer.n && same; e++)
        same = CHECK(operand_at(&linear_layer, e) == product_and_sum.value[e]);
    operand_free(&product_and_sum);
    operand_free(&linear_layer);
    drive_env("WEIR_GEMM", NULL);
}

/* ---- halves ---- */

/* An operand of random numbers that the type has, `half` of them or f32 to be rounded. Where the
 * processor multiplies bf16, sums of their products are exact in f32, whatever their order. */
static operand random_half(weir_desc d, weir_dtype half)
{
    const double less_than_half_an_ulp = 1 + 0x1p-11;
    const bool   pairs = half == WEIR_BF16 && weir_gemm_bf16();
    operand      o = operand_of(d);
    for (int64_t e = 0; e < o.n; e++) {
        const double eighths = (double)check_int(-16, 16) / 8;
        const double v = pairs ? eighths * less_than_half_an_ulp : check_real(-1, 1);
        element_set(d.dtype, o.data, e, d.dtype == half ? half_round(v, half) : v);
    }
    return o;
}

/* The same numbers in f32, as the half type has them. */
static operand widened(const operand *o, weir_dtype half)
{
    operand   w;
    weir_desc d = o->layout.desc;
    d.dtype = WEIR_F32;
    w = operand_of(d);
    for (int64_t e = 0; e < o->n; e++)
        element_set(WEIR_F32, w.data, e, half_round(operand_at(o, e), half));
    return w;
}

/* Our own product of halves, or linear layer if `bias`, has the bits of our own product in f32 of
 * widened operands, rounded once: for any numbers, since the sums have one order, but where the
 * processor multiplies pairs of bf16 for sums that are exact. f32_b: B and the bias are f32, which
 * the product rounds. */
static void check_half_product(drive *v, weir_dtype half, size3 s, int turn, bool f32_b, bool bias)
{
    const bool             ta = turn & 1, tb = turn & 2;
    const weir_dtype       b = f32_b ? WEIR_F32 : half;
    const weir_matmul_attr attr = {ta, tb};
    operand in[3] = {random_half(ta ? weir_2d(half, s.k, s.m) : weir_2d(half, s.m, s.k), half),
                     random_half(tb ? weir_2d(b, s.n, s.k) : weir_2d(b, s.k, s.n), half),
                     random_half(weir_1d(b, s.n), half)};
    operand wide[3] = {widened(&in[0], half), widened(&in[1], half), widened(&in[2], half)};
    operand c = operand_of(weir_2d(half, s.m, s.n));
    operand want = operand_of(weir_2d(WEIR_F32, s.m, s.n));
    char    impl[64] = "";
    for (int i = 0; i < 2; i++) {
        operand *const from = i ? wide : in, *const to = i ? &want : &c;
        if (bias)
            CHECK_OK(
                drive_run(v, weir_cpu_linear, WEIR_OP_LINEAR, 3, from, 1, to, NULL, 0, impl));
        else
            CHECK_OK(drive_run(v, weir_cpu_matmul, WEIR_OP_MATMUL, 2, from, 1, to, &attr,
                               sizeof attr, impl));
        CHECK(strstr(impl, "own") != NULL);
    }
    int64_t bad = -1;
    for (int64_t e = c.n - 1; e >= 0; e--)
        if (operand_at(&c, e) != half_round(operand_at(&want, e), half))
            bad = e;
    check_that(bad < 0, __FILE__, __LINE__,
               "%s %s %lldx%lldx%lld turn %d, f32 %d, bias %d: element %lld differs", impl,
               weir_dtype_name(half), (long long)s.m, (long long)s.n, (long long)s.k, turn, f32_b,
               bias, (long long)bad);
    for (int i = 0; i < 3; i++) {
        operand_free(&in[i]);
        operand_free(&wide[i]);
    }
    operand_free(&c);
    operand_free(&want);
}

/* One block of depth and several, whole tiles and edges, more rows than are packed at a time, more
 * columns than a block has, a depth that is divided where A is transposed. */
static void check_half_products(void)
{
    static const size3 shapes[] = {{33, 40, 100}, {65, 31, 1100}, {1900, 17, 515}, {24, 1100, 1030},
                                   {1, 600, 130}, {300, 1, 200}, {150, 90, 400}, {47, 33, 1031},
                                   {61, 70, 2050}};
    drive v;
    drive_env("WEIR_GEMM", "own");
    if (drive_open(&v, 2)) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int turn = 0; turn < 16; turn++) {
                const weir_dtype half = turn & 8 ? WEIR_BF16 : WEIR_F16;
                check_half_product(&v, half, shapes[i], turn & 3, turn & 4, false);
                if ((turn & 3) == 2)
                    check_half_product(&v, half, shapes[i], turn & 3, turn & 4, true);
            }
        drive_close(&v);
    }
    drive_env("WEIR_GEMM", NULL);
}

/* With the processor's units for bf16, if it has some, and without. */
CASE(own_products_of_halves_have_the_bits_of_widened_operands)
{
    const char *const before = getenv("WEIR_ISA");
    char              kept[16];
    snprintf(kept, sizeof kept, "%s", before ? before : "");
    check_half_products();
    drive_env("WEIR_ISA", "avx2");
    check_half_products();
    drive_env("WEIR_ISA", before ? kept : NULL);
}

CASE(a_wish_that_makes_no_sense)
{
    drive v;
    CHECK_OR_RETURN(drive_open(&v, 1));
    operand in[2] = {operand_of(weir_2d(WEIR_F32, 2, 2)), operand_of(weir_2d(WEIR_F32, 2, 2))};
    operand c = operand_of(weir_2d(WEIR_F32, 2, 2));
    const weir_matmul_attr attr = {0, 0};
    drive_env("WEIR_GEMM", "mkl");
    CHECK_STATUS(
        drive_run(&v, weir_cpu_matmul, WEIR_OP_MATMUL, 2, in, 1, &c, &attr, sizeof attr, NULL),
        WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "unknown WEIR_GEMM 'mkl'");
    drive_env("WEIR_GEMM", "openblas");
    drive_env("WEIR_OPENBLAS", "0");
    CHECK_STATUS(
        drive_run(&v, weir_cpu_matmul, WEIR_OP_MATMUL, 2, in, 1, &c, &attr, sizeof attr, NULL),
        WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "switched off");
    drive_env("WEIR_GEMM", NULL);
    drive_env("WEIR_OPENBLAS", NULL);
    operand_free(&in[0]);
    operand_free(&in[1]);
    operand_free(&c);
    drive_close(&v);
}

CASE(choosing_without_memory_fails_cleanly)
{
    operand in[3] = {operand_of(weir_2d(WEIR_F32, 64, 64)), operand_of(weir_2d(WEIR_F32, 64, 64)),
                     operand_of(weir_1d(WEIR_F32, 64))};
    operand c = operand_of(weir_2d(WEIR_F32, 64, 64));
    for (int i = 0; i < 3; i++)
        operand_random(&in[i]);
    for (int64_t n = 0; n < 20; n++) {
        drive v;
        CHECK_OR_RETURN(drive_open(&v, 1));
        weir_mem_fail_nth(n, false);
        const weir_status s =
            drive_run(&v, weir_cpu_linear, WEIR_OP_LINEAR, 3, in, 1, &c, NULL, 0, NULL);
        const bool failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(s == (failed ? WEIR_ERR_NOMEM : WEIR_OK));
        drive_close(&v);
        if (!failed)
            break;
    }
    for (int i = 0; i < 3; i++)
        operand_free(&in[i]);
    operand_free(&c);
}
