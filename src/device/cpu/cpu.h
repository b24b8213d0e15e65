/* cpu.h - the CPU back end's private state, and what its libraries' wrappers offer.
 *
 * blas and onednn belong to openblas.c and onednn.c: made there when a kernel first wants them,
 * freed here when the device goes. Where a library is absent its wrapper still has these
 * functions; they say so. */
#ifndef WEIR_DEVICE_CPU_CPU_H
#define WEIR_DEVICE_CPU_CPU_H

#include "core/text.h"
#include "device/cpu/isa.h"
#include "device/device.h"

typedef struct weir_cpu {
    weir_isa isa;       /* of own kernels */
    void    *blas;      /* openblas.c's; NULL until wanted */
    void    *onednn;    /* onednn.c's; NULL until wanted */
} weir_cpu;

static inline weir_cpu *weir_cpu_of(weir_device *d)
{
    return d->impl;
}

/* Frees what the wrapper made; NULL is fine. */
void weir_cpu_blas_close(void *blas);
void weir_cpu_onednn_close(void *onednn);

/* swap.c: the entries of the device's table. */
weir_status weir_cpu_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets);
weir_status weir_cpu_swap(weir_device *d, const weir_swap *c);
weir_status weir_cpu_swap_wait(weir_device *d, weir_stream *s, uint32_t ticket);
weir_status weir_cpu_swap_settle(weir_device *d, weir_status so_far);
weir_status weir_cpu_swap_speed(weir_device *d, double *out, double *in);

/* Adds one line, newline included: the library, its version, the core type or instruction set it
 * chose. */
void weir_cpu_blas_info(weir_string *s);
void weir_cpu_onednn_info(weir_string *s);

#endif
