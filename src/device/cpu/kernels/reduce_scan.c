/* reduce_scan.c - kernels that visit the reduced elements one by one: gradients of a maximum and of
 * a product, positions of maxima and minima, running sums and products.
 *
 * A block is up to 256 results that are adjacent in memory; each has a small state, while the
 * reduced elements are visited in logical (row-major) order. Blocks are independent, so every
 * number of threads gives the same bits. Halves are widened as they are read; what is computed from
 * them is rounded once. */
#include <math.h>

#include "core/dtype.h"
#include "core/half.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/axes.h"
#include "device/common/div.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/real.h"

#define SCAN_COLS 256

struct scan;

/* Processes one block: x and dx share offsets, and so do all small operands (y, dy, result). */
typedef void (*block_fn)(const struct scan *s, const char *x, const char *const *small, char *to,
                         int64_t cols);

typedef struct scan {
    block_fn block;
    int      x, small[2];               /* input numbers: the large one; small ones or -1 */
    bool     large;                     /* the result is as large as x */
    bool     reverse;                   /* running sums begin at the end */
    int64_t  size, to_size;             /* bytes of an element of x; of the result */
    axes     keep, over;                /* outer kept axes; reduced axes in logical order */
    axis     col;                       /* the innermost kept axis */
    int64_t  outs, blocks, reduced;     /* results along keep; column blocks; elements per result */
    int64_t  group, groups;             /* outs per task; tasks along them */
} scan;

