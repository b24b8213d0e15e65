/* placer.h - the state of a placement, shared by the strategies of placements.def. */
#ifndef WEIR_GRAPH_PLACEMENT_PLACER_H
#define WEIR_GRAPH_PLACEMENT_PLACER_H

#include "core/status.h"
#include "graph/placement/item.h"
#include "graph/placement/placements.def"

typedef struct weir_placer {
    const weir_item *item;
    uint32_t         n, steps;
    size_t           bound, target;     /* target: low enough, the larger of bound and capacity */
    size_t           slack;             /* auto: bytes above it, not worth a search */
    uint64_t         nodes, used;       /* of the exact search: allowed (0: by `work`), spent */
    uint32_t         repairs;           /* of each greedy order; 0: by the number of items */
    uint64_t         work;              /* limit of the exact search's work if `nodes` is 0 */
    size_t          *offset;            /* [n] offsets of the placement in progress */
    size_t          *best;              /* [n] offsets of the lowest placement so far */
    size_t           best_height;       /* bytes; SIZE_MAX: no placement yet */
    bool             best_loose;        /* only workspaces reach its top */
    bool             proven;
    const char      *strategy;          /* that made the best placement */
} weir_placer;

/* Makes `offset` the `best` placement if it is lower, or equally low and not loose. */
void weir_place_offer(weir_placer *p, const char *strategy);

/* Returns whether the best placement is low enough and has a storage at its top. */
bool weir_place_done(const weir_placer *p);

/* Returns the common divisor of all sizes, at least 1. Sizes are aligned, so its multiples are,
 * too: a strategy that places items elsewhere than at the ends of others uses multiples of it. */
size_t weir_place_unit(const weir_placer *p);

/* The strategies. Each offers the placements that it finds; `name` is its row in placements.def.
 * Return WEIR_OK or ERR_NOMEM. */
#define WEIR_PLACEMENT_DECLARE(row, function, ...)                                                 \
    weir_status weir_place_##function(weir_placer *p, const char *name);
WEIR_PLACEMENTS(WEIR_PLACEMENT_DECLARE)
#undef WEIR_PLACEMENT_DECLARE

#endif
