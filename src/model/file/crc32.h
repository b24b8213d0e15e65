/* crc32.h - the checksum of zlib and PNG (CRC-32, polynomial 0xEDB88320). */
#ifndef WEIR_MODEL_FILE_CRC32_H
#define WEIR_MODEL_FILE_CRC32_H

#include <stddef.h>
#include <stdint.h>

typedef struct weir_crc32 {
    uint32_t table[8][256];
    uint32_t state;
} weir_crc32;

void weir_crc32_begin(weir_crc32 *c);
void weir_crc32_add(weir_crc32 *c, const void *bytes, size_t n);

/* The checksum of all bytes that were added. */
static inline uint32_t weir_crc32_value(const weir_crc32 *c)
{
    return ~c->state;
}

#endif
