/* elementwise.c - tests of the row kernels: rows, operand modes, chains, in place, draws. */
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

#include <tgmath.h>

#include "core/fused.h"
#include "core/half.h"
#include "core/rng.h"
#include "device/cpu/kernels/elementwise.h"

/* The random stream of every run. */
enum { SEED = 77, RNG = 1000 };

/* Elements that the memory of a layout must have. */
static int64_t extent_of(const weir_layout *l)
{
    return weir_shape_count(&l->desc) == 0
               ? 0 : (int64_t)(kernel_extent(l) / weir_dtype_size(l->desc.dtype));
}

/* Selects for an instruction set, runs once, frees the kernel. */
static weir_status run(weir_choose_fn choose, weir_isa isa, int threads, const weir_call *c,
                       void *const *src, void *const *dst)
{
    weir_kernel kernel = {0};
    setenv("WEIR_ISA", weir_cpu_isa_name(isa), 1);
    weir_status s = choose(NULL, c, &kernel);
    unsetenv("WEIR_ISA");
    if (s != WEIR_OK)
        return s;
    weir_threads *const t = weir_threads_new(threads);
    s = kernel.run(&(weir_kargs){.call = c,
                                 .src = src,
                                 .dst = dst,
                                 .state = kernel.state,
                                 .threads = t,
                                 .seed = SEED,
                                 .rng = RNG});
    weir_threads_free(t);
    kernel.destroy(kernel.state);
    return s;
}

#define K(x) ((T)(x))
#define DRAW uniform
#define DRAW_NORMAL normal
#define M_exp   exp
#define M_log   log
#define M_tanh  tanh
#define M_sqrt  sqrt
#define M_abs   fabs
#define M_erf   erf
#define M_floor floor
#define M_ceil  ceil
#define M_round round
#define M_rint  rint
#define M_sin   sin
#define M_cos   cos
#define M_tan   tan
#define M_asin  asin
#define M_acos  acos
#define M_atan  atan
#define M_sinh  sinh
#define M_cosh  cosh
#define M_asinh asinh
#define M_acosh acosh
#define M_atanh atanh
#define M_log1p log1p
#define M_expm1 expm1
#define M_pow   pow
#define M_normal_cdf(x) (T)(0.5 * erfc(-0.70710678118654752440 * (double)(x)))
/* For positive numbers. */
#define M_remainder fmod
#define M_div_floor(a, b) floor(((a) - fmod(a, b)) / (b) + K(0.5))
#define M_div_trunc(a, b) trunc((a) / (b))

/* The reference for one element of a row, with libm's functions. */
typedef struct draws {
    double uniform, normal;
} draws;

#define OF_FLOATS(ID, value) case WEIR_OP_##ID: return value;
#define OF_NUMBERS          OF_FLOATS
#define OF_ORDERED          OF_FLOATS
#define OF_WHOLE(ID, value)
#define ROW(ID, id, nin, types, value) OF_##types(ID, value)

#define T      float
static T naive_f32(int64_t op, const T *x, T s, T t, draws r)
{
    const T a = x[0], b = x[1], c = x[2], d = x[3], e = x[4], f = x[5], g = x[6];
    const T uniform = (T)r.uniform, normal = (T)r.normal;
    switch (op) {
#include "core/elementwise.def"
    }
    return 0;
}
#undef T

#define T      double
static T naive_f64(int64_t op, const T *x, T s, T t, draws r)
{
    const T a = x[0], b = x[1], c = x[2], d = x[3], e = x[4], f = x[5], g = x[6];
    const T uniform = r.uniform, normal = r.normal;
    switch (op) {
#include "core/elementwise.def"
    }
    return 0;
}
#undef T
#undef ROW

typedef struct row {
    weir_op     op;
    int         arity;
    const char *text, *types;
} row;

static const row rows[] = {
#define ROW(ID, id, nin, types, value) {WEIR_OP_##ID, nin, #value, #types},
#include "core/elementwise.def"
#undef ROW
};

