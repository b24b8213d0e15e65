/* moves.c - tests of a card's moves, slices, gathers and comparisons against the CPU's: the bits
 * are equal, whatever the elements are. */
#include "core/dtype.h"
#include "device/cuda/kernels/copy.h"
#include "device/cuda/kernels/divide.h"
#include "device/cuda/kernels/scatter.h"
#include "device/cpu/kernels.h"
#include "device/kernel_case.h"
#include "device/kernel.h"

static const weir_dtype types[] = {WEIR_F32, WEIR_F64, WEIR_I32, WEIR_I64,
                                   WEIR_U8, WEIR_BOOL, WEIR_F16, WEIR_BF16,
                                   WEIR_I8, WEIR_I16, WEIR_U16, WEIR_U32, WEIR_U64};
enum { TYPES = sizeof types / sizeof *types };

/* Random bits: NaNs of all kinds, infinities, numbers that do not fit. */
static void any_bits(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)check_int(0, 255);
}

static void *any_in(kernel_case *k, weir_layout l)
{
    void *const p = kernel_in(k, l);
    any_bits(p, kernel_extent(&l));
    return p;
}

static weir_layout strided(weir_desc d, const int64_t *stride)
{
    weir_layout l = {.desc = d};
    memcpy(l.stride, stride, (size_t)d.ndim * sizeof *stride);
    return l;
}

/* The axes of x in another order. */
static weir_layout turned(weir_desc x, const int *order)
{
    const weir_layout from = kernel_dense(x);
    weir_layout       l = {.desc = x};

    for (int i = 0; i < x.ndim; i++) {
        l.desc.dim[i] = x.dim[order[i]];
        l.stride[i] = from.stride[order[i]];
    }
    return l;
}

static void run_unary(weir_choose_fn choose, weir_op op, weir_layout from, weir_desc to)
{
    kernel_case k = {.choose = choose, .op = op};

    any_in(&k, from);
    kernel_out(&k, to);
    kernel_run(&k);
    kernel_free(&k);
}

static weir_desc desc_of(weir_dtype type, int ndim, const int64_t *dim)
{
    weir_desc d = {.dtype = type, .ndim = ndim};
    memcpy(d.dim, dim, (size_t)ndim * sizeof *dim);
    return d;
}

static weir_desc cube(weir_dtype type, int64_t a, int64_t b, int64_t c)
{
    return desc_of(type, 3, (int64_t[]){a, b, c});
}

static void copy_of(weir_layout from)
{
    run_unary(weir_cpu_copy, WEIR_OP_COPY, from, from.desc);
}

/* ---- copies ---- */

CASE(transposes)
{
    static const int64_t dim[][3] = {{1, 37, 41},   {2, 64, 64},  {3, 31, 65},  {2, 3, 1000},
                                     {2, 1000, 3},  {1, 2, 777},  {1, 777, 2},  {5, 4, 4},
                                     {300, 17, 16}, {1, 129, 33}, {4, 128, 257}};
    static const int order[][3] = {{0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}, {1, 2, 0}};

    for (size_t s = 0; s < sizeof dim / sizeof *dim; s++)
        for (size_t o = 0; o < sizeof order / sizeof *order; o++) {
            copy_of(turned(desc_of(WEIR_F32, 3, dim[s]), order[o]));
            copy_of(turned(desc_of(types[(s + o) % TYPES], 3, dim[s]), order[o]));
        }
}

/* To channels-last and from it, and the rows of a matrix from channels-last images. */
CASE(images)
{
    static const int64_t dim[][4] = {{2, 3, 17, 19}, {3, 64, 7, 7}, {1, 100, 9, 8}, {2, 1, 6, 5},
                                     {4, 32, 8, 8},  {2, 40, 1, 1}};

    for (size_t s = 0; s < sizeof dim / sizeof *dim; s++)
        for (int t = 0; t < TYPES; t++) {
            const weir_desc d = desc_of(types[t], 4, dim[s]);
            const int64_t   rest = dim[s][1] * dim[s][2] * dim[s][3];
            weir_layout     rows = {.desc = d};
            weir_shape_row_major(&d, rows.stride);
            copy_of(rows);
            copy_of(kernel_dense(d));
            run_unary(weir_cpu_reshape, WEIR_OP_RESHAPE, kernel_dense(d),
                      weir_2d(types[t], dim[s][0], rest));
            run_unary(weir_cpu_reshape, WEIR_OP_RESHAPE,
                      kernel_dense(weir_2d(types[t], dim[s][0], rest)), d);
        }
}

