/* compare.c - comparisons, logic on bool, where: any strides in, a dense output.
 *
 * Axes are put into the output's physical order and merged where all operands are contiguous. A run
 * is a contiguous range of the innermost axis; tasks are ranges of output positions, divided by
 * shape only. A bool is written as 0 or 1; when read, any nonzero byte is true. An output may share
 * the memory of an input of the same layout: each element is read before it is written. */
#include "core/half.h"
#include "core/mem.h"
#include "device/common/div.h"
#include "device/cpu/kernels.h"
#include "device/common/memory_order.h"
#include "device/cpu/run.h"

enum { OPERANDS = 3, TASK = 32 << 10 };     /* TASK: elements */

/* to[i] = f(from[0][i * stride[0]], ...) */
typedef void (*run_fn)(int64_t n, void *to, const void *const *from, const int64_t *stride);

typedef struct compare {
    run_fn  run;
    int64_t n;
    int     nin, naxis;
    size_t  size[OPERANDS], out_size;       /* bytes of an element */
    int64_t dim[WEIR_MAX_DIMS], stride[OPERANDS][WEIR_MAX_DIMS];
} compare;

/* ---- runs ---- */

/* Contiguous operands and a scalar on the right have separate loops, which vectorise. */
#define RUN(name, T, U, value)                                                                     \
    static void name(int64_t n, void *out, const void *const *from, const int64_t *stride)         \
    {                                                                                              \
        const T *const pa = from[0], *const pb = from[1];                                          \
        U *const       to = out;                                                                   \
        const int64_t  sa = stride[0], sb = stride[1];                                             \
        if (sa == 1 && sb == 1) {                                                                  \
            RUN_LOOP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = pa[i], b = pb[i];                                                      \
                to[i] = value;                                                                     \
            }                                                                                      \
        } else if (sa == 1 && sb == 0) {                                                           \
            const T b = *pb;                                                                       \
            RUN_LOOP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = pa[i];                                                                 \
                to[i] = value;                                                                     \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T a = pa[i * sa], b = pb[i * sb];                                            \
                to[i] = value;                                                                     \
            }                                                                                      \
        }                                                                                          \
    }

