/* dtype.h - which element types are floats, and which of these are stored in half of an f32. */
#ifndef WEIR_CORE_DTYPE_H
#define WEIR_CORE_DTYPE_H

#include "weir/base.h"

/* f16 and bf16: stored in 16 bits, computed in f32. */
static inline bool weir_is_half(weir_dtype t)
{
    return t == WEIR_F16 || t == WEIR_BF16;
}

/* f32 and f64: every op on floats takes them. */
static inline bool weir_is_float(weir_dtype t)
{
    return t == WEIR_F32 || t == WEIR_F64;
}

/* The four types that gradients flow through. */
static inline bool weir_is_any_float(weir_dtype t)
{
    return weir_is_float(t) || weir_is_half(t);
}

/* All but bool: the types that have arithmetic. */
static inline bool weir_is_number(weir_dtype t)
{
    return t != WEIR_BOOL;
}

#endif
