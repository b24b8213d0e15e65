/* onednn_overrun.h - shapes of calls, and one interface to oneDNN 2 and 3, for onednn_overrun.c. */
#ifndef WEIR_TEST_DEVICE_CPU_ONEDNN_OVERRUN_H
#define WEIR_TEST_DEVICE_CPU_ONEDNN_OVERRUN_H

#include <oneapi/dnnl/dnnl.h>

typedef enum pass { FORWARD, GRAD_X, GRAD_W, MATMUL, PASSES } pass;

typedef struct shape {
    pass p;
    int  n, ci, co, h, k, stride, threads, oh, pad;
} shape;

static dnnl_engine_t         engine;
static dnnl_stream_t         stream;
static dnnl_primitive_attr_t attr;

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t       desc;
typedef const_dnnl_memory_desc_t seen;
#define SEE(d) (d)

static inline desc strided(int n, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    desc d = NULL;
    dnnl_memory_desc_create_with_strides(&d, n, dims, dnnl_f32, strides);
    return d;
}

static inline desc any(int n, const dnnl_dims_t dims)
{
    desc d = NULL;
    dnnl_memory_desc_create_with_tag(&d, n, dims, dnnl_f32, dnnl_format_tag_any);
    return d;
}

static inline dnnl_primitive_desc_t conv_pd(const shape *s, seen x, seen w, seen y)
{
    const dnnl_dims_t     st = {s->stride, s->stride}, di = {0, 0}, pa = {s->pad, s->pad};
    const dnnl_alg_kind_t a = dnnl_convolution_direct;
    dnnl_primitive_desc_t f = NULL, b = NULL;
    dnnl_convolution_forward_primitive_desc_create(&f, engine, dnnl_forward_training, a, x, w, NULL,
                                                   y, st, di, pa, pa, attr);
    if (f && s->p == GRAD_X)
        dnnl_convolution_backward_data_primitive_desc_create(&b, engine, a, x, w, y, st, di, pa, pa,
                                                             f, attr);
    if (f && s->p == GRAD_W)
        dnnl_convolution_backward_weights_primitive_desc_create(&b, engine, a, x, w, NULL, y, st,
                                                                di, pa, pa, f, attr);
    return s->p == FORWARD ? f : b;
}

static inline dnnl_primitive_desc_t matmul_pd(seen a, seen b, seen c)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_matmul_primitive_desc_create(&pd, engine, a, b, NULL, c, attr);
    return pd;
}
#else
typedef dnnl_memory_desc_t        desc;
typedef const dnnl_memory_desc_t *seen;
#define SEE(d) (&(d))

static inline desc strided(int n, const dnnl_dims_t dims, const dnnl_dims_t strides)
{
    desc d = {0};
    dnnl_memory_desc_init_by_strides(&d, n, dims, dnnl_f32, strides);
    return d;
}

static inline desc any(int n, const dnnl_dims_t dims)
{
    desc d = {0};
    dnnl_memory_desc_init_by_tag(&d, n, dims, dnnl_f32, dnnl_format_tag_any);
    return d;
}

static inline dnnl_primitive_desc_t conv_pd(const shape *s, seen x, seen w, seen y)
{
    const dnnl_dims_t       st = {s->stride, s->stride}, di = {0, 0}, pa = {s->pad, s->pad};
    const dnnl_alg_kind_t   a = dnnl_convolution_direct;
    dnnl_convolution_desc_t d;
    dnnl_primitive_desc_t   f = NULL, b = NULL;
    dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, a, x, w, NULL, y, st, di,
                                               pa, pa);
    dnnl_primitive_desc_create(&f, &d, attr, engine, NULL);
    if (s->p == GRAD_X)
        dnnl_dilated_convolution_backward_data_desc_init(&d, a, x, w, y, st, di, pa, pa);
    if (s->p == GRAD_W)
        dnnl_dilated_convolution_backward_weights_desc_init(&d, a, x, w, NULL, y, st, di, pa, pa);
    if (f && s->p != FORWARD)
        dnnl_primitive_desc_create(&b, &d, attr, engine, f);
    return s->p == FORWARD ? f : b;
}

static inline dnnl_primitive_desc_t matmul_pd(seen a, seen b, seen c)
{
    dnnl_matmul_desc_t    d;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_matmul_desc_init(&d, a, b, NULL, c);
    dnnl_primitive_desc_create(&pd, &d, attr, engine, NULL);
    return pd;
}
#endif

#endif
