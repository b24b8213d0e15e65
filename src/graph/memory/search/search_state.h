/* search_state.h - what the files of the search share: the plan at hand and its random numbers. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H

#include "core/splitmix.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/search/request.h"

/* Plans are compared first by whether they fit, then by time. */
typedef struct weir_search_best {
    uint8_t *decisions; /* [intervals] */
    size_t   peak;      /* SIZE_MAX: nothing yet */
    double   extra;
} weir_search_best;

typedef struct weir_candidate {
    double   score;
    uint32_t interval, tensor;
    uint8_t  to; /* decision */
} weir_candidate;

typedef struct weir_search_state {
    weir_search       *s;
    unsigned           levers;    /* allowed at the moment */
    size_t             small;     /* tensors of fewer bytes stay: they cost moves, not room */
    uint8_t           *decisions; /* [intervals] the plan at hand */
    weir_search_best   best;      /* of the line at hand */
    weir_search_best   pending;   /* better, but addresses are still to be looked for; or none */
    uint32_t          *tensor_of; /* [intervals] */
    WEIR_VEC(uint32_t) worth;     /* gaps of tensors that are not small */
    uint32_t          *stamp;     /* [tensors] the call that counted it */
    uint32_t           call;
    weir_offsets       offsets;
    size_t             spare; /* bytes of the budget left free, so that there are addresses */
    uint32_t           every; /* moves after which addresses are looked for */
    uint32_t    failed, wait; /* plans without addresses in a row; so many are not looked at */
    weir_status status;       /* of the last look at addresses */
    uint64_t    random;
    double     *when; /* [ops + 1] seconds before each, all first runs */
    WEIR_VEC(weir_candidate) candidates;
    WEIR_VEC(uint64_t)       undo; /* interval << 8 | decision it had */
} weir_search_state;

static inline uint64_t weir_random_u64(weir_search_state *a)
{
    return weir_splitmix_next(&a->random);
}

static inline uint32_t weir_random_below(weir_search_state *a, uint32_t n)
{
    return weir_splitmix_below(&a->random, n);
}

static inline double weir_random_unit(weir_search_state *a)
{
    return (double)(weir_random_u64(a) >> 11) * 0x1p-53;
}

/* Allocates the state of a search for a->s, whose room is initialised. False when memory is short;
 * free it either way. */
bool   weir_search_state_init(weir_search_state *a);
void   weir_search_state_free(weir_search_state *a);

/* Begins a line of search with no plan; ends it: its best plan becomes the search's answer where it
 * is better. */
void   weir_search_open_line(weir_search_state *a, unsigned levers);
void   weir_search_close_line(weir_search_state *a);

/* Walks the plan at hand. False when memory is short. */
bool   weir_search_lower(weir_search_state *a);

/* Of the plan walked last: extra time and bytes above the budget, both relative. */
double weir_search_objective(const weir_search_state *a);

/* Bytes that plans are made for: the budget, less what addresses turned out to need. */
static inline size_t weir_search_limit(const weir_search_state *a)
{
    return a->s->budget - a->spare;
}

/* Remembers the plan at hand if it is the best of its line and has addresses. False when memory is
 * short. */
bool   weir_search_note(weir_search_state *a);

/* The same, but looking for addresses, which takes longer than many walks, waits until
 * weir_search_flush, after every a->every moves: of the plans in between only the best is looked
 * at. */
bool   weir_search_note_later(weir_search_state *a);
bool   weir_search_flush(weir_search_state *a);

#endif
