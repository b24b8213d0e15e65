/* attention_plan.h - which kernels compute attention: a function of sizes, type and card, never of
 * addresses. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_ATTENTION_PLAN_H
#define WEIR_DEVICE_CUDA_KERNELS_ATTENTION_PLAN_H

#include "device/cuda/runtime/internal.h"

/* Columns of a head that tensor cores take: those of narrow kernels, and of all. */
enum { WEIR_ATTENTION_NARROW = 64, WEIR_ATTENTION_MOST = 128 };

/* Are heads of d columns of q and k and e of v computed on tensor cores (attention_half.cu)? `code`
 * is the least of the card's capability, 10 * major + minor, and the highest that kernels were
 * compiled for. */
static inline bool weir_attention_cores(weir_dtype type, int64_t d, int64_t e, int code)
{
    const int needed = type == WEIR_F16 ? 70 : 80;
    return weir_is_half(type) && code >= needed && d <= WEIR_ATTENTION_MOST &&
           e <= WEIR_ATTENTION_MOST;
}

#endif
