/* compress.c - lets a policy plan for more bytes than the limit and compresses what it keeps.
 *
 * Bisection between the limit and the peak with everything kept finds for how many bytes the policy
 * may plan so that the compressed plan still fits. Compression takes time, so the policy's plain
 * plan is the answer if it fits and is faster. Policy auto weighs compression by itself. */
#include "graph/memory/policies/compress.h"

#include "core/status.h"
#include "graph/memory/policies/actnn.h"
#include "graph/memory/policies/gist.h"
#include "graph/memory/policies/recycle.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/search/best.h"

typedef struct weir_compress_search {
    const weir_policy *policy;
    weir_policy_job   *job; /* job->s is the best schedule so far */
    const char        *variant;
    weir_lower_state   lowered;
    uint8_t           *decisions;
} weir_compress_search;

/* Tries the policy's plan for `target` bytes, compressed. *fits says whether it is within the
 * limit. */
static weir_status try_target(weir_compress_search *x, size_t target, bool *fits)
{
    weir_policy_job own = {.p = x->job->p,
                           .limit = target,
                           .align = x->job->align,
                           .variant = x->variant,
                           .moves = x->job->moves};

    *fits = false;
    weir_status status = x->policy->plan(&own);
    if (status == WEIR_OK && own.s.valid) {
        const bool ok = weir_decisions_from_schedule(&x->lowered, &own.s, x->decisions);
        weir_gist_decide(&x->lowered, x->decisions);
        status = ok && weir_lower(&x->lowered, x->decisions) ? WEIR_OK : WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK && own.s.valid && x->lowered.valid) {
        *fits = x->lowered.peak <= x->job->limit;
        weir_best_take(x->job, &x->lowered.s);
        if (!x->lowered.s.now && !weir_schedule_init(&x->lowered.s, x->job->p))
            status = WEIR_ERR_NOMEM;
    }
    if (status == WEIR_OK)
        weir_best_take(x->job, &own.s);
    weir_schedule_free(&own.s);
    weir_mem_free(own.decisions);
    return status;
}

static weir_status search(weir_compress_search *x)
{
    enum { HALVINGS = 6 };
    size_t low = x->job->limit, high;
    bool   fits;

    WEIR_TRY(weir_inplace_peak(x->job->p, &high));
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

weir_status weir_compress_plan(const weir_policy *policy, weir_policy_job *job)
{
    char                 own[WEIR_VARIANT];
    const char *const    variant = job->variant;
    weir_compress_search x = {.policy = policy, .job = job, .variant = own};
    uint32_t             bits;

    if (!weir_compress_split(variant, own))
        return policy->plan(job);
    WEIR_TRY(weir_policy_lossy(policy, variant, &bits));
    if (policy->plan == weir_policy_auto) {
        job->variant = own;
        const weir_status status = policy->plan(job);
        job->variant = variant;
        return status;
    }
    const bool ok = weir_lower_init(&x.lowered, job->p) &&
                    (x.decisions = weir_mem_alloc(x.lowered.intervals + 1u)) != NULL;
    x.lowered.budget = job->limit;
    const weir_status status = ok ? search(&x) : WEIR_ERR_NOMEM;
    weir_lower_free(&x.lowered);
    weir_mem_free(x.decisions);
    return status;
}
