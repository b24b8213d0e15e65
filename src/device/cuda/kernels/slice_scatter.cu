/* slice_scatter.cu - SLICE_SCATTER: a tensor of one value, with the input as a slice of it, in one
 * pass.
 *
 * Each output element tests whether it belongs to the slice. Axes are in the output's order; an
 * axis that the slice covers is merged with the one outside it. */
#include "device/cuda/kernels/convert.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/kernels/index.h"

/* Position i of the axis is element (i - begin) / step of the input's n, or none of them. */
typedef struct scatter_axis {
    int64_t dim, begin, step, n, in;
} scatter_axis;

typedef struct scatter {
    int        n;
    scatter_axis at[WEIR_MAX_DIMS];
    int64_t    count;
    size_t     size;
    uint64_t   places;          /* strides in bytes, or-ed; see weir_unit */
    weir_splat value;
} scatter;

/* The same with fast division, in units of one or more elements. */
typedef struct scatter_args {
    int     n;
    bool    wide;
    int64_t count;
    struct {
        weir_divisor dim;
        int64_t      begin, step, n, in;
    } at[WEIR_MAX_DIMS];
} scatter_args;

/* Offset in the input of output element i; -1 if it is outside the slice. */
static __device__ inline int64_t source_of(const scatter_args &p, int64_t i)
{
    int64_t from = 0;
    bool    inside = true;

    for (int a = p.n - 1; a >= 0; a--) {
        const int64_t q = a > 0 ? weir_divide(i, p.at[a].dim, p.wide) : 0;
        const int64_t way = i - q * p.at[a].dim.by - p.at[a].begin, step = p.at[a].step;
        const int64_t k = step == 1 ? way : way / step;
        inside = inside && k >= 0 && k < p.at[a].n && k * step == way;
        from += k * p.at[a].in;
        i = q;
    }
    return inside ? from : -1;
}

template <class T>
static __global__ void scatter_each(T *to, const T *from, scatter_args p, weir_splat value)
{
    const int64_t threads = blockDim.x, stride = (int64_t)gridDim.x * WEIR_CHUNK;
    T             other;

    memcpy(&other, value.byte, sizeof other);
    for (int64_t i = (int64_t)blockIdx.x * WEIR_CHUNK + threadIdx.x; i < p.count; i += stride) {
        T x[WEIR_SEVERAL];
        for (int e = 0; e < WEIR_SEVERAL; e++) {
            const int64_t at = i + e * threads < p.count ? source_of(p, i + e * threads) : -1;
            x[e] = at >= 0 ? from[at] : other;
        }
        for (int e = 0; e < WEIR_SEVERAL; e++)
            if (i + e * threads < p.count)
                to[i + e * threads] = x[e];
    }
}

/* Arguments in units of `unit` elements, which divides the innermost axis. */
static scatter_args scatter_args_of(const scatter *p, int64_t unit)
{
    scatter_args q = {};

    q.n = p->n;
    q.count = p->count / unit;
    q.wide = q.count >= WEIR_NARROW_END;
    for (int i = 0; i < p->n; i++) {
        const scatter_axis x = p->at[i];
        const int64_t    by = i == p->n - 1 ? unit : 1;
        q.at[i].dim = weir_divisor_of(x.dim / by);
        q.at[i].begin = x.begin / by;
        q.at[i].step = x.step;
        q.at[i].n = x.n / by;
        q.at[i].in = by > 1 ? x.in : x.in / unit;
    }
    return q;
}

template <class T> static weir_status scatter_by(const weir_kargs *k, const scatter *p)
{
    const scatter_args q = scatter_args_of(p, (int64_t)(sizeof(T) / p->size));

    return weir_launch(k, scatter_each<T>, weir_blocks_of(q.count, WEIR_CHUNK), WEIR_CUDA_THREADS,
                       (T *)k->dst[0], (const T *)k->src[0], q, p->value);
}

static weir_status scatter_run(const weir_kargs *k)
{
    const scatter *const p = (const scatter *)k->state;
    const uint64_t     places = (uintptr_t)k->src[0] | (uintptr_t)k->dst[0] | p->places;

    return WEIR_BY_UNIT(weir_unit(places, p->size), scatter_by, k, p);
}

/* Appends an axis inside those so far. */
static void add_axis(scatter *p, const scatter_axis *x)
{
    scatter_axis *const outer = p->n > 0 ? &p->at[p->n - 1] : NULL;
    const bool        whole = x->begin == 0 && x->step == 1 && x->n == x->dim;

    if (outer && whole && outer->step == 1 && outer->in == x->dim * x->in)
        *outer = (scatter_axis){outer->dim * x->dim, outer->begin * x->dim, 1, outer->n * x->dim,
                              x->in};
    else
        p->at[p->n++] = *x;
}

static void plan(const weir_call *c, scatter *p)
{
    const weir_slice_attr *const a = (const weir_slice_attr *)c->attr;
    const weir_layout *const     in = &c->in[0], *const out = &c->out[0];
    int                          order[WEIR_MAX_DIMS];
    const int                    n = axes_in_memory_order(out, order);

    for (int i = 0; i < n; i++) {
        const int        k = order[i];
        const scatter_axis x = {out->desc.dim[k], a->begin[k], a->step[k], in->desc.dim[k],
                              in->stride[k]};
        add_axis(p, &x);
    }
    p->places = p->size;
    if (p->n == 0)
        return;
    const scatter_axis inner = p->at[p->n - 1];
    if (inner.in == 1 && inner.step == 1)
        p->places = (uint64_t)(inner.dim | inner.begin | inner.n) * p->size;
    for (int i = 0; i < p->n - 1; i++)
        p->places |= (uint64_t)p->at[i].in * p->size;
}

/* With an empty input, the whole output is the value. */
static weir_status only_fill(weir_device *d, const weir_call *c, double value, weir_kernel *out)
{
    const weir_fill_attr a = {value, {}};
    const weir_call      fill = {.op = WEIR_OP_FILL, .nout = 1, .out = c->out, .attr = &a,
                                 .attr_bytes = sizeof a, .alias = -1};

    return weir_cuda_fill(d, &fill, out);
}

weir_status weir_cuda_slice_scatter(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const double     value = ((const weir_slice_attr *)c->attr)->value;
    const weir_desc *to = &c->out[0].desc;
    char             element[8];

    if (weir_shape_count(&c->in[0].desc) == 0)
        return only_fill(d, c, value, out);
    scatter *const p = (scatter *)weir_mem_zalloc(1, sizeof *p);
    if (!p)
        return WEIR_ERR_NOMEM;
    p->size = weir_dtype_size(to->dtype);
    p->count = weir_shape_count(to);
    weir_encode(value, to->dtype, element);
    p->value = weir_splat_of(element, p->size);
    plan(c, p);
    *out = (weir_kernel){.run = scatter_run, .state = p, .destroy = weir_mem_free, .impl = "cuda"};
    return WEIR_OK;
}
