/* heap.c - best fit over spans in address order; adjacent free spans are merged.
 *
 * Invariants: the spans cover the range without gaps; no two adjacent spans are free. */
#include "device/memory/heap.h"

#include <assert.h>

#include "core/mem.h"

bool weir_heap_open(weir_heap *s, void *at, size_t bytes)
{
    weir_span *const whole = weir_mem_alloc(sizeof *whole);

    if (!whole)
        return false;
    *whole = (weir_span){.bytes = bytes};
    *s = (weir_heap){.at = at, .bytes = bytes, .first = whole};
    return true;
}

void weir_heap_close(weir_heap *s)
{
    while (s->first) {
        weir_span *const next = s->first->next;
        weir_mem_free(s->first);
        s->first = next;
    }
    *s = (weir_heap){0};
}

weir_span *weir_heap_find(const weir_heap *s, size_t bytes, bool high)
{
    weir_span *best = NULL;

    for (weir_span *i = s->first; i; i = i->next)
        if (!i->used && i->bytes >= bytes && (high || !best || i->bytes < best->bytes))
            best = i;
    return best;
}

/* Splits the first `bytes` of the span off into a span before it; NULL if memory runs out. */
static weir_span *split(weir_heap *s, weir_span *span, size_t bytes)
{
    weir_span *const low = weir_mem_alloc(sizeof *low);

    if (!low)
        return NULL;
    *low = (weir_span){.prev = span->prev, .next = span, .at = span->at, .bytes = bytes};
    *(span->prev ? &span->prev->next : &s->first) = low;
    span->prev = low;
    span->at += bytes;
    span->bytes -= bytes;
    return low;
}

void *weir_heap_take(weir_heap *s, weir_span *span, size_t bytes, bool high)
{
    if (span->bytes > bytes) {
        weir_span *const low = split(s, span, high ? span->bytes - bytes : bytes);
        if (!low)
            return NULL;
        span = high ? span : low;
    }
    span->used = true;
    s->used += bytes;
    return s->at + span->at;
}

/* Merges the span with the one after it. */
static void merge(weir_span *span)
{
    weir_span *const next = span->next;

    span->bytes += next->bytes;
    span->next = next->next;
    if (next->next)
        next->next->prev = span;
    weir_mem_free(next);
}

void weir_heap_give(weir_heap *s, const void *p)
{
    weir_span *span = s->first;

    while (span && s->at + span->at != p)
        span = span->next;
    assert(span && span->used);
    span->used = false;
    s->used -= span->bytes;
    if (span->next && !span->next->used)
        merge(span);
    if (span->prev && !span->prev->used)
        merge(span->prev);
}
