/* reduce.c - sums, maxima and counts against plain loops in f64. */
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"

static weir_desc reduced(const weir_desc *d, const weir_reduce_attr *a, weir_dtype type)
{
    weir_desc out = {.dtype = type};
    for (int i = 0; i < d->ndim; i++)
        if ((a->dims >> i & 1) == 0 || a->keep)
            out.dim[out.ndim++] = (a->dims >> i & 1) != 0 ? 1 : d->dim[i];
    return out;
}

/* Logical index of the result to which element i of d belongs. */
static int64_t target_of(const weir_desc *d, uint64_t dims, int64_t i)
{
    int64_t to = 0, unit = 1;
    for (int k = d->ndim - 1; k >= 0; k--) {
        if ((dims >> k & 1) == 0) {
            to += i % d->dim[k] * unit;
            unit *= d->dim[k];
        }
        i /= d->dim[k];
    }
    return to;
}

static void naive(const kernel_case *k, const weir_reduce_attr *a, double *y)
{
    const weir_desc *d = &k->in[0].desc;
    for (int64_t i = 0; i < weir_shape_count(&k->out[0].desc); i++)
        y[i] = k->op == WEIR_OP_SUM ? 0 : -INFINITY;
    for (int64_t i = 0; i < weir_shape_count(d); i++) {
        const int64_t t = target_of(d, a->dims, i);
        const double  v = kernel_get(&k->in[0], k->src[0], i);
        y[t] = k->op == WEIR_OP_SUM ? y[t] + v * a->scale : isnan(v) || v > y[t] ? v : y[t];
    }
}

static void reduce_case(weir_op op, weir_layout x, uint64_t dims, bool keep, bool mean)
{
    weir_reduce_attr a = {.dims = dims, .keep = keep, .scale = 1};
    kernel_case      k = {.choose = op == WEIR_OP_SUM ? weir_cpu_sum : weir_cpu_amax,
                          .op = op,
                          .attr = &a,
                          .attr_bytes = sizeof a};
    (void)kernel_in(&k, x);
    (void)kernel_out(&k, reduced(&x.desc, &a, x.desc.dtype));
    const int64_t n = weir_shape_count(&k.out[0].desc);
    if (mean)
        a.scale = (double)n / (double)weir_shape_count(&x.desc);
    kernel_fill(&k, 0, -50, 100);
    double *want = malloc(((size_t)n + 1) * sizeof *want);
    naive(&k, &a, want);
    kernel_run(&k);
    const double tol = x.desc.dtype == WEIR_F32 ? 2e-5 : x.desc.dtype == WEIR_F64 ? 1e-11 : 0;
    for (int64_t i = 0; i < n; i++)
        if (!CHECK_NEAR(kernel_get(&k.out[0], k.dst[0], i), want[i], tol))
            break;
    free(want);
    kernel_free(&k);
}

static const struct {
    weir_desc shape;
    uint64_t  dims;
} shapes[] = {
    {{WEIR_F32, 0, {0}}, 0},
    {{WEIR_F32, 1, {1}}, 1},
    {{WEIR_F32, 1, {7}}, 1},
    {{WEIR_F32, 1, {300001}}, 1},
    {{WEIR_F32, 2, {3, 40}}, 1},
    {{WEIR_F32, 2, {3, 40}}, 2},
    {{WEIR_F32, 2, {40007, 3}}, 1},
    {{WEIR_F32, 2, {40007, 3}}, 2},
    {{WEIR_F32, 2, {9000, 20}}, 1},
    {{WEIR_F32, 2, {130, 1025}}, 1},
    {{WEIR_F32, 2, {5, 30011}}, 2},
    {{WEIR_F32, 3, {11, 13, 17}}, 2},
    {{WEIR_F32, 3, {11, 13, 17}}, 5},
    {{WEIR_F32, 3, {11, 1, 17}}, 2},
    {{WEIR_F32, 4, {4, 64, 17, 19}}, 13},
    {{WEIR_F32, 4, {3, 520, 7, 7}}, 12},
    {{WEIR_F32, 4, {3, 20, 24, 24}}, 2},
    {{WEIR_F32, 4, {2, 3, 5, 7}}, 15},
    {{WEIR_F32, 4, {2, 3, 5, 7}}, 9},
    {{WEIR_F32, 5, {2, 3, 4, 5, 6}}, 21},
};

static void all_shapes(weir_op op, weir_dtype type)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        weir_desc d = shapes[i].shape;
        d.dtype = type;
        const bool mean = i % 3 == 0 && type <= WEIR_F64;
        reduce_case(op, kernel_dense(d), shapes[i].dims, i % 2 == 0, mean);
    }
}

