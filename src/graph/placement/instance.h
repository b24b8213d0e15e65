/* instance.h - items as the exact search sees them: spans over sections of the step.
 *
 * A section is a step at which the set of live items is maximal; two items overlap if and only if
 * they share a section (MiniMalloc, ASPLOS 2023). A run of sections that no item leaves is a
 * problem by itself. */
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
    /* [spans] by a, then larger b first, then larger bytes first */
    weir_place_span *span;
    uint32_t   spans;           /* number of items with more than 0 bytes */
    uint32_t   n;               /* number of sections */
    uint32_t  *from;            /* [n + 1] first span with a >= section */
} weir_place_instance;

/* Makes the instance of the placer's items, which the caller frees. Returns WEIR_OK or
 * ERR_NOMEM. */
weir_status weir_place_instance_of(const weir_placer *p, weir_place_instance *s);
void        weir_place_instance_free(weir_place_instance *s);

#endif
