/* zone.h - memory with guard zones round it, for operands and scratch that kernels are given.
 *
 * A buffer begins at a page. ZONE_BYTES of a pattern lie before it and behind it, from its very
 * last byte on; behind the zones are pages that cannot be touched, so what jumps over a zone ends
 * the program, and main.c names the case and check_doing. With AddressSanitizer the zones are
 * poisoned, too: instrumented code may not even read them. */
#ifndef WEIR_TEST_DEVICE_ZONE_H
#define WEIR_TEST_DEVICE_ZONE_H

#include <sys/mman.h>

#include "check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum {
    ZONE_BYTES = 16 * 1024,
    ZONE_PAGE = 4096,
    ZONE_WALL = 1024 * 1024, /* bytes on either side that cannot be touched */
    ZONE_PATTERN = 0xa5
};

/* In the page before the front zone. */
typedef struct zone_head {
    unsigned char *map;
    size_t         total, bytes, back; /* of the mapping, the buffer, the zone behind it */
} zone_head;

static inline zone_head *zone_head_of(const void *p)
{
    const unsigned char *const front = (const unsigned char *)p - ZONE_BYTES;
    return (zone_head *)(uintptr_t)(front - ZONE_PAGE);
}

static inline unsigned char *zone_front(const void *p)
{
    return (unsigned char *)(uintptr_t)p - ZONE_BYTES;
}

static inline void zone_poison(void *p, bool on)
{
    const zone_head *const h = zone_head_of(p);
    unsigned char *const   end = (unsigned char *)p + h->bytes;
    if (on) {
        ASAN_POISON_MEMORY_REGION(zone_front(p), ZONE_BYTES);
        ASAN_POISON_MEMORY_REGION(end, h->back);
    } else {
        ASAN_UNPOISON_MEMORY_REGION(zone_front(p), ZONE_BYTES);
        ASAN_UNPOISON_MEMORY_REGION(end, h->back);
    }
}

/* `bytes` zeroed bytes; the test ends without memory. */
static inline void *zone_new(size_t bytes)
{
    const size_t data = (bytes + ZONE_PAGE - 1) / ZONE_PAGE * ZONE_PAGE;
    const size_t open = ZONE_PAGE + 2 * (size_t)ZONE_BYTES + data, total = open + 2 * ZONE_WALL;
    void *const  map = mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *const from = (unsigned char *)map + ZONE_WALL;
    if (map == MAP_FAILED || mprotect(from, open, PROT_READ | PROT_WRITE) != 0) {
        printf("%s: no memory for a buffer of %zu bytes\n", check_current->name, bytes);
        exit(1);
    }
    unsigned char *const p = from + ZONE_PAGE + ZONE_BYTES;
    *(zone_head *)(void *)from =
        (zone_head){.map = map, .total = total, .bytes = bytes, .back = data - bytes + ZONE_BYTES};
    memset(zone_front(p), ZONE_PATTERN, ZONE_BYTES);
    memset(p + bytes, ZONE_PATTERN, data - bytes + ZONE_BYTES);
    zone_poison(p, true);
    return p;
}

static inline void zone_free(void *p)
{
    if (!p)
        return;
    zone_poison(p, false);
    const zone_head h = *zone_head_of(p);
    munmap(h.map, h.total);
}

/* The first of n bytes that is not the pattern; n if all are. */
static inline size_t zone_changed(const unsigned char *at, size_t n)
{
    size_t i = 0;
    if (n > 0 && at[0] == ZONE_PATTERN && memcmp(at, at + 1, n - 1) == 0)
        return n;
    while (i < n && at[i] == ZONE_PATTERN)
        i++;
    return i;
}

/* Both zones of p are as they were made; `what` names the call and the buffer. */
static inline bool zone_check(void *p, const char *what, const char *buffer)
{
    if (!p)
        return true;
    zone_poison(p, false);
    const zone_head *const h = zone_head_of(p);
    const size_t           before = zone_changed(zone_front(p), ZONE_BYTES);
    const size_t           behind = zone_changed((unsigned char *)p + h->bytes, h->back);
    const bool             front =
        check_that(before == ZONE_BYTES, __FILE__, __LINE__, "%s: wrote %zu bytes before the %s",
                   what, ZONE_BYTES - before, buffer);
    const bool             back =
        check_that(behind == h->back, __FILE__, __LINE__,
                   "%s: wrote %zu bytes behind the %s of %zu", what, behind, buffer, h->bytes);
    zone_poison(p, true);
    return front && back;
}

/* Whether the last unit of `bytes` of scratch, which were `fill` before the run, was used: else a
 * measured peak is below the planned one. */
static inline bool zone_check_used(const void *work, size_t bytes, unsigned char fill,
                                   const char *what)
{
    enum { UNIT = 64 }; /* of measured peaks, bytes */
    const unsigned char *const at = work;
    for (size_t i = bytes > UNIT ? bytes - UNIT : 0; i < bytes; i++)
        if (at[i] != fill)
            return true;
    return check_that(bytes == 0, __FILE__, __LINE__,
                      "%s: the last of %zu bytes of scratch are unused", what, bytes);
}

#endif