CASE(awkward_strides)
{
    const int64_t many[] = {2, 3, 2, 1, 3, 2, 5, 4};

    for (int t = 0; t < TYPES; t++) {
        const weir_desc d = weir_2d(types[t], 33, 70);
        copy_of(strided(d, (int64_t[]){0, 1}));             /* repeated rows */
        copy_of(strided(d, (int64_t[]){1, 0}));             /* repeated columns */
        copy_of(strided(d, (int64_t[]){0, 0}));
        copy_of(strided(d, (int64_t[]){71, 1}));            /* parts of rows */
        copy_of(strided(d, (int64_t[]){72, 1}));
        copy_of(strided(d, (int64_t[]){144, 2}));
        copy_of(strided(d, (int64_t[]){2, 66}));            /* transposed, with steps */
        copy_of(strided(weir_2d(types[t], 0, 7), (int64_t[]){7, 1}));
        copy_of(kernel_dense(weir_scalar(types[t])));
        copy_of(turned(desc_of(types[t], 8, many), (int[]){7, 2, 5, 0, 3, 6, 1, 4}));
    }
}

/* Images whose dims have no common factors. */
CASE(reshapes_that_count)
{
    for (int t = 0; t < TYPES; t++) {
        run_unary(weir_cpu_reshape, WEIR_OP_RESHAPE, kernel_dense(weir_4d(types[t], 2, 3, 5, 7)),
                  weir_4d(types[t], 2, 5, 3, 7));
        run_unary(weir_cpu_reshape, WEIR_OP_RESHAPE, kernel_dense(weir_4d(types[t], 4, 9, 20, 7)),
                  weir_4d(types[t], 3, 14, 12, 10));
    }
}

CASE(casts_of_all_bits)
{
    static const int64_t counts[] = {1, 7, 1029};

    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES; to++) {
            for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
                run_unary(weir_cpu_cast, WEIR_OP_CAST, kernel_dense(weir_1d(types[from],
                          counts[n])), weir_1d(types[to], counts[n]));
            run_unary(weir_cpu_cast, WEIR_OP_CAST,
                      turned(weir_2d(types[from], 40, 37), (int[]){1, 0}),
                      weir_2d(types[to], 37, 40));
        }
}

/* Floats near the limits of integers and of halves, which random bits rarely hit. */
CASE(casts_at_limits)
{
    static const double at[] = {0, 0.5, 1, 255, 256, 65504, 65519, 65520, 2147483647, 2147483648,
                                2147483649, 0x1p63, 1e19, 6e-8, 3e-8, 2.9e-8, 1e-40,
                                3.4028234e38, 3.4028236e38, 1e300};
    enum { N = sizeof at / sizeof *at };

    for (int from = 0; from < TYPES; from++)
        for (int to = 0; to < TYPES; to++) {
            kernel_case k = {.choose = weir_cpu_cast, .op = WEIR_OP_CAST};
            if (!weir_is_any_float(types[from]))
                continue;
            kernel_in(&k, kernel_dense(weir_1d(types[from], 6 * N)));
            kernel_out(&k, weir_1d(types[to], 6 * N));
            for (int i = 0; i < 6 * N; i++) {
                const double v = i % 3 == 0   ? at[i / 6]
                                 : i % 3 == 1 ? nextafter(at[i / 6], 0)
                                              : (double)nextafterf((float)at[i / 6], 1e30f);
                kernel_set(&k.in[0], k.src[0], i, i / 3 % 2 == 0 ? v : -v);
            }
            kernel_run(&k);
            kernel_free(&k);
        }
}

