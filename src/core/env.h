/* env.h - the operating system as a table of functions: memory, files, the clock, threads.
 *
 * Core, device (plugins included) and graph call these functions through the table only
 * (test/check_env.py), so a program or a test can replace them: by a full disk, a thread that
 * cannot start, a clock that stands still. Each function behaves as the POSIX function of its name,
 * errno included. Mutexes and conditions are absent: they cannot fail and allocate nothing. */
#ifndef WEIR_CORE_ENV_H
#define WEIR_CORE_ENV_H

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>

#include "weir/base.h"

typedef struct weir_env {
    void   *(*malloc)(size_t bytes);
    void    (*free)(void *p);
    void   *(*mmap)(void *at, size_t bytes, int prot, int flags, int fd, off_t offset);
    int     (*munmap)(void *p, size_t bytes);
    int     (*madvise)(void *p, size_t bytes, int advice);
    void    (*trim)(void);      /* returns unused pages of the heap to the system */

    int     (*open)(const char *path, int flags, mode_t mode);
    int     (*mkostemp)(char *template_, int flags);
    int     (*close)(int fd);
    ssize_t (*read)(int fd, void *to, size_t n);
    ssize_t (*write)(int fd, const void *from, size_t n);
    ssize_t (*pread)(int fd, void *to, size_t n, off_t at);
    ssize_t (*pwrite)(int fd, const void *from, size_t n, off_t at);
    int     (*fstat)(int fd, struct stat *st);
    int     (*lstat)(const char *path, struct stat *st);
    int     (*fstatvfs)(int fd, struct statvfs *st);
    int     (*posix_fallocate)(int fd, off_t at, off_t n);
    int     (*ftruncate)(int fd, off_t n);
    int     (*mkdir)(const char *path, mode_t mode);
    int     (*rename)(const char *from, const char *to);
    int     (*unlink)(const char *path);
    int     (*utimensat)(int folder, const char *path, const struct timespec time[2], int flags);
    DIR    *(*opendir)(const char *path);
    struct dirent *(*readdir)(DIR *folder);
    int     (*closedir)(DIR *folder);

    int     (*clock_gettime)(clockid_t clock, struct timespec *t);
    int     (*nanosleep)(const struct timespec *time, struct timespec *left);

    int     (*pthread_create)(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                              void *arg);
    int     (*pthread_join)(pthread_t thread, void **result);
    int     (*pthread_detach)(pthread_t thread);
} weir_env;

/* The system's functions; copy the table to replace some of them. */
extern const weir_env weir_env_system;

/* The table in use. */
const weir_env *weir_env_get(void);

/* Makes the whole process use `e`, which must stay unchanged; NULL: the system's functions. Files,
 * clock and threads may be replaced while no call of the library runs; memory only while the
 * library holds none, since memory is freed through the table in use at that time. */
void weir_env_set(const weir_env *e);

/* Fails with ERR_INVALID and "NAME is 'text' (expected ...)" if an environment variable of env.def
 * that is a number or one of a list holds anything else. Later reads of these variables rely on
 * it. */
weir_status weir_env_check(void);

#endif
