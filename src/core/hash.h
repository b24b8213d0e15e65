/* hash.h - 64-bit FNV-1a over words, for hash tables in memory; not for files or untrusted keys. */
#ifndef WEIR_CORE_HASH_H
#define WEIR_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR_HASH_SEED 0xcbf29ce484222325u

static inline uint64_t weir_hash_u64(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x100000001b3u;
    return h ^ (h >> 29);
}

/* Hashes n bytes; the tail is padded with zeros. */
static inline uint64_t weir_hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *s = (const unsigned char *)p;
    for (; n >= 8; n -= 8, s += 8) {
        uint64_t v;
        memcpy(&v, s, 8);
        h = weir_hash_u64(h, v);
    }
    if (n > 0) {
        uint64_t v = 0;
        memcpy(&v, s, n);
        h = weir_hash_u64(h, v);
    }
    return h;
}

#endif
