/* exact.h - the state of one exact search, and the searches over states.
 * Defined in exact_state.c (the state), branch.c (depth first), beam.c (level by level) and
 * exact.c, which calls these. */
#ifndef WEIR_GRAPH_PLACEMENT_EXACT_H
#define WEIR_GRAPH_PLACEMENT_EXACT_H

#include "graph/placement/instance.h"

enum { WEIR_MEMO_BITS = 20 };

/* CUT: the limit on nodes, or memory, was reached before an answer. */
typedef enum weir_exact_result {
    WEIR_EXACT_FOUND,
    WEIR_EXACT_DEAD_END,
    WEIR_EXACT_GAVE_UP
} weir_exact_result;

typedef struct weir_undo {
    uint32_t section;
    int64_t  floor;
} weir_undo;

/* The view of one section of a run. */
typedef struct weir_section_state {
    int64_t  floor;             /* lowest offset at which one of its items can lie */
    int64_t  gap;               /* from there to the next floor below one of its items */
    int64_t  end;               /* a lower bound on the end of its pile */
    int64_t  next, second;      /* lowest ends of its items, if they lie as low as they can */
    uint32_t who;               /* the span that ends at `next` */
    uint32_t cases;             /* items that can lie at the floor */
    bool     closed;            /* one of its items reaches down to a lower floor */
} weir_section_state;

/* A section where a search branches: an item is put at its floor, or the floor rises. */
typedef struct weir_branch_point {
    uint32_t section;
    int64_t  floor, above;      /* above: INT64_MAX if no bytes are left over */
} weir_branch_point;

#define WEIR_EXACT_NO_ITEM UINT32_MAX /* among the cases: no item at the floor */

typedef struct weir_exact_state {
    weir_placer        *p;
    weir_place_instance s;
    int64_t             cap;
    int64_t            *floor, *total; /* [sections]; total: bytes left to place */
    weir_section_state *view;          /* [sections] */
    int64_t            *at;            /* [spans] offset; -1: not placed */
    int64_t            *high;          /* [spans] the highest floor below it */
    uint32_t           *order;         /* [spans] unplaced ones of the run, by `high` */
    uint32_t            orders;        /* entries of `order` */
    uint32_t           *by_floor;      /* [sections] and */
    uint32_t           *head, *next;   /* [sections], [spans]: lists to sort them by */
    int64_t             least;         /* bytes of the smallest item of the run */
    double             *rank;          /* [spans] larger is tried first */
    bool                lowest;        /* branch at the lowest section, not that of fewest cases */
    uint32_t            width;         /* of the beam */
    double              spare;         /* slack that hardly matters, as a share of cap */
    double              pressing;      /* weight of the items left; 0: none */
    bool                look;          /* try cases by their cost, not by rank */
    int64_t            *slack;         /* [sections] and */
    double             *loss;          /* [spans + 1] of one look ahead */
    uint64_t           *memo;          /* hashes of dead runs */
    WEIR_VEC(weir_undo) undo;
    WEIR_VEC(uint32_t)  placed; /* spans, in order */
    WEIR_VEC(uint32_t)  cases;  /* of all nodes on the path */
    uint64_t            nodes, limit;
    bool                short_of_memory;
} weir_exact_state;

/* ---- exact_state.c ---- */

/* Changes of the state; weir_exact_undo goes back to that number of placed items and of undo
 * entries. False: out of memory. */
bool weir_exact_set_floor(weir_exact_state *x, uint32_t section, int64_t floor);
bool weir_exact_put(weir_exact_state *x, uint32_t span, int64_t offset);
void weir_exact_undo(weir_exact_state *x, uint32_t placed, uint32_t undo);

/* Raises the floors of the run [lo, hi) to the lowest place of any of their items; fills `order`,
 * `high`, and floor and end of each view. False: a section has no room left. */
bool weir_exact_rise(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* For a run whose floors have risen: where to branch, and the cases there, pushed by rank. */
weir_branch_point weir_exact_branch_point(weir_exact_state *x, uint32_t lo, uint32_t hi);
bool      weir_exact_cases(weir_exact_state *x, uint32_t lo, weir_branch_point f);

/* ---- searches: FOUND leaves every remaining item of sections [lo, hi) placed ---- */

typedef weir_exact_result (*weir_exact_search)(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Calls the search for each run of sections that no remaining item crosses, until one fails. */
weir_exact_result weir_exact_runs(weir_exact_state *x, uint32_t lo, uint32_t hi,
                                  weir_exact_search search);

/* Depth first, run by run. */
weir_exact_result weir_exact_solve(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Level by level, `width` states each, one run. Never DEAD_END: what it drops might succeed. */
weir_exact_result weir_exact_beam(weir_exact_state *x, uint32_t lo, uint32_t hi);

#endif
