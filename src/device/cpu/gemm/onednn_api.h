/* onednn_api.h - oneDNN's C interface, version 2 (from 2.6) and version 3, as one.
 *
 * The versions differ in memory descriptors (a struct, an owned pointer) and in how primitive
 * descriptors are created; `desc`, `seen` and the functions here hide that. Private to onednn.c. */
#ifndef WEIR_DEVICE_CPU_GEMM_ONEDNN_API_H
#define WEIR_DEVICE_CPU_GEMM_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>

#include "device/cpu/gemm/onednn_defect.h"

typedef struct conv_geometry {
    dnnl_dims_t strides, dilates, pad, end; /* dilates: 0 is none */
} conv_geometry;

/* The library's name of a type that it is given: f32, bf16 or f16. */
static inline dnnl_data_type_t type_of(weir_dtype t)
{
    return t == WEIR_BF16 ? dnnl_bf16 : t == WEIR_F16 ? dnnl_f16 : dnnl_f32;
}

/* "jit:avx512_core"; lives as long as pd. */
static inline const char *impl_of(const_dnnl_primitive_desc_t pd)
{
    const char *info = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &info);
    return info;
}

/* Functions ending in _pd create a primitive descriptor; false on failure. grad_w_pd takes the
 * library's first implementation that computes the call correctly. */

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t       desc; /* owned */
typedef const_dnnl_memory_desc_t seen; /* borrowed */

static inline seen see(const desc *d)
{
    return *d;
}

static inline bool desc_make(desc *d, weir_dtype t, int ndims, const dnnl_dims_t dims,
                             const dnnl_dims_t strides)
{
    return (strides ? dnnl_memory_desc_create_with_strides(d, ndims, dims, type_of(t), strides)
                    : dnnl_memory_desc_create_with_tag(d, ndims, dims, type_of(t),
                                                       dnnl_format_tag_any)) == dnnl_success;
}

static inline void desc_free(desc *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static inline bool forward_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen x, seen w, seen b,
                              seen y, const conv_geometry *g, const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(
               pd, e, dnnl_forward_training, dnnl_convolution_direct, x, w, b, y, g->strides,
               g->dilates, g->pad, g->end, attr) == dnnl_success;
}

static inline bool grad_x_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen dx, seen w, seen dy,
                             const conv_geometry *g, const_dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_backward_data_primitive_desc_create(
               pd, e, dnnl_convolution_direct, dx, w, dy, g->strides, g->dilates, g->pad, g->end,
               hint, attr) == dnnl_success;
}

static inline bool grad_w_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen x, seen dw, seen db,
                             seen dy, const conv_geometry *g, const_dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr, const weir_conv *c)
{
    bool made = dnnl_convolution_backward_weights_primitive_desc_create(
                    pd, e, dnnl_convolution_direct, x, dw, db, dy, g->strides, g->dilates, g->pad,
                    g->end, hint, attr) == dnnl_success;
    while (made && weir_onednn_defect(c, WEIR_CONV_GRAD_W, impl_of(*pd)))
        made = dnnl_primitive_desc_next_impl(*pd) == dnnl_success;
    return made;
}

static inline bool matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen a, seen b, seen bias,
                             seen c, const_dnnl_primitive_attr_t attr)
{
    return dnnl_matmul_primitive_desc_create(pd, e, a, b, bias, c, attr) == dnnl_success;
}

#else

typedef dnnl_memory_desc_t        desc;
typedef const dnnl_memory_desc_t *seen;

static inline seen see(const desc *d)
{
    return d->ndims ? d : NULL;
}

static inline bool desc_make(desc *d, weir_dtype t, int ndims, const dnnl_dims_t dims,
                             const dnnl_dims_t strides)
{
    return (strides ? dnnl_memory_desc_init_by_strides(d, ndims, dims, type_of(t), strides)
                    : dnnl_memory_desc_init_by_tag(d, ndims, dims, type_of(t),
                                                   dnnl_format_tag_any)) == dnnl_success;
}

static inline void desc_free(desc *d)
{
    (void)d;
}

static inline bool forward_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen x, seen w, seen b,
                              seen y, const conv_geometry *g, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    return dnnl_dilated_convolution_forward_desc_init(
               &d, dnnl_forward_training, dnnl_convolution_direct, x, w, b, y, g->strides,
               g->dilates, g->pad, g->end) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &d, attr, e, NULL) == dnnl_success;
}

static inline bool grad_x_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen dx, seen w, seen dy,
                             const conv_geometry *g, const_dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    return dnnl_dilated_convolution_backward_data_desc_init(&d, dnnl_convolution_direct, dx, w, dy,
                                                            g->strides, g->dilates, g->pad,
                                                            g->end) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &d, attr, e, hint) == dnnl_success;
}

static inline bool grad_w_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen x, seen dw, seen db,
                             seen dy, const conv_geometry *g, const_dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr, const weir_conv *c)
{
    dnnl_primitive_desc_iterator_t it = NULL;
    dnnl_convolution_desc_t        d;
    bool more = dnnl_dilated_convolution_backward_weights_desc_init(
                    &d, dnnl_convolution_direct, x, dw, db, dy, g->strides, g->dilates, g->pad,
                    g->end) == dnnl_success;
    more = more && dnnl_primitive_desc_iterator_create(&it, &d, attr, e, hint) == dnnl_success;
    for (; more; more = dnnl_primitive_desc_iterator_next(it) == dnnl_success) {
        *pd = dnnl_primitive_desc_iterator_fetch(it); /* a copy that we own */
        if (!*pd || !weir_onednn_defect(c, WEIR_CONV_GRAD_W, impl_of(*pd)))
            break;
        dnnl_primitive_desc_destroy(*pd);
        *pd = NULL;
    }
    if (it)
        dnnl_primitive_desc_iterator_destroy(it);
    return *pd != NULL;
}

static inline bool matmul_pd(dnnl_primitive_desc_t *pd, dnnl_engine_t e, seen a, seen b, seen bias,
                             seen c, const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    return dnnl_matmul_desc_init(&d, a, b, bias, c) == dnnl_success &&
           dnnl_primitive_desc_create(pd, &d, attr, e, NULL) == dnnl_success;
}

#endif

#endif
