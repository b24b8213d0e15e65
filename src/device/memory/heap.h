/* heap.h - one range of memory from which blocks of any size are cut, so that under a limit blocks
 * need not be returned to the system and allocated again. */
#ifndef WEIR_DEVICE_MEMORY_HEAP_H
#define WEIR_DEVICE_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_span {          /* in host memory, whatever the device */
    struct weir_span *prev, *next;  /* by address */
    size_t            at, bytes;
    bool              used;
} weir_span;

typedef struct weir_heap {
    char      *at;                  /* device memory; NULL: no heap */
    size_t     bytes, used;
    weir_span *first;
} weir_heap;

/* Describes `bytes` at `at` as one free span; false if memory for the description runs out. The
 * caller still owns the range. */
bool weir_heap_open(weir_heap *s, void *at, size_t bytes);
void weir_heap_close(weir_heap *s);

static inline bool weir_heap_holds(const weir_heap *s, const void *p)
{
    return s->at && (const char *)p >= s->at && (const char *)p < s->at + s->bytes;
}

/* Returns a free span of at least `bytes`: the smallest, or if `high` the highest; NULL if none. */
weir_span *weir_heap_find(const weir_heap *s, size_t bytes, bool high);

/* Cuts `bytes` from the low or high end of the span; NULL if memory runs out. */
void *weir_heap_take(weir_heap *s, weir_span *span, size_t bytes, bool high);
void  weir_heap_give(weir_heap *s, const void *p);

#endif
