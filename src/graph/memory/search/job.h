/* job.h - what a policy is asked for, a problem and a limit in bytes, and its answer. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_JOB_H
#define WEIR_GRAPH_MEMORY_SEARCH_JOB_H

#include "graph/memory/problem/schedule.h"

enum { WEIR_VARIANT = 64 };     /* bytes of a variant before the slash, terminated */

typedef struct weir_policy_job {
    const weir_mem_problem *p;
    size_t                  limit;     /* bytes of tensors and workspace to stay within */
    size_t                  addresses; /* limit for addresses, multiples of align; 0: any */
    size_t                  align;
    const char             *variant; /* what follows the name's colon; "" if nothing does */
    uint64_t                moves;   /* of a search, if there is one; 0: by the size of the step */
    bool                    or_none; /* a plan that exceeds the limit is of no use */
    uint8_t      *decisions; /* decisions (lower.h) to begin with, or NULL; afterwards those made,
                              * if the policy makes any. Freed by the caller. */
    double        proven;    /* proven lower bound on the extra seconds of any plan of this kind;
                              * INFINITY: infeasible; 0: nothing proven */
    weir_schedule s;         /* the answer, ended; s.peak > limit: as small as it gets; s.valid
                              * false: no plan was found. Freed by the caller. */
} weir_policy_job;

/* Copies a variant up to its slash into own, cut off if too long. Returns the compression after the
 * slash, or NULL. */
const char *weir_compress_split(const char *variant, char own[WEIR_VARIANT]);

/* Moves of a search for a step of `ops` ops: a count, so that plans are reproducible. */
uint64_t weir_policy_moves(uint32_t ops);

/* ERR_INVALID, naming the policy, if the problem has no link to the host. */
weir_status weir_policy_needs_link(const weir_mem_problem *p, const char *name);

#endif