CASE(sum_f32) { all_shapes(WEIR_OP_SUM, WEIR_F32); }
CASE(sum_f64) { all_shapes(WEIR_OP_SUM, WEIR_F64); }
CASE(sum_i32) { all_shapes(WEIR_OP_SUM, WEIR_I32); }
CASE(sum_i64) { all_shapes(WEIR_OP_SUM, WEIR_I64); }
CASE(amax_f32) { all_shapes(WEIR_OP_AMAX, WEIR_F32); }
CASE(amax_f64) { all_shapes(WEIR_OP_AMAX, WEIR_F64); }
CASE(amax_i32) { all_shapes(WEIR_OP_AMAX, WEIR_I32); }
CASE(amax_i64) { all_shapes(WEIR_OP_AMAX, WEIR_I64); }

/* Random views: permuted axes, gaps, repeated axes. */
CASE(strided)
{
    for (int round = 0; round < 60; round++) {
        const int   ndim = (int)check_int(1, 5);
        weir_layout x = {.desc = {.dtype = round % 2 ? WEIR_F32 : WEIR_I32, .ndim = ndim}};
        int         order[WEIR_MAX_DIMS];
        for (int i = 0; i < ndim; i++) {
            x.desc.dim[i] = check_int(1, 9);
            order[i] = i;
        }
        for (int i = ndim - 1; i > 0; i--) {
            const int j = (int)check_int(0, i), t = order[i];
            order[i] = order[j];
            order[j] = t;
        }
        int64_t step = check_int(1, 2);
        for (int i = 0; i < ndim; i++) {
            x.stride[order[i]] = check_int(0, 9) == 0 ? 0 : step;
            step *= x.desc.dim[order[i]] + check_int(0, 1);
        }
        const uint64_t dims = (uint64_t)check_int(1, (1 << ndim) - 1);
        reduce_case(round % 4 < 2 ? WEIR_OP_SUM : WEIR_OP_AMAX, x, dims, round % 3 == 0, false);
    }
}

/* No elements: sums are 0, means NaN; no results: nothing is written. */
CASE(empty)
{
    reduce_case(WEIR_OP_SUM, kernel_dense(weir_2d(WEIR_F32, 0, 5)), 1, false, false);
    reduce_case(WEIR_OP_SUM, kernel_dense(weir_2d(WEIR_I64, 5, 0)), 2, true, false);
    reduce_case(WEIR_OP_SUM, kernel_dense(weir_2d(WEIR_F32, 0, 5)), 2, false, false);
    reduce_case(WEIR_OP_SUM, kernel_dense(weir_4d(WEIR_F32, 2, 0, 3, 3)), 14, true, false);

    const weir_reduce_attr a = {.dims = 1, .scale = INFINITY};
    kernel_case k = {.choose = weir_cpu_sum, .op = WEIR_OP_SUM, .attr = &a, .attr_bytes = sizeof a};
    (void)kernel_in(&k, kernel_dense(weir_1d(WEIR_F32, 0)));
    const float *y = kernel_out(&k, weir_scalar(WEIR_F32));
    kernel_run(&k);
    CHECK(isnan(y[0]));
    kernel_free(&k);
}

CASE(nan_is_the_largest)
{
    const weir_reduce_attr a = {.dims = 1, .scale = 1};
    for (int64_t at = 0; at < 100; at += 9)
        for (int64_t cols = 1; cols < 40; cols += 19) {
            kernel_case k = {.choose = weir_cpu_amax, .op = WEIR_OP_AMAX, .attr = &a,
                             .attr_bytes = sizeof a};
            float       *x = kernel_in(&k, kernel_dense(weir_2d(WEIR_F32, 100, cols)));
            const float *y = kernel_out(&k, weir_1d(WEIR_F32, cols));
            kernel_fill(&k, 0, -1, 1);
            x[at * cols] = NAN;
            kernel_run(&k);
            CHECK(isnan(y[0]));
            CHECK(cols == 1 || !isnan(y[1]));
            kernel_free(&k);
        }
}

/* Millions of equal f32 values, all rounded in the same direction: one long chain of additions
 * would be off by one percent. */
