/* slice_copy.h - SLICE, SLICE_SCATTER, CONCAT: strided copies from or into parts of a tensor.
 *
 * A part of a tensor is a layout (strides times step) at an offset, so each of these ops consists
 * of a few runs of the device's copy kernel, after a fill if the parts do not cover the output. */
#ifndef WEIR_DEVICE_COMMON_SLICE_COPY_H
#define WEIR_DEVICE_COMMON_SLICE_COPY_H

#include "core/attr.h"
#include "core/mem.h"
#include "device/device.h"

/* The device's kernels from which the ops are composed. */
typedef struct slice_copy_kernels {
    weir_choose_fn copy, fill;
    const char    *impl;
} slice_copy_kernels;

/* One copy. from: byte offset in input i; to: byte offset in the output. */
typedef struct slice_copy {
    weir_kernel copy;
    int64_t     from, to;
} slice_copy;

typedef struct slice_copies {
    weir_kernel fill; /* run is NULL if the parts cover the output */
    int         n;
    slice_copy  at[WEIR_MAX_IN];
} slice_copies;

static inline weir_status slice_copies_run(const weir_kargs *k)
{
    const slice_copies *const p = k->state;
    weir_kargs                own = *k;

    if (p->fill.run) {
        own.state = p->fill.state;
        WEIR_TRY(p->fill.run(&own));
    }
    for (int i = 0; i < p->n; i++) {
        const slice_copy *const at = &p->at[i];
        void *src = (char *)k->src[i] + at->from, *dst = (char *)k->dst[0] + at->to;
        if (src == dst)         /* computed in place: graph/plan/concat_parts.c */
            continue;
        own.src = &src;
        own.dst = &dst;
        own.state = at->copy.state;
        WEIR_TRY(at->copy.run(&own));
    }
    return WEIR_OK;
}

static inline void slice_copies_free(void *state)
{
    slice_copies *const p = state;
    weir_kernel_drop(&p->fill);
    for (int i = 0; i < p->n; i++)
        weir_kernel_drop(&p->at[i].copy);
    weir_mem_free(p);
}

/* Adds a copy between two layouts of equal dims; offsets in elements. */
static inline weir_status slice_copies_add(weir_device *d, const slice_copy_kernels *by,
                                           slice_copies *p, const weir_layout *in, int64_t from,
                                           weir_layout *out, int64_t to)
{
    const int64_t   size = (int64_t)weir_dtype_size(in->desc.dtype);
    const weir_call c = {.op = WEIR_OP_COPY, .nin = 1, .nout = 1, .in = in, .out = out,
                         .alias = -1};
    slice_copy *const     at = &p->at[p->n];

    WEIR_TRY(by->copy(d, &c, &at->copy));
    at->from = weir_shape_count(&in->desc) > 0 ? from * size : 0;
    at->to = weir_shape_count(&in->desc) > 0 ? to * size : 0;
    p->n++;
    return WEIR_OK;
}

/* Sets *out to the part of `whole` that the attributes select, with the dims of d; returns its
 * offset in elements. */
static inline int64_t slice_copies_begin(const weir_layout *whole, const weir_slice_attr *a,
                                         const weir_desc *d, weir_layout *out)
{
    int64_t offset = 0;

    *out = (weir_layout){.desc = *d};
    for (int i = 0; i < d->ndim; i++) {
        out->stride[i] = whole->stride[i] * a->step[i];
        offset += whole->stride[i] * a->begin[i];
    }
    return offset;
}

/* Moves p to *out, or frees it after a failure. */
static inline weir_status slice_copies_done(weir_status status, const slice_copy_kernels *by,
                                            slice_copies *p, weir_kernel *out)
{
    if (status == WEIR_OK)
        *out = (weir_kernel){.run = slice_copies_run, .state = p, .destroy = slice_copies_free,
                             .impl = by->impl};
    else
        slice_copies_free(p);
    return status;
}

static inline weir_status slice_copies_slice(weir_device *d, const slice_copy_kernels *by,
                                             const weir_call *c, weir_kernel *out)
{
    weir_layout          from;
    const int64_t        offset = slice_copies_begin(&c->in[0], c->attr, &c->out[0].desc, &from);
    slice_copies *const  p = weir_mem_zalloc(1, sizeof *p);

    if (!p)
        return WEIR_ERR_NOMEM;
    return slice_copies_done(slice_copies_add(d, by, p, &from, offset, &c->out[0], 0), by, p, out);
}

static inline weir_status slice_copies_scatter(weir_device *d, const slice_copy_kernels *by,
                                               const weir_call *c, weir_kernel *out)
{
    const weir_slice_attr *const a = c->attr;
    const weir_fill_attr         fill = {.value = a->value};
    weir_layout                  to;
    const int64_t                offset = slice_copies_begin(&c->out[0], a, &c->in[0].desc, &to);
    const weir_call              filled = {.op = WEIR_OP_FILL, .nout = 1, .out = c->out,
                                           .attr = &fill, .attr_bytes = sizeof fill, .alias = -1};
    slice_copies *const                 p = weir_mem_zalloc(1, sizeof *p);
    weir_status                  status = WEIR_OK;

    if (!p)
        return WEIR_ERR_NOMEM;
    if (weir_shape_count(&c->in[0].desc) != weir_shape_count(&c->out[0].desc))
        status = by->fill(d, &filled, &p->fill);
    if (status == WEIR_OK)
        status = slice_copies_add(d, by, p, &c->in[0], 0, &to, offset);
    return slice_copies_done(status, by, p, out);
}

static inline weir_status slice_copies_concat(weir_device *d, const slice_copy_kernels *by,
                                              const weir_call *c, weir_kernel *out)
{
    const int64_t along = ((const weir_axis_attr *)c->attr)->axis;
    int64_t       offset = 0;
    slice_copies *const  p = weir_mem_zalloc(1, sizeof *p);
    weir_status   status = WEIR_OK;

    if (!p)
        return WEIR_ERR_NOMEM;
    for (int i = 0; i < c->nin && status == WEIR_OK; i++) {
        weir_layout to = c->out[0];
        to.desc = c->in[i].desc;
        status = slice_copies_add(d, by, p, &c->in[i], 0, &to, offset);
        offset += to.desc.dim[along] * to.stride[along];
    }
    return slice_copies_done(status, by, p, out);
}

#endif
