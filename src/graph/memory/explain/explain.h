/* explain.h - what a schedule does with each tensor, why, and what it costs: as text, and drawn.
 * Defined in explain.c and picture.c. */
#ifndef WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H
#define WEIR_GRAPH_MEMORY_EXPLAIN_EXPLAIN_H

#include "core/kind.h"
#include "core/text.h"
#include "graph/memory/problem/schedule.h"

/* The names and numbers that the texts about one schedule use. */
typedef struct weir_naming {
    const char *title;
    size_t      base;    /* bytes that are always there beside s's tensors */
    size_t      whole;   /* planned peak without a budget */
    size_t      budget;  /* of all; 0: none */
    size_t      planned; /* highest address, base included; 0: not laid out */
    size_t      floor;   /* no plan of any kind needs less */
    double      extra;   /* seconds more than all operations once, as planned */
    double      least;   /* seconds more that any plan within the budget takes; may be
                                 * INFINITY */
    const void *ctx;     /* of the functions below */
    void      (*tensor)(const void *ctx, uint32_t tensor, weir_string *s);
    void      (*op)(const void *ctx, uint32_t op, weir_string *s);    /* its name alone */
    long long (*number)(const void *ctx, uint32_t op);
    weir_kind (*kind)(const void *ctx, uint32_t tensor);
} weir_naming;

/* Where most bytes are live. A copy to the device is counted with what runs behind it, so such an
 * event is never the answer. */
uint32_t weir_peak_event(const weir_schedule *s);

/* A table of all tensors, the largest first, and of sums. `s` is ended and valid. After a shortage
 * of memory the string is marked failed. */
void weir_explain(const weir_schedule *s, const weir_naming *n, weir_string *text);

/* Live bytes by kind over time, the streams below: picture.c. */
void weir_picture(const weir_schedule *s, const weir_naming *n, weir_string *svg);

#endif
