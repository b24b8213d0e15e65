/* attention_plan.h - selects the kernels of attention by sizes, type and card, never by
 * addresses. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ATTENTION_PLAN_H
#define WEIR_DEVICE_CUDA_KERNELS_ATTENTION_PLAN_H

#include "device/cuda/runtime/internal.h"

/* Most columns of a head for tensor cores: of the narrow kernels, and of all. */
enum { WEIR_ATTENTION_NARROW = 64, WEIR_ATTENTION_MOST = 128 };

/* True if heads of d columns of q and k and e of v are computed on tensor cores
 * (attention_half.cu). code: 10 * major + minor of the card's capability or of the highest compiled
 * one, whichever is less. */
static inline bool weir_attention_cores(weir_dtype type, int64_t d, int64_t e, int code)
{
    const int needed = type == WEIR_F16 ? 70 : 80;
    return weir_is_half(type) && code >= needed && d <= WEIR_ATTENTION_MOST &&
           e <= WEIR_ATTENTION_MOST;
}

#endif
