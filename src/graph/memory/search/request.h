/* request.h - a request to a search, and its answer. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REQUEST_H
#define WEIR_GRAPH_MEMORY_SEARCH_REQUEST_H

#include "graph/memory/problem/lower.h"

/* Means of saving memory that a search may use. */
typedef enum weir_lever {
    WEIR_LEVER_RECOMPUTE = 1,
    WEIR_LEVER_OFFLOAD = 2,
    WEIR_LEVER_COMPRESS = 4,
    WEIR_LEVER_MASK = 8,
    WEIR_LEVERS = 15,
    WEIR_LEVER_ORDER = 16 /* of ops: decided before the search (reorder.h) */
} weir_lever;

/* Finds a plan of recomputation alone to start from: fills decisions[w->intervals] and leaves w
 * lowered by them. ratio is the search's. ERR_NOMEM or WEIR_OK. */
typedef weir_status (*weir_search_seed)(weir_lower_state *w, size_t budget, double ratio,
                                        uint8_t *decisions);

typedef struct weir_search {
    const weir_mem_problem *p;
    unsigned                levers;    /* 0: all */
    weir_search_seed        seed;      /* NULL: none */
    bool                    seed_only; /* the seed, greedily lowered to the budget, no annealing */
    double           ratio;  /* passed to the seed; above 0: its plan is the answer as it is */
    size_t           budget; /* bytes of tensors and workspace */
    size_t           address_limit; /* addresses must stay below it; 0: they are not checked */
    size_t           align;         /* of addresses */
    uint64_t         moves;   /* of annealing: a count, so that plans are reproducible */
    const uint8_t   *start;   /* [intervals] decisions to begin with; NULL: find some */
    const uint8_t   *hint;    /* [intervals] a plan that only recomputes, to be improved; or NULL */
    weir_lower_state lowered; /* afterwards the answer, lowered */
    uint8_t         *best;    /* [intervals] the answer */
    size_t           best_peak;
    double           best_extra; /* seconds */
    size_t           floor;      /* no plan has a lower peak, where the budget excludes all; or 0 */
    uint64_t         tried;      /* plans lowered on the way */
} weir_search;

#endif
