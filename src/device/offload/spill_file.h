/* spill_file.h - an invisible file in a folder, whose blocks are allocated before use. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_FILE_H
#define WEIR_DEVICE_OFFLOAD_SPILL_FILE_H

#include "weir/base.h"

/* The folder: `dir`, or where that is NULL or "" $WEIR_SPILL_DIR, else $TMPDIR, else /tmp. */
const char *weir_spill_folder(const char *dir);

/* A new file, unlinked, mode 0600, empty. */
weir_status weir_spill_file_open(const char *folder, int *fd);

/* Grows the file from `have` bytes to `want`. On failure ERR_IO, and the file is unchanged. */
weir_status weir_spill_file_grow(const char *folder, int fd, size_t have, size_t want);

/* Truncates the file to `have` bytes; a failure is ignored. */
void weir_spill_file_truncate(int fd, size_t have);

#endif
