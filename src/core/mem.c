/* mem.c - host memory: hooks, counters, injected failures, and pages for large element arrays.
 *
 * Every allocation passes through raw_alloc, which counts it and can be made to fail. With libc's
 * allocator, arrays of BIG bytes and more are mapped separately, so that freeing them returns the
 * memory to the system and huge pages can be requested; with the program's own allocator all memory
 * comes from its hooks. The hooks cannot change while any allocation is alive, so memory is always
 * freed the way it was allocated. */
#include "core/mem.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/env.h"
#include "core/status.h"

#define BIG        ((size_t)1 << 20)    /* bytes from which arrays are mapped separately */
#define HUGE_PAGE  ((size_t)2 << 20)
#define LINE_BYTES ((size_t)64)         /* alignment of element memory */

/* NULL, NULL: libc's. Written only while no allocation is alive. */
static struct {
    weir_alloc_fn alloc;
    weir_free_fn  release;
    void         *user;
} hook;

static atomic_uint_fast64_t calls;
static atomic_int_fast64_t  alive;

/* The injected failure: allocations until it happens (negative: none). */
static struct {
    atomic_int_fast64_t left;
    atomic_bool         sticky, failed;
} injected = {.left = -1};

weir_status weir_set_allocator(weir_alloc_fn alloc, weir_free_fn release, void *user)
{
    if (!alloc != !release)
        return weir_fail(WEIR_ERR_INVALID, "weir_set_allocator: %s is NULL but the other is not",
                         alloc ? "release" : "alloc");
    if (atomic_load(&alive) != 0)
        return weir_fail(WEIR_ERR_STATE, "weir_set_allocator: %lld allocations are still in use",
                         (long long)atomic_load(&alive));
    hook.alloc = alloc;
    hook.release = release;
    hook.user = user;
    return WEIR_OK;
}

/* Counts down to the injected failure; true if this allocation has to fail. */
static bool must_fail(void)
{
    int_fast64_t left = atomic_load_explicit(&injected.left, memory_order_relaxed);
    for (;;) {
        if (left < 0)
            return false;
        const int_fast64_t next = left > 0 || !atomic_load(&injected.sticky) ? left - 1 : 0;
        if (atomic_compare_exchange_weak(&injected.left, &left, next))
            break;
    }
    if (left > 0)
        return false;
    atomic_store(&injected.failed, true);
    return true;
}

/* Maps `bytes`. huge: maps HUGE_PAGE more and cuts off both ends, so that the result is aligned. */
static void *map_pages(size_t bytes, bool huge)
{
    const size_t extra = huge ? HUGE_PAGE : 0;
    size_t       mapped;
    if (!weir_size_add(bytes, extra, &mapped))
        return NULL;
    const weir_env *const e = weir_env_get();
    char *at = e->mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (!huge)
        return at;
    const size_t head = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    if (head > 0)
        e->munmap(at, head);
    if (extra > head)
        e->munmap(at + head + bytes, extra - head);
#if defined(MADV_HUGEPAGE) && !defined(WEIR_PORTABLE)
    /* Failure does no harm: without huge pages only the page walks are slower. */
    (void)e->madvise(at + head, bytes, MADV_HUGEPAGE);
#endif
    return at + head;
}

/* The only function that allocates. */
static void *raw_alloc(size_t bytes, bool pages, bool huge)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    void *p = NULL;
    if (!must_fail())
        p = pages        ? map_pages(bytes, huge)
            : hook.alloc ? hook.alloc(bytes, hook.user)
                         : weir_env_get()->malloc(bytes);
    if (p)
        atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    else
        weir_fail(WEIR_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
    return p;
}

void *weir_mem_alloc(size_t bytes)
{
    return raw_alloc(bytes > 0 ? bytes : 1, false, false);
}

