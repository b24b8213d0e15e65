/* code.h - reads codes of 1 to 32 bits, lowest first. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_CODE_H
#define WEIR_DEVICE_CUDA_KERNELS_CODE_H

#include "device/cuda/runtime/launch.h"

/* Code i. Codes of 16 and 32 bits are aligned to their size. */
static __device__ inline uint32_t weir_code_at(const uint8_t *from, int64_t i, int bits)
{
    switch (bits) {
    case 8: return from[i];
    case 16: return ((const uint16_t *)(const void *)from)[i];
    case 32: return ((const uint32_t *)(const void *)from)[i];
    default: return from[i * bits / 8] >> (i * bits & 7) & ((1u << bits) - 1);
    }
}

#endif
