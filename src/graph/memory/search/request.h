/* request.h - a request to a search, and its answer. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_REQUEST_H
#define WEIR_GRAPH_MEMORY_SEARCH_REQUEST_H

#include "graph/memory/problem/lower.h"

/* Levers: the means of saving memory that a search may use. */
typedef enum weir_lever {
    WEIR_LEVER_RECOMPUTE = 1,
    WEIR_LEVER_OFFLOAD = 2,
    WEIR_LEVER_COMPRESS = 4,
    WEIR_LEVER_MASK = 8,
    WEIR_LEVERS = 15,
    WEIR_LEVER_ORDER = 16 /* order of ops; applied before the search (reorder.h) */
} weir_lever;

/* Finds a plan of recomputation alone to start from: fills decisions[w->intervals] and leaves w
 * lowered by them. `ratio` is that of the search. Returns WEIR_OK or ERR_NOMEM. */
typedef weir_status (*weir_search_seed)(weir_lower_state *w, size_t budget, double ratio,
                                        uint8_t *decisions);

typedef struct weir_search {
    const weir_mem_problem *p;
    unsigned                levers;    /* bits of weir_lever; 0: all */
    weir_search_seed        seed;      /* NULL: none */
    /* the seed, evicted greedily to the budget, without annealing */
    bool                    seed_only;
    double           ratio;  /* passed to the seed; > 0: the seed's plan is the answer, unchanged */
    size_t           budget; /* bytes of tensors and workspace */
    /* bytes within which offsets must lie; 0: offsets are not checked */
    size_t           address_limit;
    size_t           align;         /* every offset is a multiple of it */
    uint64_t         moves;   /* of annealing: a count, so that plans are reproducible */
    const uint8_t   *start;   /* [intervals] decisions to begin with; NULL: none */
    const uint8_t   *hint;    /* [intervals] a plan that only recomputes, to improve; NULL: none */
    weir_lower_state lowered; /* out: the answer, lowered */
    uint8_t         *best;    /* out: [intervals] the answer */
    size_t           best_peak;
    double           best_extra; /* seconds */
    /* bytes: no plan has a lower peak; 0 if the budget may be feasible */
    size_t           floor;
    uint64_t         tried;      /* out: plans lowered on the way */
} weir_search;

#endif
