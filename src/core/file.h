/* file.h - whole files: read at once, and replaced so that readers see the old or the new one. */
#ifndef WEIR_CORE_FILE_H
#define WEIR_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of a regular file of `least` to `most` bytes, which the caller frees, and their
 * number. NULL if there is no such file or it can't be read; *memory is false if memory ran out. */
char *weir_file_load(const char *path, size_t least, size_t most, size_t *n, bool *memory);

/* Writes a temporary file (mode 0600) in the same folder, then renames it to `path`. False if that
 * fails; nothing is left behind then. */
bool weir_file_replace(const char *path, const void *data, size_t n);

#endif
