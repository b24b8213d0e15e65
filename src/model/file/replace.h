/* replace.h - a file that replaces another at once, whole or not at all. */
#ifndef WEIR_MODEL_FILE_REPLACE_H
#define WEIR_MODEL_FILE_REPLACE_H

#include <limits.h>
#include <sys/types.h>

#include "model/file/crc32.h"
#include "weir.h"

/* The system calls that change files here, as functions of their POSIX names (errno included). */
typedef struct weir_disk {
    int     (*create)(const char *path);        /* a new file for writing, exclusively */
    int     (*open_folder)(const char *path);
    ssize_t (*write)(int fd, const void *from, size_t n);
    int     (*fsync)(int fd);
    int     (*close)(int fd);
    int     (*link)(const char *from, const char *to);
    int     (*rename)(const char *from, const char *to);
    int     (*unlink)(const char *path);
} weir_disk;

extern const weir_disk weir_disk_system;

/* The table in use, the system's. Tests point it to a disk that is full or fails. */
extern const weir_disk *weir_disk_in_use;

typedef struct weir_output {
    const char *what, *path;                /* for messages: the function, the caller's path */
    char        at[PATH_MAX];               /* the path without a symbolic link at its end */
    char        work[PATH_MAX];             /* the new file until it is whole */
    int         fd;
    uint64_t    bytes;                      /* written so far */
    weir_crc32 *crc;                        /* gets their checksum if set after begin; else NULL */
} weir_output;

/* Creates an empty file beside `path`; an existing path must be a regular file, or a link to one.
 * ERR_IO. End it by finish or by discard; after a failure of begin there is nothing to end. */
weir_status weir_output_begin(weir_output *o, const char *what, const char *path);

/* Appends bytes. ERR_IO. */
weir_status weir_output_add(weir_output *o, const void *bytes, size_t n);

/* Syncs the new file, keeps the old one as PATH.bak if asked, puts the new one in its place and
 * syncs the folder. ERR_IO: the path still has the old file (unless the folder could not be synced)
 * and the new one is removed. */
weir_status weir_output_finish(weir_output *o, bool keep_previous);

/* Removes the new file. */
void weir_output_discard(weir_output *o);

#endif
