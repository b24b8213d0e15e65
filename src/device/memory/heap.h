/* heap.h - one piece of memory from which blocks of any size are cut, so that under a limit blocks
 * need not be returned to the system and allocated again. */
#ifndef WEIR_DEVICE_MEMORY_HEAP_H
#define WEIR_DEVICE_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_span {          /* described on the host, whatever the device */
    struct weir_span *prev, *next;  /* by address */
    size_t            at, bytes;
    bool              used;
} weir_span;

typedef struct weir_heap {
    char      *at;                  /* NULL: none */
    size_t     bytes, used;
    weir_span *first;
} weir_heap;

/* Opens the heap as one free span; false if out of memory for its description. */
bool weir_heap_open(weir_heap *s, void *at, size_t bytes);
void weir_heap_close(weir_heap *s);

static inline bool weir_heap_holds(const weir_heap *s, const void *p)
{
    return s->at && (const char *)p >= s->at && (const char *)p < s->at + s->bytes;
}

/* A free span for `bytes`: the smallest, or the highest; NULL if none is large enough. */
weir_span *weir_heap_find(const weir_heap *s, size_t bytes, bool high);

/* Cuts `bytes` from the low or the high end of the span; NULL when memory is short. */
void *weir_heap_take(weir_heap *s, weir_span *span, size_t bytes, bool high);
void  weir_heap_give(weir_heap *s, const void *p);

#endif
