/* exact.h - state of one exact search: the nodes (branch.c) and who calls them (exact.c). */
#ifndef WEIR_GRAPH_PLACE_EXACT_H
#define WEIR_GRAPH_PLACE_EXACT_H

#include "graph/place/section.h"

enum { WEIR_MEMO_BITS = 20 };

/* CUT: the nodes, or the memory, were not enough to tell. */
typedef enum weir_found { WEIR_FOUND, WEIR_DEAD, WEIR_CUT } weir_found;

typedef struct weir_undo {
    uint32_t section;
    int64_t  floor;
} weir_undo;

/* What the survey of a run says of one section. */
typedef struct weir_view {
    int64_t  floor;             /* lowest place where one of its items can lie */
    int64_t  gap;               /* from there to the next floor below one of its items */
    int64_t  next, second;      /* lowest ends of its items, if they lie as low as they can */
    uint32_t who;               /* the span that ends at `next` */
    uint32_t cases;             /* items that can lie at the floor */
    bool     closed;            /* one of its items reaches down to a lower floor */
} weir_view;

typedef struct weir_exact {
    weir_placer   *p;
    weir_sections  s;
    int64_t        cap;
    int64_t       *floor, *total;       /* [sections]; total: bytes to come */
    weir_view     *view;                /* [sections] */
    int64_t       *at;                  /* [spans] offset, -1: to come */
    int64_t       *high;                /* [spans] the highest floor below it */
    int64_t        least;               /* bytes of the smallest item of the run */
    double        *rank;                /* [spans] larger is tried first */
    bool           lowest;              /* the lowest section is next, not that of fewest cases */
    bool           look;                /* cases are tried by what they cost, not by rank */
    int64_t       *room;                /* [sections] and */
    double        *loss;                /* [spans + 1] of one look ahead */
    uint64_t      *memo;                /* hashes of dead runs */
    WEIR_VEC(weir_undo) undo;
    WEIR_VEC(uint32_t) placed;          /* spans, in order */
    WEIR_VEC(uint32_t) cases;           /* of all nodes on the path */
    uint64_t       nodes, limit;
    bool           short_of_memory;
} weir_exact;

/* Scatters the bits of a number: the last steps of SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t weir_exact_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Places all that is left in sections [lo, hi), run by run. FOUND leaves it placed. */
weir_found weir_exact_solve(weir_exact *x, uint32_t lo, uint32_t hi);

#endif
