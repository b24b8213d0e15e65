/* instance.h - items as the exact search sees them: spans over sections of the step.
 *
 * A section is a step at which the set of live items is maximal; items overlap if and only if they
 * share a section. A run of sections that no item leaves is a problem by itself. */
#ifndef WEIR_GRAPH_PLACEMENT_INSTANCE_H
#define WEIR_GRAPH_PLACEMENT_INSTANCE_H

#include "graph/placement/placer.h"

typedef struct weir_place_span {
    uint32_t item;
    uint32_t a, b;              /* sections [a, b) */
    uint32_t kind;              /* equal for equal sections and bytes: exchangeable items */
    int64_t  bytes;
} weir_place_span;

typedef struct weir_place_instance {
    weir_place_span *span;            /* [spans] by a, then b downwards, then bytes downwards */
    uint32_t   spans;           /* items of more than 0 bytes */
    uint32_t   n;               /* sections */
    uint32_t  *from;            /* [n + 1] first span with a >= section */
} weir_place_instance;

weir_status weir_place_instance_of(const weir_placer *p, weir_place_instance *s);
void        weir_place_instance_free(weir_place_instance *s);

#endif