enum { ROWS = sizeof rows / sizeof *rows };

/* The draws of the element at a position of the output's dense order. */
static draws draws_at(uint64_t base, int64_t pos)
{
    uint32_t     word[4];
    const int    pair = (int)(pos % 4) / 2 * 2;
    weir_philox(SEED, base + (uint64_t)pos / 4, word);
    const double u = (double)weir_uniform_from(word[pair]);
    const double v = 2 * 3.14159265358979323846 * (double)weir_uniform_from(word[pair + 1]);
    const double radius = sqrt(-2 * log(1 - u));
    return (draws){(double)weir_uniform_from(word[pos % 4]), radius * (pos % 2 ? sin(v) : cos(v))};
}

static double get(const void *at, int64_t i, weir_dtype type)
{
    switch (type) {
    case WEIR_F32:  return (double)((const float *)at)[i];
    case WEIR_F16:  return (double)weir_from_f16(((const uint16_t *)at)[i]);
    case WEIR_BF16: return (double)weir_from_bf16(((const uint16_t *)at)[i]);
    default:        return ((const double *)at)[i];
    }
}

static void put(void *at, int64_t i, weir_dtype type, double value)
{
    switch (type) {
    case WEIR_F32:  ((float *)at)[i] = (float)value; break;
    case WEIR_F16:  ((uint16_t *)at)[i] = weir_to_f16((float)value); break;
    case WEIR_BF16: ((uint16_t *)at)[i] = weir_to_bf16((float)value); break;
    default:        ((double *)at)[i] = value; break;
    }
}

static double naive(const weir_ew_step *s, weir_dtype type, const double *x, draws r)
{
    float narrow[WEIR_MAX_IN];
    if (type == WEIR_F64)
        return naive_f64(s->op, x, s->s, s->t, r);
    for (int i = 0; i < WEIR_MAX_IN; i++)
        narrow[i] = (float)x[i];
    return (double)naive_f32(s->op, narrow, (float)s->s, (float)s->t, r);
}

/* The reference values of all steps of a program for the element at row-major position i. */
static void naive_program(const weir_ew_program *p, const weir_call *c, void *const *src, int64_t i,
                          double *value)
{
    const weir_dtype type = (weir_dtype)p->type;
    for (int k = 0; k < p->nin; k++) {
        weir_layout view;
        weir_shape_expand(&c->in[k], &c->out[0].desc, &view);
        value[k] = get(src[k], kernel_at(&view, i), c->in[k].desc.dtype);
    }
    for (int j = 0; j < p->nstep; j++) {
        double x[WEIR_MAX_IN] = {0};
        for (int k = 0; k < WEIR_MAX_IN; k++)
            x[k] = value[p->step[j].src[k]];
        const uint64_t base = RNG + p->step[j].rng;
        value[p->nin + j] =
            naive(&p->step[j], type, x, draws_at(base, kernel_at(&c->out[0], i)));
    }
}

/* ---- every row alone ---- */

