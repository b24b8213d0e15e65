/* job.h - what a policy is asked for: a problem and a number of bytes; and its answer. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_JOB_H
#define WEIR_GRAPH_MEMORY_SEARCH_JOB_H

#include "graph/memory/problem/schedule.h"

enum { WEIR_VARIANT = 64 };     /* bytes of a variant without its packing, terminated */

typedef struct weir_policy_job {
    const weir_mem_problem *p;
    size_t                  limit;     /* bytes of tensors and workspace to stay within */
    size_t                  addresses; /* the same for addresses, multiples of align; 0: any */
    size_t                  align;
    const char             *variant; /* what follows the name's colon; "" if nothing does */
    uint64_t                moves;   /* of a search, if there is one; 0: by the size of the step */
    bool                    or_none; /* a plan that needs more than the room is of no use */
    uint8_t      *decisions; /* lower.h's decisions to begin with, or NULL; then those made, if
                                 * the policy makes such. Freed by the caller. */
    double        proven;    /* proven lower bound on the extra seconds of any plan of this kind;
                                 * INFINITY: infeasible; 0: nothing proven */
    weir_schedule s;         /* the answer, ended; s.peak > room: as small as it gets, s.valid
                                 * false: no plan was found. Freed by the caller. */
} weir_policy_job;

/* What stands before the slash of a variant into own, cut where it is too long. Returns the packing
 * behind the slash, or NULL. */
const char *weir_compress_split(const char *variant, char own[WEIR_VARIANT]);

/* Moves of a search for so many ops: a count, so that plans are reproducible. */
uint64_t weir_policy_moves(uint32_t ops);

/* ERR_INVALID, naming the policy, where nothing can be copied to the host. */
weir_status weir_policy_needs_link(const weir_mem_problem *p, const char *name);

#endif
