/* norm.c - the reductions of batch normalisation against plain loops in f64. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

/* Channel of logical element i. */
static int64_t channel_of(const weir_desc *d, int64_t i)
{
    return d->ndim == 2 ? i % d->dim[1] : i / (d->dim[2] * d->dim[3]) % d->dim[1];
}

static double tolerance(weir_dtype t)
{
    return t == WEIR_F32 ? 1e-5 : 1e-13;
}

static void stats_case(weir_desc d, double center, double width)
{
    const weir_bn_attr a = {.eps = 1e-5};
    const weir_desc    channels = weir_1d(d.dtype, d.dim[1]);
    kernel_case        k = {.choose = weir_cpu_bn_stats, .op = WEIR_OP_BN_STATS, .attr = &a,
                            .attr_bytes = sizeof a};
    (void)kernel_in(&k, kernel_dense(d));
    for (int i = 0; i < 3; i++)
        (void)kernel_out(&k, channels);
    kernel_fill(&k, 0, center - width, center + width);
    const int64_t n = weir_shape_count(&d), c = d.dim[1], rows = c > 0 ? n / c : 0;
    double       *mean = calloc((size_t)c + 1, sizeof *mean);
    double       *var = calloc((size_t)c + 1, sizeof *var);
    for (int64_t i = 0; i < n; i++)
        mean[channel_of(&d, i)] += kernel_get(&k.in[0], k.src[0], i) / (double)rows;
    for (int64_t i = 0; i < n; i++)
        var[channel_of(&d, i)] +=
            pow(kernel_get(&k.in[0], k.src[0], i) - mean[channel_of(&d, i)], 2) / (double)rows;
    kernel_run(&k);
    for (int64_t i = 0; i < c; i++) {
        const double tol = tolerance(d.dtype), v = rows > 0 ? var[i] : (double)NAN;
        CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), rows > 0 ? mean[i] : (double)NAN, tol);
        CHECK(rows == 0 || fabs(kernel_get(&k.out[1], k.dst[1], i) / v - 1) < 20 * tol || v == 0);
        CHECK_NEAR(kernel_get(&k.out[2], k.dst[2], i), 1 / sqrt(v + a.eps), 20 * tol);
    }
    free(mean);
    free(var);
    kernel_free(&k);
}

static const weir_desc shapes[] = {
    {WEIR_F32, 2, {1, 3}},         {WEIR_F32, 2, {17, 1}},        {WEIR_F32, 2, {5000, 20}},
    {WEIR_F32, 2, {130, 700}},     {WEIR_F32, 4, {3, 5, 7, 9}},   {WEIR_F32, 4, {8, 64, 33, 31}},
    {WEIR_F32, 4, {2, 2048, 7, 7}}, {WEIR_F64, 2, {5000, 20}},    {WEIR_F64, 4, {4, 33, 20, 20}},
    {WEIR_F32, 2, {0, 3}},         {WEIR_F32, 4, {4, 0, 2, 2}},   {WEIR_F32, 4, {4, 3, 0, 2}},
};

CASE(statistics)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        stats_case(shapes[i], 0.5, 2);
}

/* A mean far larger than the deviation: a difference of large sums would lose every digit. */
CASE(statistics_far_from_zero)
{
    stats_case(weir_2d(WEIR_F32, 60000, 5), 4096, 1);
    stats_case(weir_4d(WEIR_F64, 10, 3, 50, 50), 1e4, 1e-1);
}

