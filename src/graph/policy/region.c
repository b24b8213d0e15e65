/* region.c - regions that the program marked: their values are dropped and made anew for gradients,
 * as policy checkpoint:manual does, also where there is no budget. */
#include "graph/passes.h"
#include "graph/policy/budget.h"
#include "graph/policy/policy.h"
#include "graph/policy/recorded.h"

static bool has_regions(const weir_graph *g)
{
    bool again = false, region = false;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        again = again || g->nodes.at[i].again;
        region = region || g->nodes.at[i].region;
    }
    return region && !again;
}

weir_status weir_region_apply(weir_graph *g, uint32_t passes)
{
    weir_problem    p;
    weir_unexpanded old = {0};
    uint32_t       *piece_of;

    if (!has_regions(g))
        return WEIR_OK;
    WEIR_TRY(weir_problem_of(g, NULL, passes >> WEIR_PASS_INPLACE & 1, &p, &piece_of));
    weir_policy_job job = {.p = &p, .room = SIZE_MAX, .variant = "manual"};
    weir_status     status = weir_policy_checkpoint(&job);
    if (status == WEIR_OK && job.s.events.n > p.tasks.n) {
        status = weir_graph_expand(g, &job.s, piece_of, &old);
        if (status == WEIR_OK)
            status = weir_plan_build(g, passes);
        if (status == WEIR_OK)
            g->plan->extra_seconds = job.s.again;
        if (status == WEIR_OK)
            status = weir_reasons_keep(g, &p, &job.s, &piece_of, old.stores);
    }
    weir_unexpanded_free(&old);
    weir_schedule_free(&job.s);
    weir_problem_free(&p);
    weir_mem_free(piece_of);
    return status;
}
