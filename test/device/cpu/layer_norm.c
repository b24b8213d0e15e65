/* layer_norm.c - layer normalisation and its gradient against plain loops in f64, by every
 * instruction set and number of threads. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

enum { MOST = 4100 };

/* Of one row, in f64. */
typedef struct reference {
    double mean, rstd, y[MOST], dx[MOST], dscale[MOST], dbias[MOST];
} reference;

static const weir_layer_norm_attr attr = {.eps = 1e-5};

static double in(const kernel_case *k, int i, int64_t at)
{
    return kernel_get(&k->in[i], k->src[i], at);
}

static double out(const kernel_case *k, int i, int64_t at)
{
    return kernel_get(&k->out[i], k->dst[i], at);
}

static void row_statistics(reference *r, const kernel_case *k, int x, int64_t row, int64_t n)
{
    double var = 0;

    r->mean = 0;
    for (int64_t i = 0; i < n; i++)
        r->mean += in(k, x, row * n + i) / (double)n;
    for (int64_t i = 0; i < n; i++)
        var += pow(in(k, x, row * n + i) - r->mean, 2) / (double)n;
    r->rstd = 1 / sqrt(var + attr.eps);
}

/* x about `center`. */
static void norm_case(weir_dtype t, int64_t rows, int64_t n, double center, double tolerance)
{
    const weir_desc x = weir_2d(t, rows, n), one = weir_2d(t, rows, 1), scale = weir_1d(t, n);
    kernel_case     k = {.choose = weir_cpu_layer_norm, .op = WEIR_OP_LAYER_NORM, .attr = &attr,
                         .attr_bytes = sizeof attr};
    static reference r;

    kernel_in(&k, kernel_dense(x));
    kernel_in(&k, kernel_dense(scale));
    kernel_in(&k, kernel_dense(scale));
    kernel_out(&k, x);
    kernel_out(&k, one);
    kernel_out(&k, one);
    kernel_fill(&k, 0, center - 1, center + 1);
    kernel_fill(&k, 1, 0.5, 2);
    kernel_fill(&k, 2, -1, 1);
    kernel_run(&k);
    for (int64_t row = 0; row < rows; row++) {
        row_statistics(&r, &k, 0, row, n);
        CHECK_NEAR(out(&k, 1, row), r.mean, tolerance * (1 + fabs(center)));
        CHECK(fabs(out(&k, 2, row) / r.rstd - 1) < tolerance);
        for (int64_t i = 0; i < n; i++)
            CHECK_NEAR(out(&k, 0, row * n + i),
                       (in(&k, 0, row * n + i) - r.mean) * r.rstd * in(&k, 1, i) + in(&k, 2, i),
                       8 * tolerance * (1 + fabs(center)) * (n < 8 ? 30 : 1));
    }
    kernel_free(&k);
}

CASE(rows)
{
    norm_case(WEIR_F32, 1, 1, 0, 1e-6);
    norm_case(WEIR_F32, 37, 3, 0.5, 1e-5);
    norm_case(WEIR_F32, 300, 384, 0.5, 1e-6);
    norm_case(WEIR_F32, 5, MOST, 0.5, 1e-6);
    norm_case(WEIR_F64, 65, 33, 0.5, 1e-14);
    norm_case(WEIR_F32, 0, 5, 0, 0);
}

/* A mean far larger than the deviation: a difference of large sums would lose every digit. */
CASE(rows_far_from_zero)
{
    norm_case(WEIR_F32, 40, 768, 4096, 1e-6);
    norm_case(WEIR_F64, 9, 1500, 1e5, 1e-12);
}

/* Equal elements have no variance, and none of either sign comes from rounding. */
CASE(rows_of_one_number)
{
    static const weir_layer_norm_attr none = {.eps = 0};
    kernel_case k = {.choose = weir_cpu_layer_norm, .op = WEIR_OP_LAYER_NORM, .attr = &none,
                     .attr_bytes = sizeof none};
    const weir_desc scale = weir_1d(WEIR_F32, 77);

    kernel_in(&k, kernel_dense(weir_2d(WEIR_F32, 2, 77)));
    kernel_in(&k, kernel_dense(scale));
    kernel_in(&k, kernel_dense(scale));
    kernel_out(&k, weir_2d(WEIR_F32, 2, 77));
    kernel_out(&k, weir_2d(WEIR_F32, 2, 1));
    kernel_out(&k, weir_2d(WEIR_F32, 2, 1));
    for (int64_t i = 0; i < 2 * 77; i++)
        kernel_set(&k.in[0], k.src[0], i, 0.1);
    kernel_run(&k);
    for (int i = 0; i < 2; i++)
        CHECK(out(&k, 2, i) > 1e6);
    kernel_free(&k);
}

