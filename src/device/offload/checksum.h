/* checksum.h - a 64-bit checksum of a block, to verify that it is read back as it was written. */
#ifndef WEIR_DEVICE_OFFLOAD_CHECKSUM_H
#define WEIR_DEVICE_OFFLOAD_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Valid within one process: the value depends on the machine and on the build. */
uint64_t weir_checksum(const void *p, size_t n);

/* "xxh3" or "own". */
const char *weir_checksum_name(void);

#endif
