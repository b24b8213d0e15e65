/* checksum.c - XXH3 if xxHash was found, else a sum of our own of similar design.
 *
 * Our own: four lanes of 8 bytes, each word multiplied in, rotated and multiplied again (the rounds
 * of Collet's XXH64), so that four chains of multiplications overlap: several bytes per cycle.
 * Every step is a bijection, so a flipped bit certainly changes its lane. */
#include "device/offload/checksum.h"

#ifdef WEIR_XXHASH

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t weir_checksum(const void *p, size_t n)
{
    return XXH3_64bits(p, n);
}

const char *weir_checksum_name(void)
{
    return "xxh3";
}

#else

#include <string.h>

#define ODD_1 0x9e3779b185ebca87u
#define ODD_2 0xc2b2ae3d27d4eb4fu

static uint64_t mix(uint64_t lane, uint64_t word)
{
    lane += word * ODD_2;
    return (lane << 31 | lane >> 33) * ODD_1;
}

/* Loads up to 8 bytes, padded with zeros (the length is mixed in separately). */
static uint64_t load(const unsigned char *p, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, p, n < 8 ? n : 8);
    return word;
}

uint64_t weir_checksum(const void *at, size_t n)
{
    const unsigned char *p = at;
    uint64_t             a = ODD_1, b = ODD_2, c = ~ODD_1, d = ~ODD_2, sum = n;

    for (; n >= 32; n -= 32, p += 32) {
        a = mix(a, load(p, 8));
        b = mix(b, load(p + 8, 8));
        c = mix(c, load(p + 16, 8));
        d = mix(d, load(p + 24, 8));
    }
    for (; n > 0; n -= n < 8 ? n : 8, p += 8)
        a = mix(a, load(p, n));
    sum = mix(mix(mix(mix(sum, a), b), c), d);
    return sum ^ sum >> 32;
}

const char *weir_checksum_name(void)
{
    return "own";
}

#endif
