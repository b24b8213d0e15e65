/* context.h - what the files of the CPU back end know of the device.
 *
 * blas and onednn belong to openblas.c and onednn.c: made there when a kernel first wants them,
 * freed there when cpu.c closes the device. */
#ifndef WEIR_DEVICE_CPU_CONTEXT_H
#define WEIR_DEVICE_CPU_CONTEXT_H

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

#endif
