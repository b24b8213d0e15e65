/* checksum.h - 64 bits over a block of bytes, to see that what was read is what was written. */
#ifndef WEIR_DEVICE_OFFLOAD_CHECKSUM_H
#define WEIR_DEVICE_OFFLOAD_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Of the process only: the value depends on the machine and on what was found when building. */
uint64_t weir_checksum(const void *p, size_t n);

/* "xxh3" or "own". */
const char *weir_checksum_name(void);

#endif
