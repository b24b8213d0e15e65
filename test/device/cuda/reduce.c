/* reduce.c - tests of reductions and their gradients over awkward shapes: the emulated card against
 * the CPU, and the division of work, which is a function of shapes. */
#include <stdlib.h>

#include "device/cuda/cpu_vs_gpu.h"
#include "device/cuda/kernels/norm.h"

/* ---- one input, axes reduced ---- */

typedef struct family {
    weir_op     op;
    const char *name;
    double      lo, hi;
    unsigned    types;
} family;

enum {
    FLOATS = 1 << WEIR_F32 | 1 << WEIR_F64,
    ANY = FLOATS | 1 << WEIR_F16 | 1 << WEIR_BF16,
    NUMBERS = ANY | 1 << WEIR_I32 | 1 << WEIR_I64 | 1 << WEIR_U8
};

static const family families[] = {
    {WEIR_OP_SUM, "sum", -1, 2, NUMBERS},
    {WEIR_OP_AMAX, "amax", 0, 200, NUMBERS},
    {WEIR_OP_AMIN, "amin", 0, 200, NUMBERS},
    {WEIR_OP_PROD, "prod", 0.999, 1.001, NUMBERS},
    {WEIR_OP_ARGMAX, "argmax", 0, 90, NUMBERS},
    {WEIR_OP_ARGMIN, "argmin", 0, 90, NUMBERS},
    {WEIR_OP_NORM1, "norm1", -1, 2, FLOATS},
    {WEIR_OP_NORM2, "norm2", -1, 2, FLOATS},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* x is drawn once for all families that accept the type; few: only sums and positions. */
static void try_reductions(const weir_desc *x, const int *order, uint64_t dims, bool few)
{
    for (int f = 0; f < FAMILIES; f++) {
        const family *const a = &families[f];
        if (!(a->types >> x->dtype & 1) ||
            (few && a->op != WEIR_OP_SUM && a->op != WEIR_OP_ARGMAX))
            continue;
        const weir_reduce_attr attr = {.dims = dims, .keep = f % 2, .scale = 1};
        op_case                t = {a->op, a->name, 1,          1, {*x}, {drawn(x, a->lo, a->hi)},
                                    order, &attr,   sizeof attr};
        try_call(&t);
        free(t.data[0]);
    }
}

static const int64_t sizes[] = {1, 31, 32, 33, 1023, 1025, 70000};
enum { SIZES = sizeof sizes / sizeof *sizes };

CASE(lines_and_all_to_one)
{
    if (open_cpu_gpu())
        for (int i = 0; i < SIZES; i++) {
            const weir_desc line = weir_1d(WEIR_F32, sizes[i]);
            const weir_desc rows = weir_2d(WEIR_F32, 5, sizes[i]);
            try_reductions(&line, NULL, 1, false);
            try_reductions(&rows, NULL, 2, sizes[i] > 2000);
            try_reductions(&rows, NULL, 3, sizes[i] > 2000);
        }
    close_cpu_gpu();
}

CASE(columns)
{
    static const int64_t widths[] = {1, 3, 4, 31, 33, 64, 130, 1025};

    if (open_cpu_gpu())
        for (int i = 0; i < 8; i++) {
            const weir_desc few = weir_2d(WEIR_F32, 7, widths[i]), some = weir_2d(WEIR_F32, 33,
                                                                                  widths[i]);
            const weir_desc many = weir_2d(WEIR_F32, widths[i] > 64 ? 300 : 5000, widths[i]);
            try_reductions(&few, NULL, 1, false);
            try_reductions(&some, NULL, 1, i % 2);
            try_reductions(&many, NULL, 1, true);
        }
    close_cpu_gpu();
}

CASE(many_small_results)
{
    if (open_cpu_gpu()) {
        const weir_desc x = weir_2d(WEIR_F32, 70000, 3), y = three(WEIR_F32, 300, 40, 5);
        try_reductions(&x, NULL, 2, true);
        try_reductions(&y, NULL, 2, true);
        try_reductions(&y, NULL, 5, true);
    }
    close_cpu_gpu();
}

/* Every memory order of three axes, every set of them reduced. */
CASE(axes_in_every_order)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1},
                                     {2, 1, 0}};
    if (open_cpu_gpu())
        for (int o = 0; o < 6; o++)
            for (uint64_t dims = 1; dims < 8; dims++) {
                const weir_desc x = three(o % 2 ? WEIR_F32 : WEIR_I32, 9, 34, 12);
                try_reductions(&x, orders[o], dims, dims % 2);
            }
    close_cpu_gpu();
}