static void check_row(const row *r, weir_dtype type, int64_t n)
{
    const weir_layout  l = kernel_dense(weir_1d(type, n));
    const weir_layout  in[WEIR_MAX_IN] = {l, l, l, l, l, l, l, l};
    weir_layout        out[1] = {l};
    const weir_ew_attr attr = {.s = 0.25, .t = 0.75};
    const weir_call    c = {.op = r->op, .nin = r->arity, .nout = 1, .in = in, .out = out,
                            .attr = &attr, .attr_bytes = sizeof attr, .alias = -1};
    weir_ew_step       step = {.op = r->op, .s = attr.s, .t = attr.t};
    const size_t       bytes = (size_t)n * weir_dtype_size(type);
    void              *src[WEIR_MAX_IN] = {0}, *dst[1] = {malloc(bytes + 1)};
    void *const        first = malloc(bytes + 1);

    for (int k = 0; k < r->arity; k++) {
        src[k] = malloc(bytes + 1);
        for (int64_t i = 0; i < n; i++)
            put(src[k], i, type, check_real(0.1, 2));
    }
    for (weir_isa isa = WEIR_ISA_BASE; isa <= weir_cpu_isa_best(); isa++) {
        CHECK_OK(run(weir_cpu_elementwise, isa, 1 + (int)isa, &c, src, dst));
        if (isa == WEIR_ISA_BASE)
            memcpy(first, dst[0], bytes);
        CHECK_BITS(dst[0], first, bytes);
    }
    bool near = true;
    for (int64_t i = 0; i < n && near; i++) {
        double x[WEIR_MAX_IN] = {0};
        for (int k = 0; k < r->arity; k++)
            x[k] = get(src[k], i, type);
        near = CHECK_NEAR(get(dst[0], i, type), naive(&step, type, x, draws_at(RNG, i)),
                          type == WEIR_F32 ? 2e-6 : 1e-14);
    }
    if (!near)
        printf("    row %s\n", r->text);
    for (int k = 0; k < r->arity; k++)
        free(src[k]);
    free(dst[0]);
    free(first);
}

CASE(rows_against_libm)
{
    static const int64_t sizes[] = {0, 1, 37, 1500, 40000};

    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 10 && strcmp(rows[i].types, "WHOLE") != 0; k++)
            check_row(&rows[i], k < 5 ? WEIR_F32 : WEIR_F64, sizes[k % 5]);
}

CASE(integer_rows_wrap)
{
    const weir_layout in[2] = {kernel_dense(weir_1d(WEIR_I32, 3)),
                               kernel_dense(weir_1d(WEIR_I32, 1))};
    weir_layout       out[1] = {in[0]};
    int32_t           a[3] = {5, -7, INT32_MAX}, b[1] = {3}, y[3];
    void             *src[2] = {a, b}, *dst[1] = {y};
    weir_call         c = {.op = WEIR_OP_ADD, .nin = 2, .nout = 1, .in = in, .out = out};

    CHECK_OK(run(weir_cpu_elementwise, WEIR_ISA_BASE, 1, &c, src, dst));
    CHECK(y[0] == 8 && y[1] == -4 && y[2] == INT32_MIN + 2);
    c.op = WEIR_OP_MUL;
    CHECK_OK(run(weir_cpu_elementwise, weir_cpu_isa_best(), 1, &c, src, dst));
    CHECK(y[0] == 15 && y[1] == -21 && y[2] == INT32_MAX - 2);
    c.op = WEIR_OP_SUB;
    CHECK_OK(run(weir_cpu_elementwise, weir_cpu_isa_best(), 1, &c, src, dst));
    CHECK(y[0] == 2 && y[1] == -10);
    c.op = WEIR_OP_DIV;
    CHECK_STATUS(run(weir_cpu_elementwise, WEIR_ISA_BASE, 1, &c, src, dst), WEIR_ERR_NOKERNEL);

    const weir_layout wide = kernel_dense(weir_1d(WEIR_I64, 2));
    int64_t           z[2] = {1ll << 33, -9};
    void             *at[1] = {z};
    c = (weir_call){.op = WEIR_OP_NEG, .nin = 1, .nout = 1, .in = &wide, .out = out, .alias = -1};
    out[0] = wide;
    CHECK_OK(run(weir_cpu_elementwise, weir_cpu_isa_best(), 1, &c, at, at));
    CHECK(z[0] == -(1ll << 33) && z[1] == 9);
}

/* ---- random programs over random operands ---- */