static void run_made(weir_choose_fn choose, weir_op op, weir_desc to, const void *attr,
                     size_t bytes)
{
    kernel_case k = {.choose = choose, .op = op, .attr = attr, .attr_bytes = bytes};

    kernel_out(&k, to);
    kernel_run(&k);
    kernel_free(&k);
}

CASE(fills_and_ranges)
{
    static const double values[] = {0, -0.0, 1, -1.5, 1e9, NAN, INFINITY, 1e-7};

    for (int t = 0; t < TYPES; t++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            const weir_fill_attr a = {.value = values[v]};
            run_made(weir_cpu_fill, WEIR_OP_FILL, weir_1d(types[t], 1003), &a, sizeof a);
            run_made(weir_cpu_fill, WEIR_OP_FILL, weir_1d(types[t], (int64_t)v), &a, sizeof a);
        }
        const weir_arange_attr a = {.start = weir_is_unsigned(types[t]) ? 3 : -100.25, .step = 0.3,
                                    .dtype = (int64_t)types[t],
                                    .count = types[t] == WEIR_I8 ? 500 : 700};
        if (types[t] != WEIR_BOOL)
            run_made(weir_cpu_arange, WEIR_OP_ARANGE, weir_1d(types[t], a.count), &a, sizeof a);
    }
}

/* ---- parts ---- */

static void run_part(weir_choose_fn choose, weir_op op, weir_desc from, weir_desc to,
                     const weir_slice_attr *a)
{
    kernel_case k = {.choose = choose, .op = op, .attr = a, .attr_bytes = sizeof *a};

    any_in(&k, kernel_dense(from));
    kernel_out(&k, to);
    kernel_run(&k);
    kernel_free(&k);
}

CASE(slices_and_places)
{
    for (int round = 0; round < 60; round++) {
        const weir_dtype type = types[round % TYPES];
        const int        ndim = 1 + round % 4;
        weir_desc        whole = {.dtype = type, .ndim = ndim}, part = whole;
        weir_slice_attr  take = {.ndim = ndim}, put = {.ndim = ndim, .value = 0.75};
        for (int i = 0; i < ndim; i++) {
            const int64_t step = check_int(0, 2) == 0 ? check_int(-3, 3) : 1, by = step ? step : 2;
            part.dim[i] = check_int(0, 9) == 0 ? 0 : check_int(1, 20);
            const int64_t reach = part.dim[i] > 0 ? (part.dim[i] - 1) * llabs(by) + 1 : 0;
            whole.dim[i] = reach + check_int(0, 3) + (i == ndim - 1 ? check_int(0, 40) : 0);
            const int64_t slack = whole.dim[i] - reach;
            take.begin[i] = check_int(0, slack) + (by < 0 && reach > 0 ? reach - 1 : 0);
            take.step[i] = by;
            take.dim[i] = part.dim[i];
            put.begin[i] = take.begin[i];
            put.step[i] = by;
            put.dim[i] = whole.dim[i];
        }
        run_part(weir_cpu_slice, WEIR_OP_SLICE, whole, part, &take);
        run_part(weir_cpu_slice_scatter, WEIR_OP_SLICE_SCATTER, part, whole, &put);
    }
}

CASE(joins)
{
    for (int round = 0; round < 60; round++) {
        const weir_dtype     type = types[round % TYPES];
        const int            ndim = 1 + round % 4;
        const weir_axis_attr a = {.axis = check_int(0, ndim - 1)};
        kernel_case          k = {.choose = weir_cpu_concat, .op = WEIR_OP_CONCAT, .attr = &a,
                                  .attr_bytes = sizeof a};
        weir_desc            all = {.dtype = type, .ndim = ndim};
        const int            n = (int)check_int(1, WEIR_MAX_IN);
        for (int i = 0; i < ndim; i++)
            all.dim[i] = check_int(1, 20);
        all.dim[a.axis] = 0;
        for (int i = 0; i < n; i++) {
            weir_desc one = all;
            one.dim[a.axis] = check_int(0, 3) * (round % 2 == 0 ? 8 : 1);
            all.dim[a.axis] += one.dim[a.axis];
            any_in(&k, kernel_dense(one));
        }
        kernel_out(&k, all);
        kernel_run(&k);
        kernel_free(&k);
    }
}

