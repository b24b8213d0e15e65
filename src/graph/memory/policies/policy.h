/* policy.h - memory policies by name: each makes a schedule for a problem and a number of bytes. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_POLICY_H
#define WEIR_GRAPH_MEMORY_POLICIES_POLICY_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_policy_job {
    const weir_problem *p;
    size_t         room;        /* bytes of pieces and workspace to stay within */
    size_t         addresses;   /* the same for addresses, multiples of align; 0: any */
    size_t         align;
    const char    *variant;     /* what follows the name's colon; "" if nothing does */
    uint64_t       moves;       /* of a search, if there is one; 0: by the size of the step */
    bool           or_none;     /* a plan that needs more than the room is of no use */
    uint8_t       *gap;         /* lower.h's decisions to begin with, or NULL; then those made, if
                                 * the policy makes such. Freed by the caller. */
    double         proven;      /* plans of the policy's kind take so many seconds more, at least;
                                 * INFINITY: there is none; 0: nothing was proved */
    weir_schedule  s;           /* the answer, ended; s.peak > room: as small as it gets, s.valid
                                 * false: there is none at all */
} weir_policy_job;

typedef struct weir_policy {
    const char *name;
    const char *variants;       /* separated by spaces; "" if there are none */
    weir_status (*plan)(weir_policy_job *job);
    bool        slow;           /* in tables only where it is asked for */
    bool        link;           /* copies to the host: needs a link */
} weir_policy;

/* The policy of a text such as "auto", "checkpoint:speed" or "dtr/gist" (NULL: auto), and what
 * follows the colon, with the slash and the packing (compress.h) if there is one. ERR_INVALID,
 * naming all there are. */
weir_status weir_policy_find(const char *text, const weir_policy **policy, const char **variant);

/* The policies, in the order in which tables list them. */
const weir_policy *weir_policies(size_t *n);

/* Runs policy `text` on a problem, then again for fewer bytes until `lay` finds addresses within
 * `room`. */
typedef struct weir_fit {
    const weir_problem *p;
    const weir_policy  *policy;
    const char         *variant;
    size_t              room, align;
    uint64_t            moves;
    bool                quick;  /* addresses are looked at behind the search only, not inside */
    weir_status (*lay)(void *ctx, const weir_schedule *s, size_t *height);
    void               *ctx;
    weir_schedule       s;      /* the last schedule that was laid out */
    uint8_t            *gap;    /* decisions to begin with, or NULL; then the last ones */
    size_t              target; /* bytes that the policy was last asked for */
    size_t              height; /* of it */
    bool                fits;   /* height <= room */
    double              proven; /* of job, for the whole room */
} weir_fit;

weir_status weir_fit_run(weir_fit *f);
void        weir_fit_free(weir_fit *f);

/* Moves of a search for so many tasks: a count, so that plans are reproducible. */
uint64_t weir_policy_moves(uint32_t tasks);

/* ERR_INVALID, naming the policy, where nothing can be copied to the host. */
weir_status weir_policy_needs_link(const weir_problem *p, const char *name);

/* Is it policy auto, and may it use the lever (weir_lever, search.h)? */
bool weir_auto_uses(const weir_policy *policy, const char *variant, unsigned lever);

/* The peak of pieces and workspace with everything kept. */
weir_status weir_recycled_peak(const weir_problem *p, size_t *peak);

/* Each in a file of its name. */
weir_status weir_policy_auto(weir_policy_job *job);
weir_status weir_policy_mincut(weir_policy_job *job);
weir_status weir_policy_recycle(weir_policy_job *job);
weir_status weir_policy_checkpoint(weir_policy_job *job);
weir_status weir_policy_sublinear(weir_policy_job *job);
weir_status weir_policy_dtr(weir_policy_job *job);
weir_status weir_policy_dtr_lookahead(weir_policy_job *job);
weir_status weir_policy_gist(weir_policy_job *job);
weir_status weir_policy_actnn(weir_policy_job *job);
weir_status weir_policy_vdnn(weir_policy_job *job);
weir_status weir_policy_capuchin(weir_policy_job *job);
weir_status weir_policy_delta(weir_policy_job *job);
weir_status weir_policy_autotm(weir_policy_job *job);
weir_status weir_policy_optimal(weir_policy_job *job);

/* Bits to which the policy, or the packing of its variant, rounds what waits for the backward pass;
 * 0: nothing is lost. ERR_INVALID where the packing is none. */
weir_status weir_policy_lossy(const weir_policy *policy, const char *variant, uint32_t *bits);

#endif
