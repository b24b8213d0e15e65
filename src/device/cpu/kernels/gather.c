/* gather.c - GATHER, GATHER_GRAD, SCATTER_ADD, ONE_HOT, ARANGE: rows by index, and a range.
 *
 * Additions to rows are divided by ranges of table rows: each task reads all indices in order and
 * adds those in its range. So every element receives its additions in the order of the indices,
 * whatever the number of threads, and no two tasks write the same row. Halves are added in f32 and
 * rounded once: a row receives all its additions together, found in a list of its indices. An index
 * outside the table fails the call before anything is written. */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/half.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/index.h"
#include "device/cpu/kernels.h"
#include "device/cpu/run.h"
#include "device/cpu/kernels/widen.h"

enum {
    RANGES = 16,            /* most tasks of a scatter: each reads all indices */
    PART = 256,             /* elements of a row of halves that are added at a time */
    NONE = INT32_MIN        /* ends a list; its bytes differ, so that measuring sees the last one */
};

typedef void (*add_fn)(int64_t n, void *to, const void *from);

typedef struct rows_state {
    weir_dtype type;
    bool       wide;            /* indices are i64, else i32 */
    size_t     row;             /* bytes of a row */
    int64_t    v, n, d;         /* rows of the table; indices; elements of a row */
    int64_t    per_task, tasks;
    int        index;           /* input number of the indices */
    add_fn     add;             /* scatter only */
    weir_half_fn widen, narrow; /* scatter of halves; else NULL */
    char       element[8];      /* one_hot: the element 1 */
} rows_state;

static int64_t index_at(const rows_state *s, const void *index, int64_t i)
{
    return s->wide ? ((const int64_t *)index)[i] : ((const int32_t *)index)[i];
}

/* Writes `value` as an element of a type; integers accept whole numbers only. */
static void encode(double value, weir_dtype type, char element[8])
{
    const float   f = (float)value;
    const bool    whole = value == 0 || value == 1;
    const int64_t i = whole ? (int64_t)value : 0;       /* its low bytes are the narrower types */

    memset(element, 0, 8);
    switch (type) {
    case WEIR_F32: memcpy(element, &f, sizeof f); break;
    case WEIR_F64: memcpy(element, &value, sizeof value); break;
    case WEIR_F16: memcpy(element, &(uint16_t){weir_to_f16(f)}, sizeof(uint16_t)); break;
    case WEIR_BF16: memcpy(element, &(uint16_t){weir_to_bf16(f)}, sizeof(uint16_t)); break;
    default: memcpy(element, &i, weir_dtype_size(type));
    }
}

static weir_status rows_choose(const rows_state *s, weir_status (*run)(const weir_kargs *k),
                               weir_kernel      *out)
{
    rows_state *const own = weir_mem_alloc(sizeof *own);

    if (!own)
        return WEIR_ERR_NOMEM;
    *own = *s;
    *out = (weir_kernel){.run = run, .state = own, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- gather ---- */

static void gather_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const rows_state *const s = k->state;
    const int64_t           end = min64(s->n, (task + 1) * s->per_task);

    for (int64_t i = task * s->per_task; i < end; i++) {
        const int64_t at = index_at(s, k->src[1], i);
        char *const   to = (char *)k->dst[0] + (size_t)i * s->row;
        memcpy(to, (const char *)k->src[0] + (size_t)at * s->row, s->row);
    }
}

static weir_status gather_run(const weir_kargs *k)
{
    const rows_state *const s = k->state;
    weir_kargs              own = *k;

    WEIR_TRY(weir_cpu_check_index(k, s->index, "index", s->v));
    if (s->row > 0 && s->n > 0)
        weir_parallel(k->threads, s->tasks, gather_task, &own);
    return WEIR_OK;
}

weir_status weir_cpu_gather(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const table = &c->in[0].desc;
    rows_state s = {.type = table->dtype, .wide = c->in[1].desc.dtype == WEIR_I64,
                    .v = table->dim[0], .n = c->in[1].desc.dim[0], .d = table->dim[1], .index = 1};

    (void)d;
    s.row = (size_t)s.d * weir_dtype_size(s.type);
    s.per_task = rows_per_task(s.d);
    s.tasks = ceil_div(s.n, s.per_task);
    return rows_choose(&s, gather_run, out);
}

/* ---- additions ---- */

/* Integer additions wrap. */
#define ADD(id, T)                                                                                 \
    static void add_##id(int64_t n, void *to, const void *from)                                    \
    {                                                                                              \
        T *const       t = to;                                                                     \
        const T *const f = from;                                                                   \
        RUN_LOOP                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            t[i] = (T)(t[i] + f[i]);                                                               \
    }

ADD(f32, float)
ADD(f64, double)
ADD(i32, uint32_t)
ADD(i64, uint64_t)
ADD(u8, uint8_t)

/* Computes table rows [first, last): those of x (zeros without x) plus their updates. */
static void scatter_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const rows_state *const s = k->state;
    const int64_t           first = task * s->per_task, last = min64(s->v, first + s->per_task);
    const void *const       index = k->src[s->index];
    const char *const       update = k->src[s->index + 1];
    char *const             to = k->dst[0];
    char *const             begin = to + (size_t)first * s->row;
    const size_t            bytes = (size_t)(last - first) * s->row;

    if (s->index == 0)
        memset(begin, 0, bytes);
    else if (k->src[0] != k->dst[0])
        memcpy(begin, (const char *)k->src[0] + (size_t)first * s->row, bytes);
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = index_at(s, index, i);
        if (at >= first && at < last)
            s->add(s->d, to + (size_t)at * s->row, update + (size_t)i * s->row);
    }
}

