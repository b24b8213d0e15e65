/* element.h - elements of arrays of any type, as doubles. */
#ifndef WEIR_TEST_DEVICE_ELEMENT_H
#define WEIR_TEST_DEVICE_ELEMENT_H

#include "half.h"

/* Element `at` of an array of type t. */
static inline double element_get(weir_dtype t, const void *p, int64_t at)
{
    switch (t) {
    case WEIR_F32: return (double)((const float *)p)[at];
    case WEIR_F64: return ((const double *)p)[at];
    case WEIR_I32: return (double)((const int32_t *)p)[at];
    case WEIR_I64: return (double)((const int64_t *)p)[at];
    case WEIR_F16:
    case WEIR_BF16: return half_decode(((const uint16_t *)p)[at], t);
    default: return (double)((const uint8_t *)p)[at];
    }
}

static inline void element_set(weir_dtype t, void *p, int64_t at, double v)
{
    switch (t) {
    case WEIR_F32: ((float *)p)[at] = (float)v; break;
    case WEIR_F64: ((double *)p)[at] = v; break;
    case WEIR_I32: ((int32_t *)p)[at] = (int32_t)v; break;
    case WEIR_I64: ((int64_t *)p)[at] = (int64_t)v; break;
    case WEIR_F16:
    case WEIR_BF16: ((uint16_t *)p)[at] = half_encode(v, t); break;
    default: ((uint8_t *)p)[at] = (uint8_t)v;
    }
}

#endif