CASE(images)
{
    if (open_cpu_gpu())
        for (uint64_t dims = 1; dims < 16; dims++) {
            const weir_desc x = weir_4d(WEIR_F32, 3, 5, 7, 6), y = weir_4d(WEIR_F64, 2, 8, 9, 11);
            try_reductions(&x, NULL, dims, false);
            try_reductions(&y, (const int[]){3, 1, 0, 2}, dims, true);
        }
    close_cpu_gpu();
}

CASE(element_types)
{
    static const weir_dtype types[] = {WEIR_F64, WEIR_F16, WEIR_BF16, WEIR_I32, WEIR_I64, WEIR_U8};

    if (open_cpu_gpu())
        for (int i = 0; i < 6; i++) {
            const weir_desc x = weir_2d(types[i], 136, 264), odd = weir_2d(types[i], 67, 133);
            for (uint64_t dims = 1; dims < 4; dims++) {
                try_reductions(&x, NULL, dims, false);
                try_reductions(&odd, NULL, dims, false);
            }
        }
    close_cpu_gpu();
}

/* An empty sum is 0, an empty product 1; without results nothing is written. */
CASE(empty)
{
    if (open_cpu_gpu()) {
        const weir_desc x = three(WEIR_F32, 4, 0, 3);
        for (uint64_t dims = 1; dims < 8; dims++) {
            const weir_reduce_attr attr = {.dims = dims, .scale = 1};
            op_case                sum = {WEIR_OP_SUM,       "sum", 1,     1,          {x},
                                          {drawn(&x, 0, 1)}, NULL,  &attr, sizeof attr};
            try_call(&sum);
            sum.op = WEIR_OP_PROD;
            try_call(&sum);
            free(sum.data[0]);
        }
        try_reductions(&x, NULL, 1, false);
    }
    close_cpu_gpu();
}

/* NaN is the largest and the smallest; of equal elements the first counts. */
CASE(nan_and_ties)
{
    if (open_cpu_gpu())
        for (int64_t n = 1; n <= 3000; n = n * 3 + 1) {
            const weir_desc x = weir_2d(WEIR_F32, n, 6);
            float *const    v = drawn(&x, -1, 1);
            for (int64_t i = 0; i < n * 6; i++)
                v[i] = (float)(int)(v[i] * 2);
            for (int64_t i = n / 2; i < n; i += 1 + n / 3)
                v[i * 6 + 1] = NAN;
            for (int f = 1; f < 6; f++)
                for (uint64_t dims = 1; dims < 4; dims++) {
                    const weir_reduce_attr attr = {.dims = dims, .scale = 1};
                    const op_case t = {families[f].op, families[f].name, 1, 1, {x}, {v}, NULL,
                                       &attr,          sizeof attr};
                    try_call(&t);
                }
            free(v);
        }
    close_cpu_gpu();
}

/* ---- two inputs, gradients ---- */

CASE(dot_and_dist)
{
    if (open_cpu_gpu())
        for (uint64_t dims = 1; dims < 4; dims++)
            for (int b = 0; b < 3; b++) {
                const weir_desc x = weir_2d(WEIR_F32, 260, 68);
                const weir_desc y = b == 0   ? x
                                    : b == 1 ? weir_2d(WEIR_F32, 1, 68) : weir_2d(WEIR_F32, 260, 1);
                const weir_reduce_attr attr = {.dims = dims, .scale = 0.5};
                op_case t = {WEIR_OP_DOT, "dot", 2, 1, {x, y},
                             {drawn(&x, -1, 1), drawn(&y, -1, 1)}, NULL, &attr, sizeof attr};
                try_call(&t);
                t.op = WEIR_OP_DIST;
                try_call(&t);
                free(t.data[0]);
                free(t.data[1]);
            }
    close_cpu_gpu();
}

