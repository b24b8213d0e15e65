/* search_state.h - what the files of the search share: current decisions, best plan, randomness. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_STATE_H

#include "core/splitmix.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/problem/relower.h"
#include "graph/memory/search/request.h"

/* A plan: one that fits beats one that does not; then time decides, or bytes if neither fits. */
typedef struct weir_search_best {
    uint8_t *decisions; /* [intervals] */
    size_t   peak;      /* bytes; SIZE_MAX: no plan yet */
    double   extra;
} weir_search_best;

/* What a plan needs. */
typedef struct weir_search_plan {
    size_t   peak;       /* bytes */
    uint32_t peak_stage; /* the first run at, or before, which it is */
    double   extra;      /* seconds */
    bool     valid;
} weir_search_plan;

/* A decision that a search may take, with its score: larger is better. */
typedef struct weir_candidate {
    double   score;
    uint32_t interval, tensor;
    uint8_t  to; /* decision */
} weir_candidate;

typedef struct weir_search_state {
    weir_search       *s;
    unsigned           levers;    /* bits of weir_lever that are allowed at present */
    size_t             small;     /* bytes; smaller tensors stay: they cost moves and save little */
    uint8_t           *decisions; /* [intervals] the current plan */
    weir_search_plan   now;       /* what it needs, as evaluated last */
    weir_relower       relower;   /* evaluates changes of plans */
    bool               in_steps;  /* this line's plans only recompute: `relower` says all of them */
    bool               screens;   /* at present `relower` says what a changed plan needs at least */
    bool               can_screen; /* this line's plans only recompute and offload */
    weir_search_best   best;      /* best plan of the current line */
    weir_search_best   pending;   /* a better plan whose addresses are not yet checked; or none */
    uint32_t          *tensor_of; /* [intervals] the tensor of each */
    WEIR_VEC(uint32_t) worth;     /* intervals of tensors that are not small */
    uint32_t          *stamp;     /* [tensors] the last `call` that visited it */
    uint32_t           call;
    weir_offsets       offsets;
    size_t             aim;   /* bytes to aim at: the budget, or more if no plan can fit it */
    size_t             spare; /* bytes of the budget left unused so that addresses can be found */
    double             unused_weight; /* what bytes below the limit are worth in the objective */
    uint32_t           every; /* moves between two checks of addresses */
    uint32_t    failed, wait; /* failures in a row to find addresses; plans to skip now */
    weir_status status;       /* of the last check of addresses */
    uint64_t    random;
    double     *when; /* [ops + 1] seconds of first runs before each op */
    WEIR_VEC(weir_candidate) candidates;
    WEIR_VEC(uint64_t)       undo; /* interval << 8 | the decision before the move */
} weir_search_state;

/* With no plan within the budget: is the peak so low that no plan can be better? */
static inline bool weir_search_at_floor(const weir_search *s, size_t peak)
{
    return s->floor > 0 && peak <= s->floor;
}

/* Does `relower` follow the changes of decisions at present? */
static inline bool weir_search_is_incremental(const weir_search_state *a)
{
    return a->in_steps || a->screens;
}

/* Draw 64 random bits, an integer in [0, n), and a number in [0, 1) from the state's generator,
 * whose seed is fixed. */
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

/* Allocates the state of a search for a->s, whose `lowered` must be initialised. Returns false if
 * memory runs out; the caller calls weir_search_state_free in either case. */
bool   weir_search_state_init(weir_search_state *a);
void   weir_search_state_free(weir_search_state *a);

/* Begin a line of search, without a plan; and end it: its best plan becomes the search's answer if
 * it is better. */
void   weir_search_open_line(weir_search_state *a, unsigned levers);
void   weir_search_close_line(weir_search_state *a);

/* Lowers the current plan, so that s->lowered and a->now describe it. Returns false if memory runs
 * out. */
bool   weir_search_lower(weir_search_state *a);

/* Changes a decision of the current plan, which weir_search_try then evaluates: a->now describes
 * it, s->lowered need not. weir_search_take_back undoes all changes since weir_search_begin_move.
 * They return false if memory runs out. */
void   weir_search_begin_move(weir_search_state *a);
bool   weir_search_change(weir_search_state *a, uint32_t interval, uint8_t to);
bool   weir_search_try(weir_search_state *a);

/* weir_search_try in two parts: after the first, a->now is what the plan needs at least. While
 * a->screens is set, which needs a->can_screen and then weir_search_evaluate, the first part takes
 * time for what has changed alone, and does not change s->lowered. The second part may stop once
 * the plan is known to take more than `most` extra seconds; a->now.extra is then infinite. */
bool   weir_search_try_runs(weir_search_state *a);
bool   weir_search_try_copies(weir_search_state *a, double most);

bool   weir_search_take_back(weir_search_state *a);

/* Evaluates the current plan after changes of any kind: a->now describes it. Returns false if
 * memory runs out. */
bool   weir_search_evaluate(weir_search_state *a);

/* Returns the cost of the plan evaluated last: extra time relative to the step plus weighted bytes
 * above the limit, less weighted bytes below it, relative to the budget; INFINITY: invalid. */
double weir_search_objective(const weir_search_state *a);

/* Returns the bytes that plans may use: the aim, less what gaps between addresses have cost. */
static inline size_t weir_search_limit(const weir_search_state *a)
{
    return a->aim - a->spare;
}

/* Records the current plan if it is the best of its line and has addresses. Returns false if memory
 * runs out. */
bool   weir_search_note(weir_search_state *a);

/* The same, but the check of addresses, which takes longer than lowering many plans, waits for
 * weir_search_flush, called every a->every moves; it checks only the best plan since the last
 * one. */
bool   weir_search_note_later(weir_search_state *a);
bool   weir_search_flush(weir_search_state *a);

#endif
