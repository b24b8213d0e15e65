/* exact.h - state of one exact search, and the searches over states.
 * Defined in exact_state.c (the state), branch.c (depth first), beam.c (level by level), exact.c,
 * which calls these. */
#ifndef WEIR_GRAPH_PLACEMENT_EXACT_H
#define WEIR_GRAPH_PLACEMENT_EXACT_H

#include "graph/placement/instance.h"

enum { WEIR_MEMO_BITS = 20 };

/* CUT: the nodes, or the memory, were not enough to tell. */
typedef enum weir_exact_result {
    WEIR_EXACT_FOUND,
    WEIR_EXACT_DEAD_END,
    WEIR_EXACT_GAVE_UP
} weir_exact_result;

typedef struct weir_undo {
    uint32_t section;
    int64_t  floor;
} weir_undo;

/* What the survey of a run says of one section. */
typedef struct weir_section_state {
    int64_t  floor;             /* lowest place where one of its items can lie */
    int64_t  gap;               /* from there to the next floor below one of its items */
    int64_t  end;               /* no pile of its items, none below where it can lie, ends lower */
    int64_t  next, second;      /* lowest ends of its items, if they lie as low as they can */
    uint32_t who;               /* the span that ends at `next` */
    uint32_t cases;             /* items that can lie at the floor */
    bool     closed;            /* one of its items reaches down to a lower floor */
} weir_section_state;

/* A section where a search branches: an item comes at its floor, or the floor rises. */
typedef struct weir_branch_point {
    uint32_t section;
    int64_t  floor, above;      /* above: INT64_MAX if no room is left over */
} weir_branch_point;

#define WEIR_EXACT_NO_ITEM UINT32_MAX /* among the cases: no item at the floor */

typedef struct weir_exact_state {
    weir_placer        *p;
    weir_place_instance s;
    int64_t             cap;
    int64_t            *floor, *total; /* [sections]; total: bytes to come */
    weir_section_state *view;          /* [sections] */
    int64_t            *at;            /* [spans] offset, -1: to come */
    int64_t            *high;          /* [spans] the highest floor below it */
    uint32_t           *order;         /* [spans] those to come in the run by `high`: the first */
    uint32_t            orders;        /* so many */
    uint32_t           *by_floor;      /* [sections] and */
    uint32_t           *head, *next;   /* [sections], [spans]: lists to sort them by */
    int64_t             least;         /* bytes of the smallest item of the run */
    double             *rank;          /* [spans] larger is tried first */
    bool                lowest;        /* the lowest section is next, not that of fewest cases */
    uint32_t            width;         /* of the beam */
    double              spare;         /* room that makes little difference, in parts of cap */
    double              pressing;      /* what the items left count, 0: nothing */
    bool                look;          /* cases are tried by what they cost, not by rank */
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

/* Changes of the state, which weir_exact_undo takes back down to so many placed items and undos.
 * False: short of memory. */
bool weir_exact_set_floor(weir_exact_state *x, uint32_t section, int64_t floor);
bool weir_exact_put(weir_exact_state *x, uint32_t span, int64_t offset);
void weir_exact_undo(weir_exact_state *x, uint32_t placed, uint32_t undo);

/* Floors of the run [lo, hi) rise to the lowest place of any of its items; fills `order`, `high`
 * and of each view floor and end. False: a section has no room left. */
bool weir_exact_rise(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Of a run whose floors have risen: where to branch, and (pushed) the cases there, by rank. */
weir_branch_point weir_exact_branch_point(weir_exact_state *x, uint32_t lo, uint32_t hi);
bool      weir_exact_cases(weir_exact_state *x, uint32_t lo, weir_branch_point f);

/* ---- searches: FOUND leaves all that was left of sections [lo, hi) placed ---- */

typedef weir_exact_result (*weir_exact_search)(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Calls the search for each run of sections that nothing left crosses, until one is not FOUND. */
weir_exact_result weir_exact_runs(weir_exact_state *x, uint32_t lo, uint32_t hi,
                                  weir_exact_search search);

/* Depth first, run by run. */
weir_exact_result weir_exact_solve(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Level by level, `width` states of each: of one run. Never DEAD: what it leaves out might do. */
weir_exact_result weir_exact_beam(weir_exact_state *x, uint32_t lo, uint32_t hi);

#endif