/* Lists the indices of each table row in [first, last), the least first: k->work has each row's
 * first one (v), then what follows each index (n). */
static void list_indices(const weir_kargs *k, int64_t first, int64_t last)
{
    const rows_state *const s = k->state;
    int32_t *const          head = k->work, *const next = head + s->v;

    for (int64_t row = first; row < last; row++)
        head[row] = NONE;
    for (int64_t i = s->n - 1; i >= 0; i--) {
        const int64_t at = index_at(s, k->src[s->index], i);
        if (at < first || at >= last)
            continue;
        next[i] = head[at];
        head[at] = (int32_t)i;
    }
}

/* Row `row` of the table: that of x, or zeros, plus the updates in its list. */
static void add_halves(const weir_kargs *k, int64_t row)
{
    const rows_state *const s = k->state;
    const int32_t *const    head = k->work, *const next = head + s->v;
    const uint16_t *const   update = k->src[s->index + 1];
    const uint16_t *const   x = s->index == 0 ? NULL : (uint16_t *)k->src[0] + row * s->d;
    uint16_t *const         to = (uint16_t *)k->dst[0] + row * s->d;

    for (int64_t col = 0; col < s->d; col += PART) {
        const int64_t n = min64(PART, s->d - col);
        float         sum[PART] = {0}, wide[PART];
        if (x)
            s->widen(n, sum, x + col);
        for (int64_t i = head[row]; i >= 0; i = next[i]) {
            s->widen(n, wide, update + i * s->d + col);
            add_f32(n, sum, wide);
        }
        s->narrow(n, to + col, sum);
    }
}

/* scatter_task for halves. */
static void half_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const rows_state *const s = k->state;
    const int32_t *const    head = k->work;
    const int64_t           first = task * s->per_task, last = min64(s->v, first + s->per_task);

    list_indices(k, first, last);
    for (int64_t row = first; row < last; row++) {
        char *const to = (char *)k->dst[0] + (size_t)row * s->row;
        if (head[row] >= 0)
            add_halves(k, row);
        else if (s->index == 0)
            memset(to, 0, s->row);
        else if (k->src[0] != k->dst[0])
            memcpy(to, (const char *)k->src[0] + (size_t)row * s->row, s->row);
    }
}

static weir_status scatter_run(const weir_kargs *k)
{
    const rows_state *const s = k->state;
    weir_kargs              own = *k;

    WEIR_TRY(weir_cpu_check_index(k, s->index, "index", s->v));
    if (s->row > 0 && s->v > 0)
        weir_parallel(k->threads, s->tasks, s->widen ? half_task : scatter_task, &own);
    return WEIR_OK;
}

/* The inputs from `index` on are the indices (n) and the updates (n,d). */
static weir_status scatter_choose(const weir_call *c, int index, weir_kernel *out)
{
    static const add_fn add[WEIR_DTYPES] = {[WEIR_F32] = add_f32, [WEIR_F64] = add_f64,
                                            [WEIR_I32] = add_i32, [WEIR_I64] = add_i64,
                                            [WEIR_U8] = add_u8};
    const weir_desc *const to = &c->out[0].desc;
    const bool             half = weir_is_half(to->dtype);

    if (!add[to->dtype] && !half)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel adds rows of %s",
                              weir_dtype_name(to->dtype));
    rows_state s = {.type = to->dtype, .wide = c->in[index].desc.dtype == WEIR_I64,
                    .v = to->dim[0], .n = c->in[index].desc.dim[0], .d = to->dim[1],
                    .index = index, .add = add[to->dtype],
                    .widen = weir_cpu_widen(to->dtype), .narrow = weir_cpu_narrow(to->dtype)};
    s.row = (size_t)s.d * weir_dtype_size(s.type);
    const int64_t worth = (s.v + s.n) * s.d / WEIR_TASK_ELEMENTS;
    s.per_task = ceil_div(max64(1, s.v), max64(1, min64(RANGES, worth)));
    s.tasks = ceil_div(s.v, s.per_task);
    WEIR_TRY(rows_choose(&s, scatter_run, out));
    out->work = half && s.row > 0 && s.v > 0 ? (size_t)(s.v + s.n) * sizeof(int32_t) : 0;
    return WEIR_OK;
}

