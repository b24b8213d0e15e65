/* search_state.h - what the files of the search share: current decisions, best plan, randomness. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H

#include "core/splitmix.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/search/request.h"

/* A plan that fits beats one that does not; then time decides. */
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
    unsigned           levers;    /* allowed at present */
    size_t             small;     /* smaller tensors (bytes) stay: they cost moves, save little */
    uint8_t           *decisions; /* [intervals] the current plan */
    weir_search_best   best;      /* of the current line */
    weir_search_best   pending;   /* better, but not yet checked for addresses; or none */
    uint32_t          *tensor_of; /* [intervals] */
    WEIR_VEC(uint32_t) worth;     /* intervals of tensors that are not small */
    uint32_t          *stamp;     /* [tensors] the call that visited it */
    uint32_t           call;
    weir_offsets       offsets;
    size_t             aim;   /* bytes of the budget, or more where no plan can fit it */
    size_t             spare; /* bytes of the budget left unused, so that addresses exist */
    uint32_t           every; /* moves between two checks for addresses */
    uint32_t    failed, wait; /* plans without addresses in a row; how many to pass over now */
    weir_status status;       /* of the last check for addresses */
    uint64_t    random;
    double     *when; /* [ops + 1] seconds of first runs before each */
    WEIR_VEC(weir_candidate) candidates;
    WEIR_VEC(uint64_t)       undo; /* interval << 8 | decision it had */
} weir_search_state;

/* Is a peak so low that, with no plan within the budget, no other one will be preferred? */
static inline bool weir_search_at_floor(const weir_search *s, size_t peak)
{
    return s->floor > 0 && peak <= s->floor;
}

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

/* Allocates the state of a search for a->s, whose `lowered` must be initialised. False when memory
 * is short; free it either way. */
bool   weir_search_state_init(weir_search_state *a);
void   weir_search_state_free(weir_search_state *a);

/* Begin a line of search without a plan, and end it: its best plan becomes the search's answer if
 * it is better. */
void   weir_search_open_line(weir_search_state *a, unsigned levers);
void   weir_search_close_line(weir_search_state *a);

/* Lowers the current plan. False when memory is short. */
bool   weir_search_lower(weir_search_state *a);

/* Of the plan lowered last: extra time and bytes above the budget, both relative. */
double weir_search_objective(const weir_search_state *a);

/* Bytes that plans may use: the budget, less what addresses turned out to cost. */
static inline size_t weir_search_limit(const weir_search_state *a)
{
    return a->aim - a->spare;
}

/* Records the current plan if it is the best of its line and has addresses. False when memory is
 * short. */
bool   weir_search_note(weir_search_state *a);

/* The same, but the check for addresses, which takes longer than lowering many plans, waits for
 * weir_search_flush, called every a->every moves: only the best plan in between is checked. */
bool   weir_search_note_later(weir_search_state *a);
bool   weir_search_flush(weir_search_state *a);

#endif
