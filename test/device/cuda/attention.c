/* attention.c - attention and its gradient on the emulated card against the CPU's in f64. */
#include <math.h>

#include "device/cuda/kernels/attention_plan.h"
#include "direct.h"

typedef struct shape {
    int64_t b, heads, t, s, d, e;
    bool    causal;
} shape;

static weir_desc rows(weir_dtype t, int64_t b, int64_t n, int64_t columns)
{
    return (weir_desc){.dtype = t, .ndim = 3, .dim = {b, n, columns}};
}

/* Of heads of d columns. */
static weir_attention_attr options(int64_t heads, bool causal, int64_t d)
{
    return (weir_attention_attr){.heads = heads,
                                 .kv_heads = heads,
                                 .causal = causal,
                                 .scale = d > 0 ? 1 / sqrt((double)d) : 1};
}

/* The allowed error includes the rounding of probabilities to the type. */
static void near(const shape *x, weir_dtype t, const char *what, const direct_tensor *got,
                 const direct_tensor *want)
{
    const double error = direct_error(got, want, 1e-3) / direct_epsilon(t);
    check_that(error <= (weir_is_half(t) ? 1.5 : 16), __FILE__, __LINE__,
               "%s %s, %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns, causal %d: "
               "off by %g eps", what, weir_dtype_name(t), (long long)x->b, (long long)x->heads,
               (long long)x->t, (long long)x->s, (long long)x->d, (long long)x->e, x->causal,
               error);
}

/* The gradient's inputs: those of the forward call, its results, and dy. */
static void gradient(weir_device *d, weir_device *cpu, const shape *x, weir_dtype t,
                     const weir_attention_attr *a, direct_tensor in[6])
{
    static const char *const name[] = {"dq", "dk", "dv"};
    direct_tensor            exact[6], got[3], want[3];
    for (int i = 0; i < 6; i++)
        exact[i] = direct_as(&in[i], WEIR_F64);
    if (CHECK_OK(direct_run(cpu, WEIR_OP_ATTENTION_GRAD, 6, exact, 3, want, a, sizeof *a, NULL)) &&
        CHECK_OK(direct_run(d, WEIR_OP_ATTENTION_GRAD, 6, in, 3, got, a, sizeof *a, NULL)))
        for (int i = 0; i < 3; i++) {
            near(x, t, name[i], &got[i], &want[i]);
            direct_free(&got[i]);
            direct_free(&want[i]);
        }
    for (int i = 0; i < 6; i++)
        direct_free(&exact[i]);
}

static void attend(weir_device *d, weir_device *cpu, const shape *x, weir_dtype t)
{
    const weir_attention_attr a = options(x->heads, x->causal, x->d);
    direct_tensor             in[6] = {direct_random(rows(t, x->b, x->t, x->heads * x->d), -1, 2),
                                       direct_random(rows(t, x->b, x->s, x->heads * x->d), -1.5, 1),
                                       direct_random(rows(t, x->b, x->s, x->heads * x->e), -1, 1)};
    direct_tensor             exact[3], want[2];
    for (int i = 0; i < 3; i++)
        exact[i] = direct_as(&in[i], WEIR_F64);
    if (CHECK_OK(direct_run(cpu, WEIR_OP_ATTENTION, 3, exact, 2, want, &a, sizeof a, NULL)) &&
        CHECK_OK(direct_run(d, WEIR_OP_ATTENTION, 3, in, 2, &in[3], &a, sizeof a, NULL))) {
        near(x, t, "y", &in[3], &want[0]);
        near(x, t, "lse", &in[4], &want[1]);
        in[5] = direct_random(in[3].layout.desc, -1, 1);
        gradient(d, cpu, x, t, &a, in);
        for (int i = 3; i < 6; i++)
            direct_free(&in[i]);
        direct_free(&want[0]);
        direct_free(&want[1]);
    }
    for (int i = 0; i < 3; i++) {
        direct_free(&in[i]);
        direct_free(&exact[i]);
    }
}

CASE(sizes_and_types)
{
    static const shape shapes[] = {
        {2, 2, 3, 5, 2, 3, false},      {1, 1, 1, 1, 1, 1, true},      {1, 3, 70, 150, 4, 8, false},
        {1, 1, 150, 150, 8, 4, true},   {1, 2, 64, 256, 3, 3, true},   {1, 1, 200, 20, 4, 8, true},
        {1, 1, 33, 40, 70, 130, false}, {2, 1, 40, 33, 130, 70, true},
        {1, 2, 20, 20, 20, 280, true},  {2, 1, 10, 0, 4, 4, false},    {1, 1, 5, 6, 0, 4, false},
        {1, 1, 5, 6, 4, 0, false},      {1, 2, 130, 70, 64, 64, true},
        {1, 1, 70, 130, 128, 40, true}, {2, 1, 17, 90, 20, 128, false},
        {1, 1, 65, 64, 72, 16, true},   {1, 2, 16, 47, 1, 65, false},
    };
    weir_device *const d = direct_open(), *const cpu = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d && cpu);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (weir_dtype t = WEIR_F32; t <= WEIR_F64; t++)
            attend(d, cpu, &shapes[i], t);
    weir_device_close(d);
    weir_device_close(cpu);
}

