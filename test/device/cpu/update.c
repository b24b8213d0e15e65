/* update.c - tests of SGD, Adam and increments against their formulas in double. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

static double tolerance(weir_dtype type)
{
    return type == WEIR_F32 ? 1e-6 : 1e-14;
}

/* All elements of inputs 0 .. count-1 as doubles, one array after another. */
static double *saved(const kernel_case *k, int count, int64_t n)
{
    double *const x = malloc((size_t)(count * n + 1) * sizeof *x);
    for (int i = 0; i < count; i++)
        for (int64_t j = 0; j < n; j++)
            x[i * n + j] = i < k->nin && weir_shape_count(&k->in[i].desc) == n
                               ? kernel_get(&k->in[i], k->src[i], j)
                               : 0;
    return x;
}

static void check_sgd(weir_dtype type, weir_dtype lr_type, int64_t n, bool buffer, weir_sgd_attr a)
{
    kernel_case     k = {.choose = weir_cpu_sgd_update, .op = WEIR_OP_SGD_UPDATE,
                         .mutates = buffer ? 9 : 1, .attr = &a, .attr_bytes = sizeof a};
    const weir_desc d = weir_1d(type, n);
    const double    lr = 0.125;

    kernel_in(&k, kernel_dense(d));
    kernel_in(&k, kernel_dense(d));
    kernel_in(&k, kernel_dense(weir_scalar(lr_type)));
    if (buffer)
        kernel_in(&k, kernel_dense(d));
    for (int i = 0; i < k.nin; i++)
        kernel_fill(&k, i, -1, 1);
    kernel_set(&k.in[2], k.src[2], 0, lr);
    double *const old = saved(&k, 4, n);
    kernel_run(&k);
    for (int64_t i = 0; i < n && check_failures == 0; i++) {
        const double p = old[i], g = old[n + i] + a.weight_decay * p;
        const double m = a.momentum * old[3 * n + i] + (1 - a.dampening) * g;
        const double step = !buffer ? g : a.nesterov ? g + a.momentum * m : m;
        CHECK_NEAR(kernel_get(&k.in[0], k.src[0], i), p - lr * step, tolerance(type));
        if (buffer)
            CHECK_NEAR(kernel_get(&k.in[3], k.src[3], i), m, tolerance(type));
    }
    free(old);
    kernel_free(&k);
}

CASE(sgd_formulas)
{
    const weir_sgd_attr attrs[] = {
        {0, 0, 0, 0}, {0, 0.5, 0, 0}, {0.75, 0, 0, 0}, {0.75, 0.5, 0.25, 0}, {0.75, 0.5, 0, 1},
    };
    for (weir_dtype type = WEIR_F32; type <= WEIR_F64; type++)
        for (int i = 0; i < 5; i++) {
            check_sgd(type, type, 40001, attrs[i].momentum != 0, attrs[i]);
            check_sgd(type, WEIR_F64, 5, attrs[i].momentum != 0, attrs[i]);
            check_sgd(type, WEIR_F32, 0, attrs[i].momentum != 0, attrs[i]);
        }
}

/* Without weight decay a non-finite parameter must not reach the momentum. */
CASE(sgd_without_decay_ignores_the_parameter)
{
    const weir_sgd_attr a = {.momentum = 0.5};
    kernel_case         k = {.choose = weir_cpu_sgd_update, .op = WEIR_OP_SGD_UPDATE, .mutates = 9,
                             .attr = &a, .attr_bytes = sizeof a};
    float              *p = kernel_in(&k, kernel_dense(weir_1d(WEIR_F32, 20)));
    kernel_in(&k, kernel_dense(weir_1d(WEIR_F32, 20)));
    kernel_in(&k, kernel_dense(weir_scalar(WEIR_F32)));
    const float *m = kernel_in(&k, kernel_dense(weir_1d(WEIR_F32, 20)));
    p[3] = NAN;
    kernel_run(&k);
    CHECK(isnan(p[3]) && m[3] == 0);
    kernel_free(&k);
}

static void check_adam(weir_dtype type, int64_t n, weir_adam_attr a, double t)
{
    kernel_case     k = {.choose = weir_cpu_adam_update, .op = WEIR_OP_ADAM_UPDATE, .mutates = 13,
                         .attr = &a, .attr_bytes = sizeof a};
    const weir_desc d = weir_1d(type, n);
    const double    lr = 0.0625;

    for (int i = 0; i < 4; i++)
        kernel_fill(&k, (kernel_in(&k, kernel_dense(d)), i), i == 3 ? 0 : -1, 1);
    kernel_in(&k, kernel_dense(weir_scalar(WEIR_F64)));
    kernel_in(&k, kernel_dense(weir_scalar(type)));
    kernel_set(&k.in[4], k.src[4], 0, t);
    kernel_set(&k.in[5], k.src[5], 0, lr);
    double *const old = saved(&k, 4, n);
    kernel_run(&k);
    for (int64_t i = 0; i < n && check_failures == 0; i++) {
        const double p = old[i], g = old[n + i] + a.weight_decay * p;
        const double m = a.beta1 * old[2 * n + i] + (1 - a.beta1) * g;
        const double v = a.beta2 * old[3 * n + i] + (1 - a.beta2) * g * g;
        const double mean = m / (1 - pow(a.beta1, t)), square = v / (1 - pow(a.beta2, t));
        CHECK_NEAR(kernel_get(&k.in[0], k.src[0], i), p - lr * mean / (sqrt(square) + a.eps),
                   10 * tolerance(type));
        CHECK_NEAR(kernel_get(&k.in[2], k.src[2], i), m, tolerance(type));
        CHECK_NEAR(kernel_get(&k.in[3], k.src[3], i), v, tolerance(type));
    }
    free(old);
    kernel_free(&k);
}

CASE(adam_formulas)
{
    for (weir_dtype type = WEIR_F32; type <= WEIR_F64; type++) {
        check_adam(type, 40001, (weir_adam_attr){0.875, 0.96875, 1e-3, 0}, 1);
        check_adam(type, 33, (weir_adam_attr){0.875, 0.96875, 1e-3, 0.25}, 17);
        check_adam(type, 0, (weir_adam_attr){0.875, 0.96875, 1e-3, 0.25}, 2);
    }
}

CASE(increments)
{
    const weir_increment_attr a = {.by = 1.5};
    for (weir_dtype type = WEIR_F32; type <= WEIR_F64; type++)
        for (int64_t n = 1; n < 100000; n *= 300) {
            kernel_case k = {.choose = weir_cpu_increment, .op = WEIR_OP_INCREMENT, .mutates = 1,
                             .attr = &a, .attr_bytes = sizeof a};
            kernel_in(&k, kernel_dense(weir_1d(type, n)));
            kernel_set(&k.in[0], k.src[0], n - 1, 7);
            kernel_run(&k);
            CHECK_NEAR(kernel_get(&k.in[0], k.src[0], n - 1), 8.5, 0);
            CHECK(n == 1 || kernel_get(&k.in[0], k.src[0], 0) == 1.5);
            kernel_free(&k);
        }
}

CASE(updates_refuse_integers)
{
    const weir_increment_attr a = {.by = 1};
    const weir_layout         l = kernel_dense(weir_1d(WEIR_I32, 3));
    weir_kernel               kernel = {0};
    const weir_call c = {.op = WEIR_OP_INCREMENT, .nin = 1, .in = &l, .attr = &a,
                         .attr_bytes = sizeof a, .alias = -1};
    CHECK_STATUS(weir_cpu_increment(NULL, &c, &kernel), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "i32");
}
