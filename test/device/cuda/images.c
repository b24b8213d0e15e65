/* images.c - our own image kernels on cards against the CPU's: pooling to the bit, convolution
 * within rounding, with operands at any address and sizes that the op table does not have. */
#include "device/cuda/direct.h"

static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_F16, WEIR_BF16};

enum { TYPES = sizeof types / sizeof *types };

/* Both devices. */
typedef struct pair {
    weir_device *card, *cpu;
} pair;

static bool pair_open(pair *p)
{
    p->card = direct_open();
    p->cpu = weir_device_open("cpu", NULL);
    return CHECK(p->card && p->cpu);
}

static void pair_close(pair *p)
{
    weir_device_close(p->card);
    weir_device_close(p->cpu);
}

/* ---- pooling ---- */

typedef struct window {
    int64_t          n, c, h, w;
    weir_pool2d_attr a;
} window;

/* Strides beyond 2^27 need 64-bit arithmetic. */
static const window windows[] = {
    {2, 16, 9, 7, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, 0}},
    {2, 8, 6, 9, {{2, 3}, {3, 1}, {1, 2}, {1, 2}, 1}},
    {1, 24, 5, 5, {{1, 1}, {2, 2}, {0, 0}, {0, 0}, 0}},
    {2, 12, 8, 8, {{5, 4}, {1, 3}, {2, 0}, {1, 3}, 1}},
    {1, 10, 12, 5, {{5, 5}, {1, 1}, {4, 4}, {4, 4}, 0}},
    {2, 3, 7, 6, {{3, 2}, {1 << 28, 2}, {1, 1}, {1, 1}, 0}},
    {3, 8, 5, 6, {{2, 5}, {1, 1 << 29}, {0, 2}, {0, 1}, 1}},
};

/* Every seventh number is NaN, some are infinite. */
static void poison(direct_tensor *t)
{
    for (int64_t i = 0; i < t->n; i += 7)
        t->value[i] = i % 3 == 0 ? (double)NAN : i % 3 == 1 ? HUGE_VAL : -HUGE_VAL;
}

static bool same(const direct_tensor *a, const direct_tensor *b)
{
    for (int64_t i = 0; i < a->n; i++)
        if (!(a->value[i] == b->value[i] && signbit(a->value[i]) == signbit(b->value[i])) &&
            !(isnan(a->value[i]) && isnan(b->value[i])))
            return false;
    return a->n == b->n;
}

/* The call has the same results on both devices; the CPU's stay in `out`. */
static void run_cpu_gpu(const pair *p, weir_op op, int nin, const direct_tensor *in, int nout,
                        direct_tensor *out, const void *attr, size_t bytes)
{
    direct_tensor got[2];

    CHECK_OR_RETURN(
        CHECK_OK(direct_run(p->cpu, op, nin, in, nout, out, attr, bytes, NULL)) &&
        CHECK_OK(direct_run(p->card, op, nin, in, nout, got, attr, bytes, NULL)));
    for (int i = 0; i < nout; i++) {
        check_that(same(&got[i], &out[i]), __FILE__, __LINE__, "%s of %s, shift %lld: output %d",
                   weir_op_name(op), weir_dtype_name(in[0].layout.desc.dtype),
                   (long long)in[0].shift, i);
        direct_free(&got[i]);
    }
}

static void check_window(const pair *p, const window *w, weir_dtype t, int64_t shift, bool poisoned)
{
    const weir_pool2d_grad_attr grad = {w->a, w->h, w->w};
    direct_tensor               x = direct_random(weir_4d(t, w->n, w->c, w->h, w->w), -3, 3);
    direct_tensor               y[2] = {{.n = 0}}, in[2], dx = {.n = 0};

    if (poisoned)
        poison(&x);
    x.shift = shift;
    run_cpu_gpu(p, WEIR_OP_AVG_POOL2D, 1, &x, 1, y, &w->a, sizeof w->a);
    direct_free(&y[0]);
    run_cpu_gpu(p, WEIR_OP_MAX_POOL2D, 1, &x, 2, y, &w->a, sizeof w->a);
    in[0] = direct_random(y[0].layout.desc, -1, 1);
    in[1] = y[1];
    in[0].shift = in[1].shift = shift;
    run_cpu_gpu(p, WEIR_OP_MAX_POOL2D_GRAD, 2, in, 1, &dx, &grad, sizeof grad);
    direct_free(&dx);
    run_cpu_gpu(p, WEIR_OP_AVG_POOL2D_GRAD, 1, in, 1, &dx, &grad, sizeof grad);
    direct_free(&dx);
    direct_free(&x);
    direct_free(&y[0]);
    direct_free(&y[1]);
    direct_free(&in[0]);
}

