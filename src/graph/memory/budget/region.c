/* region.c - drops and recomputes the tensors of regions that the program marked, like policy
 * checkpoint:manual, also without a budget. */
#include "graph/ir/pass_set.h"
#include "graph/memory/budget/budget.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/budget/from_graph.h"
#include "graph/memory/budget/shared.h"

/* Are there regions to recompute? If the budget is too small for the whole step, its policy has
 * decided already and regions do not count. */
static bool has_regions(const weir_graph *g)
{
    bool region = false;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        region = region || g->nodes.at[i].region;
    return region && (!g->budget || g->unbudgeted <= g->budget);
}

static bool within_budget(const weir_graph *g)
{
    return !g->budget || weir_plan_resident(g) + g->plan->arena <= g->budget;
}

/* Restores the step as it was: recomputation can need more memory than keeping, if recomputed
 * tensors are live at the peak. */
static weir_status revert(weir_graph *g, uint32_t passes, weir_revert_record *old,
                          weir_reasons **reasons)
{
    weir_graph_revert(g, old);
    WEIR_TRY(weir_plan_build(g, passes));
    g->plan->reasons = *reasons;
    *reasons = NULL;
    return WEIR_OK;
}

/* Plans the applied schedule; restores the old plan if only that is within the budget. */
static weir_status rebuild(weir_graph *g, uint32_t passes, weir_revert_record *old, bool *stays)
{
    weir_reasons *reasons = g->plan->reasons;
    const double  seconds = g->plan->seconds, extra = g->plan->extra_seconds;

    g->plan->reasons = NULL;
    weir_status status = weir_plan_build(g, passes);
    *stays = status != WEIR_OK || within_budget(g);
    if (!*stays) {
        status = revert(g, passes, old, &reasons);
        g->plan->seconds = seconds;
        g->plan->extra_seconds = extra;
    }
    weir_ref_drop(reasons);
    return status;
}

weir_status weir_region_apply(weir_graph *g, uint32_t passes)
{
    weir_mem_problem   p, widest = {0};
    weir_revert_record old = {0};
    uint32_t          *tensor_of;

    if (!has_regions(g))
        return WEIR_OK;
    WEIR_TRY(weir_mem_problem_from_graph(g, NULL, passes >> WEIR_PASS_INPLACE & 1, SIZE_MAX, &p,
                                         &tensor_of));
    weir_policy_job job = {.p = &p, .limit = SIZE_MAX, .variant = "manual"};
    weir_status     status = weir_policy_checkpoint(&job);
    weir_mem_problem_set_rates(&p, g->dev);
    if (status == WEIR_OK)
        status = weir_mem_problem_widen(g, NULL, passes >> WEIR_PASS_INPLACE & 1,
                                        weir_plan_resident(g) + g->plan->arena, &p, &widest);
    if (status == WEIR_OK && job.s.events.n > p.ops.n) {
        bool stays = true;
        status = weir_graph_apply(g, &job.s, tensor_of, &old);
        if (status == WEIR_OK)
            status = rebuild(g, passes, &old, &stays);
        if (status == WEIR_OK && stays)
            g->plan->extra_seconds = job.s.recomputed;
        if (status == WEIR_OK && stays)
            status = weir_reasons_keep(g, &p, &widest, &job.s, &tensor_of, old.storages);
    }
    weir_shared_budget_keep(g, &old);
    weir_schedule_free(&job.s);
    weir_mem_problem_free(&p);
    weir_mem_problem_free(&widest);
    weir_mem_free(tensor_of);
    return status;
}
