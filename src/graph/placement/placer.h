/* placer.h - items being placed: what the strategies of placements.def share. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACER_H
#define WEIR_GRAPH_PLACEMENT_PLACER_H

#include "core/status.h"
#include "graph/placement/item.h"
#include "graph/placement/placements.def"

typedef struct weir_placer {
    const weir_item *item;
    uint32_t         n, steps;
    size_t           bound, target;     /* target: low enough, the bound or the capacity */
    uint64_t         nodes, used;       /* of the exact search: allowed (0: by work), spent */
    uint32_t         repairs;           /* of each greedy order; 0: by the number of items */
    uint64_t         work;              /* arithmetic it may take if `nodes` is 0 */
    size_t          *offset;            /* [n] of the placement being made */
    size_t          *best;              /* [n] of the lowest one so far */
    size_t           best_height;       /* SIZE_MAX: no placement yet */
    bool             best_loose;        /* only workspaces reach its top */
    bool             proven;
    const char      *strategy;          /* that made it */
} weir_placer;

/* Makes `offset` the `best` placement if it is lower, or equally low and not loose. */
void weir_place_offer(weir_placer *p, const char *strategy);

/* Is the best placement low enough, with a storage at its top? */
bool weir_place_done(const weir_placer *p);

/* The common divisor of all sizes, at least 1. Sizes are aligned, so its multiples are, too: a
 * strategy that places items elsewhere than at the ends of others uses multiples of it. */
size_t weir_place_unit(const weir_placer *p);

/* Every strategy offers what it finds. `name` is its row in placements.def. */
#define WEIR_PLACEMENT_DECLARE(row, function, ...)                                                 \
    weir_status weir_place_##function(weir_placer *p, const char *name);
WEIR_PLACEMENTS(WEIR_PLACEMENT_DECLARE)
#undef WEIR_PLACEMENT_DECLARE

#endif
