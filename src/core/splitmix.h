/* splitmix.h - SplitMix64, a small random number generator (Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014), for searches and shuffles whose numbers must be the same
 * on every machine. Random tensors use rng.h. */
#ifndef WEIR_CORE_SPLITMIX_H
#define WEIR_CORE_SPLITMIX_H

#include <stdint.h>

#include "weir/base.h"

/* Mixes the bits of a number; a bijection, so also a hash. */
static inline uint64_t weir_splitmix_hash(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the next number. Any state is a valid seed. */
static inline uint64_t weir_splitmix_next(uint64_t *state)
{
    return weir_splitmix_hash(*state += WEIR_SPLITMIX64_STEP);
}

/* Returns a number below n, from the upper 32 bits; the bias is at most n / 2^32. */
static inline uint32_t weir_splitmix_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(((weir_splitmix_next(state) >> 32) * n) >> 32);
}

#endif