/* ---- rows ---- */

/* Indices of v rows, with many repetitions. */
static void indices(kernel_case *k, weir_dtype type, int64_t n, int64_t v)
{
    void *const p = kernel_in(k, kernel_dense(weir_1d(type, n)));

    for (int64_t i = 0; i < n; i++) {
        const int64_t most = check_int(0, 3) == 0 && v > 3 ? 3 : v, at = check_int(0, most - 1);
        if (type == WEIR_I64)
            ((int64_t *)p)[i] = at;
        else
            ((int32_t *)p)[i] = (int32_t)at;
    }
}

CASE(rows_by_index)
{
    static const int64_t sizes[][3] = {{5, 7, 3},    {100, 40, 1},  {9, 300, 64}, {3, 1, 257},
                                       {1, 5, 33},   {7, 0, 4},     {4, 6, 0}};     /* v, n, d */

    for (int t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const int64_t v = sizes[s][0], n = sizes[s][1], d = sizes[s][2];
            const weir_dtype index = s % 2 == 0 ? WEIR_I32 : WEIR_I64;
            for (int nan = 0; nan < 2; nan++) {
                const weir_gather_attr a = {.missing = nan ? (double)NAN : 0};
                kernel_case k = {.choose = weir_cpu_gather, .op = WEIR_OP_GATHER, .attr = &a,
                                 .attr_bytes = sizeof a};
                any_in(&k, kernel_dense(weir_2d(types[t], v, d)));
                indices(&k, index, n, v);
                kernel_out(&k, weir_2d(types[t], n, d));
                kernel_run(&k);
                kernel_free(&k);
            }
            const weir_one_hot_attr a = {.dtype = (int64_t)types[t], .depth = v};
            kernel_case k = {.choose = weir_cpu_one_hot, .op = WEIR_OP_ONE_HOT, .attr = &a,
                             .attr_bytes = sizeof a};
            indices(&k, index, n, v);
            kernel_out(&k, weir_2d(types[t], n, v));
            kernel_run(&k);
            kernel_free(&k);
        }
}

/* The order of additions matters: floats of very different sizes. */
static void fill_uneven(kernel_case *k, int i)
{
    const weir_layout *const l = &k->in[i];
    for (int64_t j = 0; j < weir_shape_count(&l->desc); j++)
        kernel_set(l, k->src[i], j, weir_is_any_float(l->desc.dtype)
                                        ? ldexp(check_real(-1, 1), (int)check_int(-8, 8))
                                        : (double)check_int(0, 250));
}

static void run_additions(weir_dtype type, weir_dtype index, int64_t v, int64_t n, int64_t d)
{
    const weir_gather_attr a = {.rows = v};
    kernel_case            grad = {.choose = weir_cpu_gather_grad, .op = WEIR_OP_GATHER_GRAD,
                                   .attr = &a, .attr_bytes = sizeof a};
    kernel_case            add = {.choose = weir_cpu_scatter_add, .op = WEIR_OP_SCATTER_ADD};

    indices(&grad, index, n, v);
    kernel_in(&grad, kernel_dense(weir_2d(type, n, d)));
    fill_uneven(&grad, 1);
    kernel_out(&grad, weir_2d(type, v, d));
    kernel_run(&grad);
    kernel_free(&grad);

    kernel_in(&add, kernel_dense(weir_2d(type, v, d)));
    fill_uneven(&add, 0);
    indices(&add, index, n, v);
    kernel_in(&add, kernel_dense(weir_2d(type, n, d)));
    fill_uneven(&add, 2);
    kernel_out(&add, weir_2d(type, v, d));
    kernel_run(&add);
    kernel_free(&add);
}

