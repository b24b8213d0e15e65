/* drive_kernel.h - drives one CPU kernel in all ways: every instruction set of this machine and 1,
 * 2 and 3 threads must agree to the bit. */
#ifndef WEIR_TEST_DEVICE_CPU_DRIVE_KERNEL_H
#define WEIR_TEST_DEVICE_CPU_DRIVE_KERNEL_H

#include <stdlib.h>

#include "core/attr.h"
#include "core/mem.h"
#include "device/cpu/isa.h"
#include "device/cpu/kernels.h"
#include "check.h"
#include "half.h"
#include "zone.h"

/* A call with its operands. Memory is the kernel_case's own. */
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

/* Bytes from the first element to the last one in memory. */
static inline size_t kernel_extent(const weir_layout *l)
{
    int64_t last = 0;
    for (int i = 0; i < l->desc.ndim; i++)
        last += l->desc.dim[i] > 0 ? (l->desc.dim[i] - 1) * l->stride[i] : 0;
    return ((size_t)last + 1) * weir_dtype_size(l->desc.dtype);
}

/* Zeroed memory that reaches as far as the layout does, between guard zones. */
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
    const int64_t at = kernel_at(l, i);
    switch (l->desc.dtype) {
    case WEIR_F32: return (double)((const float *)p)[at];
    case WEIR_F64: return ((const double *)p)[at];
    case WEIR_I32: return (double)((const int32_t *)p)[at];
    case WEIR_I64: return (double)((const int64_t *)p)[at];
    case WEIR_F16:
    case WEIR_BF16: return half_decode(((const uint16_t *)p)[at], l->desc.dtype);
    default: return (double)((const uint8_t *)p)[at];
    }
}

static inline void kernel_set(const weir_layout *l, void *p, int64_t i, double v)
{
    const int64_t at = kernel_at(l, i);
    switch (l->desc.dtype) {
    case WEIR_F32: ((float *)p)[at] = (float)v; break;
    case WEIR_F64: ((double *)p)[at] = v; break;
    case WEIR_I32: ((int32_t *)p)[at] = (int32_t)v; break;
    case WEIR_I64: ((int64_t *)p)[at] = (int64_t)v; break;
    case WEIR_F16:
    case WEIR_BF16: ((uint16_t *)p)[at] = half_encode(v, l->desc.dtype); break;
    default: ((uint8_t *)p)[at] = (uint8_t)v;
    }
}

/* Fills input i from [lo, hi); integers too. */
static inline void kernel_fill(kernel_case *k, int i, double lo, double hi)
{
    for (int64_t j = 0; j < weir_shape_count(&k->in[i].desc); j++)
        kernel_set(&k->in[i], k->src[i], j, check_real(lo, hi));
}

/* Copies of what a run writes: outputs, then mutated inputs. */
typedef struct kernel_copy {
    void  *at[WEIR_MAX_OUT + WEIR_MAX_IN], *own[WEIR_MAX_OUT + WEIR_MAX_IN];
    size_t bytes[WEIR_MAX_OUT + WEIR_MAX_IN];
    int    n;
} kernel_copy;

static inline kernel_copy kernel_copy_of(kernel_case *k)
{
    kernel_copy c = {.n = 0};
    for (int i = 0; i < k->nout + k->nin; i++) {
        const int in = i - k->nout;
        if (in >= 0 && (k->mutates >> in & 1) == 0)
            continue;
        c.at[c.n] = in < 0 ? k->dst[i] : k->src[in];
        c.bytes[c.n] = weir_shape_bytes(in < 0 ? &k->out[i].desc : &k->in[in].desc);
        c.own[c.n] = malloc(c.bytes[c.n] + 1);
        memcpy(c.own[c.n], c.at[c.n], c.bytes[c.n]);
        c.n++;
    }
    return c;
}

static inline void kernel_copy_free(kernel_copy *c)
{
    for (int i = 0; i < c->n; i++)
        free(c->own[i]);
}

/* Nothing outside operands and scratch was written. */
static inline void kernel_zones(const kernel_case *k, void *work, const char *impl)
{
    zone_check(work, impl, "work buffer");
    for (int i = 0; i < k->nin; i++)
        zone_check(k->src[i], impl, "input");
    for (int i = 0; i < k->nout; i++)
        zone_check(k->dst[i], impl, "output");
}

static inline void kernel_run_once(const kernel_case *k, const weir_call *call,
                                   const weir_kernel *kernel, int threads)
{
    weir_threads *t = weir_threads_new(threads);
    void         *work = zone_new(kernel->work);
    memset(work, 0xff, kernel->work);
    for (int i = 0; i < k->nout; i++)
        memset(k->dst[i], 0xa5, weir_shape_bytes(&k->out[i].desc));
    const weir_kargs args = {.call = call,
                             .src = k->src,
                             .dst = k->dst,
                             .work = kernel->work > 0 ? work : NULL,
                             .state = kernel->state,
                             .threads = t};
    CHECK_OK(kernel->run(&args));
    kernel_zones(k, work, kernel->impl);
    zone_free(work);
    weir_threads_free(t);
}

/* What a program does with the result of each case, too: it compares it with another device's. */
#ifdef KERNEL_CHECK_GPU
void kernel_check_gpu(const kernel_case *k, const weir_call *call);
#else
static inline void kernel_check_gpu(const kernel_case *k, const weir_call *call)
{
    (void)k;
    (void)call;
}
#endif

/* Runs the case in all ways. Afterwards the operands hold its result. */
static inline void kernel_run(kernel_case *k)
{
    weir_call   call = {.op = k->op, .nin = k->nin, .nout = k->nout, .in = k->in, .out = k->out,
                        .attr = k->attr, .attr_bytes = k->attr_bytes, .alias = -1};
    kernel_copy before = kernel_copy_of(k), first = {.n = 0};
    for (int isa = 0; isa <= (int)weir_cpu_isa_best(); isa++) {
        weir_kernel kernel = {0};
        setenv("WEIR_ISA", weir_cpu_isa_name((weir_isa)isa), 1);
        if (!CHECK_OK(k->choose(NULL, &call, &kernel)))
            break;
        for (int threads = 1; threads <= 3; threads++) {
            for (int i = 0; i < before.n; i++)
                memcpy(before.at[i], before.own[i], before.bytes[i]);
            kernel_run_once(k, &call, &kernel, threads);
            if (first.n == 0)
                first = kernel_copy_of(k);
            for (int i = 0; i < first.n; i++)
                CHECK_BITS(first.at[i], first.own[i], first.bytes[i]);
        }
        if (kernel.destroy)
            kernel.destroy(kernel.state);
    }
    unsetenv("WEIR_ISA");
    kernel_check_gpu(k, &call);
    kernel_copy_free(&before);
    kernel_copy_free(&first);
}

#endif
