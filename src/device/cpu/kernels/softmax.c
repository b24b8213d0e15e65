/* softmax.c - softmax and its log along one axis, and the gradient of each.
 *
 * Operands are dense with equal layouts, so the axis has one stride: a tensor is slices of n rows
 * by `inner` columns (inner is 1 for the channels of channels-last images). Slices, and blocks of
 * their columns, are divided into tasks by shape; no two tasks share a sum. Halves are computed in
 * f32 copies: of a part of the batch (batch.h) or, if the axis is the first one, of a block of
 * columns. */
#include "device/cpu/kernels/softmax.h"

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/div.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/batch.h"
#include "device/cpu/kernels/elementwise.h"
#include "device/cpu/kernels/real.h"
#include "device/cpu/kernels/widen.h"

typedef struct plan {
    weir_softmax_loops loops;
    bool               grad, log;
    int64_t            size;            /* bytes of an element */
    int64_t            n, inner, slices;
    int64_t            blocks;          /* blocks of columns per slice */
    int64_t            group;           /* blocks (of all slices) per task */
    weir_half_fn       widen, narrow;   /* halves; else NULL */
    int64_t            scratch;         /* halves: elements of a worker's copies */
} plan;

/* Rows of `cols` halves, p->inner apart, from `from` as f32. */
static void widen_block(const plan *p, const void *from, int64_t cols, float *to)
{
    for (int64_t r = 0; r < p->n; r++)
        p->widen(cols, to + r * cols, (const uint16_t *)from + r * p->inner);
}

/* one_block of halves. */
static void half_block(const plan *p, const weir_kargs *k, int64_t at, int64_t cols)
{
    float *const a = (float *)k->work + weir_thread_index() * p->scratch;
    float *const b = a + p->n * cols;
    widen_block(p, (const char *)k->src[0] + at, cols, a);
    if (p->grad) {
        widen_block(p, (const char *)k->src[1] + at, cols, b);
        p->loops.columns_grad(a, b, p->n, cols, cols, p->log, a);
    } else {
        p->loops.columns(a, p->n, cols, cols, p->log, a);
    }
    for (int64_t r = 0; r < p->n; r++)
        p->narrow(cols, (uint16_t *)(void *)((char *)k->dst[0] + at) + r * p->inner, a + r * cols);
}

/* Columns [col, col + cols) of a slice; `at`: byte offset of the first. */
static void one_block(const plan *p, const weir_kargs *k, int64_t at, int64_t cols)
{
    const char *a = (const char *)k->src[0] + at;
    char       *to = (char *)k->dst[0] + at;
    if (p->grad)
        p->loops.columns_grad(a, (const char *)k->src[1] + at, p->n, p->inner, cols, p->log, to);
    else
        p->loops.columns(a, p->n, p->inner, cols, p->log, to);
}

/* Adjacent slices of one column. */
static void some_lines(const plan *p, const weir_kargs *k, int64_t first, int64_t rows)
{
    const int64_t at = first * p->n * p->size;
    const char   *a = (const char *)k->src[0] + at;
    char         *to = (char *)k->dst[0] + at;
    if (p->grad)
        p->loops.lines_grad(a, (const char *)k->src[1] + at, rows, p->n, p->log, to);
    else
        p->loops.lines(a, rows, p->n, p->log, to);
}

static void task_run(void *ctx, int64_t task)
{
    const weir_kargs *k = ctx;
    const plan       *p = k->state;
    const int64_t     first = task * p->group;
    const int64_t     last = min64(p->slices * p->blocks, first + p->group);
    if (p->inner == 1) {
        some_lines(p, k, first, last - first);
        return;
    }
    for (int64_t i = first; i < last; i++) {
        const int64_t slice = i / p->blocks, col = (i - slice * p->blocks) * WEIR_SOFTMAX_COLS;
        (p->widen ? half_block : one_block)(p, k, (slice * p->n * p->inner + col) * p->size,
                                            min64(WEIR_SOFTMAX_COLS, p->inner - col));
    }
}

static weir_status run(const weir_kargs *k)
{
    const plan *p = k->state;
    weir_kargs  own = *k;
    if (p->widen && p->scratch > 0)     /* any worker may run; the whole workspace counts as used */
        ((float *)k->work)[weir_threads_count(k->threads) * p->scratch - 1] = 0;
    weir_parallel(k->threads, ceil_div(p->slices * p->blocks, p->group), task_run, &own);
    return WEIR_OK;
}

static weir_status choose(const weir_device *d, const weir_call *c, bool grad, bool log,
                          weir_kernel *out)
{
    static const weir_softmax_loops *const table[] = WEIR_ISA_TABLE(weir_softmax_loops);
    const weir_axis_attr *const            attr = c->attr;
    const weir_desc *const                 x = &c->in[0].desc;
    const weir_dtype type = weir_is_half(x->dtype) ? WEIR_F32 : x->dtype;
    if (!real_type(type))
        return weir_call_fail(WEIR_ERR_NOKERNEL, c, "no CPU kernel for %s",
                              weir_dtype_name(x->dtype));
    plan *p = weir_mem_alloc(sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    weir_layout dense = {.desc = *x};
    weir_shape_dense(&dense);
    const int64_t count = weir_shape_count(x), n = x->dim[attr->axis];
    const int64_t inner = n == 1 ? 1 : max64(1, dense.stride[attr->axis]);
    *p = (plan){.loops = table[weir_cpu_isa()][type],
                .grad = grad,
                .log = log,
                .size = (int64_t)weir_dtype_size(x->dtype),
                .n = n,
                .inner = inner,
                .slices = count > 0 ? count / (n * inner) : 0,
                .blocks = ceil_div(inner, WEIR_SOFTMAX_COLS),
                .group = rows_per_task(n * min64(inner, WEIR_SOFTMAX_COLS)),
                .widen = weir_cpu_widen(x->dtype),
                .narrow = weir_cpu_narrow(x->dtype)};
    if (p->widen && count > 0)
        p->scratch = (grad ? 2 : 1) * n * min64(inner, WEIR_SOFTMAX_COLS);
    *out = (weir_kernel){.run = run, .state = p, .destroy = weir_mem_free, .impl = "c",
                         .work = (size_t)(weir_threads_count(d->threads) * p->scratch) *
                                 sizeof(float)};
    return WEIR_OK;
}

static weir_status choose_or_widen(weir_device *d, const weir_call *c, bool grad, bool log,
                                   weir_choose_fn self, weir_kernel *out)
{
    const weir_axis_attr *const attr = c->attr;
    const weir_desc *const      x = &c->in[0].desc;
    if (!weir_is_half(x->dtype))
        return choose(d, c, grad, log, out);
    if (attr->axis > 0)
        return weir_cpu_widened_by_batch(d, c, self, out);
    return x->dim[0] < 2 || weir_shape_count(x) <= x->dim[0]    /* a column or less */
               ? weir_cpu_widened(d, c, self, out)
               : choose(d, c, grad, log, out);
}

weir_status weir_cpu_softmax(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_or_widen(d, c, false, false, weir_cpu_softmax, out);
}

weir_status weir_cpu_softmax_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_or_widen(d, c, true, false, weir_cpu_softmax_grad, out);
}

weir_status weir_cpu_log_softmax(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_or_widen(d, c, false, true, weir_cpu_log_softmax, out);
}

weir_status weir_cpu_log_softmax_grad(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return choose_or_widen(d, c, true, true, weir_cpu_log_softmax_grad, out);
}
