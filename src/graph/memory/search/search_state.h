/* search_state.h - what the files of the search share: the plan at hand and its random numbers. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H

#include "graph/memory/problem/offsets.h"
#include "graph/memory/search/search.h"

/* Plans are compared first by whether they fit, then by time. */
typedef struct weir_found {
    uint8_t *gap;               /* [gaps] */
    size_t   peak;              /* SIZE_MAX: nothing yet */
    double   extra;
} weir_found;

typedef struct weir_candidate {
    double   score;
    uint32_t gap, piece;
    uint8_t  to;                /* decision */
} weir_candidate;

typedef struct weir_searcher {
    weir_search *s;
    unsigned     levers;        /* allowed at the moment */
    size_t       small;         /* pieces of fewer bytes stay: they cost moves, not room */
    uint8_t     *gap;           /* [gaps] the plan at hand */
    weir_found   best;          /* of the line at hand */
    weir_found   pending;       /* better, but addresses are still to be looked for; or none */
    uint32_t    *piece_of;      /* [gaps] */
    WEIR_VEC(uint32_t) worth;   /* gaps of pieces that are not small */
    uint32_t    *stamp;         /* [pieces] the call that counted it */
    uint32_t     call;
    weir_lay     lay;
    size_t       spare;         /* bytes of the budget left free, so that there are addresses */
    uint32_t     every;         /* moves after which addresses are looked for */
    uint32_t     failed, wait;  /* plans without addresses in a row; so many are not looked at */
    weir_status  status;        /* of the last look at addresses */
    uint64_t     random;
    double      *when;          /* [tasks + 1] seconds before each, all first runs */
    WEIR_VEC(weir_candidate) candidates;
    WEIR_VEC(uint64_t) undo;    /* gap << 8 | decision it had */
} weir_searcher;

static inline uint64_t weir_draw(weir_searcher *a)
{
    uint64_t z = (a->random += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline uint32_t weir_below(weir_searcher *a, uint32_t n)
{
    return (uint32_t)(((weir_draw(a) >> 32) * n) >> 32);
}

static inline double weir_unit(weir_searcher *a)
{
    return (double)(weir_draw(a) >> 11) * 0x1p-53;
}

/* ---- search.c ---- */

/* Walks the plan at hand. False when memory is short. */
bool   weir_search_walk(weir_searcher *a);
/* Of the plan walked last: extra time and bytes above the budget, both relative. */
double weir_search_objective(const weir_searcher *a);
/* Bytes that plans are made for: the budget, less what addresses turned out to need. */
static inline size_t weir_search_room(const weir_searcher *a)
{
    return a->s->budget - a->spare;
}
/* Remembers the plan at hand if it is the best of its line and has addresses. False when memory is
 * short. */
bool   weir_search_note(weir_searcher *a);
/* The same, but looking for addresses, which takes longer than many walks, waits until
 * weir_search_settle, after every a->every moves: of the plans in between only the best is looked
 * at. */
bool   weir_search_note_later(weir_searcher *a);
bool   weir_search_settle(weir_searcher *a);

/* ---- candidates.c: how a piece may go, and what that costs ---- */

/* Number of uses of the piece before task `stage`: the gap that covers it. */
uint32_t weir_gap_at(const weir_problem *p, uint32_t piece, uint32_t stage);
/* Can the decision be made for gap j of the piece at all, and is it allowed? */
bool     weir_way_possible(const weir_searcher *a, uint32_t piece, uint32_t j, weir_gap d);
/* Has the gap been let go for good already? */
bool     weir_way_gone(const weir_searcher *a, uint32_t gap, uint32_t piece, uint32_t j);
/* Seconds to make the piece anew at the end of its gap; INFINITY where that is wrong by then. */
double   weir_drop_cost(weir_searcher *a, uint32_t piece, uint32_t j);
/* Seconds on the link to the host in the last walk. */
double   weir_link_load(const weir_searcher *a);
/* The cheapest way to let the piece go in gap j, and its seconds; WEIR_KEEP: there is none. load:
 * weir_link_load. */
weir_gap weir_way_cheapest(weir_searcher *a, uint32_t piece, uint32_t j, double load,
                           double *seconds);

/* ---- greedy.c, anneal.c: false when memory is short ---- */

/* From the plan at hand: lets pieces go until the peak fits or none is left. power: of bytes
 * against seconds. */
bool weir_search_greedy(weir_searcher *a, double power);
/* Takes decisions of the plan at hand back, the dearest first, while the budget holds. */
bool weir_search_restore(weir_searcher *a);
/* From the best of the line, so many moves. */
bool weir_search_anneal(weir_searcher *a, uint64_t moves);

#endif
