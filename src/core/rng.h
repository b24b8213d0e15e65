/* rng.h - counter-based random bits: Philox4x32-10 (Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", 2011). Element i of a call that reserved position `base` uses word i % 4 of
 * block base + i/4, so a draw can be repeated anywhere, in any order, on any device. */
#ifndef WEIR_CORE_RNG_H
#define WEIR_CORE_RNG_H

#include <stdint.h>

/* Blocks that a call over n elements reserves. */
static inline uint64_t weir_rng_blocks(int64_t n)
{
    return ((uint64_t)n + 3) / 4;
}

/* Four words of block `counter` under `seed`. */
static inline void weir_philox(uint64_t seed, uint64_t counter, uint32_t out[4])
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* A uniform in [0, 1) with 24 bits from one word; exact in f32 and f64. */
static inline float weir_uniform_from(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

#endif
