/* mem.h - allocation of all host memory: hooks, counters, and failure of the n-th call for
 * tests. */
#ifndef WEIR_CORE_MEM_H
#define WEIR_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Small host objects, freed with weir_mem_free. NULL, with ERR_NOMEM remembered, on failure; 0
 * bytes give a unique pointer. */
void *weir_mem_alloc(size_t bytes);
void *weir_mem_zalloc(size_t count, size_t size);          /* zeroed; the product is checked */
void *weir_mem_realloc(void *p, size_t old_bytes, size_t new_bytes); /* p stays valid on failure */
void  weir_mem_free(void *p);                               /* NULL is fine */
char *weir_mem_strdup(const char *s);

/* Element memory, 64-byte aligned; large arrays are mapped separately. huge requests huge pages.
 * The caller frees it with weir_mem_pages_free and the same `bytes`. */
void *weir_mem_pages(size_t bytes, bool huge);
void  weir_mem_pages_free(void *p, size_t bytes);

/* True if the process can map `bytes` more. To be asked before calls of libraries that hang or exit
 * if their own mappings fail. */
bool weir_mem_can_map(size_t bytes);

/* True if malloc has `bytes` more. To be asked before calls of libraries that end the process if
 * malloc fails. What the program's own allocator has does not count: libraries do not use it. */
bool weir_mem_can_alloc(size_t bytes);

/* Returns unused pages of the heap to the system, where the C library can. */
void weir_mem_trim(void);

/* Number of allocating calls since the process began (all threads). */
uint64_t weir_mem_calls(void);
/* Number of live allocations: 0 once everything has been freed. */
int64_t weir_mem_alive(void);

/* Makes the n-th allocation from now fail (0: the next one), and all later ones too if sticky;
 * negative n: none. For tests. */
void weir_mem_fail_nth(int64_t n, bool sticky);
/* True once the injected failure has happened. */
bool weir_mem_failed(void);

/* Checked size arithmetic: returns false on overflow and leaves *out untouched. */
static inline bool weir_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
static inline bool weir_size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}
/* Rounds up to a multiple of `unit`, a power of two; false on overflow. */
static inline bool weir_size_align(size_t n, size_t unit, size_t *out)
{
    size_t r;
    if (!weir_size_add(n, unit - 1, &r))
        return false;
    *out = r & ~(unit - 1);
    return true;
}

#endif
