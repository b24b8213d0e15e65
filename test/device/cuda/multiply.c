/* multiply.c - products on the emulated card, by our own kernel and by the emulated cuBLASLt,
 * against plain sums in double. */
#include "direct.h"

static const char *const wishes[] = {"own", "cublaslt"};

typedef struct product {
    int64_t    m, n, k;
    bool       ta, tb, bias;
    weir_dtype type;
    int64_t    shift;       /* elements after an aligned address, of all operands */
} product;

static double at(const direct_tensor *t, bool turned, int64_t row, int64_t col)
{
    const int64_t ld = t->layout.desc.dim[1];
    return turned ? t->value[col * ld + row] : t->value[row * ld + col];
}

static direct_tensor expect(const product *p, const direct_tensor *in)
{
    direct_tensor c = direct_of(weir_2d(WEIR_F64, p->m, p->n));
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->bias ? in[2].value[j] : 0;
            for (int64_t l = 0; l < p->k; l++)
                sum += at(&in[0], p->ta, i, l) * at(&in[1], p->tb, l, j);
            c.value[i * p->n + j] = sum;
        }
    return c;
}

/* Runs the product, as LINEAR if it has a bias, else as MATMUL. Returns the error in units of the
 * type's epsilon. */
static double run(weir_device *d, const product *p, direct_ran *ran)
{
    const weir_dtype       t = p->type;
    const weir_matmul_attr attr = {p->ta, p->tb};
    direct_tensor          out;
    direct_tensor          in[3] = {
        direct_random(p->ta ? weir_2d(t, p->k, p->m) : weir_2d(t, p->m, p->k), -1, 1.5),
        direct_random(p->tb ? weir_2d(t, p->n, p->k) : weir_2d(t, p->k, p->n), -1, 1),
        direct_random(weir_1d(t, p->n), -1, 1)};
    direct_tensor want = expect(p, in);
    double        error = HUGE_VAL;
    for (int i = 0; i < 3; i++)
        in[i].shift = p->shift;
    const weir_status s =
        p->bias ? direct_run(d, WEIR_OP_LINEAR, 3, in, 1, &out, NULL, 0, ran)
                : direct_run(d, WEIR_OP_MATMUL, 2, in, 1, &out, &attr, sizeof attr, ran);
    if (CHECK_OK(s)) {
        error = direct_error(&out, &want, 0) / direct_epsilon(t);
        direct_free(&out);
    }
    for (int i = 0; i < 3; i++)
        direct_free(&in[i]);
    direct_free(&want);
    return error;
}

static void try_one(weir_device *d, const product *p, const char *wish)
{
    direct_ran   ran = {"", 0};
    const double error = run(d, p, &ran), allowed = weir_is_half(p->type) ? 1 : 16;
    check_that(error <= allowed, __FILE__, __LINE__,
               "%s by %s, %s %lldx%lldx%lld ta %d tb %d bias %d shift %lld: off by %g eps", wish,
               ran.impl, weir_dtype_name(p->type), (long long)p->m, (long long)p->n,
               (long long)p->k, p->ta, p->tb, p->bias, (long long)p->shift, error);
}

static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};

static void try_all(const char *wish, int64_t m, int64_t n, int64_t k, int64_t shift)
{
    direct_env("WEIR_GEMM", wish);
    weir_device *const d = direct_open();
    for (size_t t = 0; t < 4 && d; t++)
        for (int turned = 0; turned < 4; turned++) {
            product p = {m, n, k, (turned & 1) != 0, (turned & 2) != 0, false, types[t], shift};
            try_one(d, &p, wish);
            p.bias = !p.ta && p.tb;
            if (p.bias)
                try_one(d, &p, wish);
        }
    weir_device_close(d);
    direct_env("WEIR_GEMM", NULL);
}

