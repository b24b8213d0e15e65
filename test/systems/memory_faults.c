/* memory_faults.c - a preloaded library: the n-th allocation, mapping or thread of a process fails.
 *
 * WEIR_FAULT is "KIND N" or "KIND N+" (N and all later): KIND is malloc, mmap or thread. Counting
 * begins with the program's call of memory_faults_begin and ends with memory_faults_end, which
 * returns the calls of a kind. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc's own names of what is replaced here. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

enum { MALLOC, MMAP, THREAD, KINDS };

static atomic_long calls[KINDS];
static atomic_int  on;
static int         kind = -1, sticky;
static long        at;

void memory_faults_begin(void);
long memory_faults_end(const char *name);

void memory_faults_begin(void)
{
    static const char *const name[] = {"malloc", "mmap", "thread"};
    const char *const        text = getenv("WEIR_FAULT");
    char                     which[16] = "", plus = 0;

    if (text && sscanf(text, "%15s %ld%c", which, &at, &plus) >= 2)
        for (int i = 0; i < KINDS; i++)
            if (strcmp(name[i], which) == 0)
                kind = i;
    sticky = plus == '+';
    for (int i = 0; i < KINDS; i++)
        atomic_store(&calls[i], 0);
    atomic_store(&on, 1);
}

long memory_faults_end(const char *name)
{
    atomic_store(&on, 0);
    return atomic_load(&calls[name[0] == 't' ? THREAD : name[1] == 'a' ? MALLOC : MMAP]);
}

static int fails(int which)
{
    if (!atomic_load(&on))
        return 0;
    const long n = atomic_fetch_add(&calls[which], 1);
    return which == kind && (n == at || (sticky && n > at));
}

void *malloc(size_t n)
{
    if (fails(MALLOC))
        return errno = ENOMEM, NULL;
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    if (fails(MALLOC))
        return errno = ENOMEM, NULL;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    if (fails(MALLOC))
        return errno = ENOMEM, NULL;
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    if (fails(MALLOC))
        return errno = ENOMEM, NULL;
    return __libc_memalign(align, n);
}

void *memalign(size_t align, size_t n)
{
    return aligned_alloc(align, n);
}

int posix_memalign(void **to, size_t align, size_t n)
{
    void *const p = aligned_alloc(align, n);

    if (!p)
        return ENOMEM;
    *to = p;
    return 0;
}

void *mmap(void *where, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fails(MMAP))
        return errno = ENOMEM, MAP_FAILED;
    return (void *)syscall(SYS_mmap, where, n, prot, flags, fd, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (fails(THREAD))
        return EAGAIN;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attr, run, arg);
}