/* The description of x reduced over dims, which stay. */
static weir_desc kept(weir_desc x, uint64_t dims)
{
    for (int i = 0; i < x.ndim; i++)
        x.dim[i] = dims >> i & 1 ? 1 : x.dim[i];
    return x;
}

static void try_gradients(const weir_desc *x, uint64_t dims)
{
    const weir_desc        y = kept(*x, dims);
    const weir_reduce_attr attr = {.dims = dims, .keep = true, .scale = 1};
    weir_desc              desc[OUTPUTS];
    void                  *top[OUTPUTS] = {NULL}, *const v = drawn(x, -2, 2);

    for (int64_t i = 0; i < count_of(x); i += 7)        /* zeros and ties */
        put(v, x->dtype, i, (int)get(v, x->dtype, i));
    op_case t = {WEIR_OP_AMAX, "amax", 1, 1, {*x}, {v}, NULL, &attr, sizeof attr};
    if (run_on(&t, CPU, desc, top)) {
        t = (op_case){WEIR_OP_AMAX_GRAD,
                      "amax_grad",
                      3,
                      1,
                      {y, *x, y},
                      {drawn(&y, -1, 1), v, top[0]},
                      NULL,
                      &attr,
                      sizeof attr};
        try_call(&t);
        t.op = WEIR_OP_PROD_GRAD;
        t.what = "prod_grad";
        t.nin = 2;
        try_call(&t);
        free(t.data[0]);
    }
    free(top[0]);
    free(v);
}

CASE(gradients)
{
    if (open_cpu_gpu()) {
        for (uint64_t dims = 1; dims < 16; dims++) {
            const weir_desc x = weir_4d(WEIR_F32, 3, 5, 4, 2), h = weir_4d(WEIR_F16, 2, 3, 2, 5);
            try_gradients(&x, dims);
            try_gradients(&h, dims);
        }
        const weir_desc x = weir_2d(WEIR_F32, 70, 1025);
        for (uint64_t dims = 1; dims < 4; dims++)
            try_gradients(&x, dims);
    }
    close_cpu_gpu();
}

/* Unaligned operands are read one element at a time, in the same order. */
CASE(alignment_changes_no_bit)
{
    enum { ROWS = 40, COLS = 1032 };
    static float v[ROWS * COLS + 1];
    float        sums[2][2][COLS];

    if (open_cpu_gpu()) {
        weir_device *const d = device[GPU];
        check_floats(v, ROWS * COLS + 1, -1, 1);
        weir_scope_begin(d);
        weir_tensor *const whole = weir_input(d, weir_1d(WEIR_F32, ROWS * COLS + 1));
        weir_tensor *const own = weir_input(d, weir_2d(WEIR_F32, ROWS, COLS));
        CHECK_OK(weir_write(whole, v, sizeof v));
        CHECK_OK(weir_write(own, v + 1, sizeof v - sizeof *v));
        const int64_t      begin = 1, end = ROWS * COLS + 1, dims[] = {ROWS, COLS};
        weir_tensor *const part = weir_slice(whole, &begin, &end, NULL);
        weir_tensor *const x[] = {weir_reshape(part, 2, dims), own};
        for (int i = 0; i < 2; i++)
            for (uint32_t k = 0; k < 2; k++)
                CHECK_OK(weir_read(weir_sum(x[i], 1u << k, false), sums[i][k],
                                   (k ? ROWS : COLS) * sizeof(float)));
        CHECK_BITS(sums[0][0], sums[1][0], sizeof sums[0][0]);
        CHECK_BITS(sums[0][1], sums[1][1], ROWS * sizeof(float));
        weir_release(whole);
        weir_release(own);
        weir_scope_end(d);
    }
    close_cpu_gpu();
}

/* Thousands of equal f32, added one by one, would stop growing or drift. */
CASE(long_sums_keep_their_bits)
{
    if (open_cpu_gpu()) {
        const weir_desc        x = weir_2d(WEIR_F32, 70000, 3);
        float *const           v = drawn(&x, 0.1, 0.1000001);
        const weir_reduce_attr attr = {.dims = 1, .scale = 1};
        const op_case          t = {WEIR_OP_SUM, "sum", 1, 1, {x}, {v}, NULL, &attr, sizeof attr};
        weir_desc              desc[OUTPUTS];
        void                  *made[OUTPUTS] = {NULL};
        if (run_on(&t, GPU, desc, made))
            for (int i = 0; i < 3; i++)
                CHECK_NEAR((double)((float *)made[0])[i] / 7000.0, 1, 1e-6);
        free(made[0]);
        free(v);
    }
    close_cpu_gpu();
}

