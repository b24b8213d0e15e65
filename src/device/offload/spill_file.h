/* spill_file.h - an invisible file in a folder, whose room is taken before it is used. */
#ifndef WEIR_DEVICE_OFFLOAD_SPILL_FILE_H
#define WEIR_DEVICE_OFFLOAD_SPILL_FILE_H

#include "weir/base.h"

/* The folder: `dir`, or where that is NULL or "" $WEIR_SPILL_DIR, else $TMPDIR, else /tmp. */
const char *weir_spill_folder(const char *dir);

/* A new file, unlinked, mode 0600, empty. */
weir_status weir_spill_file_open(const char *folder, int *fd);

/* From `have` bytes to `want`; ERR_IO with a sentence, and a file as before, where that fails. */
weir_status weir_spill_file_grow(const char *folder, int fd, size_t have, size_t want);

/* Back to `have` bytes, if the system lets us. */
void weir_spill_file_truncate(int fd, size_t have);

#endif
