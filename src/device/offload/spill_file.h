/* spill_file.h - an invisible file in a folder, whose blocks are allocated before use. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_FILE_H
#define WEIR_DEVICE_OFFLOAD_SPILL_FILE_H

#include "weir/base.h"

/* The folder to use: `dir`, else (NULL or "") $WEIR_SPILL_DIR, else $TMPDIR, else /tmp. */
const char *weir_spill_folder(const char *dir);

/* Creates an empty, unlinked file of mode 0600. */
weir_status weir_spill_file_open(const char *folder, int *fd);

/* Grows the file from `have` to `want` bytes. Fails with ERR_IO and leaves the file unchanged. */
weir_status weir_spill_file_grow(const char *folder, int fd, size_t have, size_t want);

/* Truncates the file to `have` bytes; a failure is ignored. */
void weir_spill_file_truncate(int fd, size_t have);

#endif
