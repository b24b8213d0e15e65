/* delta.c - DELTA (Tang and others, "DELTA: dynamically optimizing GPU memory beyond tensor
 * recomputation", 2022): at the first event that exceeds the limit, a filter ranks the idle
 * tensors, and a director decides about the first one.
 *
 * The filter prefers tensors that are large, unused for long and cheap to restore: bytes * seconds
 * since the last use / seconds to recompute. The director takes the cheaper of offloading
 * (additional wait, given all other copies) and recomputation. Prefetches are issued in the order
 * in which their tensors are read, as early as needed. */
#include <math.h>

#include "graph/memory/policies/policy.h"
#include "graph/memory/search/evict_to_fit.h"

/* Added to idle and run times, in seconds, to avoid division by 0. */
#define LEAST_SECONDS 1e-7

static double rank(const weir_evict_to_fit *x, const weir_victim *i)
{
    const weir_mem_problem *p = x->job->p;
    const double cost = i->drop ? i->recomputed : p->ops.at[p->tensors.at[i->tensor].producer].time;
    const double idle = i->offload ? i->transfer.from - i->transfer.ready : 0;

    return i->bytes * (idle + LEAST_SECONDS) / (cost + LEAST_SECONDS);
}

static uint32_t choose(weir_evict_to_fit *x, weir_decision *how)
{
    uint32_t best = UINT32_MAX;
    double   most = 0;

    for (uint32_t i = 0; i < x->idle.n; i++) {
        const weir_victim *k = &x->idle.at[i];
        const double       r = k->offload || k->drop ? rank(x, k) : 0;
        if (r > most) {
            most = r;
            best = i;
        }
    }
    if (best == UINT32_MAX)
        return best;
    const weir_victim *k = &x->idle.at[best];
    *how = k->offload && (!k->drop || weir_evict_to_fit_wait(x, k) <= k->recomputed)
               ? WEIR_OFFLOAD
               : WEIR_RECOMPUTE;
    return best;
}

weir_status weir_policy_delta(weir_policy_job *job)
{
    weir_evict_to_fit x = {.choose = choose, .earliest = true};

    WEIR_TRY(weir_policy_needs_link(job->p, "delta"));
    return weir_evict_to_fit_plan(&x, job);
}
