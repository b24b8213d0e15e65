/* divide.h - fast division of indices by sizes that are known at launch.
 *
 * Indices below 2^31 are divided by a multiplication and a shift (Granlund and Montgomery,
 * "Division by invariant integers using multiplication", PLDI 1994), larger ones by the division
 * operator. */
#ifndef WEIR_DEVICE_CUDA_KERNELS_DIVIDE_H
#define WEIR_DEVICE_CUDA_KERNELS_DIVIDE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
#define WEIR_DIVIDE static __host__ __device__ inline
#else
#define WEIR_DIVIDE static inline
#endif

#define WEIR_NARROW_END ((int64_t)1 << 31)      /* smaller indices are divided fast */

typedef struct weir_divisor {
    int64_t  by;
    uint32_t mul, shift;
} weir_divisor;

static inline weir_divisor weir_divisor_of(int64_t by)
{
    weir_divisor d = {by, 0, 0};

    assert(by > 0);
    if (by >= WEIR_NARROW_END)
        return d;
    while (((int64_t)1 << d.shift) < by)
        d.shift++;
    const uint64_t over = ((uint64_t)1 << d.shift) - (uint64_t)by;
    d.mul = (uint32_t)((over << 32) / (uint64_t)by + 1);
    return d;
}

/* i / d.by; wide: i may be 2^31 or more. */
WEIR_DIVIDE int64_t weir_divide(int64_t i, weir_divisor d, bool wide)
{
    if (wide)
        return i / d.by;
    const uint32_t n = (uint32_t)i, high = (uint32_t)(((uint64_t)n * d.mul) >> 32);
    return (int64_t)((high + n) >> d.shift);
}

#endif
