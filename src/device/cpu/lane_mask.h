/* lane_mask.h - masks of AVX-512 for the ends of rows, for files compiled with it. */
#ifndef WEIR_DEVICE_CPU_LANE_MASK_H
#define WEIR_DEVICE_CPU_LANE_MASK_H

#include <immintrin.h>
#include <stdint.h>

enum { WEIR_MASK_LANES = 16 };

/* The first n of sixteen lanes; none if n <= 0. */
static inline __mmask16 weir_first_lanes(int64_t n)
{
    const unsigned mask = n >= WEIR_MASK_LANES ? 0xffff : n <= 0 ? 0 : (1u << n) - 1;
    return (__mmask16)mask;
}

#endif
