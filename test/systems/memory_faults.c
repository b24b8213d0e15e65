/* memory_faults.c - a preloaded library that lets allocations, mappings and threads fail.
 *
 * WEIR_FAULT is "KIND N" or "KIND N+", KIND malloc, mmap or thread: the N-th call fails, or it and
 * all later ones; or "bytes N": a call fails if the process would then hold over N bytes more than
 * at the beginning, by malloc, mapped, and as stacks of threads. Counting begins with the program's
 * call of memory_faults_begin and ends with memory_faults_end, which returns the calls of a kind,
 * or the most bytes that were held. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
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
void  __libc_free(void *p);

enum { MALLOC, MMAP, THREAD, BYTES, KINDS };
enum { STACK = 8 << 20, HEADER = 16 };      /* bytes that a thread, an allocation holds beside */

static const char *const kinds[] = {"malloc", "mmap", "thread", "bytes"};

static atomic_long calls[KINDS];            /* of BYTES: the most that were held */
static atomic_long held;
static atomic_int  on;
static int         kind = -1, sticky;
static long        at;

void memory_faults_begin(void);
long memory_faults_end(const char *name);

void memory_faults_begin(void)
{
    const char *const text = getenv("WEIR_FAULT");
    char              which[16] = "", plus = 0;

    if (text && sscanf(text, "%15s %ld%c", which, &at, &plus) >= 2)
        for (int i = 0; i < KINDS; i++)
            if (strcmp(kinds[i], which) == 0)
                kind = i;
    sticky = plus == '+';
    for (int i = 0; i < KINDS; i++)
        atomic_store(&calls[i], 0);
    atomic_store(&held, 0);
    atomic_store(&on, 1);
}

long memory_faults_end(const char *name)
{
    atomic_store(&on, 0);
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i], name) == 0)
            return atomic_load(&calls[i]);
    return -1;
}

/* Notes `bytes` more, or fewer. */
static void hold(long bytes)
{
    if (!atomic_load(&on))
        return;
    const long now = atomic_fetch_add(&held, bytes) + bytes;
    long       most = atomic_load(&calls[BYTES]);
    while (now > most && !atomic_compare_exchange_weak(&calls[BYTES], &most, now))
        ;
}

/* Must a call of this kind fail that asks for `bytes`? */
static int fails(int which, size_t bytes)
{
    if (!atomic_load(&on))
        return 0;
    const long n = atomic_fetch_add(&calls[which], 1);
    if (kind == BYTES)
        return (long)bytes > at - atomic_load(&held);
    return which == kind && (n == at || (sticky && n > at));
}

static long size_of(void *p)
{
    return p ? (long)malloc_usable_size(p) + HEADER : 0;
}

static void *held_by(void *p)
{
    hold(size_of(p));
    return p;
}

void *malloc(size_t n)
{
    return fails(MALLOC, n + HEADER) ? errno = ENOMEM, NULL : held_by(__libc_malloc(n));
}

void *calloc(size_t n, size_t size)
{
    return fails(MALLOC, n * size + HEADER) ? errno = ENOMEM, NULL
                                            : held_by(__libc_calloc(n, size));
}

void *realloc(void *p, size_t n)
{
    const long before = size_of(p);

    if (fails(MALLOC, n + HEADER))
        return errno = ENOMEM, NULL;
    void *const q = __libc_realloc(p, n);
    if (q)
        hold(size_of(q) - before);
    return q;
}

void *aligned_alloc(size_t align, size_t n)
{
    return fails(MALLOC, n + align + HEADER) ? errno = ENOMEM, NULL
                                             : held_by(__libc_memalign(align, n));
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

void free(void *p)
{
    hold(-size_of(p));
    __libc_free(p);
}

void *mmap(void *where, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (fails(MMAP, n))
        return errno = ENOMEM, MAP_FAILED;
    void *const p = (void *)syscall(SYS_mmap, where, n, prot, flags, fd, offset);
    if (p != MAP_FAILED)
        hold((long)n);
    return p;
}

int munmap(void *p, size_t n)
{
    const int code = (int)syscall(SYS_munmap, p, n);

    if (code == 0)
        hold(-(long)n);
    return code;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (fails(THREAD, STACK))
        return EAGAIN;
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    const int code = next(thread, attr, run, arg);
    if (code == 0)
        hold(STACK);
    return code;
}

/* Threads that are never joined hold their stacks until the process ends. */
int pthread_join(pthread_t thread, void **result)
{
    static int (*next)(pthread_t, void **);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "pthread_join");
    const int code = next(thread, result);
    if (code == 0)
        hold(-STACK);
    return code;
}
