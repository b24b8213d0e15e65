/* temp_folder.h - files of a test in a folder of its own, removed with it. */
#ifndef WEIR_TEST_TEMP_FOLDER_H
#define WEIR_TEST_TEMP_FOLDER_H

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "weir.h"

enum { FOLDER_FILES = 4 };

typedef struct folder {
    char path[64];
    char file[FOLDER_FILES][80]; /* paths PATH/0 ..., which need not exist */
} folder;

static inline bool folder_make(folder *f)
{
    char path[] = "/tmp/weir-data-XXXXXX";
    if (!CHECK(mkdtemp(path) != NULL))
        return false;
    snprintf(f->path, sizeof f->path, "%s", path);
    for (int i = 0; i < FOLDER_FILES; i++)
        snprintf(f->file[i], sizeof f->file[i], "%s/%d", path, i);
    return true;
}

static inline void folder_remove(const folder *f)
{
    for (int i = 0; i < FOLDER_FILES; i++)
        unlink(f->file[i]);
    CHECK(rmdir(f->path) == 0);
}

/* The path, for convenience. */
static inline const char *file_write(const folder *f, int i, const void *bytes, size_t n)
{
    FILE *to = fopen(f->file[i], "wb");
    if (CHECK(to != NULL)) {
        CHECK(fwrite(bytes, 1, n, to) == n);
        CHECK(fclose(to) == 0);
    }
    return f->file[i];
}

static inline const char *file_text(const folder *f, int i, const char *text)
{
    return file_write(f, i, text, strlen(text));
}

static inline void put_big_endian(unsigned char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(v >> (24 - 8 * i));
}

/* n images of rows x cols in at (16 + n rows cols bytes); byte i is i % 251. Returns the size. */
static inline size_t idx_images(unsigned char *at, uint32_t n, uint32_t rows, uint32_t cols)
{
    const size_t bytes = (size_t)n * rows * cols;
    put_big_endian(at, 0x803);
    put_big_endian(at + 4, n);
    put_big_endian(at + 8, rows);
    put_big_endian(at + 12, cols);
    for (size_t i = 0; i < bytes; i++)
        at[16 + i] = (unsigned char)(i % 251);
    return 16 + bytes;
}

/* n labels i % 7 in at (8 + n bytes). */
static inline size_t idx_labels(unsigned char *at, uint32_t n)
{
    put_big_endian(at, 0x801);
    put_big_endian(at + 4, n);
    for (uint32_t i = 0; i < n; i++)
        at[8 + i] = (unsigned char)(i % 7);
    return 8 + n;
}

enum { CIFAR_RECORD = 3073 };

/* n records: label (first + i) % 10, then bytes of i. */
static inline size_t cifar_records(unsigned char *at, int first, int n)
{
    for (int i = 0; i < n; i++) {
        at[i * CIFAR_RECORD] = (unsigned char)((first + i) % 10);
        memset(at + i * CIFAR_RECORD + 1, first + i, CIFAR_RECORD - 1);
    }
    return (size_t)n * CIFAR_RECORD;
}

#endif
