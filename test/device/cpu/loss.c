/* loss.c - softmax cross-entropy and its gradient against plain loops in f64. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

static double lse_of(const kernel_case *k, int64_t row, int64_t c)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < c; j++)
        top = fmax(top, kernel_get(&k->in[0], k->src[0], row * c + j));
    for (int64_t j = 0; j < c; j++)
        sum += exp(kernel_get(&k->in[0], k->src[0], row * c + j) - top);
    return top + log(sum);
}

/* Probability of class j in row i, according to the target. */
static double target_of(const kernel_case *k, int64_t i, int64_t j, int64_t c)
{
    if (k->in[1].desc.ndim == 2)
        return kernel_get(&k->in[1], k->src[1], i * c + j);
    return kernel_get(&k->in[1], k->src[1], i) == (double)j;
}

static const weir_cross_entropy_attr but = {.ignored = -100};

static void fill(kernel_case *k, weir_dtype type, weir_dtype target, int64_t n, int64_t c)
{
    (void)kernel_in(k, kernel_dense(weir_2d(type, n, c)));
    (void)kernel_in(k, kernel_dense(target == type ? weir_2d(type, n, c) : weir_1d(target, n)));
    kernel_fill(k, 0, -20, 20);
    kernel_fill(k, 1, 0, target == type ? 1 : (double)c);
}

static void loss_case(weir_dtype type, weir_dtype target, int64_t n, int64_t c)
{
    kernel_case k = {.choose = weir_cpu_cross_entropy, .op = WEIR_OP_CROSS_ENTROPY,
                     .attr = &but};
    fill(&k, type, target, n, c);
    (void)kernel_out(&k, weir_scalar(type));
    (void)kernel_out(&k, weir_1d(type, n));
    kernel_run(&k);
    const double tol = type == WEIR_F32 ? 1e-5 : 1e-13;
    double       loss = n > 0 ? 0 : (double)NAN;
    for (int64_t i = 0; i < n; i++) {
        const double lse = lse_of(&k, i, c);
        CHECK_NEAR(kernel_get(&k.out[1], k.dst[1], i), lse, tol);
        for (int64_t j = 0; j < c; j++)
            loss += target_of(&k, i, j, c) * (lse - kernel_get(&k.in[0], k.src[0], i * c + j));
    }
    CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], 0), n > 0 ? loss / (double)n : loss, tol);
    kernel_free(&k);
}

static void grad_case(weir_dtype type, weir_dtype target, int64_t n, int64_t c)
{
    kernel_case k = {.choose = weir_cpu_cross_entropy_grad, .op = WEIR_OP_CROSS_ENTROPY_GRAD,
                     .attr = &but};
    fill(&k, type, target, n, c);
    (void)kernel_in(&k, kernel_dense(weir_1d(type, n)));
    (void)kernel_in(&k, kernel_dense(weir_scalar(type)));
    (void)kernel_out(&k, weir_2d(type, n, c));
    for (int64_t i = 0; i < n; i++)
        kernel_set(&k.in[2], k.src[2], i, lse_of(&k, i, c));
    const double dloss = 1.75 * (double)n;
    kernel_set(&k.in[3], k.src[3], 0, dloss);
    kernel_run(&k);
    for (int64_t i = 0; i < n; i++) {
        double total = 0;
        for (int64_t j = 0; j < c; j++)
            total += target_of(&k, i, j, c);
        for (int64_t j = 0; j < c; j++) {
            const double p = exp(kernel_get(&k.in[0], k.src[0], i * c + j) - lse_of(&k, i, c));
            CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i * c + j),
                       (p * total - target_of(&k, i, j, c)) * dloss / (double)n,
                       type == WEIR_F32 ? 2e-5 : 1e-12);
        }
    }
    kernel_free(&k);
}

static const int64_t sizes[][2] = {{1, 1}, {64, 10}, {3, 16}, {5, 33}, {4000, 21},
                                   {2, 3000}, {0, 4}};

CASE(cross_entropy)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        loss_case(WEIR_F32, i % 2 ? WEIR_I32 : WEIR_I64, sizes[i][0], sizes[i][1]);
        loss_case(WEIR_F32, WEIR_F32, sizes[i][0], sizes[i][1]);
        loss_case(WEIR_F64, WEIR_I64, sizes[i][0], sizes[i][1]);
        loss_case(WEIR_F64, WEIR_F64, sizes[i][0], sizes[i][1]);
    }
}

CASE(cross_entropy_grad)
{
    static const int64_t small[][2] = {{1, 1}, {64, 10}, {3, 16}, {5, 33}, {700, 50}, {0, 4}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        grad_case(WEIR_F32, i % 2 ? WEIR_I32 : WEIR_I64, small[i][0], small[i][1]);
        grad_case(WEIR_F32, WEIR_F32, small[i][0], small[i][1]);
        grad_case(WEIR_F64, WEIR_I64, small[i][0], small[i][1]);
    }
}

/* Large logits do not overflow; ignored classes do not count; NaN propagates. */
CASE(specials)
{
    for (int what = 0; what < 3; what++) {
        kernel_case  k = {.choose = weir_cpu_cross_entropy, .op = WEIR_OP_CROSS_ENTROPY,
                     .attr = &but};
        float       *x = kernel_in(&k, kernel_dense(weir_2d(WEIR_F32, 2, 20)));
        int32_t     *t = kernel_in(&k, kernel_dense(weir_1d(WEIR_I32, 2)));
        const float *loss = kernel_out(&k, weir_scalar(WEIR_F32));
        const float *lse = kernel_out(&k, weir_1d(WEIR_F32, 2));
        x[19] = 1e30f;
        t[0] = 19;
        t[1] = what == 1 ? -100 : 3;
        if (what > 0)
            x[25] = NAN;
        kernel_run(&k);
        CHECK(lse[0] == 1e30f);
        if (what == 0)
            CHECK_NEAR(*loss, log(20) / 2, 1e-6);
        else
            CHECK(what == 1 ? *loss == 0 : isnan(*loss));
        kernel_free(&k);
    }
}