/* More indices than a list of halves can hold: copies in f32. */
static bool too_many(const weir_call *c, int index)
{
    return weir_is_half(c->out[0].desc.dtype) && c->in[index].desc.dim[0] > INT32_MAX;
}

weir_status weir_cpu_gather_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return too_many(c, 0) ? weir_cpu_widened(d, c, weir_cpu_gather_grad, out)
                          : scatter_choose(c, 0, out);
}

weir_status weir_cpu_scatter_add(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return too_many(c, 1) ? weir_cpu_widened(d, c, weir_cpu_scatter_add, out)
                          : scatter_choose(c, 1, out);
}

/* ---- one-hot rows ---- */

static void one_hot_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const rows_state *const s = k->state;
    const int64_t           end = min64(s->n, (task + 1) * s->per_task);
    const size_t            size = weir_dtype_size(s->type);

    for (int64_t i = task * s->per_task; i < end; i++) {
        const int64_t at = index_at(s, k->src[0], i);
        char *const   to = (char *)k->dst[0] + (size_t)i * s->row;
        memset(to, 0, s->row);
        memcpy(to + (size_t)at * size, s->element, size);
    }
}

static weir_status one_hot_run(const weir_kargs *k)
{
    const rows_state *const s = k->state;
    weir_kargs              own = *k;

    WEIR_TRY(weir_cpu_check_index(k, s->index, "index", s->v));
    if (s->row > 0 && s->n > 0)
        weir_parallel(k->threads, s->tasks, one_hot_task, &own);
    return WEIR_OK;
}

weir_status weir_cpu_one_hot(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_desc *const to = &c->out[0].desc;
    rows_state s = {.type = to->dtype, .wide = c->in[0].desc.dtype == WEIR_I64, .v = to->dim[1],
                    .n = to->dim[0], .d = to->dim[1]};

    (void)d;
    s.row = (size_t)s.d * weir_dtype_size(s.type);
    s.per_task = rows_per_task(s.d);
    s.tasks = ceil_div(s.n, s.per_task);
    encode(1, s.type, s.element);
    return rows_choose(&s, one_hot_run, out);
}

/* ---- range ---- */

#define ARANGE(T, convert)                                                                         \
    for (int64_t i = begin; i < end; i++)                                                          \
    ((T *)k->dst[0])[i] = convert(a->start + (double)i * a->step)

static void arange_task(void *ctx, int64_t task)
{
    const weir_kargs *const       k = ctx;
    const weir_arange_attr *const a = k->state;
    const int64_t                 begin = task * WEIR_TASK_ELEMENTS;
    const int64_t                 end = min64(a->count, begin + WEIR_TASK_ELEMENTS);

    switch ((weir_dtype)a->dtype) {
    case WEIR_F32: ARANGE(float, (float)); break;
    case WEIR_F64: ARANGE(double, (double)); break;
    case WEIR_I32: ARANGE(int32_t, (int32_t)); break;
    case WEIR_U8: ARANGE(uint8_t, (uint8_t)); break;
    case WEIR_I8: ARANGE(int8_t, (int8_t)); break;
    case WEIR_I16: ARANGE(int16_t, (int16_t)); break;
    case WEIR_U16: ARANGE(uint16_t, (uint16_t)); break;
    case WEIR_U32: ARANGE(uint32_t, (uint32_t)); break;
    case WEIR_U64: ARANGE(uint64_t, (uint64_t)); break;
    case WEIR_F16: ARANGE(uint16_t, weir_to_f16_from_f64); break;
    case WEIR_BF16: ARANGE(uint16_t, weir_to_bf16_from_f64); break;
    default: ARANGE(int64_t, (int64_t));
    }
}

static weir_status arange_run(const weir_kargs *k)
{
    const weir_arange_attr *const a = k->state;
    weir_kargs                    own = *k;

    if (a->count > 0)
        weir_parallel(k->threads, ceil_div(a->count, WEIR_TASK_ELEMENTS), arange_task, &own);
    return WEIR_OK;
}

weir_status weir_cpu_arange(weir_device *d, const weir_call *c, weir_kernel *out)
{
    weir_arange_attr *const a = weir_mem_alloc(sizeof *a);

    (void)d;
    if (!a)
        return WEIR_ERR_NOMEM;
    *a = *(const weir_arange_attr *)c->attr;
    *out = (weir_kernel){.run = arange_run, .state = a, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}