CASE(sizes_transposes_and_types)
{
    static const int64_t sizes[][3] = {{1, 1, 1},  {8, 8, 8},   {3, 5, 0},    {0, 5, 3},
                                       {5, 0, 3},  {13, 31, 17}, {33, 40, 20}, {1, 130, 70},
                                       {66, 1, 90}, {70, 130, 36}};
    for (size_t w = 0; w < 2; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            try_all(wishes[w], sizes[i][0], sizes[i][1], sizes[i][2], 0);
}

CASE(long_sums_are_sliced)
{
    for (size_t w = 0; w < 2; w++) {
        try_all(wishes[w], 20, 25, 3000, 0);
        try_all(wishes[w], 3, 2, 1030, 0);
    }
}

/* Operands that are parts of tensors may have any address. */
CASE(operands_at_odd_addresses)
{
    for (size_t w = 0; w < 2; w++)
        for (int64_t shift = 1; shift <= 3; shift++)
            try_all(wishes[w], 12, 16, 1032, shift);
}

/* A batch of 130 products of 65 x 65, so that tiles are large; one operand repeats. */
static void batch(const char *wish, weir_desc a, weir_desc b, const char *impl)
{
    const weir_matmul_attr attr = {0, 1};
    direct_ran             ran = {"", 0};
    direct_tensor          got, want;
    direct_env("WEIR_GEMM", wish);
    weir_device *const cpu = weir_device_open("cpu", NULL), *const d = direct_open();
    direct_tensor      in[2] = {direct_random(a, -1, 1), direct_random(b, -1, 1)};
    direct_tensor      exact[2] = {direct_as(&in[0], WEIR_F64), direct_as(&in[1], WEIR_F64)};
    if (d && CHECK_OK(direct_run(cpu, WEIR_OP_BATCH_MATMUL, 2, exact, 1, &want, &attr, sizeof attr,
                                 NULL)) &&
        CHECK_OK(direct_run(d, WEIR_OP_BATCH_MATMUL, 2, in, 1, &got, &attr, sizeof attr, &ran))) {
        CHECK(strcmp(ran.impl, impl) == 0);
        CHECK(direct_error(&got, &want, 0) <= (weir_is_half(a.dtype) ? 1 : 16) *
                                              direct_epsilon(a.dtype));
        direct_free(&got);
        direct_free(&want);
    }
    for (int i = 0; i < 2; i++) {
        direct_free(&in[i]);
        direct_free(&exact[i]);
    }
    weir_device_close(cpu);
    weir_device_close(d);
    direct_env("WEIR_GEMM", NULL);
}

CASE(batches_of_large_tiles)
{
    for (size_t t = 0; t < 4; t++) {
        const weir_dtype type = types[t];
        const weir_desc  a = {.dtype = type, .ndim = 3, .dim = {130, 65, 5}};
        const weir_desc  b = {.dtype = type, .ndim = 3, .dim = {1, 66, 5}};
        batch("own", a, b, "cuda");
        batch(NULL, a, b, "cublaslt");
    }
}

CASE(batches_repeat_either_operand)
{
    const weir_desc a = {.dtype = WEIR_F32, .ndim = 5, .dim = {2, 3, 1, 4, 8}};
    const weir_desc b = {.dtype = WEIR_F32, .ndim = 5, .dim = {1, 3, 20, 5, 8}};
    batch("own", a, b, "cuda");
    batch(NULL, a, b, "cublaslt");
    /* This would take 20 calls of 20 products. */
    const weir_desc c = {.dtype = WEIR_F64, .ndim = 5, .dim = {1, 20, 1, 4, 8}};
    const weir_desc e = {.dtype = WEIR_F64, .ndim = 5, .dim = {1, 1, 20, 5, 8}};
    batch(NULL, c, e, "cuda");
}

CASE(the_library_is_asked_for_one_order_of_sums)
{
    const product      p = {64, 64, 1024, false, true, true, WEIR_F32, 0};
    direct_ran         ran = {"", 0};
    weir_device *const d = direct_open();
    CHECK_OR_RETURN(d != NULL);
    CHECK(run(d, &p, &ran) <= 16);
    CHECK(strcmp(ran.impl, "cublaslt") == 0);
    CHECK(ran.work == 4 * 64 * 64 * sizeof(float));     /* split, and added in a separate step */
    weir_device_close(d);
}

CASE(workspaces_have_a_limit)
{
    const product p = {64, 64, 1024, false, true, true, WEIR_F32, 0};
    direct_ran    ran = {"", 1};
    direct_env("WEIR_CUBLAS_WORKSPACE", "1000");
    weir_device *const d = direct_open();
    direct_env("WEIR_CUBLAS_WORKSPACE", NULL);
    CHECK_OR_RETURN(d != NULL);
    direct_env("WEIR_CUBLAS_WORKSPACE", "1000");
    CHECK(run(d, &p, &ran) <= 16);
    direct_env("WEIR_CUBLAS_WORKSPACE", NULL);
    CHECK(strcmp(ran.impl, "cublaslt") == 0 && ran.work == 0);
    weir_device_close(d);
}

/* TF32 has ten bits of fraction. It is used for f32 only, and only on request. */
CASE(tf32_says_so)
{
    const product f32 = {24, 24, 40, false, false, false, WEIR_F32, 0};
    const product f64 = {24, 24, 40, false, false, false, WEIR_F64, 0};
    direct_ran    ran = {"", 0};
    direct_env("WEIR_TF32", "1");
    weir_device *const d = direct_open();
    direct_env("WEIR_TF32", NULL);
    CHECK_OR_RETURN(d != NULL);
    const double error = run(d, &f32, &ran) * direct_epsilon(WEIR_F32);
    CHECK(strcmp(ran.impl, "cublaslt tf32") == 0);
    CHECK(error > 1e-5 && error < 1e-3);
    CHECK(run(d, &f64, &ran) <= 16);
    CHECK(strcmp(ran.impl, "cublaslt") == 0);
    weir_device_close(d);
}

CASE(wishes_are_read)
{
    weir_device *const     d = direct_open();
    const weir_matmul_attr attr = {0, 0};
    direct_tensor          in[] = {direct_of(weir_2d(WEIR_F32, 2, 2)),
                                   direct_of(weir_2d(WEIR_F32, 2, 2))}, out;
    direct_env("WEIR_GEMM", "cublas");
    CHECK_STATUS(direct_run(d, WEIR_OP_MATMUL, 2, in, 1, &out, &attr, sizeof attr, NULL),
                 WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "unknown WEIR_GEMM 'cublas' (expected own or cublaslt)");
    direct_env("WEIR_GEMM", "onednn");
    if (CHECK_OK(direct_run(d, WEIR_OP_MATMUL, 2, in, 1, &out, &attr, sizeof attr, NULL)))
        direct_free(&out);
    direct_env("WEIR_GEMM", NULL);
    direct_free(&in[0]);
    direct_free(&in[1]);
    weir_device_close(d);
}

/* A plugin alone in its folder finds no library. */
static bool copy_plugin(const char *folder)
{
    char  from[512], to[512], bytes[1 << 16];
    snprintf(from, sizeof from, "%s/libweir_cuda.so", WEIR_TEST_PLUGINS);
    snprintf(to, sizeof to, "%s/libweir_cuda.so", folder);
    FILE *const in = fopen(from, "rb"), *const out = fopen(to, "wb");
    bool        ok = in && out;
    for (size_t n; ok && (n = fread(bytes, 1, sizeof bytes, in)) > 0;)
        ok = fwrite(bytes, 1, n, out) == n;
    if (in)
        fclose(in);
    return out && fclose(out) == 0 && ok;
}

static void alone(void)
{
    const product      p = {9, 8, 7, false, true, true, WEIR_F32, 0};
    direct_ran         ran = {"", 0};
    weir_device *const d = weir_device_open("cuda", NULL), *const other =
        weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d && other);
    CHECK(run(d, &p, &ran) <= 16 && strcmp(ran.impl, "cuda") == 0);
    direct_env("WEIR_GEMM", "cublaslt");
    const weir_matmul_attr attr = {0, 0};
    direct_tensor          in[] = {direct_of(weir_2d(WEIR_F32, 2, 2)),
                                   direct_of(weir_2d(WEIR_F32, 2, 2))}, out;
    CHECK_STATUS(direct_run(other, WEIR_OP_MATMUL, 2, in, 1, &out, &attr, sizeof attr, NULL),
                 WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "cuBLASLt was not found");
    direct_env("WEIR_GEMM", NULL);
    direct_free(&in[0]);
    direct_free(&in[1]);
    weir_device_close(d);
    weir_device_close(other);
}

CASE(without_the_library)
{
    char folder[] = "/tmp/weir_alone_XXXXXX", file[64];
    CHECK_OR_RETURN(mkdtemp(folder) != NULL);
    if (CHECK(copy_plugin(folder))) {
        setenv("WEIR_PLUGINS", folder, 1);
        alone();
        setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    }
    snprintf(file, sizeof file, "%s/libweir_cuda.so", folder);
    CHECK(remove(file) == 0 && remove(folder) == 0);
}