static void add_row(reference *r, const kernel_case *k, int64_t row, int64_t n)
{
    double g = 0, g_xhat = 0;

    for (int64_t i = 0; i < n; i++) {
        const double dy = in(k, 0, row * n + i);
        const double xhat = (in(k, 1, row * n + i) - in(k, 2, row)) * in(k, 3, row);
        g += dy * in(k, 4, i) / (double)n;
        g_xhat += dy * in(k, 4, i) * xhat / (double)n;
        r->dscale[i] += dy * xhat;
        r->dbias[i] += dy;
    }
    for (int64_t i = 0; i < n; i++) {
        const double xhat = (in(k, 1, row * n + i) - in(k, 2, row)) * in(k, 3, row);
        r->dx[i] = in(k, 3, row) * (in(k, 0, row * n + i) * in(k, 4, i) - g - xhat * g_xhat);
    }
}

static void grad_case(weir_dtype t, int64_t rows, int64_t n, double tolerance)
{
    const weir_desc x = weir_2d(t, rows, n), one = weir_2d(t, rows, 1), scale = weir_1d(t, n);
    const weir_desc ins[] = {x, x, one, one, scale};
    kernel_case     k = {.choose = weir_cpu_layer_norm_grad, .op = WEIR_OP_LAYER_NORM_GRAD};
    static reference r;

    for (int i = 0; i < 5; i++) {
        kernel_in(&k, kernel_dense(ins[i]));
        kernel_fill(&k, i, i < 3 ? -1 : 0.5, i < 3 ? 1 : 2);
    }
    kernel_out(&k, x);
    kernel_out(&k, scale);
    kernel_out(&k, scale);
    kernel_run(&k);
    for (int64_t i = 0; i < n; i++)
        r.dscale[i] = r.dbias[i] = 0;
    for (int64_t row = 0; row < rows; row++) {
        add_row(&r, &k, row, n);
        for (int64_t i = 0; i < n; i++)
            CHECK_NEAR(out(&k, 0, row * n + i), r.dx[i], 8 * tolerance);
    }
    for (int64_t i = 0; i < n; i++) {
        CHECK_NEAR(out(&k, 1, i), r.dscale[i], tolerance * (4 + (double)rows));
        CHECK_NEAR(out(&k, 2, i), r.dbias[i], tolerance * (4 + (double)rows));
    }
    kernel_free(&k);
}

CASE(gradients)
{
    grad_case(WEIR_F32, 1, 1, 1e-6);
    grad_case(WEIR_F32, 37, 3, 1e-6);
    grad_case(WEIR_F32, 303, 384, 1e-6);
    grad_case(WEIR_F32, 6, MOST, 1e-6);
    grad_case(WEIR_F64, 165, 133, 1e-14);
    grad_case(WEIR_F32, 0, 5, 0);
}

/* The norm or its gradient with rows of type t, which hold numbers of the type `half`. */
static kernel_case of_halves(weir_op op, int64_t rows, int64_t n, weir_dtype t, weir_dtype half)
{
    const bool      norm = op == WEIR_OP_LAYER_NORM;
    const weir_desc x = weir_2d(t, rows, n), one = weir_2d(WEIR_F32, rows, 1);
    const weir_desc scale = weir_1d(WEIR_F32, n);
    const weir_desc ins[2][5] = {{x, x, one, one, scale}, {x, scale, scale}};
    const weir_desc outs[2][3] = {{x, scale, scale}, {x, one, one}};
    kernel_case     k = {.choose = norm ? weir_cpu_layer_norm : weir_cpu_layer_norm_grad, .op = op,
                         .attr = norm ? &attr : NULL, .attr_bytes = norm ? sizeof attr : 0};

    check_random = 5;
    for (int i = 0; i < (norm ? 3 : 5); i++) {
        kernel_in(&k, kernel_dense(ins[norm][i]));
        for (int64_t at = 0; at < weir_shape_count(&ins[norm][i]); at++)
            kernel_set(&k.in[i], k.src[i], at, half_round(check_real(-1, 2), half));
    }
    for (int i = 0; i < 3; i++)
        kernel_out(&k, outs[norm][i]);
    return k;
}

static void halves_case(weir_op op, int64_t rows, int64_t n, weir_dtype half)
{
    kernel_case wide = of_halves(op, rows, n, WEIR_F32, half);
    kernel_case narrow = of_halves(op, rows, n, half, half);

    kernel_run(&wide);
    kernel_run(&narrow);
    for (int64_t i = 0; i < rows * n; i++)
        CHECK(out(&narrow, 0, i) == half_round(out(&wide, 0, i), half));
    for (int i = 1; i < 3; i++)
        CHECK_BITS(wide.dst[i], narrow.dst[i], weir_shape_bytes(&wide.out[i].desc));
    kernel_free(&wide);
    kernel_free(&narrow);
}

/* Rows of one segment and of several, in groups that are full or not. */
CASE(halves_are_rows_of_f32_rounded_once)
{
    static const int64_t shapes[][2] = {{1, 1}, {6, 7}, {39, 384}, {9, 1024}, {6, 1025}, {5, 2100}};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (weir_dtype half = WEIR_F16; half <= WEIR_BF16; half++) {
            halves_case(WEIR_OP_LAYER_NORM, shapes[i][0], shapes[i][1], half);
            halves_case(WEIR_OP_LAYER_NORM_GRAD, shapes[i][0], shapes[i][1], half);
        }
}
