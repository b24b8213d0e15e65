/* capuchin.c - Capuchin (Peng and others, "Capuchin: tensor-based GPU memory management for deep
 * learning", ASPLOS 2020): a measured step tells when each tensor is read; then tensors that are
 * idle across the peak are evicted.
 *
 *     passive   the measured step, offloading on demand: capuchin_passive.c
 *     guided    The free time of a tensor lasts from the end of its offload to the latest start of
 *               its prefetch. Tensors with the longest free time are offloaded as long as the link
 *               hides the copies. Then offloading competes with recomputation by seconds per byte.
 *               The tensor to recompute is the one that saves the most memory per second, computed
 *               again after each choice, since an eviction makes others dearer. If that does not
 *               suffice, the plan of passive mode competes. Default.
 *
 * The measured times are those of a step without waits, so a second measured step would tell
 * nothing new. A prefetch is issued as early as needed, or later if memory is short; that replaces
 * the paper's feedback loop. */
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/capuchin_passive.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/evict_to_fit.h"

static double free_time(const weir_victim *i)
{
    return i->transfer.due - i->transfer.in - (i->transfer.ready + i->transfer.out);
}

/* Returns the victim with the longest free time among those below `bound`, or equal to it and after
 * number n. */
static uint32_t next_longest(const weir_evict_to_fit *x, double bound, uint32_t n)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < x->idle.n; i++) {
        const double t = free_time(&x->idle.at[i]);
        if (!x->idle.at[i].offload || t > bound || (t == bound && n != UINT32_MAX && i <= n))
            continue;
        if (best == UINT32_MAX || t > free_time(&x->idle.at[best]))
            best = i;
    }
    return best;
}

/* Returns the tensor to offload: the first whose copies the link hides, else the one with the least
 * waiting time per byte. *seconds receives that time per byte. */
static uint32_t choose_offload(const weir_evict_to_fit *x, double *seconds)
{
    enum { LOOK = 16 };         /* candidates to look at, in order of free time */
    uint32_t best = UINT32_MAX, n = UINT32_MAX;
    double   bound = INFINITY;

    *seconds = INFINITY;
    for (int i = 0; i < LOOK && *seconds > 0; i++) {
        n = next_longest(x, bound, n);
        if (n == UINT32_MAX)
            break;
        bound = free_time(&x->idle.at[n]);
        const double wait =
            fmax(0, weir_evict_to_fit_wait(x, &x->idle.at[n])) / x->idle.at[n].bytes;
        if (wait < *seconds) {
            best = n;
            *seconds = wait;
        }
    }
    return best;
}

/* Returns the tensor to recompute: the fewest seconds per byte, which *seconds receives. */
static uint32_t choose_recompute(const weir_evict_to_fit *x, double *seconds)
{
    uint32_t best = UINT32_MAX;

    *seconds = INFINITY;
    for (uint32_t i = 0; i < x->idle.n; i++) {
        const weir_victim *k = &x->idle.at[i];
        if (!k->drop || k->recomputed / k->bytes >= *seconds)
            continue;
        best = i;
        *seconds = k->recomputed / k->bytes;
    }
    return best;
}

static uint32_t choose(weir_evict_to_fit *x, weir_decision *how)
{
    double         wait, recomputed;
    const uint32_t offload = choose_offload(x, &wait), drop = choose_recompute(x, &recomputed);
    const bool     swaps = offload != UINT32_MAX && wait <= recomputed;

    *how = swaps ? WEIR_OFFLOAD : WEIR_RECOMPUTE;
    return swaps ? offload : drop;
}

weir_status weir_policy_capuchin(weir_policy_job *job)
{
    const bool        passive = strcmp(job->variant, "passive") == 0;
    weir_evict_to_fit x = {.choose = choose};

    if (*job->variant && !passive && strcmp(job->variant, "guided") != 0)
        return weir_fail(WEIR_ERR_INVALID, "policy capuchin: unknown variant '%s' (expected "
                         "passive or guided)", job->variant);
    WEIR_TRY(weir_policy_needs_link(job->p, "capuchin"));
    if (passive)
        return weir_capuchin_passive(job);
    weir_status status = weir_evict_to_fit_plan(&x, job);
    if (status != WEIR_OK || job->s.peak <= job->limit)
        return status;
    weir_schedule profile_steps = job->s;
    job->s = (weir_schedule){0};
    status = weir_capuchin_passive(job);
    weir_best_take(job, &profile_steps);
    weir_schedule_free(&profile_steps);
    return status;
}
