/* job.h - a job for a policy: a problem and a limit in bytes; and the policy's answer. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_JOB_H
#define WEIR_GRAPH_MEMORY_SEARCH_JOB_H

#include "graph/memory/problem/schedule.h"

enum { WEIR_VARIANT = 64 };     /* bytes of a variant before the slash, with the final zero */

/* Names a plan of one of the quick policies (portfolio.h), which makes it again. */
typedef struct weir_portfolio_plan {
    uint32_t entry; /* 1 + index of the policy; 0: none */
    size_t   limit; /* bytes that it planned for */
} weir_portfolio_plan;

typedef struct weir_policy_job {
    const weir_mem_problem *p;
    size_t                  limit;     /* bytes of tensors and workspace to stay within */
    /* bytes within which offsets must lie; 0: offsets are not needed */
    size_t                  addresses;
    size_t                  align;
    /* what follows the colon of the policy's name; "" if nothing */
    const char             *variant;
    uint64_t                moves;   /* moves of a search; 0: chosen by the size of the step */
    bool                    or_none; /* true: a plan that exceeds the limit is of no use */
    double                  slowest; /* seconds: a slower plan is of no use, either; 0: any */
    /* visits of tensors after which one simulation gives up, for those that count; 0: any */
    uint64_t                most_work;
    uint8_t      *decisions; /* in: decisions (lower.h) to begin with, or NULL; out: those of the
                              * answer, if the policy works by decisions. The caller frees it. */
    /* out: the quick plan that the answer is, which decisions do not describe; entry 0: none */
    weir_portfolio_plan quick;
    double        proven;    /* out: proven lower bound on the extra seconds of any plan of this
                              * kind; INFINITY: infeasible; 0: nothing proven */
    weir_schedule s;         /* out: the answer, ended. s.peak > limit: nothing smaller was found;
                              * s.valid false: no plan was found. The caller frees it. */
} weir_policy_job;

/* Copies the part of a variant before its slash into own, truncated if it is too long. Returns the
 * compression after the slash (part of `variant`); NULL if the variant has no slash. */
const char *weir_compress_split(const char *variant, char own[WEIR_VARIANT]);

/* Returns the default number of moves for a step of `ops` ops: a count, never a time, so that plans
 * are reproducible. */
uint64_t weir_policy_moves(uint32_t ops);

/* Returns WEIR_OK, or ERR_INVALID, naming the policy, if the problem has no link to the host. */
weir_status weir_policy_needs_link(const weir_mem_problem *p, const char *name);

#endif