CASE(long_sums_stay_exact)
{
    const weir_reduce_attr a = {.dims = 1, .scale = 1};
    for (int64_t cols = 1; cols <= 3; cols++) {
        kernel_case k = {.choose = weir_cpu_sum, .op = WEIR_OP_SUM, .attr = &a,
                         .attr_bytes = sizeof a};
        float       *x = kernel_in(&k, kernel_dense(weir_2d(WEIR_F32, 3000000, cols)));
        const float *y = kernel_out(&k, weir_1d(WEIR_F32, cols));
        for (int64_t i = 0; i < 3000000 * cols; i++)
            x[i] = 0.1f;
        kernel_run(&k);
        for (int64_t c = 0; c < cols; c++)
            CHECK(fabs((double)y[c] / (3000000 * (double)0.1f) - 1) < 2e-6);
        kernel_free(&k);
    }
}

static void grad_case(weir_desc d, uint64_t dims, bool keep)
{
    const weir_reduce_attr a = {.dims = dims, .keep = keep, .scale = 1};
    const weir_desc        small = reduced(&d, &a, d.dtype);
    kernel_case k = {.choose = weir_cpu_amax_grad, .op = WEIR_OP_AMAX_GRAD, .attr = &a,
                     .attr_bytes = sizeof a};
    (void)kernel_in(&k, kernel_dense(small));
    (void)kernel_in(&k, kernel_dense(d));
    (void)kernel_in(&k, kernel_dense(small));
    (void)kernel_out(&k, d);
    const int64_t n = weir_shape_count(&d), m = weir_shape_count(&small);
    kernel_fill(&k, 0, -1, 1);
    int64_t *first = malloc(((size_t)m + 1) * sizeof *first);
    for (int64_t i = 0; i < m; i++)
        first[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = target_of(&d, dims, i);
        const double  v = (double)check_int(0, 4);      /* many ties */
        kernel_set(&k.in[1], k.src[1], i, v);
        if (first[t] < 0 || v > kernel_get(&k.in[1], k.src[1], first[t]))
            first[t] = i;
    }
    for (int64_t i = 0; i < m; i++)
        kernel_set(&k.in[2], k.src[2], i, kernel_get(&k.in[1], k.src[1], first[i]));
    kernel_run(&k);
    for (int64_t i = 0; i < n; i++) {
        const int64_t t = target_of(&d, dims, i);
        const double  want = first[t] == i ? kernel_get(&k.in[0], k.src[0], t) : 0;
        if (!CHECK(kernel_get(&k.out[0], k.dst[0], i) == want))
            break;
    }
    free(first);
    kernel_free(&k);
}

CASE(amax_grad_takes_the_first)
{
    for (size_t i = 1; i < sizeof shapes / sizeof *shapes; i++) {
        weir_desc d = shapes[i].shape;
        d.dtype = i % 2 ? WEIR_F32 : WEIR_F64;
        grad_case(d, shapes[i].dims, i % 3 == 0);
    }
}

static void count_case(weir_dtype type, weir_dtype index, int64_t n, int64_t c)
{
    kernel_case k = {.choose = weir_cpu_count_correct, .op = WEIR_OP_COUNT_CORRECT};
    (void)kernel_in(&k, kernel_dense(weir_2d(type, n, c)));
    (void)kernel_in(&k, kernel_dense(weir_1d(index, n)));
    const int64_t *right = kernel_out(&k, weir_scalar(WEIR_I64));
    int64_t        want = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t target = check_int(-1, c);
        int64_t       best = 0;
        double        top = -INFINITY;
        for (int64_t j = 0; j < c; j++) {
            const double v = (double)check_int(-3, 3);
            kernel_set(&k.in[0], k.src[0], i * c + j, v);
            best = v > top ? j : best;
            top = fmax(v, top);
        }
        kernel_set(&k.in[1], k.src[1], i, (double)target);
        want += best == target;
    }
    kernel_run(&k);
    CHECK(*right == want);
    kernel_free(&k);
}

CASE(count_correct)
{
    count_case(WEIR_F32, WEIR_I32, 20000, 5);
    count_case(WEIR_F64, WEIR_I64, 3, 1000);
    count_case(WEIR_F32, WEIR_I64, 0, 10);
}

/* A failure of any allocation leaves nothing allocated. */
CASE(out_of_memory)
{
    const weir_reduce_attr a = {.dims = 1, .scale = 1};
    const weir_layout      x = kernel_dense(weir_1d(WEIR_F32, 9));
    weir_layout            y = kernel_dense(weir_scalar(WEIR_F32));
    const weir_call        call = {.op = WEIR_OP_SUM, .nin = 1, .nout = 1, .in = &x, .out = &y,
                                   .attr = &a};
    weir_kernel            kernel;
    weir_mem_fail_nth(0, false);
    CHECK_STATUS(weir_cpu_sum(NULL, &call, &kernel), WEIR_ERR_NOMEM);
    weir_mem_fail_nth(-1, false);
}