/* Rows that do not depend on libm must agree to the bit. */
static const weir_op exact[] = {
    WEIR_OP_RELU, WEIR_OP_ADD,      WEIR_OP_SUB,     WEIR_OP_MUL,     WEIR_OP_DIV,
    WEIR_OP_MAX,  WEIR_OP_MIN_GRAD, WEIR_OP_AFFINE,  WEIR_OP_SQUARE,  WEIR_OP_RELU_GRAD,
    WEIR_OP_NEG,  WEIR_OP_BN_APPLY, WEIR_OP_DROPOUT, WEIR_OP_UNIFORM, WEIR_OP_BN_GRAD_APPLY,
};

static weir_desc random_desc(weir_dtype type)
{
    weir_desc d = {.dtype = type, .ndim = (int)check_int(0, 5)};
    int64_t   n = 1;
    for (int i = 0; i < d.ndim; i++) {
        d.dim[i] = check_int(0, 9) == 0 ? check_int(1, 3000) : check_int(1, 12);
        if (n * d.dim[i] > 150000)
            d.dim[i] = 1;
        n *= d.dim[i];
    }
    return d;
}

/* A layout that broadcasts to `to`: dense, with repeated axes, or a transposed view with gaps. */
static weir_layout random_operand(const weir_desc *to)
{
    weir_layout l = kernel_dense(*to);
    const int   kind = (int)check_int(0, 4);
    if (kind == 0)
        return l;
    const int drop = kind == 1 ? (int)check_int(0, to->ndim) : 0;
    l.desc.ndim -= drop;
    for (int i = 0; i < l.desc.ndim; i++) {
        l.desc.dim[i] = to->dim[i + drop];
        if (kind <= 3 && check_int(0, 1) == 0)
            l.desc.dim[i] = 1;
        if (kind == 2 && i != 1)
            l.desc.dim[i] = 1;
    }
    weir_shape_dense(&l);
    if (kind < 4)
        return l;
    int64_t stride = check_int(1, 2);
    for (int i = 0; i < l.desc.ndim; i++) {
        l.stride[i] = stride;
        stride *= l.desc.dim[i];
    }
    return l;
}

typedef struct random_case {
    weir_ew_program prog;
    weir_layout     in[WEIR_EW_MAX_IN], out[WEIR_EW_MAX_OUT];
    weir_call       call;
    void           *src[WEIR_EW_MAX_IN], *dst[WEIR_EW_MAX_OUT], *want[WEIR_EW_MAX_OUT];
    int             alias[WEIR_EW_MAX_OUT];     /* the input that an output overwrites, or -1 */
    int64_t         n;
} random_case;

/* f64 throughout; f32; or f32 with some operands in half. */
static weir_dtype random_case_type(weir_dtype type, bool mixed)
{
    const weir_dtype stored[] = {type, WEIR_F16, WEIR_BF16};

    return mixed ? stored[check_int(0, 2)] : type;
}

static void random_case_program(weir_ew_program *p)
{
    *p = (weir_ew_program){.nin = check_int(1, 6), .nstep = check_int(1, 9)};
    p->nout = check_int(1, p->nstep < 3 ? p->nstep : 3);
    for (int64_t j = 0; j < p->nstep; j++) {
        p->step[j] = (weir_ew_step){.op = exact[check_int(0, sizeof exact / sizeof *exact - 1)],
                                    .s = check_real(0, 1),
                                    .t = check_real(-1, 1),
                                    .rng = (uint64_t)check_int(0, 1) << 33};
        for (int k = 0; k < WEIR_MAX_IN; k++)
            p->step[j].src[k] = check_int(0, p->nin + j - 1);
    }
    for (int64_t o = 0; o < p->nout; o++)
        p->out[o] = o == 0 ? p->nstep - 1 : check_int(0, p->nstep - 1);
}

/* In place where the layouts allow it, one output per input. */
static void random_case_alias(random_case *t)
{
    bool taken[WEIR_EW_MAX_IN] = {false};
    for (int o = 0; o < t->prog.nout; o++) {
        t->alias[o] = -1;
        for (int k = 0; k < t->prog.nin; k++)
            if (!taken[k] && weir_desc_equal(&t->in[k].desc, &t->out[o].desc) &&
                weir_shape_is_dense(&t->in[k]) && check_int(0, 2) == 0) {
                taken[k] = true;
                t->alias[o] = k;
                break;
            }
    }
}