static void grads_case(weir_desc d)
{
    const weir_desc channels = weir_1d(d.dtype, d.dim[1]);
    kernel_case     k = {.choose = weir_cpu_bn_grad_reduce, .op = WEIR_OP_BN_GRAD_REDUCE};
    (void)kernel_in(&k, kernel_dense(d));
    (void)kernel_in(&k, kernel_dense(d));
    (void)kernel_in(&k, kernel_dense(channels));
    (void)kernel_in(&k, kernel_dense(channels));
    (void)kernel_out(&k, channels);
    (void)kernel_out(&k, channels);
    for (int i = 0; i < 4; i++)
        kernel_fill(&k, i, i < 3 ? -1 : 0.5, i < 3 ? 1 : 2);
    const int64_t n = weir_shape_count(&d), c = d.dim[1];
    double       *ds = calloc((size_t)c + 1, sizeof *ds), *db = calloc((size_t)c + 1, sizeof *db);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = channel_of(&d, i);
        const double  dy = kernel_get(&k.in[0], k.src[0], i), x = kernel_get(&k.in[1], k.src[1], i);
        const double  rstd = kernel_get(&k.in[3], k.src[3], at);
        ds[at] += dy * (x - kernel_get(&k.in[2], k.src[2], at)) * rstd;
        db[at] += dy;
    }
    kernel_run(&k);
    const double rows = c > 0 ? (double)(n / c) : 0;
    const double tol = tolerance(d.dtype) * fmax(1, sqrt(rows) / 10);
    for (int64_t i = 0; i < c; i++) {
        CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), ds[i], tol);
        CHECK_NEAR(kernel_get(&k.out[1], k.dst[1], i), db[i], tol);
    }
    free(ds);
    free(db);
    kernel_free(&k);
}

CASE(sums_for_the_gradient)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        grads_case(shapes[i]);
}

static void update_case(weir_dtype type, double momentum, double count)
{
    const weir_bn_update_attr a = {.momentum = momentum, .count = count};
    kernel_case k = {.choose = weir_cpu_bn_update, .op = WEIR_OP_BN_UPDATE, .mutates = 3,
                     .attr = &a, .attr_bytes = sizeof a};
    double      want[2][5];
    for (int i = 0; i < 4; i++) {
        (void)kernel_in(&k, kernel_dense(weir_1d(type, 5)));
        kernel_fill(&k, i, 0.5, 2);
    }
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < 5; c++) {
            const double unbias = i == 1 && count > 1 ? count / (count - 1) : 1;
            want[i][c] = (1 - momentum) * kernel_get(&k.in[i], k.src[i], c) +
                         momentum * unbias * kernel_get(&k.in[i + 2], k.src[i + 2], c);
        }
    kernel_run(&k);
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < 5; c++)
            CHECK_NEAR(kernel_get(&k.in[i], k.src[i], c), want[i][c], tolerance(type));
    kernel_free(&k);
}

/* Rows of new statistics are applied one after another. */
CASE(running_statistics_by_rows)
{
    const weir_bn_update_attr a = {.momentum = 0.25, .count = 1};
    kernel_case k = {.choose = weir_cpu_bn_update, .op = WEIR_OP_BN_UPDATE, .mutates = 3,
                     .attr = &a, .attr_bytes = sizeof a};
    double      want[2][5];

    for (int i = 0; i < 4; i++) {
        (void)kernel_in(&k, kernel_dense(i < 2 ? weir_1d(WEIR_F32, 5) : weir_2d(WEIR_F32, 3, 5)));
        kernel_fill(&k, i, 0.5, 2);
    }
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < 5; c++) {
            want[i][c] = kernel_get(&k.in[i], k.src[i], c);
            for (int64_t row = 0; row < 3; row++)
                want[i][c] = 0.75 * want[i][c] +
                             0.25 * kernel_get(&k.in[i + 2], k.src[i + 2], row * 5 + c);
        }
    kernel_run(&k);
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < 5; c++)
            CHECK_NEAR(kernel_get(&k.in[i], k.src[i], c), want[i][c], tolerance(WEIR_F32));
    kernel_free(&k);
}

CASE(running_statistics)
{
    update_case(WEIR_F32, 0.1, 9);
    update_case(WEIR_F64, 0.3, 1);
    update_case(WEIR_F32, 1, 2);
}
