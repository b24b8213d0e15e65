/* kernel_case.h - a kernel's call with operands between guard zones, run in every way. */
#ifndef WEIR_TEST_DEVICE_KERNEL_CASE_H
#define WEIR_TEST_DEVICE_KERNEL_CASE_H

#include <stdlib.h>

#include "check.h"
#include "core/attr.h"
#include "core/mem.h"
#include "device/device.h"
#include "device/zone.h"
#include "half.h"

/* A call with its operands, whose memory it owns. */
typedef struct kernel_case {
    weir_choose_fn choose;
    weir_op        op;
    int            nin, nout;
    weir_layout    in[WEIR_MAX_IN], out[WEIR_MAX_OUT];
    void          *src[WEIR_MAX_IN], *dst[WEIR_MAX_OUT];
    uint32_t       mutates;         /* bit i: input i is written, and compared as outputs are */
    const void    *attr;
    size_t         attr_bytes;
} kernel_case;

static inline weir_layout kernel_dense(weir_desc d)
{
    weir_layout l = {.desc = d};
    weir_shape_dense(&l);
    return l;
}

/* Bytes from the first element to the last in memory. */
static inline size_t kernel_extent(const weir_layout *l)
{
    int64_t last = 0;
    for (int i = 0; i < l->desc.ndim; i++)
        last += l->desc.dim[i] > 0 ? (l->desc.dim[i] - 1) * l->stride[i] : 0;
    return ((size_t)last + 1) * weir_dtype_size(l->desc.dtype);
}

/* Zeroed memory for all elements of the layout, between guard zones. */
static inline void *kernel_memory(const weir_layout *l)
{
    return zone_new(kernel_extent(l));
}

static inline void *kernel_in(kernel_case *k, weir_layout l)
{
    k->in[k->nin] = l;
    return k->src[k->nin++] = kernel_memory(&l);
}

static inline void *kernel_out(kernel_case *k, weir_desc d)
{
    k->out[k->nout] = kernel_dense(d);
    return k->dst[k->nout] = kernel_memory(&k->out[k->nout]), k->dst[k->nout++];
}

static inline void kernel_free(kernel_case *k)
{
    for (int i = 0; i < k->nin; i++)
        zone_free(k->src[i]);
    for (int i = 0; i < k->nout; i++)
        zone_free(k->dst[i]);
}

/* Offset of logical (row-major) element i. */
static inline int64_t kernel_at(const weir_layout *l, int64_t i)
{
    int64_t at = 0;
    for (int k = l->desc.ndim - 1; k >= 0; k--) {
        at += i % l->desc.dim[k] * l->stride[k];
        i /= l->desc.dim[k];
    }
    return at;
}

static inline double kernel_get(const weir_layout *l, const void *p, int64_t i)
{
    return element_get(l->desc.dtype, p, kernel_at(l, i));
}

static inline void kernel_set(const weir_layout *l, void *p, int64_t i, double v)
{
    element_set(l->desc.dtype, p, kernel_at(l, i), v);
}

/* Fills input i with values from [lo, hi), integers too. */
static inline void kernel_fill(kernel_case *k, int i, double lo, double hi)
{
    for (int64_t j = 0; j < weir_shape_count(&k->in[i].desc); j++)
        kernel_set(&k->in[i], k->src[i], j, check_real(lo, hi));
}

/* Runs the case in every way the CPU has: all instruction sets of this machine and 1, 2 and 3
 * threads must agree to the bit. Afterwards the operands hold the result. */
void kernel_run(kernel_case *k);

/* What test_cuda also does with each result: a card must give the same bits. */
#ifdef KERNEL_CHECK_GPU
void kernel_check_gpu(const kernel_case *k, const weir_call *call);
#endif

#endif