static void random_case_make(random_case *t)
{
    const weir_dtype type = check_int(0, 2) == 0 ? WEIR_F64 : WEIR_F32;
    const bool       mixed = type == WEIR_F32 && check_int(0, 1);
    random_case_program(&t->prog);
    t->prog.type = type;
    const weir_desc desc = random_desc(type);
    t->n = weir_shape_count(&desc);
    for (int k = 0; k < t->prog.nin; k++) {
        t->in[k] = random_operand(&desc);
        t->in[k].desc.dtype = random_case_type(type, mixed);
        const int64_t extent = extent_of(&t->in[k]);
        t->src[k] = zone_new((size_t)extent * weir_dtype_size(t->in[k].desc.dtype));
        for (int64_t i = 0; i < extent; i++)
            put(t->src[k], i, t->in[k].desc.dtype, check_real(-2, 2));
    }
    for (int o = 0; o < t->prog.nout; o++) {
        t->out[o] = kernel_dense(desc);
        t->out[o].desc.dtype = random_case_type(type, mixed);
        t->dst[o] = zone_new(weir_shape_bytes(&t->out[o].desc));
        t->want[o] = malloc(weir_shape_bytes(&t->out[o].desc));
    }
    random_case_alias(t);
    t->call = (weir_call){.op = WEIR_OP_FUSED, .nin = (int)t->prog.nin, .nout = (int)t->prog.nout,
                          .in = t->in, .out = t->out, .attr = &t->prog,
                          .attr_bytes = sizeof t->prog, .alias = -1};
}

static void random_case_want(random_case *t)
{
    double value[WEIR_EW_MAX_IN + WEIR_EW_MAX_STEPS] = {0};
    for (int64_t i = 0; i < t->n; i++) {
        naive_program(&t->prog, &t->call, t->src, i, value);
        for (int o = 0; o < t->prog.nout; o++)
            put(t->want[o], kernel_at(&t->out[0], i), t->out[o].desc.dtype,
                value[t->prog.nin + t->prog.out[o]]);
    }
}

/* Runs on copies of those inputs that are overwritten. */
static void random_case_run(random_case *t, weir_isa isa, int threads)
{
    void *src[WEIR_EW_MAX_IN];
    memcpy(src, t->src, sizeof src);
    for (int o = 0; o < t->prog.nout; o++)
        if (t->alias[o] >= 0) {
            memcpy(t->dst[o], t->src[t->alias[o]], weir_shape_bytes(&t->out[o].desc));
            src[t->alias[o]] = t->dst[o];
        }
    CHECK_OK(run(weir_cpu_fused, isa, threads, &t->call, src, t->dst));
    for (int k = 0; k < t->prog.nin; k++)
        zone_check(t->src[k], "fused", "input");
    for (int o = 0; o < t->prog.nout; o++)
        zone_check(t->dst[o], "fused", "output");
    for (int o = 0; o < t->prog.nout; o++)
        CHECK_BITS(t->dst[o], t->want[o], weir_shape_bytes(&t->out[o].desc));
}

static void random_case_free(random_case *t)
{
    for (int k = 0; k < t->prog.nin; k++)
        zone_free(t->src[k]);
    for (int o = 0; o < t->prog.nout; o++) {
        zone_free(t->dst[o]);
        free(t->want[o]);
    }
}

CASE(random_programs_to_the_bit)
{
    for (int round = 0; round < 300 && check_failures == 0; round++) {
        random_case t = {0};
        random_case_make(&t);
        random_case_want(&t);
        for (weir_isa isa = WEIR_ISA_BASE; isa <= weir_cpu_isa_best(); isa++)
            random_case_run(&t, isa, 1 + (int)isa);
        random_case_free(&t);
    }
}