CASE(additions_in_order)
{
    static const int64_t sizes[][3] = {{5, 70, 3},     {300, 1024, 1}, {300, 1025, 1},
                                       {3, 2500, 5},   {256, 3000, 2}, {70000, 2000, 1},
                                       {40, 1500, 90}, {2, 30, 600},   {6, 0, 4}};

    for (int t = 0; t < TYPES; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (types[t] != WEIR_BOOL && !weir_is_stored(types[t]) && (s < 4 || t % 3 == 0))
                run_additions(types[t], s % 2 == 0 ? WEIR_I32 : WEIR_I64, sizes[s][0], sizes[s][1],
                              sizes[s][2]);
}

CASE(bool_rows_are_not_added)
{
    weir_layout     out = kernel_dense(weir_2d(WEIR_BOOL, 2, 2));
    const weir_layout in[] = {kernel_dense(weir_1d(WEIR_I32, 1)),
                              kernel_dense(weir_2d(WEIR_BOOL, 1, 2))};
    const weir_gather_attr a = {.rows = 2};
    const weir_call c = {.op = WEIR_OP_GATHER_GRAD, .nin = 2, .nout = 1, .in = in, .out = &out,
                         .attr = &a, .attr_bytes = sizeof a, .alias = -1};
    const weir_kernel *kernel;

    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 0);
    weir_device *const d = weir_device_open("cuda", NULL);
    CHECK_OR_RETURN(d != NULL);
    CHECK_STATUS(weir_kernel_of(d, &c, &kernel), WEIR_ERR_NOKERNEL);
    CHECK_TEXT(weir_error(), "gather_grad: no CUDA kernel adds rows of bool");
    weir_device_close(d);
}

/* Passes, chunks and offsets of a sort: disjoint and within the workspace. */
CASE(plan_of_a_sort)
{
    static const struct { int64_t v, n; bool sorted; int passes; } want[] = {
        {10, 1024, false, 0}, {10, 1025, true, 1}, {255, 5000, true, 1}, {256, 5000, true, 2},
        {65535, 2000, true, 2}, {65536, 2000, true, 3}, {(int64_t)UINT32_MAX - 1, 2000, true, 4},
        {(int64_t)UINT32_MAX, 2000, false, 0}};

    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const weir_scatter_plan p = weir_scatter_plan_of(want[i].v, want[i].n);
        const size_t list = ((size_t)want[i].n * 4 + 255) / 256 * 256;
        CHECK(p.sorted == want[i].sorted && p.passes == want[i].passes);
        CHECK(p.sorted || p.work == 0);
        if (p.passes > 1)
            CHECK(p.at[0] >= p.row[0] + list && p.row[1] >= p.at[0] + list &&
                  p.at[1] >= p.row[1] + list && p.count >= p.at[1] + list);
        if (p.sorted)
            CHECK(p.total >= p.count + 1024 * (size_t)p.chunks && p.work >= p.total + 1024 &&
                  p.chunks == (want[i].n + 1023) / 1024);
    }
}

/* ---- comparisons ---- */

static void run_pair(weir_choose_fn choose, weir_op op, weir_layout a, weir_layout b, weir_desc to)
{
    kernel_case k = {.choose = choose, .op = op};
    const size_t shared = a.desc.dtype == b.desc.dtype ? kernel_extent(&a) : 0;

    any_in(&k, a);
    any_in(&k, b);
    /* Some elements are equal. */
    if (shared > 0 && shared == kernel_extent(&b))
        memcpy(k.src[1], k.src[0], shared / 2);
    to.dtype = WEIR_BOOL;
    kernel_out(&k, to);
    kernel_run(&k);
    kernel_free(&k);
}

