/* mem.h - the one room through which all host memory goes: hooks, counters, fail-the-nth for
 * tests. */
#ifndef WEIR_CORE_MEM_H
#define WEIR_CORE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Small host objects. NULL with ERR_NOMEM remembered on failure; 0 bytes gives a unique pointer. */
void *weir_mem_alloc(size_t bytes);
void *weir_mem_zalloc(size_t count, size_t size);          /* zeroed; the product is checked */
void *weir_mem_realloc(void *p, size_t old_bytes, size_t new_bytes); /* p stays valid on failure */
void  weir_mem_free(void *p);                               /* NULL is fine */
char *weir_mem_strdup(const char *s);

/* Element memory: 64-byte aligned, from pages of its own when large. huge asks for huge pages. */
void *weir_mem_pages(size_t bytes, bool huge);
void  weir_mem_pages_free(void *p, size_t bytes);

/* Could the process map so many bytes more now? Libraries hang or exit where they cannot. */
bool weir_mem_can_map(size_t bytes);

/* Pages that the heap keeps though nothing lies in them go back to the system, where it can. */
void weir_mem_trim(void);

/* Calls that allocated, since the process began (all threads). */
uint64_t weir_mem_calls(void);
/* Allocations alive now: 0 when everything was given back. */
int64_t weir_mem_alive(void);

/* The n-th allocation from now fails (0: the next one), and every later one too if sticky; a
 * negative n switches failing off. For tests. */
void weir_mem_fail_nth(int64_t n, bool sticky);
/* True once the planted failure has happened. */
bool weir_mem_failed(void);

/* Checked size arithmetic: false on overflow, *out untouched. */
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
