/* digest.c - digests by SplitMix64. See digest.h. */
#include "model/digest.h"

#include <string.h>

#include "weir.h"

uint64_t weir_digest(const void *data, size_t bytes)
{
    const unsigned char *const p = data;
    uint64_t                   h = bytes, word;

    for (size_t i = 0; i < bytes; i += sizeof word) {
        word = 0;
        memcpy(&word, p + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        h ^= word;
        h = weir_splitmix64(&h);
    }
    return h;
}