void *weir_mem_zalloc(size_t count, size_t size)
{
    size_t bytes;
    if (!weir_size_mul(count, size, &bytes))
        return WEIR_FAIL_NULL(WEIR_ERR_NOMEM, "out of memory: %zu times %zu bytes wanted", count,
                              size);
    void *p = weir_mem_alloc(bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *weir_mem_realloc(void *p, size_t old_bytes, size_t new_bytes)
{
    void *q = weir_mem_alloc(new_bytes);
    if (!q || !p)
        return q;
    memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    weir_mem_free(p);
    return q;
}

void weir_mem_free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&alive, 1, memory_order_relaxed);
    if (hook.release)
        hook.release(p, hook.user);
    else
        weir_env_get()->free(p);
}

char *weir_mem_strdup(const char *s)
{
    const size_t bytes = strlen(s) + 1;
    char *copy = weir_mem_alloc(bytes);
    if (copy)
        memcpy(copy, s, bytes);
    return copy;
}

void *weir_host_alloc(size_t bytes)
{
    return weir_mem_zalloc(1, bytes);
}

void weir_host_free(void *p)
{
    weir_mem_free(p);
}

void weir_text_free(char *text)
{
    weir_mem_free(text);
}

/* True if an array of this size is mapped separately; *whole is then its size in whole pages. */
static bool has_pages(size_t bytes, size_t *whole)
{
    return !hook.alloc && bytes >= BIG &&
           weir_size_align(bytes, (size_t)sysconf(_SC_PAGESIZE), whole);
}

void *weir_mem_pages(size_t bytes, bool huge)
{
    size_t whole;
    if (has_pages(bytes, &whole))
        return raw_alloc(whole, true, huge);
    /* Up to a line of padding; just before the array lies the address that was allocated. */
    if (!weir_size_add(bytes, LINE_BYTES + sizeof(void *), &whole))
        return WEIR_FAIL_NULL(WEIR_ERR_NOMEM, "out of memory: %zu bytes wanted", bytes);
    char *base = weir_mem_alloc(whole);
    if (!base)
        return NULL;
    char *at = base + sizeof(void *);
    at += (LINE_BYTES - (uintptr_t)at % LINE_BYTES) % LINE_BYTES;
    memcpy(at - sizeof(void *), &base, sizeof base);
    return at;
}

void weir_mem_pages_free(void *p, size_t bytes)
{
    size_t whole;
    if (!p)
        return;
    if (has_pages(bytes, &whole)) {
        atomic_fetch_sub_explicit(&alive, 1, memory_order_relaxed);
        weir_env_get()->munmap(p, whole);
        return;
    }
    void *base;
    memcpy(&base, (char *)p - sizeof(void *), sizeof base);
    weir_mem_free(base);
}

/* Tries a mapping, because the limits (RLIMIT_AS, RLIMIT_DATA) do not tell everything. Touches no
 * page. */
bool weir_mem_can_map(size_t bytes)
{
    const int   flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    const size_t wanted = bytes > 0 ? bytes : 1;
    void *const p = weir_env_get()->mmap(NULL, wanted, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (p == MAP_FAILED)
        return false;
    weir_env_get()->munmap(p, wanted);
    return true;
}

/* Takes chunks, since glibc maps large requests, and would raise the size from which it does when
 * they are freed. */
bool weir_mem_can_alloc(size_t bytes)
{
    enum { CHUNK = 64 << 10 };
    const weir_env *const e = weir_env_get();
    void                 *first = NULL;
    size_t                got = 0;

    while (got < bytes) {
        const size_t left = bytes - got, want = left < CHUNK ? left : CHUNK;
        void **const chunk = e->malloc(want > sizeof first ? want : sizeof first);
        if (!chunk)
            break;
        *chunk = first;
        first = chunk;
        got += want;
    }
    while (first) {
        void *const next = *(void **)first;
        e->free(first);
        first = next;
    }
    return got >= bytes;
}

void weir_mem_trim(void)
{
    if (!hook.alloc)
        weir_env_get()->trim();
}

uint64_t weir_mem_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

int64_t weir_mem_alive(void)
{
    return atomic_load_explicit(&alive, memory_order_relaxed);
}

void weir_mem_fail_nth(int64_t n, bool sticky)
{
    atomic_store(&injected.failed, false);
    atomic_store(&injected.sticky, sticky);
    atomic_store(&injected.left, n < 0 ? -1 : n);
}

bool weir_mem_failed(void)
{
    return atomic_load(&injected.failed);
}
