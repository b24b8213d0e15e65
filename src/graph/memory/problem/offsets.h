/* offsets.h - assigns byte offsets to the live ranges and workspaces of a schedule. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_OFFSETS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_OFFSETS_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_offsets {
    size_t     *offset;   /* [ranges] offset of each one on the device */
    size_t     *work;     /* [events] offset of the workspace of each run that has one */
    size_t      height;   /* end of the highest byte range */
    const char *strategy; /* name of the placement strategy; a string constant */
} weir_offsets;

/* Assigns offsets, multiples of `align` (a power of two), for an ended schedule with a strategy of
 * placement.h (NULL: "auto"). Returns ERR_NOMEM or the placer's error. The caller calls
 * weir_offsets_free(l) in either case. */
weir_status weir_assign_offsets(const weir_schedule *s, size_t align, const char *placement,
                                weir_offsets *l);

/* The same for a search, which calls it often: uses fast strategies first and stops as soon as the
 * height is at most `limit` bytes. l->height may still exceed the limit. */
weir_status weir_assign_offsets_within(const weir_schedule *s, size_t align, size_t limit,
                                       weir_offsets *l);
void        weir_offsets_free(weir_offsets *l);

#endif
