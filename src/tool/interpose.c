/* interpose.c - counts every malloc and mmap of the process, its libraries included.
 *
 * The dynamic linker prefers an executable's definitions to those of shared libraries, so malloc
 * and its relatives defined here count the requests of oneDNN, OpenBLAS, the OpenMP runtime,
 * libstdc++ and libc itself. The linker exports such a name by default if a shared library that it
 * links defines it, as libc does. Requests are passed on to glibc's own entry points, so memory can
 * be freed by either side.
 *
 * Invariants: nothing here allocates, locks or uses thread-local storage, so it is safe before
 * main, in any thread and in a forked child. Live bytes are usable sizes, which free can look up;
 * requested bytes are what callers asked for. glibc's mappings for a large malloc are not counted
 * twice, because it does not call the public mmap. Sanitizers define malloc themselves: then
 * nothing is defined here. */
#include "tool/tool.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define TOOL_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TOOL_SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(TOOL_SANITIZED) && !defined(WEIR_PORTABLE)

#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The build hides symbols by default; libraries must see these. */
#pragma GCC visibility push(default)

static _Atomic uint64_t heap_calls, heap_bytes;
static _Atomic int64_t  heap_live, heap_peak;

/* glibc's own allocator, exported for exactly this purpose. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void  __libc_free(void *p);

static void asked(size_t bytes)
{
    atomic_fetch_add_explicit(&heap_calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&heap_bytes, bytes, memory_order_relaxed);
}

/* Adds `change` to the live bytes and raises the peak if it is exceeded. */
static void moved(int64_t change)
{
    const int64_t live =
        atomic_fetch_add_explicit(&heap_live, change, memory_order_relaxed) + change;
    int64_t peak = atomic_load_explicit(&heap_peak, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak_explicit(
                              &heap_peak, &peak, live, memory_order_relaxed, memory_order_relaxed))
        continue;
}

static int64_t usable(void *p)
{
    return p ? (int64_t)malloc_usable_size(p) : 0;
}

static void *counted(void *p, size_t bytes)
{
    asked(bytes);
    moved(usable(p));
    return p;
}

void *malloc(size_t bytes)
{
    return counted(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t size)
{
    return counted(__libc_calloc(count, size), count * size);
}

/* A failed realloc leaves p unchanged; glibc's realloc to 0 bytes frees it and returns NULL. */
void *realloc(void *p, size_t bytes)
{
    const int64_t before = usable(p);
    void *const   q = __libc_realloc(p, bytes);
    asked(bytes);
    if (q)
        moved(usable(q) - before);
    else if (bytes == 0)
        moved(-before);
    return q;
}

void *memalign(size_t align, size_t bytes)
{
    return counted(__libc_memalign(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return counted(__libc_memalign(align, bytes), bytes);
}

/* Unlike memalign it returns the error and leaves errno unchanged. */
int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0)
        return EINVAL;
    const int   saved = errno;
    void *const p = __libc_memalign(align, bytes);
    errno = saved;
    if (!p)
        return ENOMEM;
    *out = counted(p, bytes);
    return 0;
}

void free(void *p)
{
    if (p)
        moved(-usable(p));
    __libc_free(p);
}

/* Mappings of files count too: they are requested address space. */
static void *map(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    const long r = syscall(SYS_mmap, at, bytes, prot, flags, fd, offset);
    if (r == -1)
        return MAP_FAILED;
    asked(bytes);
    moved((int64_t)bytes);
    return (void *)r;
}

void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return map(at, bytes, prot, flags, fd, offset);
}

void *mmap64(void *at, size_t bytes, int prot, int flags, int fd, off64_t offset)
{
    return map(at, bytes, prot, flags, fd, offset);
}

int munmap(void *at, size_t bytes)
{
    const int r = (int)syscall(SYS_munmap, at, bytes);
    if (r == 0)
        moved(-(int64_t)bytes);
    return r;
}

void *mremap(void *at, size_t before, size_t bytes, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    void *const to = (flags & MREMAP_FIXED) ? va_arg(more, void *) : NULL;
    va_end(more);
    const long r = syscall(SYS_mremap, at, before, bytes, flags, to);
    if (r == -1)
        return MAP_FAILED;
    asked(bytes);
    moved((int64_t)bytes - (int64_t)before);
    return (void *)r;
}

#pragma GCC visibility pop

bool tool_heap_counts(void)
{
    return true;
}

void tool_heap_read(tool_heap *h)
{
    h->calls = atomic_load(&heap_calls);
    h->bytes = atomic_load(&heap_bytes);
    h->live = atomic_load(&heap_live);
    h->live_peak = atomic_load(&heap_peak);
}

void tool_heap_mark(tool_heap *h)
{
    tool_heap_read(h);
    atomic_store(&heap_peak, h->live);
    h->live_peak = h->live;
}

#else

bool tool_heap_counts(void)
{
    return false;
}

void tool_heap_read(tool_heap *h)
{
    *h = (tool_heap){0};
}

void tool_heap_mark(tool_heap *h)
{
    tool_heap_read(h);
}

#endif
