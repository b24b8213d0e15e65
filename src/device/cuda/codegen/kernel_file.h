/* kernel_file.h - compiled kernels on disk, so that a program compiles its kernels once:
 * kernel_file.c reads and writes them, kernel_trim.c keeps the folder small.
 *
 * The folder is $WEIR_CACHE_DIR, else $XDG_CACHE_HOME/weir, else ~/.cache/weir; emulated: `kernels`
 * beside the plugin. One that cannot be written or read is no error. */
#ifndef WEIR_DEVICE_CUDA_CODEGEN_KERNEL_FILE_H
#define WEIR_DEVICE_CUDA_CODEGEN_KERNEL_FILE_H

#include "weir/base.h"

/* All that a compiled kernel depends on: the text that is special to it, and everything else (the
 * beginning of the text, options, the compiler's version, the architecture) as one more text. */
typedef struct weir_kernel_key {
    const char *text, *about;
} weir_kernel_key;

/* 128 bits of the two. */
typedef struct weir_kernel_hash {
    uint64_t half[2];
} weir_kernel_hash;

weir_kernel_hash weir_kernel_hash_of(const weir_kernel_key *k);

/* *image, of *bytes, yours to free; NULL if no file is whole and right. Fails only when memory is
 * short. */
weir_status weir_kernel_file_read(const weir_kernel_key *k, char **image, size_t *bytes);

/* Written beside its place and renamed: readers see whole files only. */
weir_status weir_kernel_file_write(const weir_kernel_key *k, const char *image, size_t bytes);

/* Where they are; NULL: nowhere. Yours to free. */
char *weir_kernel_folder(void);

/* Keeps the folder within `most` bytes: if it holds more, the kernels used longest ago are removed
 * until half of `most` is free. Files that cannot be read or removed stay. */
void weir_kernel_folder_trim(const char *folder, size_t most);

#endif
