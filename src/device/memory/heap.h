/* heap.h - one piece of memory from which blocks of any size are cut: under a limit nothing goes to
 * the system and back. */
#ifndef WEIR_DEVICE_MEMORY_HEAP_H
#define WEIR_DEVICE_MEMORY_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct weir_span {          /* described on the host, whatever the device */
    struct weir_span *prev, *next;  /* by address */
    size_t            at, bytes;
    bool              used;
} weir_span;

typedef struct weir_slab {
    char      *at;                  /* NULL: none */
    size_t     bytes, used;
    weir_span *first;
} weir_slab;

/* Divides nothing so far; false when memory for the description is short. */
bool weir_slab_open(weir_slab *s, void *at, size_t bytes);
void weir_slab_close(weir_slab *s);

static inline bool weir_slab_holds(const weir_slab *s, const void *p)
{
    return s->at && (const char *)p >= s->at && (const char *)p < s->at + s->bytes;
}

/* A free span for `bytes`: the smallest, or the highest; NULL if none is large enough. */
weir_span *weir_slab_find(const weir_slab *s, size_t bytes, bool high);

/* Cuts `bytes` from the low or the high end of the span; NULL when memory is short. */
void *weir_slab_cut(weir_slab *s, weir_span *span, size_t bytes, bool high);
void  weir_slab_give(weir_slab *s, const void *p);

#endif