/* ---- division of work ---- */

static bool is_power(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static void check_plan(const weir_desc *d, uint64_t dims, int width)
{
    const weir_reduce_attr attr = {.dims = dims, .keep = true, .scale = 1};
    weir_layout            x = {.desc = *d}, y = {.desc = kept(*d, dims)};

    weir_shape_dense(&x);
    weir_shape_dense(&y);
    const weir_cuda_reduce p = weir_cuda_reduce_plan(&x, NULL, &y, &attr, false, width);
    const int64_t          step = p.columns ? p.ty : (int64_t)p.tx * p.vec;
    CHECK(weir_cuda_reduce_results(&p) * p.reduced == count_of(d));
    CHECK(is_power(p.tx) && is_power(p.ty) && p.tx * p.ty <= WEIR_CUDA_THREADS);
    CHECK(p.vec == 1 || p.vec == width);
    CHECK(p.chunk % step == 0 && p.chunks >= 1 && p.chunks <= WEIR_CUDA_REDUCE_CHUNKS);
    CHECK(p.chunk * p.chunks >= p.reduced && p.chunk * (p.chunks - 1) < max64(1, p.reduced));
    CHECK(p.chunks == 1 || p.columns || p.tx == WEIR_CUDA_THREADS);
    CHECK(p.chunks == 1 || weir_cuda_reduce_blocks(&p) * p.chunks <= WEIR_CUDA_REDUCE_BLOCKS);
}

CASE(cuts)
{
    for (int i = 0; i < 300; i++) {
        weir_desc d = {.dtype = WEIR_F32, .ndim = (int)check_int(1, 4)};
        for (int k = 0; k < d.ndim; k++)
            d.dim[k] = check_int(0, 3) ? check_int(1, 40) : 8 * check_int(1, 600);
        check_plan(&d, (uint64_t)check_int(1, (1 << d.ndim) - 1), 4);
    }
    for (int i = 0; i < 300; i++) {
        const int64_t        rows = check_int(1, i % 2 ? 100 : 1000000), c = check_int(1, 600);
        const weir_cuda_norm p = weir_cuda_norm_plan(rows, c, 4);
        CHECK(p.vec == (c % 4 ? 1 : 4) && is_power(p.tx) && is_power(p.ty));
        CHECK(p.tx * p.ty <= WEIR_CUDA_THREADS && p.chunk * p.chunks >= rows);
        CHECK(p.chunk * (p.chunks - 1) < rows);
    }
}

/* Shapes that must be fast read 16 bytes at once and fill a card. */
CASE(cuts_of_large_tensors)
{
    const weir_reduce_attr inner = {.dims = 2, .keep = 1}, outer = {.dims = 1, .keep = 1};
    weir_layout            x = {.desc = weir_2d(WEIR_F32, 1 << 20, 256)}, y = x;
    weir_layout            all = {.desc = weir_1d(WEIR_F32, 1 << 24)}, one = all;

    weir_shape_dense(&x);
    weir_shape_dense(&all);
    y.desc.dim[1] = one.desc.dim[0] = 1;
    const weir_cuda_reduce rows = weir_cuda_reduce_plan(&x, NULL, &y, &inner, false, 4);
    CHECK(!rows.columns && rows.vec == 4 && rows.tx == 32 && rows.chunks == 1);
    y.desc = weir_2d(WEIR_F32, 1, 256);
    const weir_cuda_reduce columns = weir_cuda_reduce_plan(&x, NULL, &y, &outer, false, 4);
    CHECK(columns.columns && columns.vec == 4 && columns.tx == 32 && columns.ty == 8);
    CHECK(weir_cuda_reduce_blocks(&columns) * columns.chunks == WEIR_CUDA_REDUCE_BLOCKS);
    const weir_cuda_reduce total = weir_cuda_reduce_plan(&all, NULL, &one, &outer, false, 4);
    CHECK(total.vec == 4 && total.tx == WEIR_CUDA_THREADS && total.chunks == 1024);
}
