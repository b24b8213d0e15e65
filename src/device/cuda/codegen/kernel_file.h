/* kernel_file.h - compiled kernels on disk, so that a program compiles its kernels once.
 * kernel_file.c reads and writes them, kernel_trim.c limits the folder's size.
 *
 * The folder is $WEIR_CACHE_DIR, else $XDG_CACHE_HOME/weir, else ~/.cache/weir; emulated: `kernels`
 * beside the plugin. A folder that cannot be read or written is no error. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_KERNEL_FILE_H
#define WEIR_DEVICE_CUDA_CODEGEN_KERNEL_FILE_H

#include "weir/base.h"

/* Everything that a compiled kernel depends on: its own text, and the rest (common beginning,
 * options, the compiler's version, the architecture) as a second text. */
typedef struct weir_kernel_key {
    const char *text, *about;
} weir_kernel_key;

/* A 128-bit hash of the two texts. */
typedef struct weir_kernel_hash {
    uint64_t half[2];
} weir_kernel_hash;

weir_kernel_hash weir_kernel_hash_of(const weir_kernel_key *k);

/* Reads a kernel to *image of *bytes, which the caller frees; NULL if there is no valid file. Fails
 * only if memory runs out. */
weir_status weir_kernel_file_read(const weir_kernel_key *k, char **image, size_t *bytes);

/* Writes a kernel to a temporary file and renames it, so that readers see whole files only. */
weir_status weir_kernel_file_write(const weir_kernel_key *k, const char *image, size_t bytes);

/* The folder, freed by the caller; NULL if the user has none. */
char *weir_kernel_folder(void);

/* Limits the folder to `most` bytes: if it holds more, removes the least recently used kernels
 * until half of `most` is free. Files that cannot be read or removed stay. */
void weir_kernel_folder_trim(const char *folder, size_t most);

#endif
