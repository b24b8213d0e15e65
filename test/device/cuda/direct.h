/* direct.h - calls a device's kernels directly: hand-made calls on numbers given as doubles, with
 * workspaces of exactly the requested size. */
#ifndef WEIR_TEST_DEVICE_CUDA_DIRECT_H
#define WEIR_TEST_DEVICE_CUDA_DIRECT_H

#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/dtype.h"
#include "core/half.h"
#include "core/shape.h"
#include "device/device.h"
#include "device/kernel.h"
#include "graph/ops/op.h"
#include "weir.h"

/* A dense tensor whose first element lies `shift` elements after an aligned address. */
typedef struct direct_tensor {
    weir_layout layout;
    double     *value;
    int64_t     n, shift;
} direct_tensor;

/* What ran, for checks of the selection. */
typedef struct direct_ran {
    const char *impl;
    size_t      work;
} direct_ran;

static inline direct_tensor direct_of(weir_desc desc)
{
    direct_tensor t = {.layout = {.desc = desc}, .n = weir_shape_count(&desc)};
    weir_shape_dense(&t.layout);
    t.value = calloc((size_t)t.n + 1, sizeof *t.value);
    return t;
}

static inline void direct_free(direct_tensor *t)
{
    free(t->value);
    t->value = NULL;
}

static inline void direct_store(weir_dtype t, void *p, int64_t i, double v)
{
    if (t == WEIR_F32)
        ((float *)p)[i] = (float)v;
    else if (t == WEIR_F64)
        ((double *)p)[i] = v;
    else if (t == WEIR_U8)
        ((uint8_t *)p)[i] = (uint8_t)v;
    else
        ((uint16_t *)p)[i] = t == WEIR_F16 ? weir_to_f16((float)v) : weir_to_bf16((float)v);
}

static inline double direct_load(weir_dtype t, const void *p, int64_t i)
{
    if (t == WEIR_F32)
        return (double)((const float *)p)[i];
    if (t == WEIR_F64)
        return ((const double *)p)[i];
    if (t == WEIR_U8)
        return ((const uint8_t *)p)[i];
    const uint16_t half = ((const uint16_t *)p)[i];
    return (double)(t == WEIR_F16 ? weir_from_f16(half) : weir_from_bf16(half));
}

/* Random numbers that the type represents exactly. */
static inline direct_tensor direct_random(weir_desc desc, double lo, double hi)
{
    direct_tensor t = direct_of(desc);
    for (int64_t i = 0; i < t.n; i++) {
        double v;
        direct_store(desc.dtype, &v, 0, check_real(lo, hi));
        t.value[i] = direct_load(desc.dtype, &v, 0);
    }
    return t;
}

/* The same numbers in another type. */
static inline direct_tensor direct_as(const direct_tensor *from, weir_dtype t)
{
    weir_desc desc = from->layout.desc;
    desc.dtype = t;
    direct_tensor to = direct_of(desc);
    memcpy(to.value, from->value, (size_t)from->n * sizeof *to.value);
    return to;
}

/* Device memory. */
typedef struct direct_block {
    void  *at;
    size_t bytes;
} direct_block;

static inline bool direct_alloc(weir_device *d, direct_block *b, size_t bytes)
{
    b->bytes = bytes;
    return CHECK_OK(d->ops->alloc(d, bytes, false, &b->at));
}

/* Copies the tensor to a block. Outputs are poisoned. */
static inline bool direct_place(weir_device *d, const direct_tensor *t, bool output,
                                direct_block *block, void **first)
{
    const weir_dtype type = t->layout.desc.dtype;
    const size_t     size = weir_dtype_size(type), bytes = (size_t)(t->n + t->shift + 1) * size;
    unsigned char   *host = malloc(bytes);
    memset(host, 0xa5, bytes);
    for (int64_t i = 0; i < t->n && !output; i++)
        direct_store(type, host + (size_t)t->shift * size, i, t->value[i]);
    const bool ok = direct_alloc(d, block, bytes) &&
                    CHECK_OK(d->ops->upload(d, block->at, host, bytes));
    *first = (char *)block->at + (size_t)t->shift * size;
    free(host);
    return ok;
}