CASE(pooling_to_the_bit)
{
    pair p;

    CHECK_OR_RETURN(pair_open(&p));
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        for (int t = 0; t < TYPES; t++)
            for (int64_t shift = 0; shift < 2; shift++)
                check_window(&p, &windows[i], types[t], shift, i % 2 == 0);
    pair_close(&p);
}

CASE(upsampling_to_the_bit)
{
    static const int64_t factors[][2] = {{2, 2}, {1, 3}, {5, 2}};
    pair                 p;

    CHECK_OR_RETURN(pair_open(&p));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        for (int t = 0; t < TYPES; t++)
            for (int64_t shift = 0; shift < 2; shift++) {
                const weir_upsample_attr a = {{factors[i][0], factors[i][1]}};
                direct_tensor x = direct_random(weir_4d(types[t], 2, 16, 4, 5), -1, 1);
                direct_tensor y = {.n = 0}, dx = {.n = 0};
                x.shift = shift;
                run_cpu_gpu(&p, WEIR_OP_UPSAMPLE_BILINEAR, 1, &x, 1, &y, &a, sizeof a);
                y.shift = shift;
                run_cpu_gpu(&p, WEIR_OP_UPSAMPLE_BILINEAR_GRAD, 1, &y, 1, &dx, &a, sizeof a);
                direct_free(&x);
                direct_free(&y);
                direct_free(&dx);
            }
    pair_close(&p);
}

/* ---- convolution ---- */

typedef struct geometry {
    int64_t n, c, h, w, o, kh, kw, stride[2], pad[2], dilation[2], groups;
} geometry;

static const geometry convolutions[] = {
    {2, 70, 9, 8, 130, 3, 3, {1, 1}, {1, 1}, {1, 1}, 1},    /* several tiles in each direction */
    {2, 18, 9, 7, 24, 3, 3, {2, 1}, {1, 1}, {1, 2}, 2},     /* groups that fill tiles */
    {1, 160, 5, 5, 160, 1, 1, {1, 1}, {0, 0}, {1, 1}, 2},
    {2, 40, 8, 9, 40, 3, 3, {2, 2}, {1, 1}, {1, 1}, 40},    /* depthwise, more than 32 channels */
    {2, 6, 8, 9, 12, 2, 3, {1, 1}, {0, 2}, {1, 1}, 3},      /* groups that do not fill tiles */
    {3, 3, 40, 40, 5, 5, 5, {2, 2}, {2, 2}, {1, 1}, 1},     /* several slices */
    {9, 36, 12, 11, 36, 3, 2, {1, 1}, {1, 0}, {1, 1}, 36},
};

static direct_tensor *as_f64(const direct_tensor *from, direct_tensor *to, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = direct_as(&from[i], WEIR_F64);
    return to;
}

/* The call on the card with WEIR_CONV=who, against the CPU's in f64. */
static void check_call(const pair *p, weir_op op, int nin, const direct_tensor *in, int nout,
                       const void *attr, size_t bytes, const char *who, const char *impl)
{
    const weir_dtype t = in[0].layout.desc.dtype;
    direct_tensor    wide[3], got[2], want[2];
    direct_ran       ran;

    direct_env("WEIR_CONV", NULL);
    bool ok = CHECK_OK(direct_run(p->cpu, op, nin, as_f64(in, wide, nin), nout, want, attr, bytes,
                                  NULL));
    direct_env("WEIR_CONV", who);
    ok = CHECK_OK(direct_run(p->card, op, nin, in, nout, got, attr, bytes, &ran)) && ok;
    direct_env("WEIR_CONV", NULL);
    CHECK_OR_RETURN(ok);
    CHECK_TEXT(ran.impl, impl);
    for (int i = 0; i < nout; i++) {
        const double error = direct_error(&got[i], &want[i], 1e-3);
        check_that(error <= 16 * direct_epsilon(t), __FILE__, __LINE__,
                   "%s of %s, output %d: off by %g, shift %lld", weir_op_name(op),
                   weir_dtype_name(t), i, error, (long long)in[0].shift);
        direct_free(&got[i]);
        direct_free(&want[i]);
    }
    for (int i = 0; i < nin; i++)
        direct_free(&wide[i]);
}

