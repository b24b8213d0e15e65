/* offsets.h - assigns byte offsets to the live ranges and workspaces of a schedule. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_OFFSETS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_OFFSETS_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_offsets {
    size_t     *offset;   /* [ranges] of those on the device */
    size_t     *work;     /* [events] of the workspace of a run that has one */
    size_t      height;   /* end of the highest byte range */
    const char *strategy; /* the placement strategy that found them */
} weir_offsets;

/* Finds offsets, multiples of `align` (a power of two), for an ended schedule by a strategy of
 * placement.h (NULL: "auto"). ERR_NOMEM or the placer's error. Free *l, also after a failure. */
weir_status weir_assign_offsets(const weir_schedule *s, size_t align, const char *placement,
                                weir_offsets *l);

/* The same for a search, which calls it often: quicker, and it stops at a height of `limit`. */
weir_status weir_assign_offsets_within(const weir_schedule *s, size_t align, size_t limit,
                                       weir_offsets *l);
void        weir_offsets_free(weir_offsets *l);

#endif
