/* digest.h - a number for many bytes, which ranks compare in place of the bytes. */
#ifndef WEIR_MODEL_DIGEST_H
#define WEIR_MODEL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Mixes bytes into a number: a sum of SplitMix64's. Not for files or untrusted data. */
uint64_t weir_digest(const void *data, size_t bytes);

#endif
