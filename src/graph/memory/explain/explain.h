/* explain.h - what a schedule does with each tensor, why, and at what cost: as text and as a
 * picture. Defined in explain.c and picture.c. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H

#include "core/kind.h"
#include "core/text.h"
#include "graph/memory/problem/schedule.h"

/* The names and numbers that the texts about one schedule use. */
typedef struct weir_naming {
    const char *title;
    size_t      base;    /* bytes that are always there besides s's tensors */
    size_t      whole;   /* planned peak without a budget */
    size_t      budget;  /* of all bytes; 0: none */
    size_t      planned; /* end of the highest offset, base included; 0: no offsets */
    size_t      floor;   /* no plan needs fewer bytes */
    double      extra;   /* seconds beyond all operations run once, as planned */
    double      least;   /* least extra seconds of any plan within the budget; may be
                          * INFINITY */
    const void *ctx;     /* of the functions below */
    void      (*tensor)(const void *ctx, uint32_t tensor, weir_string *s);
    void      (*op)(const void *ctx, uint32_t op, weir_string *s);    /* its name alone */
    long long (*number)(const void *ctx, uint32_t op);
    weir_kind (*kind)(const void *ctx, uint32_t tensor);
} weir_naming;

/* The event with most live bytes. A prefetch counts with the run that follows it, so it is never
 * the answer. */
uint32_t weir_peak_event(const weir_schedule *s);

/* Adds a table of all tensors, the largest first, and sums. `s` must be ended and valid. A shortage
 * of memory marks the string as failed. */
void weir_explain(const weir_schedule *s, const weir_naming *n, weir_string *text);

/* Draws live bytes by kind over time, and the streams below: picture.c. */
void weir_picture(const weir_schedule *s, const weir_naming *n, weir_string *svg);

#endif