CASE(choice_short_of_memory)
{
    const weir_layout l = kernel_dense(weir_1d(WEIR_F32, 5));
    weir_layout       out[1] = {l};
    weir_kernel       kernel = {0};
    const weir_call   c = {.op = WEIR_OP_RELU, .nin = 1, .nout = 1, .in = &l, .out = out};

    weir_mem_fail_nth(0, true);
    CHECK_STATUS(weir_cpu_elementwise(NULL, &c, &kernel), WEIR_ERR_NOMEM);
}

/* ---- accuracy of the functions ---- */

/* Distance in ulp of f32 (f64) at the true value. */
static double ulps(double got, long double truth, weir_dtype type)
{
    const int    digits = type == WEIR_F32 ? 24 : 53, least = type == WEIR_F32 ? -149 : -1074;
    const double huge = type == WEIR_F32 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    if (isnan(truth) || isnan(got))
        return isnan(truth) && isnan(got) ? 0 : HUGE_VAL;
    if (isinf(got) || fabsl(truth) > (long double)huge)
        return fabsl(truth) >= (long double)huge && isinf(got) && (got > 0) == (truth > 0) ? 0 : 1;
    int e = 0;
    frexpl(truth, &e);
    const int unit = e - digits < least || truth == 0 ? least : e - digits;
    return (double)(fabsl((long double)got - truth) / ldexpl(1.0L, unit));
}

static void check_accuracy(weir_op op, long double (*truth)(long double), weir_dtype type,
                           const void *x, int64_t n, double allowed)
{
    const weir_layout l = kernel_dense(weir_1d(type, n));
    weir_layout       out[1] = {l};
    const weir_call   c = {.op = op, .nin = 1, .nout = 1, .in = &l, .out = out, .alias = -1};
    const size_t      bytes = (size_t)n * weir_dtype_size(type);
    void             *y = malloc(bytes), *z = malloc(bytes);
    void             *src[1] = {malloc(bytes)}, *dst[1] = {y};
    double            worst = 0, worst_at = 0;

    memcpy(src[0], x, bytes);
    CHECK_OK(run(weir_cpu_elementwise, WEIR_ISA_BASE, 1, &c, src, dst));
    for (weir_isa isa = WEIR_ISA_AVX2; isa <= weir_cpu_isa_best(); isa++) {
        dst[0] = z;
        CHECK_OK(run(weir_cpu_elementwise, isa, 2, &c, src, dst));
        CHECK_BITS(y, z, bytes);
    }
    for (int64_t i = 0; i < n; i++) {
        const double at = get(x, i, type);
        const double off = ulps(get(y, i, type), truth((long double)at), type);
        if (off > worst || isnan(off)) {
            worst = off;
            worst_at = at;
        }
    }
    check_that(worst <= allowed, __FILE__, __LINE__, "op %d, type %d: %.3f ulp at %a (%g)", (int)op,
               (int)type, worst, worst_at, worst_at);
    free(y);
    free(z);
    free(src[0]);
}

/* Largest error in ulp, in f32 (mostly rounded once from f64) and in f64 (partly libm's). */
static const struct {
    weir_op       op;
    long double (*truth)(long double);
    double        f32, f64;
} function[] = {
    {WEIR_OP_EXP, expl, 2, 2},       {WEIR_OP_LOG, logl, 2, 2},     {WEIR_OP_TANH, tanhl, 2, 2},
    {WEIR_OP_ERF, erfl, 2, 4},       {WEIR_OP_SIN, sinl, 1, 1},     {WEIR_OP_COS, cosl, 1, 1},
    {WEIR_OP_TAN, tanl, 1, 1},       {WEIR_OP_ASIN, asinl, 1, 1},   {WEIR_OP_ACOS, acosl, 1, 1},
    {WEIR_OP_ATAN, atanl, 1, 2},     {WEIR_OP_SINH, sinhl, 1, 3},   {WEIR_OP_COSH, coshl, 1, 3},
    {WEIR_OP_ASINH, asinhl, 1, 3},   {WEIR_OP_ACOSH, acoshl, 1, 3}, {WEIR_OP_ATANH, atanhl, 1, 3},
    {WEIR_OP_LOG1P, log1pl, 1, 2},   {WEIR_OP_EXPM1, expm1l, 1, 2}, {WEIR_OP_FLOOR, floorl, 0, 0},
    {WEIR_OP_CEIL, ceill, 0, 0},     {WEIR_OP_ROUND, roundl, 0, 0},
    {WEIR_OP_ROUND_EVEN, rintl, 0, 0},
};

