/* dtype.h - how many element types there are, which are floats, which of these are stored in half
 * of an f32, and what integers hold. */
#ifndef WEIR_CORE_DTYPE_H
#define WEIR_CORE_DTYPE_H

#include "weir/base.h"

#define WEIR_DTYPES (WEIR_U64 + 1)

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

/* The integers that sums, maxima and their like take through i64: no kernel adds them. */
static inline bool weir_is_stored(weir_dtype t)
{
    return t >= WEIR_I8 && t <= WEIR_U64;
}

static inline bool weir_is_unsigned(weir_dtype t)
{
    return t == WEIR_U8 || t == WEIR_U16 || t == WEIR_U32 || t == WEIR_U64 || t == WEIR_BOOL;
}

/* The greatest number of an integer type or bool as far as an int64 holds it, and the least. */
static inline int64_t weir_integer_most(weir_dtype t)
{
    switch (t) {
    case WEIR_BOOL: return 1;
    case WEIR_I8:   return INT8_MAX;
    case WEIR_U8:   return UINT8_MAX;
    case WEIR_I16:  return INT16_MAX;
    case WEIR_U16:  return UINT16_MAX;
    case WEIR_I32:  return INT32_MAX;
    case WEIR_U32:  return UINT32_MAX;
    default:        return INT64_MAX;
    }
}
static inline int64_t weir_integer_least(weir_dtype t)
{
    return weir_is_unsigned(t) ? 0 : -weir_integer_most(t) - 1;
}

/* Does an integer type hold v, truncated? NaN fits none. */
static inline bool weir_integer_fits(weir_dtype t, double v)
{
    const double end = t == WEIR_U64 || t == WEIR_I64 ? (t == WEIR_U64 ? 0x1p64 : 0x1p63)
                                                      : (double)weir_integer_most(t) + 1;
    return v < end && (t == WEIR_I64 ? v >= -end : v > (double)weir_integer_least(t) - 1);
}

/* All but bool: the types that have arithmetic. */
static inline bool weir_is_number(weir_dtype t)
{
    return t != WEIR_BOOL;
}

#endif
