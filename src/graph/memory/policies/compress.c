/* compress.c - the policy plans for more bytes than there are, and what it keeps is packed.
 *
 * For as many bytes more as packing saves: found by bisection between the room and the peak with
 * everything kept. Packing takes time, so the policy's own plan is the answer where it fits and is
 * faster. Policy auto weighs packing against everything else by itself. */
#include "graph/memory/policies/compress.h"

#include "core/status.h"
#include "graph/memory/policies/actnn.h"
#include "graph/memory/policies/gist.h"
#include "graph/memory/policies/recycle.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/search/best.h"

typedef struct weir_packer {
    const weir_policy *policy;
    weir_policy_job   *job;     /* its schedule is the best so far */
    const char        *variant;
    weir_walk_room     walk;
    uint8_t           *gap;
} weir_packer;

/* The policy's plan for so many bytes, packed. *fits: within the room. */
static weir_status try_target(weir_packer *x, size_t target, bool *fits)
{
    weir_policy_job own = {.p = x->job->p, .room = target, .align = x->job->align,
                           .variant = x->variant, .moves = x->job->moves};

    *fits = false;
    weir_status status = x->policy->plan(&own);
    if (status == WEIR_OK && own.s.valid) {
        const bool ok = weir_gap_of_schedule(&x->walk, &own.s, x->gap);
        weir_gist_decide(&x->walk, x->gap);
        status = ok && weir_walk(&x->walk, x->gap) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK && own.s.valid && x->walk.valid) {
        *fits = x->walk.peak <= x->job->room;
        weir_best_take(x->job, &x->walk.s);
        if (!x->walk.s.now && !weir_schedule_init(&x->walk.s, x->job->p))
            status = WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK)
        weir_best_take(x->job, &own.s);
    weir_schedule_free(&own.s);
    weir_mem_free(own.gap);
    return status;
}

static weir_status search(weir_packer *x)
{
    enum { HALVINGS = 6 };
    size_t low = x->job->room, high;
    bool   fits;

    WEIR_TRY(weir_recycled_peak(x->job->p, &high));
    WEIR_TRY(try_target(x, low, &fits));
    if (high <= low)
        return WEIR_OK;
    WEIR_TRY(try_target(x, high, &fits));
    for (int i = 0; i < HALVINGS && !fits; i++) {
        const size_t middle = low + (high - low) / 2;
        bool         half;
        WEIR_TRY(try_target(x, middle, &half));
        *(half ? &low : &high) = middle;
    }
    return WEIR_OK;
}

weir_status weir_packing_plan(const weir_policy *policy, weir_policy_job *job)
{
    char              own[WEIR_VARIANT];
    const char *const variant = job->variant;
    weir_packer       x = {.policy = policy, .job = job, .variant = own};
    uint32_t          bits;

    if (!weir_packing_split(variant, own))
        return policy->plan(job);
    WEIR_TRY(weir_policy_lossy(policy, variant, &bits));
    if (policy->plan == weir_policy_auto) {
        job->variant = own;
        const weir_status status = policy->plan(job);
        job->variant = variant;
        return status;
    }
    const bool  ok = weir_walk_init(&x.walk, job->p) &&
                    (x.gap = weir_mem_alloc(x.walk.gaps + 1u)) != NULL;
    x.walk.budget = job->room;
    const weir_status status = ok ? search(&x) : WEIR_ERR_NOMEM;
    weir_walk_free(&x.walk);
    weir_mem_free(x.gap);
    return status;
}