static void check_convolution(const pair *p, const geometry *g, weir_dtype t, int64_t shift,
                              const char *who, const char *impl)
{
    const weir_conv2d_attr a = {{g->stride[0], g->stride[1]}, {g->pad[0], g->pad[1]},
                                {g->pad[0], g->pad[1]}, {g->dilation[0], g->dilation[1]},
                                g->groups};
    const int64_t oh = (g->h + 2 * g->pad[0] - g->dilation[0] * (g->kh - 1) - 1) / g->stride[0] + 1;
    const int64_t ow = (g->w + 2 * g->pad[1] - g->dilation[1] * (g->kw - 1) - 1) / g->stride[1] + 1;
    const weir_conv2d_grad_attr  by_x = {a, g->h, g->w};
    const weir_conv2d_gradw_attr by_w = {a, g->kh, g->kw, 1};
    direct_tensor in[] = {direct_random(weir_4d(t, g->n, g->c, g->h, g->w), -1, 1),
                          direct_random(weir_4d(t, g->o, g->c / g->groups, g->kh, g->kw), -1, 1),
                          direct_random(weir_1d(t, g->o), -1, 1)};
    direct_tensor dy = direct_random(weir_4d(t, g->n, g->o, oh, ow), -1, 1);

    in[0].shift = in[1].shift = in[2].shift = dy.shift = shift;
    check_call(p, WEIR_OP_CONV2D, 3, in, 1, &a, sizeof a, who, impl);
    check_call(p, WEIR_OP_CONV2D_GRAD_X, 2, (direct_tensor[]){dy, in[1]}, 1, &by_x, sizeof by_x,
               who, impl);
    check_call(p, WEIR_OP_CONV2D_GRAD_W, 2, (direct_tensor[]){in[0], dy}, 2, &by_w, sizeof by_w,
               who, impl);
    for (int i = 0; i < 3; i++)
        direct_free(&in[i]);
    direct_free(&dy);
}

CASE(convolution_by_our_own_kernels)
{
    pair p;

    CHECK_OR_RETURN(pair_open(&p));
    for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++)
        for (int t = 0; t < TYPES; t++)
            check_convolution(&p, &convolutions[i], types[t], i % 2, "own", "cuda");
    pair_close(&p);
}

/* A convolution that is a matrix product runs as one. */
CASE(convolution_as_a_product)
{
    static const geometry g[] = {{2, 24, 7, 8, 40, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1},
                                 {3, 130, 9, 9, 72, 1, 1, {1, 1}, {0, 0}, {2, 3}, 1}};
    static const struct {
        const char *gemm, *conv, *impl;
    } ways[] = {{NULL, NULL, "cublaslt"}, {NULL, "cudnn", "cudnn"}, {"own", NULL, "cudnn"},
                {"own", "own", "cuda"}};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pair p;
        direct_env("WEIR_GEMM", ways[i].gemm);
        CHECK_OR_RETURN(pair_open(&p));
        for (int t = 0; t < TYPES; t++)
            for (size_t k = 0; k < sizeof g / sizeof *g; k++)
                check_convolution(&p, &g[k], types[t], 0, ways[i].conv, ways[i].impl);
        pair_close(&p);
    }
    direct_env("WEIR_GEMM", NULL);
}

/* The library's plan; for unaligned operands our own kernels, in the plan's workspace. */
CASE(convolution_by_cudnn)
{
    pair p;

    CHECK_OR_RETURN(pair_open(&p));
    for (int t = 0; t < TYPES; t++)
        for (int64_t shift = 0; shift < 2; shift++)
            check_convolution(&p, &convolutions[1], types[t], shift, NULL, "cudnn");
    for (int t = 0; t < TYPES; t++)
        check_convolution(&p, &convolutions[3], types[t], 0, NULL,
                          weir_dtype_size(types[t]) == 2 ? "cudnn" : "cuda");
    pair_close(&p);
}