#define COMPARE(id, op)                                                                            \
    RUN(id##_f32, float, uint8_t, a op b)                                                          \
    RUN(id##_f64, double, uint8_t, a op b)                                                         \
    RUN(id##_i32, int32_t, uint8_t, a op b)                                                        \
    RUN(id##_i64, int64_t, uint8_t, a op b)                                                        \
    RUN(id##_u8, uint8_t, uint8_t, a op b)                                                         \
    RUN(id##_i8, int8_t, uint8_t, a op b)                                                          \
    RUN(id##_i16, int16_t, uint8_t, a op b)                                                        \
    RUN(id##_u16, uint16_t, uint8_t, a op b)                                                       \
    RUN(id##_u32, uint32_t, uint8_t, a op b)                                                       \
    RUN(id##_u64, uint64_t, uint8_t, a op b)                                                       \
    RUN(id##_f16, uint16_t, uint8_t, weir_from_f16(a) op weir_from_f16(b))                         \
    RUN(id##_bf16, uint16_t, uint8_t, weir_from_bf16(a) op weir_from_bf16(b))

COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)
RUN(eq_b8, uint8_t, uint8_t, (a != 0) == (b != 0))
RUN(xor_b8, uint8_t, uint8_t, (a != 0) != (b != 0))
RUN(and_b8, uint8_t, uint8_t, (a != 0) & (b != 0))
RUN(or_b8, uint8_t, uint8_t, (a | b) != 0)

static void not_b8(int64_t n, void *out, const void *const *from, const int64_t *stride)
{
    const uint8_t *const a = from[0];
    uint8_t *const       to = out;

    for (int64_t i = 0; i < n; i++)
        to[i] = a[i * stride[0]] == 0;
}

/* Selects the bits of a or b, whatever the type. */
#define WHERE(name, T)                                                                             \
    static void name(int64_t n, void *out, const void *const *from, const int64_t *stride)         \
    {                                                                                              \
        const uint8_t *const cond = from[0];                                                       \
        const T *const       a = from[1], *const b = from[2];                                      \
        T *const             to = out;                                                             \
        const int64_t        sc = stride[0], sa = stride[1], sb = stride[2];                       \
        if (sc == 1 && sa == 1 && sb == 1) {                                                       \
            RUN_LOOP                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const T x = a[i], y = b[i];                                                        \
                to[i] = cond[i] != 0 ? x : y;                                                      \
            }                                                                                      \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                to[i] = cond[i * sc] != 0 ? a[i * sa] : b[i * sb];                                 \
        }                                                                                          \
    }

WHERE(where_1, uint8_t)
WHERE(where_2, uint16_t)
WHERE(where_4, uint32_t)
WHERE(where_8, uint64_t)

/* ---- running ---- */

/* Output positions [pos, end), one range of the innermost axis after another. */
static void run_positions(const compare *p, const weir_kargs *k, int64_t pos, int64_t end)
{
    const int last = p->naxis - 1;
    int64_t   at[WEIR_MAX_DIMS], step[OPERANDS];

    for (int64_t axis = last, rest = pos; axis >= 0; axis--) {
        at[axis] = rest % p->dim[axis];
        rest /= p->dim[axis];
    }
    for (int i = 0; i < p->nin; i++)
        step[i] = p->stride[i][last];
    while (pos < end) {
        const int64_t n = min64(p->dim[last] - at[last], end - pos);
        const void   *from[OPERANDS] = {NULL};
        for (int i = 0; i < p->nin; i++) {
            int64_t offset = 0;
            for (int axis = 0; axis <= last; axis++)
                offset += at[axis] * p->stride[i][axis];
            from[i] = (const char *)k->src[i] + offset * (int64_t)p->size[i];
        }
        p->run(n, (char *)k->dst[0] + (size_t)pos * p->out_size, from, step);
        pos += n;
        at[last] += n;
        for (int axis = last; axis > 0 && at[axis] == p->dim[axis]; axis--) {
            at[axis] = 0;
            at[axis - 1]++;
        }
    }
}

static void compare_task(void *ctx, int64_t task)
{
    const weir_kargs *const k = ctx;
    const compare *const    p = k->state;

    run_positions(p, k, task * TASK, min64(p->n, (task + 1) * TASK));
}

static weir_status compare_run(const weir_kargs *k)
{
    const compare *const p = k->state;
    weir_kargs           args = *k;

    if (p->n > 0)
        weir_parallel(k->threads, ceil_div(p->n, TASK), compare_task, &args);
    return WEIR_OK;
}

/* ---- selecting ---- */

/* True if all inputs are contiguous from the merged axis to `axis`, of dim elements. */
static bool merges(const compare *p, const weir_layout *view, int axis, int64_t dim)
{
    for (int i = 0; i < p->nin; i++)
        if (p->naxis == 0 || p->stride[i][p->naxis - 1] != dim * view[i].stride[axis])
            return false;
    return true;
}

static void compare_axes(const weir_call *c, compare *p)
{
    weir_layout view[OPERANDS];
    int         order[WEIR_MAX_DIMS];
    const int   n = axes_in_memory_order(&c->out[0], order);

    for (int i = 0; i < p->nin; i++)
        weir_shape_expand(&c->in[i], &c->out[0].desc, &view[i]);
    for (int k = 0; k < n; k++) {
        const int64_t dim = c->out[0].desc.dim[order[k]];
        if (merges(p, view, order[k], dim))
            p->dim[p->naxis - 1] *= dim;
        else
            p->dim[p->naxis++] = dim;
        for (int i = 0; i < p->nin; i++)
            p->stride[i][p->naxis - 1] = view[i].stride[order[k]];
    }
    if (p->naxis == 0)
        p->dim[p->naxis++] = 1;
}

static weir_status choose(const weir_call *c, run_fn run, weir_kernel *out)
{
    if (!run)
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "has no CPU kernel for %s",
                              weir_dtype_name(c->in[c->nin - 1].desc.dtype));
    compare *const p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    *p = (compare){.run = run,
                   .n = weir_shape_count(&c->out[0].desc),
                   .nin = c->nin,
                   .out_size = weir_dtype_size(c->out[0].desc.dtype)};
    for (int i = 0; i < c->nin; i++)
        p->size[i] = weir_dtype_size(c->in[i].desc.dtype);
    if (p->n > 0)
        compare_axes(c, p);
    *out = (weir_kernel){.run = compare_run, .state = p, .destroy = weir_mem_free, .impl = "c"};
    return WEIR_OK;
}

/* ---- the ops ---- */

/* Kernels indexed by input type, in the order of weir_dtype; b8 is the run for bool. */
#define KERNEL(id, b8)                                                                             \
    weir_status weir_cpu_##id(weir_device *d, const weir_call *c, weir_kernel *out)                \
    {                                                                                              \
        static const run_fn run[] = {id##_f32,  id##_f64, id##_i32, id##_i64, id##_u8,             \
                                     b8,        id##_f16, id##_bf16, id##_i8, id##_i16,            \
                                     id##_u16,  id##_u32, id##_u64};                               \
        (void)d;                                                                                   \
        return choose(c, run[c->in[0].desc.dtype], out);                                           \
    }

KERNEL(eq, eq_b8)
KERNEL(ne, xor_b8)
KERNEL(lt, NULL)
KERNEL(le, NULL)
KERNEL(gt, NULL)
KERNEL(ge, NULL)

#define LOGIC(id, b8)                                                                              \
    weir_status weir_cpu_logical_##id(weir_device *d, const weir_call *c, weir_kernel *out)        \
    {                                                                                              \
        (void)d;                                                                                   \
        return choose(c, b8, out);                                                                 \
    }

LOGIC(and, and_b8)
LOGIC(or, or_b8)
LOGIC(xor, xor_b8)
LOGIC(not, not_b8)

weir_status weir_cpu_where(weir_device *d, const weir_call *c, weir_kernel *out)
{
    static const run_fn by_size[] = {[1] = where_1, [2] = where_2, [4] = where_4, [8] = where_8};

    (void)d;
    return choose(c, by_size[weir_dtype_size(c->out[0].desc.dtype)], out);
}
