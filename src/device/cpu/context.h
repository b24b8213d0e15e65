/* context.h - the state that the files of the CPU back end share.
 *
 * blas and onednn are owned by openblas.c and onednn.c: created there when a kernel first needs
 * them, freed there when cpu.c closes the device. */
#ifndef WEIR_DEVICE_CPU_CONTEXT_H
#define WEIR_DEVICE_CPU_CONTEXT_H

#include "device/cpu/amx.h"
#include "device/cpu/isa.h"
#include "device/device.h"

typedef struct weir_cpu {
    weir_isa isa;       /* instruction set of our own kernels */
    weir_amx amx;       /* asked for when the device was opened */
    size_t   memory;    /* bytes of the machine, or of the smallest limit of a cgroup, at open */
    int      want;      /* weir_gemm_want while another kernel of a call is selected; else 0 */
    void    *blas;      /* openblas.c's; NULL until wanted */
    void    *onednn;    /* onednn.c's; NULL until wanted */
} weir_cpu;

static inline weir_cpu *weir_cpu_of(weir_device *d)
{
    return d->impl;
}

#endif