static inline bool direct_take(weir_device *d, direct_tensor *t, const void *first)
{
    const weir_dtype type = t->layout.desc.dtype;
    const size_t     bytes = (size_t)t->n * weir_dtype_size(type);
    void *const      host = malloc(bytes + 1);
    const bool       ok = bytes == 0 || CHECK_OK(d->ops->download(d, host, first, bytes));
    for (int64_t i = 0; i < t->n && ok; i++)
        t->value[i] = direct_load(type, host, i);
    free(host);
    return ok;
}

/* Runs the call: infers the outputs' layouts, computes their values. */
static inline weir_status direct_run(weir_device *d, weir_op op, int nin, const direct_tensor *in,
                                     int nout, direct_tensor *out, const void *attr,
                                     size_t attr_bytes, direct_ran *ran)
{
    weir_layout        lin[WEIR_MAX_IN], lout[WEIR_MAX_OUT];
    direct_block       block[WEIR_MAX_IN + WEIR_MAX_OUT + 1] = {{NULL, 0}};
    void              *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    weir_call          c = {.op = op, .def = weir_opdef_of(op), .nin = nin, .nout = nout,
                            .in = lin, .out = lout, .attr = attr, .attr_bytes = attr_bytes,
                            .alias = -1};
    const weir_kernel *kernel;
    for (int i = 0; i < nin; i++)
        lin[i] = in[i].layout;
    WEIR_TRY(c.def->infer(&c));
    WEIR_TRY(weir_kernel_of(d, &c, &kernel));
    if (ran)
        *ran = (direct_ran){kernel->impl, kernel->work};
    bool ok = true;
    for (int i = 0; i < nin && ok; i++)
        ok = direct_place(d, &in[i], false, &block[i], &src[i]);
    for (int i = 0; i < nout && ok; i++) {
        out[i] = direct_of(lout[i].desc);
        ok = direct_place(d, &out[i], true, &block[nin + i], &dst[i]);
    }
    const int last = nin + nout;
    if (kernel->work > 0 && ok)
        ok = direct_alloc(d, &block[last], kernel->work);
    const weir_kargs k = {.call = &c, .src = src, .dst = dst, .work = block[last].at,
                          .state = kernel->state, .threads = d->threads, .dev = d};
    const weir_status s = ok ? kernel->run(&k) : WEIR_ERR_DEVICE;
    for (int i = 0; i < nout && s == WEIR_OK; i++)
        CHECK(direct_take(d, &out[i], dst[i]));
    for (int i = 0; i <= last; i++)
        if (block[i].at)
            d->ops->free(d, block[i].at, block[i].bytes);
    return s;
}

/* Root mean square of the differences, relative to that of `want` and `floor`; infinities must be
 * equal. */
static inline double direct_error(const direct_tensor *got, const direct_tensor *want, double floor)
{
    double error = 0, size = floor * floor * (double)want->n;
    for (int64_t i = 0; i < want->n; i++) {
        const double difference = got->value[i] - want->value[i];
        if (isinf(want->value[i]) && got->value[i] == want->value[i])
            continue;
        error += isfinite(difference) ? difference * difference : HUGE_VAL;
        size += want->value[i] * want->value[i];
    }
    return error > 0 ? sqrt(error / size) : 0;
}

static inline double direct_epsilon(weir_dtype t)
{
    return t == WEIR_F32 ? 0x1p-23 : t == WEIR_F64 ? 0x1p-52 : t == WEIR_F16 ? 0x1p-10 : 0x1p-7;
}

/* Opens the emulated card, with the environment of the check. */
static inline weir_device *direct_open(void)
{
    setenv("WEIR_PLUGINS", WEIR_TEST_PLUGINS, 1);
    weir_device *const d = weir_device_open("cuda", NULL);
    check_that(d != NULL, __FILE__, __LINE__, "%s", d ? "" : weir_error());
    return d;
}

static inline void direct_env(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

#endif