static void check_functions(weir_dtype type, const void *x, int64_t n)
{
    for (size_t i = 0; i < sizeof function / sizeof *function; i++)
        check_accuracy(function[i].op, function[i].truth, type, x, n,
                       type == WEIR_F32 ? function[i].f32 : function[i].f64);
}

/* Special values, then a sweep over the bit patterns of f32. */
CASE(functions_within_a_few_ulp_f32)
{
    enum { N = 1 << 18 };
    float *const x = malloc(N * sizeof *x);
    const float  special[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 88.72283f,
                              88.72284f, -87.4f, -103.97f, -104.1f, 0x1p-149f, -0x1p-149f,
                              0x1p-126f, 0.625f};
    memcpy(x, special, sizeof special);
    for (uint32_t i = sizeof special / sizeof *special; i < N; i++) {
        const uint32_t bits = i * 16381u;
        memcpy(&x[i], &bits, sizeof bits);
    }
    check_functions(WEIR_F32, x, N);
    for (int i = 0; i < N; i++)
        x[i] = (float)check_real(-20, 20);
    check_functions(WEIR_F32, x, N);
    for (int i = 0; i < N; i++)
        x[i] = (float)check_real(0.3, 3);
    check_functions(WEIR_F32, x, N);
    free(x);
}

CASE(functions_within_a_few_ulp_f64)
{
    enum { N = 1 << 17 };
    double *const x = malloc(N * sizeof *x);
    const double  special[] = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, (double)NAN, 1.0, -1.0, 709.78,
                               709.79, -745.2, -708.5, -740.0, 0x1p-1074, 0x1p-1022, 0.625};
    memcpy(x, special, sizeof special);
    for (int64_t i = sizeof special / sizeof *special; i < N; i++) {
        const uint64_t bits = check_u64();
        memcpy(&x[i], &bits, sizeof bits);
    }
    check_functions(WEIR_F64, x, N);
    for (int i = 0; i < N; i++)
        x[i] = check_real(-750, 720) * (i % 2 == 0 ? 1 : 0.02);
    check_functions(WEIR_F64, x, N);
    for (int i = 0; i < N; i++)
        x[i] = check_real(0.3, 3);
    check_functions(WEIR_F64, x, N);
    free(x);
}

/* ---- draws ---- */

CASE(normal_draws_look_normal)
{
    enum { N = 1 << 17 };
    weir_layout        out[1] = {kernel_dense(weir_1d(WEIR_F32, N))};
    const weir_ew_attr attr = {.s = 3, .t = 2};
    const weir_call    c = {.op = WEIR_OP_NORMAL, .nout = 1, .out = out, .attr = &attr,
                            .attr_bytes = sizeof attr, .alias = -1};
    float *const       y = malloc(N * sizeof *y);
    void              *dst[1] = {y};
    double             sum = 0, squares = 0;

    CHECK_OK(run(weir_cpu_elementwise, weir_cpu_isa_best(), 2, &c, NULL, dst));
    for (int i = 0; i < N; i++) {
        sum += (double)y[i];
        squares += ((double)y[i] - 3) * ((double)y[i] - 3);
    }
    CHECK_NEAR(sum / N, 3, 0.01);
    CHECK_NEAR(squares / N, 4, 0.02);
    free(y);
}
