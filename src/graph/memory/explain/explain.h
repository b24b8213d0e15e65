/* explain.h - what a schedule does with each tensor, why, and at what cost: as text and as a
 * picture. Defined in explain.c and picture.c. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H

#include "core/kind.h"
#include "core/text.h"
#include "graph/memory/problem/schedule.h"

/* The names and numbers that texts about one schedule use. */
typedef struct weir_naming {
    const char *title;
    size_t      base;    /* bytes always on the device besides the schedule's tensors */
    size_t      whole;   /* bytes: planned peak without a budget */
    size_t      budget;  /* bytes, `base` included; 0: no budget */
    size_t      planned; /* bytes: end of the highest offset, `base` included; 0: no offsets */
    size_t      floor;   /* bytes: no plan needs fewer */
    double      extra;   /* seconds beyond all ops run once, as planned */
    double      least;   /* seconds: no plan within the budget takes less extra time; INFINITY: none
                          * exists */
    const void *ctx;     /* first argument of the functions below */
    void      (*tensor)(const void *ctx, uint32_t tensor, weir_string *s);
    void      (*op)(const void *ctx, uint32_t op, weir_string *s);    /* its name only */
    long long (*number)(const void *ctx, uint32_t op);
    weir_kind (*kind)(const void *ctx, uint32_t tensor);
} weir_naming;

/* Returns the event with the most live bytes. It is never a prefetch, whose bytes count with the
 * run that follows it. */
uint32_t weir_peak_event(const weir_schedule *s);

/* Appends a table of all tensors, the largest first, and sums. The schedule must be ended and
 * valid. If memory runs out, the string is marked as failed. */
void weir_explain(const weir_schedule *s, const weir_naming *n, weir_string *text);

/* Calls tell(to, tensor, decision, why) for every tensor, the largest first: the decision in a word
 * or two ("kept", "in place"), and the table's last column. Both texts are gone after the call. The
 * schedule must be ended and valid. Returns false, maybe after some calls, if memory ran out. */
bool weir_explain_each(const weir_schedule *s, const weir_naming *n,
                       void (*tell)(void *to, uint32_t tensor, const char *decision,
                                    const char *why), void *to);

/* Appends an SVG picture: live bytes by kind over time, and the streams below. Errors as above. */
void weir_picture(const weir_schedule *s, const weir_naming *n, weir_string *svg);

#endif
