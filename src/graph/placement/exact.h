/* exact.h - the state of one exact search, and the searches over states.
 * Defined in exact_state.c (the state), branch.c (depth first), beam.c (beam search) and exact.c,
 * which calls these. All heights and offsets are bytes. */
#ifndef WEIR_GRAPH_PLACEMENT_EXACT_H
#define WEIR_GRAPH_PLACEMENT_EXACT_H

#include "graph/placement/instance.h"

enum { WEIR_MEMO_BITS = 20 };

/* GAVE_UP: the limit on nodes was reached, or memory ran out, before an answer. */
typedef enum weir_exact_result {
    WEIR_EXACT_FOUND,
    WEIR_EXACT_DEAD_END,
    WEIR_EXACT_GAVE_UP
} weir_exact_result;

typedef struct weir_undo {
    uint32_t section;
    int64_t  floor;
} weir_undo;

/* What follows from a state for one section of a run. */
typedef struct weir_section_state {
    int64_t  gap;               /* bytes up to the next higher floor below one of its items */
    int64_t  next, second;      /* lowest two ends of its items, if each lies as low as it can */
    uint32_t who;               /* the span that ends at `next` */
    uint32_t cases;             /* number of items that can lie at the floor */
    bool     closed;            /* one of its items reaches down to a lower floor */
} weir_section_state;

/* A section where a search branches: either an item lies at its floor, or the floor rises. */
typedef struct weir_branch_point {
    uint32_t section;
    int64_t  floor, above;      /* above: where it rises to; INT64_MAX: it cannot */
} weir_branch_point;

#define WEIR_EXACT_NO_ITEM UINT32_MAX /* as a case: no item lies at the floor */

/* One attempt to place all items below `cap`. It owns its arrays. */
typedef struct weir_exact_state {
    weir_placer        *p;
    weir_place_instance s;
    int64_t             cap;
    int64_t            *floor, *total; /* [sections]; total: bytes left to place */
    int64_t            *low;           /* [sections] lowest possible offset of its items */
    int64_t            *end;           /* [sections] a lower bound on the end of its pile */
    weir_section_state *view;          /* [sections] */
    int64_t            *at;            /* [spans] offset; -1: not placed, */
    uint64_t           *left;          /* [spans / 64 + 1] and a bit for each of those */
    /* [spans] the highest floor below it: its lowest possible offset */
    int64_t            *high;
    uint32_t           *order;         /* [spans] the run's unplaced spans, by `high` */
    uint32_t            orders;        /* number of entries of `order` */
    uint32_t           *by_floor;      /* [sections] scratch of sorting by floor */
    uint32_t           *head, *next;   /* [sections], [spans]: lists for that sorting */
    int64_t             least;         /* bytes of the smallest unplaced item of the run */
    double             *rank;          /* [spans] cases with larger rank are tried first */
    /* branch at the lowest section instead of that with the fewest cases */
    bool                lowest;
    uint32_t            width;         /* most states per level of the beam */
    double              spare;         /* slack that hardly matters, as a fraction of cap */
    double              pressing;      /* weight of the items left to place; 0: none */
    /* sort cases by their cost one step ahead instead of by rank */
    bool                look;
    int64_t            *slack;         /* [sections] slack of each before a case */
    double             *loss;          /* [spans + 1] costs of cases */
    uint64_t           *memo;          /* hash table of dead runs */
    WEIR_VEC(weir_undo) undo;
    WEIR_VEC(uint32_t)  placed; /* spans in the order of placing */
    WEIR_VEC(uint32_t)  cases;  /* cases of all nodes on the current path */
    uint64_t            nodes, limit;
    uint64_t            looks;         /* number of cases that this turn may still look at */
    bool                short_of_memory;    /* or told to stop by weir_progress_poll */
} weir_exact_state;

/* The first span from i on that is not placed; `end`, at most the number of spans, if all before it
 * are. */
static inline uint32_t weir_exact_left(const weir_exact_state *x, uint32_t i, uint32_t end)
{
    for (uint64_t word = x->left[i / 64] >> i % 64; i < end; word = x->left[i / 64]) {
        if (word) {
            i += (uint32_t)__builtin_ctzll(word);
            return i < end ? i : end;
        }
        i = (i / 64 + 1) * 64;
    }
    return end;
}

/* Gives span i an offset; -1: it is not placed. */
static inline void weir_exact_set_at(weir_exact_state *x, uint32_t i, int64_t offset)
{
    const uint64_t bit = (uint64_t)1 << i % 64;

    x->at[i] = offset;
    x->left[i / 64] = offset < 0 ? x->left[i / 64] | bit : x->left[i / 64] & ~bit;
}

/* ---- exact_state.c ---- */

/* Change the state; weir_exact_undo returns to earlier numbers of placed items and undo entries.
 * Return false if memory runs out. */
bool weir_exact_set_floor(weir_exact_state *x, uint32_t section, int64_t floor);
bool weir_exact_put(weir_exact_state *x, uint32_t span, int64_t offset);
void weir_exact_undo(weir_exact_state *x, uint32_t placed, uint32_t undo);

/* Raises the floors of the run [lo, hi) to the lowest place of any of their items; fills `order`,
 * `high`, `low` and `end`. Returns false if a section cannot hold its items, or if memory runs out.
 */
bool weir_exact_rise(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* For a run whose floors have risen: returns where to branch, and pushes the cases there by rank
 * (false if memory runs out). */
weir_branch_point weir_exact_branch_point(weir_exact_state *x, uint32_t lo, uint32_t hi);
bool      weir_exact_cases(weir_exact_state *x, uint32_t lo, weir_branch_point f);

/* ---- searches: FOUND leaves every item of sections [lo, hi) placed ---- */

typedef weir_exact_result (*weir_exact_search)(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Calls the search for each run of sections that no remaining item crosses, until one fails. */
weir_exact_result weir_exact_runs(weir_exact_state *x, uint32_t lo, uint32_t hi,
                                  weir_exact_search search);

/* Depth-first search, run by run. */
weir_exact_result weir_exact_solve(weir_exact_state *x, uint32_t lo, uint32_t hi);

/* Beam search of one run, `width` states per level. Never DEAD_END, since it drops states. */
weir_exact_result weir_exact_beam(weir_exact_state *x, uint32_t lo, uint32_t hi);

#endif
