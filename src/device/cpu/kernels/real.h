/* real.h - one element of an f32 or f64 array as a double, for scalars that need no loop. */
#ifndef WEIR_DEVICE_CPU_KERNELS_REAL_H
#define WEIR_DEVICE_CPU_KERNELS_REAL_H

#include "weir/base.h"

static inline bool real_type(weir_dtype t)
{
    return t == WEIR_F32 || t == WEIR_F64;
}

static inline double real_load(weir_dtype t, const void *from, int64_t i)
{
    return t == WEIR_F32 ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static inline void real_store(weir_dtype t, void *to, int64_t i, double v)
{
    if (t == WEIR_F32)
        ((float *)to)[i] = (float)v;
    else
        ((double *)to)[i] = v;
}

#endif