static void run_pairs(weir_choose_fn choose, weir_op op, weir_dtype type)
{
    const weir_desc   d = weir_2d(type, 13, 36), odd = weir_2d(type, 13, 35);
    const weir_layout dense = kernel_dense(d);

    run_pair(choose, op, dense, dense, d);
    run_pair(choose, op, kernel_dense(odd), kernel_dense(odd), odd);
    run_pair(choose, op, dense, kernel_dense(weir_scalar(type)), d);
    run_pair(choose, op, kernel_dense(weir_scalar(type)), dense, d);
    run_pair(choose, op, dense, kernel_dense(weir_1d(type, 36)), d);
    run_pair(choose, op, kernel_dense(weir_2d(type, 13, 1)), kernel_dense(weir_1d(type, 36)), d);
    run_pair(choose, op, turned(weir_2d(type, 36, 13), (int[]){1, 0}), dense, d);
    run_pair(choose, op, strided(d, (int64_t[]){37, 1}), strided(d, (int64_t[]){40, 1}), d);
    run_pair(choose, op, kernel_dense(weir_2d(type, 0, 36)), kernel_dense(weir_1d(type, 36)),
             weir_2d(type, 0, 36));
    run_pair(choose, op, kernel_dense(weir_4d(type, 2, 5, 3, 4)),
             kernel_dense(cube(type, 5, 1, 1)), weir_4d(type, 2, 5, 3, 4));
}