static void one_block(const scan *s, const weir_kargs *k, int64_t o, int64_t col)
{
    const axes_place at = axes_at(&s->keep, o);
    const int64_t    x = at.in + col * s->col.in, y = at.out + col * s->col.out;
    const char      *small[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        if (s->small[i] >= 0)
            small[i] = (const char *)k->src[s->small[i]] + y * s->size;
    s->block(s, (const char *)k->src[s->x] + x * s->size, small,
             (char *)k->dst[0] + (s->large ? x : y) * s->to_size,
             min64(SCAN_COLS, s->col.size - col));
}

static void scan_task(void *ctx, int64_t task)
{
    const weir_kargs *k = ctx;
    const scan       *s = k->state;
    const int64_t     block = task % s->blocks, first = task / s->blocks * s->group;
    for (int64_t o = first; o < min64(s->outs, first + s->group); o++)
        one_block(s, k, o, block * SCAN_COLS);
}

static weir_status scan_run(const weir_kargs *k)
{
    const scan *s = k->state;
    weir_kargs  own = *k;
    weir_parallel(k->threads, s->groups * s->blocks, scan_task, &own);
    return WEIR_OK;
}

static void scan_axes(scan *s, const weir_layout *x, const weir_layout *y,
                      const weir_reduce_attr *attr)
{
    const axes sorted = axes_of(x, NULL, y, attr, true), listed = axes_of(x, NULL, y, attr, false);
    for (int i = 0; i < sorted.n; i++)
        if (!sorted.at[i].reduced)
            s->keep.at[s->keep.n++] = sorted.at[i];
    for (int i = 0; i < listed.n; i++)
        if (listed.at[i].reduced)
            s->over.at[s->over.n++] = listed.at[i];
    axes_merge(&s->keep);
    axes_merge(&s->over);
    s->col = s->keep.n > 0 ? s->keep.at[--s->keep.n] : (axis){.size = 1};
    s->outs = axes_count(&s->keep);
    s->reduced = axes_count(&s->over);
    s->blocks = ceil_div(s->col.size, SCAN_COLS);
    s->group = rows_per_task(s->reduced * min64(s->col.size, SCAN_COLS));
    s->groups = ceil_div(s->outs, s->group);
}

static weir_status choose(const weir_call *c, const scan *from, const weir_layout *y,
                          weir_kernel *out)
{
    if (!from->block)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s",
                              weir_dtype_name(c->in[from->x].desc.dtype));
    scan *s = weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = *from;
    s->size = (int64_t)weir_dtype_size(c->in[s->x].desc.dtype);
    s->to_size = (int64_t)weir_dtype_size(c->out[0].desc.dtype);
    scan_axes(s, &c->in[s->x], y, c->attr);
    *out = (weir_kernel){.run = scan_run, .state = s, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* For each float type: the type of elements as stored, conversions from it to a type for
 * computing and to it from f64. */
#define EACH_FLOAT(X, name)                                                                        \
    X(name##_f32, float, (float), (float))                                                         \
    X(name##_f64, double, (double), (double))                                                      \
    X(name##_f16, uint16_t, weir_from_f16, weir_to_f16_from_f64)                                   \
    X(name##_bf16, uint16_t, weir_from_bf16, weir_to_bf16_from_f64)

#define FLOATS(name)                                                                               \
    [WEIR_F32] = name##_f32, [WEIR_F64] = name##_f64, [WEIR_F16] = name##_f16,                     \
    [WEIR_BF16] = name##_bf16
#define NUMBERS(name)                                                                              \
    FLOATS(name), [WEIR_I32] = name##_i32, [WEIR_I64] = name##_i64, [WEIR_U8] = name##_u8

/* ---- gradient of a maximum: dy to the first element equal to it; small: y, dy ---- */

/* dx may be x itself. */
#define AMAX_GRAD(name, T, LOAD, STORE)                                                            \
    static void name(const scan *s, const char *xs, const char *const *small, char *to,            \
                     int64_t cols)                                                                 \
    {                                                                                              \
        const T      *y = (const void *)small[0], *dy = (const void *)small[1];                    \
        const int64_t in = s->col.in, out = s->col.out;                                            \
        unsigned char found[SCAN_COLS] = {0};                                                      \
        for (int64_t r = 0; r < s->reduced; r++) {                                                 \
            const int64_t at = axes_at(&s->over, r).in;                                            \
            const T      *x = (const T *)(const void *)xs + at;                                    \
            T            *dx = (T *)(void *)to + at;                                               \
            for (int64_t c = 0; c < cols; c++) {                                                   \
                const double v = (double)LOAD(x[c * in]), top = (double)LOAD(y[c * out]);          \
                const bool hit = found[c] == 0 && (v == top || (v != v && top != top));            \
                dx[c * in] = hit ? dy[c * out] : 0;                                                \
                found[c] |= hit;                                                                   \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(AMAX_GRAD, amax_grad)

/* dy, x, y: dense, like dx. */
weir_status weir_cpu_amax_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {FLOATS(amax_grad)};
    const scan            s = {.block = by_type[c->in[1].desc.dtype], .x = 1, .small = {2, 0},
                               .large = true};

    (void)d;
    return choose(c, &s, &c->in[2], out);
}

/* ---- gradient of a product: dy times the product of all others; small: dy ---- */

/* The factors of a column, in f64: the product of those that are neither 0, infinite (only their
 * sign counts) nor NaN, and the numbers of the others. */
typedef struct factors {
    double  prod;
    int64_t zeros, infinite, nans;
} factors;

static inline double plain_factor(double v)
{
    return v == 0 || v != v ? 1 : fabs(v) == HUGE_VAL ? copysign(1, v) : v;
}

static inline void factors_add(factors *f, double v)
{
    f->prod *= plain_factor(v);
    f->zeros += v == 0;
    f->infinite += fabs(v) == HUGE_VAL;
    f->nans += v != v;
}

/* The product of all factors but one, which is v. */
static inline double factors_without(const factors *f, double v)
{
    const double  rest = f->prod / plain_factor(v);
    const int64_t zeros = f->zeros - (v == 0), infinite = f->infinite - (fabs(v) == HUGE_VAL);

    return f->nans > (v != v) || (zeros > 0 && infinite > 0) ? (double)NAN
           : zeros > 0                                       ? 0
           : infinite > 0                                    ? copysign(HUGE_VAL, rest)
                                                             : rest;
}

/* dx may be x itself. */
#define PROD_GRAD(name, T, LOAD, STORE)                                                            \
    static void name(const scan *s, const char *xs, const char *const *small, char *to,            \
                     int64_t cols)                                                                 \
    {                                                                                              \
        const T      *x = (const void *)xs, *dy = (const void *)small[0];                          \
        const int64_t in = s->col.in, out = s->col.out;                                            \
        T            *dx = (void *)to;                                                             \
        factors       f[SCAN_COLS];                                                                \
        for (int64_t c = 0; c < cols; c++)                                                         \
            f[c] = (factors){.prod = 1};                                                           \
        for (int64_t r = 0; r < s->reduced; r++) {                                                 \
            const int64_t at = axes_at(&s->over, r).in;                                            \
            for (int64_t c = 0; c < cols; c++)                                                     \
                factors_add(&f[c], (double)LOAD(x[at + c * in]));                                  \
        }                                                                                          \
        for (int64_t r = 0; r < s->reduced; r++) {                                                 \
            const int64_t at = axes_at(&s->over, r).in;                                            \
            for (int64_t c = 0; c < cols; c++) {                                                   \
                const double v = (double)LOAD(x[at + c * in]);                                     \
                const double others = factors_without(&f[c], v);                                   \
                dx[at + c * in] = STORE((double)LOAD(dy[c * out]) * others);                       \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(PROD_GRAD, prod_grad)

/* dy, x: dense, like dx. */
weir_status weir_cpu_prod_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {FLOATS(prod_grad)};
    const scan            s = {.block = by_type[c->in[1].desc.dtype], .x = 1, .small = {0, -1},
                               .large = true};

    (void)d;
    return choose(c, &s, &c->in[0], out);
}

/* ---- position of the first maximum or minimum; NaN counts as either, as in AMAX ---- */

#define ARG(name, S, T, LOAD, BETTER)                                                              \
    static void name(const scan *s, const char *xs, const char *const *small, char *to,            \
                     int64_t cols)                                                                 \
    {                                                                                              \
        const S      *x = (const void *)xs;                                                        \
        const int64_t in = s->col.in;                                                              \
        int64_t      *y = (void *)to;                                                              \
        T             best[SCAN_COLS];                                                             \
        int64_t       place[SCAN_COLS] = {0};                                                      \
        (void)small;                                                                               \
        for (int64_t c = 0; c < cols; c++)                                                         \
            best[c] = LOAD(x[c * in]);                                                             \
        for (int64_t r = 1; r < s->reduced; r++) {                                                 \
            const int64_t at = axes_at(&s->over, r).in;                                            \
            for (int64_t c = 0; c < cols; c++) {                                                   \
                const T    v = LOAD(x[at + c * in]);                                               \
                const bool hit = v BETTER best[c] || (v != v && best[c] == best[c]);               \
                best[c] = hit ? v : best[c];                                                       \
                place[c] = hit ? r : place[c];                                                     \
            }                                                                                      \
        }                                                                                          \
        for (int64_t c = 0; c < cols; c++)                                                         \
            y[c * s->col.out] = place[c];                                                          \
    }
#define ARG_TYPES(name, BETTER)                                                                    \
    ARG(name##_f32, float, float, (float), BETTER)                                                 \
    ARG(name##_f64, double, double, (double), BETTER)                                              \
    ARG(name##_f16, uint16_t, float, weir_from_f16, BETTER)                                        \
    ARG(name##_bf16, uint16_t, float, weir_from_bf16, BETTER)                                      \
    ARG(name##_i32, int32_t, int32_t, (int32_t), BETTER)                                           \
    ARG(name##_i64, int64_t, int64_t, (int64_t), BETTER)                                           \
    ARG(name##_u8, uint8_t, uint8_t, (uint8_t), BETTER)
ARG_TYPES(argmax, >)
ARG_TYPES(argmin, <)

static weir_status choose_arg(const weir_call *c, const block_fn *by_type, weir_kernel *out)
{
    const scan s = {.block = by_type[c->in[0].desc.dtype], .x = 0, .small = {-1, -1}};
    return choose(c, &s, &c->out[0], out);
}

weir_status weir_cpu_argmax(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {NUMBERS(argmax)};

    (void)d;
    return choose_arg(c, by_type, out);
}

weir_status weir_cpu_argmin(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {NUMBERS(argmin)};

    (void)d;
    return choose_arg(c, by_type, out);
}

/* ---- running sums and products along one axis; integers wrap ---- */

/* The result may be x itself. */
#define RUNNING(name, T, TOTAL, LOAD, STORE, NONE, TAKE)                                           \
    static void name(const scan *s, const char *xs, const char *const *small, char *to,            \
                     int64_t cols)                                                                 \
    {                                                                                              \
        const T      *x = (const void *)xs;                                                        \
        const int64_t in = s->col.in;                                                              \
        T            *y = (void *)to;                                                              \
        TOTAL         total[SCAN_COLS];                                                            \
        (void)small;                                                                               \
        for (int64_t c = 0; c < cols; c++)                                                         \
            total[c] = NONE;                                                                       \
        for (int64_t r = 0; r < s->reduced; r++) {                                                 \
            const int64_t at = axes_at(&s->over, s->reverse ? s->reduced - 1 - r : r).in;          \
            for (int64_t c = 0; c < cols; c++) {                                                   \
                total[c] TAKE (TOTAL)LOAD(x[at + c * in]);                                         \
                y[at + c * in] = STORE(total[c]);                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define RUNNING_TYPES(name, NONE, TAKE)                                                            \
    RUNNING(name##_f32, float, double, (float), (float), NONE, TAKE)                               \
    RUNNING(name##_f64, double, double, (double), (double), NONE, TAKE)                            \
    RUNNING(name##_f16, uint16_t, double, weir_from_f16, weir_to_f16_from_f64, NONE, TAKE)         \
    RUNNING(name##_bf16, uint16_t, double, weir_from_bf16, weir_to_bf16_from_f64, NONE, TAKE)      \
    RUNNING(name##_i32, int32_t, uint32_t, (int32_t), (int32_t), NONE, TAKE)                       \
    RUNNING(name##_i64, int64_t, uint64_t, (int64_t), (int64_t), NONE, TAKE)                       \
    RUNNING(name##_u8, uint8_t, uint8_t, (uint8_t), (uint8_t), NONE, TAKE)
RUNNING_TYPES(cumsum, 0, +=)
RUNNING_TYPES(cumprod, 1, *=)

/* x: dense, like the result. */
static weir_status choose_running(const weir_call *c, const block_fn *by_type, weir_kernel *out)
{
    const weir_cumsum_attr *const a = c->attr;
    const scan s = {.block = by_type[c->in[0].desc.dtype], .x = 0, .small = {-1, -1},
                    .large = true, .reverse = a->reverse != 0};
    return choose(c, &s, &c->out[0], out);
}

weir_status weir_cpu_cumsum(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {NUMBERS(cumsum)};

    (void)d;
    return choose_running(c, by_type, out);
}

weir_status weir_cpu_cumprod(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn by_type[WEIR_DTYPES] = {NUMBERS(cumprod)};

    (void)d;
    return choose_running(c, by_type, out);
}

/* ---- gradient of a running product ----
 *
 * dx[r] = y[r - 1] rest[r], where y is the running product before r (1 at first) and rest[r] =
 * dy[r] + x[r + 1] rest[r + 1], computed from the last element to the first without a division, so
 * factors may be 0. Small: dy, y, which have x's offsets. dx may be any of the three. */
#define CUMPROD_GRAD(name, T, LOAD, STORE)                                                         \
    static void name(const scan *s, const char *xs, const char *const *small, char *to,            \
                     int64_t cols)                                                                 \
    {                                                                                              \
        const T      *x = (const void *)xs, *dy = (const void *)small[0];                          \
        const T      *y = (const void *)small[1];                                                  \
        const int64_t in = s->col.in, last = s->reduced - 1;                                       \
        T            *dx = (void *)to;                                                             \
        double        rest[SCAN_COLS] = {0};        /* x[r + 1] rest[r + 1] */                     \
        for (int64_t r = last; r >= 0; r--) {                                                      \
            const int64_t at = axes_at(&s->over, s->reverse ? last - r : r).in;                    \
            const int64_t before = r == 0 ? 0 : axes_at(&s->over, s->reverse ? last - r + 1        \
                                                                             : r - 1).in;          \
            for (int64_t c = 0; c < cols; c++) {                                                   \
                const double sum = (double)LOAD(dy[at + c * in]) + rest[c];                        \
                rest[c] = (double)LOAD(x[at + c * in]) * sum;                                      \
                dx[at + c * in] =                                                                  \
                    STORE(r == 0 ? sum : (double)LOAD(y[before + c * in]) * sum);                  \
            }                                                                                      \
        }                                                                                          \
    }
EACH_FLOAT(CUMPROD_GRAD, cumprod_grad)

/* dy, x, y: dense, like dx. */
weir_status weir_cpu_cumprod_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const block_fn         by_type[WEIR_DTYPES] = {FLOATS(cumprod_grad)};
    const weir_cumsum_attr *const a = c->attr;
    const scan s = {.block = by_type[c->in[1].desc.dtype], .x = 1, .small = {0, 2},
                    .large = true, .reverse = a->reverse != 0};

    (void)d;
    return choose(c, &s, &c->out[0], out);
}