CASE(tensor_cores_take)
{
    static const struct {
        weir_dtype type;
        int64_t    d, e;
        int        code;
        bool       cores;
    } wanted[] = {
        {WEIR_F16, 64, 64, 75, true},   {WEIR_F16, 64, 64, 70, true},
        {WEIR_F16, 64, 64, 61, false},  {WEIR_BF16, 64, 64, 80, true},
        {WEIR_BF16, 64, 64, 120, true}, {WEIR_BF16, 64, 64, 75, false},
        {WEIR_F32, 64, 64, 90, false},  {WEIR_F64, 64, 64, 90, false},
        {WEIR_F16, 128, 128, 90, true}, {WEIR_BF16, 1, 128, 90, true},
        {WEIR_F16, 129, 64, 90, false}, {WEIR_BF16, 64, 129, 90, false},
        {WEIR_BF16, 0, 4, 90, true},    {WEIR_F16, 4, 0, 90, true},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        CHECK(weir_attention_cores(wanted[i].type, wanted[i].d, wanted[i].e, wanted[i].code) ==
              wanted[i].cores);
}

/* Sizes and type select the kernel, wherever the operands lie; the path that reads and writes
 * single elements gives the same bits. */
static void places(weir_device *d, weir_dtype t, int64_t columns, bool cores)
{
    const weir_attention_attr a = options(2, true, columns);
    direct_ran                ran = {0};
    direct_tensor             in[3], out[2][2];
    for (int i = 0; i < 3; i++)
        in[i] = direct_random(rows(t, 1, 70, 2 * columns), -1, 1);
    for (int shift = 0; shift < 2; shift++) {
        for (int i = 0; i < 3; i++)
            in[i].shift = shift;
        CHECK_OK(direct_run(d, WEIR_OP_ATTENTION, 3, in, 2, out[shift], &a, sizeof a, &ran));
        CHECK(strcmp(ran.impl, cores ? "cuda tensor cores" : "cuda") == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(direct_error(&out[0][i], &out[1][i], 0) == 0);
        direct_free(&out[0][i]);
        direct_free(&out[1][i]);
    }
    for (int i = 0; i < 3; i++)
        direct_free(&in[i]);
}

CASE(places_of_operands)
{
    weir_device *const d = direct_open();
    CHECK_OR_RETURN(d);
    places(d, WEIR_F16, 24, true);
    places(d, WEIR_BF16, 72, true);
    places(d, WEIR_BF16, 136, false);
    places(d, WEIR_F32, 24, false);
    weir_device_close(d);
}

/* q, k and dy have these magnitudes: gradients of scores then under- or overflow f16, but those of
 * q do not. */
static void gradients_of(weir_device *d, weir_device *cpu, double q, double k, double dy)
{
    const weir_attention_attr a = options(1, false, 32);
    const weir_desc           wide = rows(WEIR_F16, 1, 100, 32);
    direct_tensor             exact[6], got[3], want[3];
    direct_tensor in[6] = {direct_random(wide, -q, q), direct_random(wide, -k, k),
                           direct_random(wide, -1, 1)};
    CHECK_OK(direct_run(d, WEIR_OP_ATTENTION, 3, in, 2, &in[3], &a, sizeof a, NULL));
    in[5] = direct_random(wide, -dy, dy);
    for (int i = 0; i < 6; i++)
        exact[i] = direct_as(&in[i], WEIR_F64);
    CHECK_OK(direct_run(cpu, WEIR_OP_ATTENTION_GRAD, 6, exact, 3, want, &a, sizeof a, NULL));
    CHECK_OK(direct_run(d, WEIR_OP_ATTENTION_GRAD, 6, in, 3, got, &a, sizeof a, NULL));
    CHECK(direct_error(&got[0], &want[0], 0) < 0x1p-10);
    for (int i = 0; i < 3; i++) {
        direct_free(&got[i]);
        direct_free(&want[i]);
    }
    for (int i = 0; i < 6; i++) {
        direct_free(&in[i]);
        direct_free(&exact[i]);
    }
}

CASE(range_of_f16)
{
    weir_device *const d = direct_open(), *const cpu = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d && cpu);
    gradients_of(d, cpu, 1e-3, 1e3, 0x1p-16);
    gradients_of(d, cpu, 1e2, 1e-2, 3e4);
    weir_device_close(d);
    weir_device_close(cpu);
}

/* Scores of several hundred: without the running maximum, exponentials would overflow. The error is
 * the rounding of scores, as exponents, and of halves. */
static void large(weir_device *d, weir_device *cpu, weir_dtype t, double most)
{
    const weir_attention_attr a = options(1, false, 4);
    direct_tensor             in[3] = {direct_random(rows(t, 1, 9, 4), 20, 40),
                                       direct_random(rows(t, 1, 200, 4), -30, 30),
                                       direct_random(rows(t, 1, 200, 4), -1, 1)};
    direct_tensor             exact[3], got[2], want[2];
    for (int i = 0; i < 3; i++)
        exact[i] = direct_as(&in[i], WEIR_F64);
    CHECK_OK(direct_run(cpu, WEIR_OP_ATTENTION, 3, exact, 2, want, &a, sizeof a, NULL));
    CHECK_OK(direct_run(d, WEIR_OP_ATTENTION, 3, in, 2, got, &a, sizeof a, NULL));
    for (int i = 0; i < 2; i++) {
        CHECK(direct_error(&got[i], &want[i], 0) < most);
        direct_free(&got[i]);
        direct_free(&want[i]);
    }
    for (int i = 0; i < 3; i++) {
        direct_free(&in[i]);
        direct_free(&exact[i]);
    }
}

CASE(large_scores)
{
    weir_device *const d = direct_open(), *const cpu = weir_device_open("cpu", NULL);
    CHECK_OR_RETURN(d && cpu);
    large(d, cpu, WEIR_F32, 1e-3);
    large(d, cpu, WEIR_F16, 1e-3);
    large(d, cpu, WEIR_BF16, 4e-3);
    weir_device_close(d);
    weir_device_close(cpu);
}