#define COMPARES(ID, id)                                                                           \
    for (int t = 0; t < TYPES; t++)                                                                \
        if (types[t] != WEIR_BOOL)                                                                 \
            run_pairs(weir_cpu_##id, WEIR_OP_##ID, types[t]);

CASE(comparisons)
{
    COMPARES(EQ, eq)
    COMPARES(NE, ne)
    COMPARES(LT, lt)
    COMPARES(LE, le)
    COMPARES(GT, gt)
    COMPARES(GE, ge)
}

CASE(logic)
{
    run_pairs(weir_cpu_eq, WEIR_OP_EQ, WEIR_BOOL);
    run_pairs(weir_cpu_ne, WEIR_OP_NE, WEIR_BOOL);
    run_pairs(weir_cpu_logical_and, WEIR_OP_LOGICAL_AND, WEIR_BOOL);
    run_pairs(weir_cpu_logical_or, WEIR_OP_LOGICAL_OR, WEIR_BOOL);
    run_pairs(weir_cpu_logical_xor, WEIR_OP_LOGICAL_XOR, WEIR_BOOL);
    run_unary(weir_cpu_logical_not, WEIR_OP_LOGICAL_NOT, kernel_dense(weir_1d(WEIR_BOOL, 1001)),
              weir_1d(WEIR_BOOL, 1001));
    run_unary(weir_cpu_logical_not, WEIR_OP_LOGICAL_NOT,
              strided(weir_2d(WEIR_BOOL, 9, 8), (int64_t[]){1, 20}), weir_2d(WEIR_BOOL, 9, 8));
}

static void run_where(weir_layout c, weir_layout a, weir_layout b, weir_desc to)
{
    kernel_case k = {.choose = weir_cpu_where, .op = WEIR_OP_WHERE};

    unsigned char *const cond = any_in(&k, c);
    for (size_t i = 0; i < kernel_extent(&c); i++)
        cond[i] = cond[i] % 2;
    any_in(&k, a);
    any_in(&k, b);
    kernel_out(&k, to);
    kernel_run(&k);
    kernel_free(&k);
}

CASE(where_picks_bits)
{
    for (int t = 0; t < TYPES; t++) {
        const weir_desc   d = weir_2d(types[t], 21, 44), c = weir_2d(WEIR_BOOL, 21, 44);
        const weir_layout one = kernel_dense(weir_scalar(types[t]));
        run_where(kernel_dense(c), kernel_dense(d), kernel_dense(d), d);
        run_where(kernel_dense(c), kernel_dense(d), one, d);
        run_where(kernel_dense(c), one, kernel_dense(d), d);
        run_where(kernel_dense(weir_2d(WEIR_BOOL, 21, 1)), kernel_dense(d),
                  kernel_dense(weir_1d(types[t], 44)), d);
        run_where(strided(c, (int64_t[]){1, 21}), strided(d, (int64_t[]){88, 2}), one, d);
        run_where(kernel_dense(weir_1d(WEIR_BOOL, 7)), kernel_dense(weir_1d(types[t], 7)),
                  kernel_dense(weir_1d(types[t], 7)), weir_1d(types[t], 7));
    }
}

/* ---- plans of copies ---- */

/* Numbers next to a multiple of the divisor, where an error of the quotient would show, and numbers
 * beyond 32 bits. */
CASE(quick_division)
{
    int64_t bad = 0;

    for (int round = 0; round < 20000; round++) {
        const int64_t      by = check_int(1, (int64_t)1 << check_int(0, 31));
        const weir_divisor d = weir_divisor_of(by < WEIR_NARROW_END ? by : WEIR_NARROW_END - 1);
        const int64_t      most = (WEIR_NARROW_END - 1) / d.by, times = check_int(0, most) * d.by;
        const int64_t      at[] = {0, times, times - (times > 0), WEIR_NARROW_END - 1};
        for (int i = 0; i < 4; i++)
            bad += weir_divide(at[i], d, false) != at[i] / d.by;
        bad += weir_divide(times + ((int64_t)d.by << 32), d, true) != times / d.by + (1LL << 32);
    }
    CHECK(bad == 0);
    CHECK(weir_divide((int64_t)9 << 40, weir_divisor_of((int64_t)3 << 40), true) == 3);
}

static weir_copy_way way_of(weir_layout from, weir_desc to)
{
    const weir_layout l = kernel_dense(to);
    return weir_copy_plan_of(&from, &l, weir_dtype_size(to.dtype)).way;
}

CASE(ways_of_copies)
{
    const weir_desc m = weir_2d(WEIR_F32, 64, 96), t = weir_2d(WEIR_F32, 96, 64);
    const weir_desc image = weir_4d(WEIR_F32, 2, 64, 7, 7), few = weir_4d(WEIR_F32, 2, 3, 70, 70);
    weir_layout     rows = {.desc = image}, thin = {.desc = few};

    weir_shape_row_major(&image, rows.stride);
    weir_shape_row_major(&few, thin.stride);
    CHECK(way_of(kernel_dense(m), m) == WEIR_COPY_BYTES);
    CHECK(way_of(kernel_dense(weir_scalar(WEIR_F32)), weir_scalar(WEIR_F32)) == WEIR_COPY_BYTES);
    CHECK(way_of(turned(m, (int[]){1, 0}), t) == WEIR_COPY_TILES);
    CHECK(way_of(rows, image) == WEIR_COPY_TILES);
    CHECK(way_of(thin, few) == WEIR_COPY_TILES);
    CHECK(way_of(strided(m, (int64_t[]){0, 1}), m) == WEIR_COPY_EACH);
    CHECK(way_of(turned(cube(WEIR_F32, 900, 2, 2), (int[]){0, 2, 1}),
                 cube(WEIR_F32, 900, 2, 2)) == WEIR_COPY_EACH);
    CHECK(way_of(kernel_dense(weir_4d(WEIR_F32, 2, 3, 5, 7)), weir_4d(WEIR_F32, 2, 5, 3, 7)) ==
          WEIR_COPY_COUNT);
    CHECK(way_of(strided(weir_2d(WEIR_F32, 0, 3), (int64_t[]){3, 1}), weir_2d(WEIR_F32, 0, 3)) ==
          WEIR_COPY_NOTHING);
}

/* Lines of a tile have odd length: it fits into 1.5 times the bytes of its elements. */
CASE(tiles_fit)
{
    for (int round = 0; round < 5000; round++) {
        const weir_dtype     type = types[round % TYPES];
        const size_t         size = weir_dtype_size(type);
        const int64_t        most = weir_copy_side(size) * weir_copy_side(size);
        const weir_desc      d = weir_2d(type, check_int(2, 1 << check_int(1, 20)),
                                         check_int(2, 1 << check_int(1, 20)));
        const weir_layout    from = turned(d, (int[]){1, 0}), to = kernel_dense(from.desc);
        const weir_copy_plan p = weir_copy_plan_of(&from, &to, size);
        if (p.way != WEIR_COPY_TILES)
            continue;
        CHECK_OR_RETURN(p.rows >= 1 && p.inners >= 1 && p.rows * (p.inners | 1) <= most * 3 / 2);
        CHECK_OR_RETURN(p.rows <= d.dim[1] && p.inners <= d.dim[0]);
    }
}
