/* gemm_bf16.h - our own kernels of products of bf16 by the processor's units for them. */
#ifndef WEIR_DEVICE_CPU_GEMM_GEMM_BF16_H
#define WEIR_DEVICE_CPU_GEMM_GEMM_BF16_H

#include "device/cpu/gemm/gemm_kernel.h"

#define WEIR_GEMM_BF16_IMPL "own avx512_bf16"

/* NULL if this processor has no AVX512_BF16, or WEIR_ISA asks for less than AVX-512. */
const weir_gemm_kernel *weir_gemm_bf16(void);

/* True if it is there and multiplies twice as fast as that for f32: on AMD's processors. Intel's
 * have one unit for pairs beside two for floats, so packing pairs gains nothing where f32 packs
 * nothing. */
bool weir_gemm_bf16_leads(void);

#endif
