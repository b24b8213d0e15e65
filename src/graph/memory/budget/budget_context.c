/* budget_context.c - applies a schedule to the graph and places the plan. */
#include "graph/memory/budget/budget_context.h"

#include "core/status.h"
#include "graph/memory/budget/shared.h"
#include "graph/memory/verify/check.h"

size_t weir_budget_context_movable(const weir_budget_context *f)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < f->g->storages.n && f->movable < SIZE_MAX; i++) {
        const weir_storage *const s = &f->g->storages.at[i];
        if (s->external && !s->offloaded && f->tensor_of[i] != WEIR_NO_TENSOR)
            bytes += weir_plan_taken(f->g, i);
    }
    return bytes;
}

weir_status weir_budget_context_assign(void *ctx, const weir_schedule *s, size_t limit,
                                       size_t *height)
{
    weir_budget_context *const f = ctx;
    bool                       fits = false;

    (void)limit;                /* the graph placer finds the least height */
    weir_status status = weir_schedule_check(s, NULL, 1, SIZE_MAX);
    if (status == WEIR_OK)
        status = weir_graph_apply(f->g, s, f->tensor_of, &f->old);
    if (status == WEIR_OK)
        status = weir_plan_build(f->g, f->passes);
    if (status == WEIR_OK) {
        *height = f->g->plan->arena + weir_budget_context_movable(f);
        fits = *height <= f->arena_limit;
        f->g->plan->extra_seconds = s->time - s->p->time;
        f->g->plan->seconds = s->time;
        if (*height < f->least) {
            f->least = *height;
            f->peak_op = weir_schedule_first_run(s, s->peak_event);
        }
    }
    if (!fits || f->probe)
        weir_graph_revert(f->g, &f->old);
    return status;
}

void weir_budget_context_free(weir_budget_context *f)
{
    weir_schedule_free(&f->answer);
    weir_shared_budget_keep(f->g, &f->old);
    weir_mem_problem_free(&f->problem);
    weir_mem_problem_free(&f->timed);
    weir_mem_problem_free(&f->widest);
    weir_cache_close(&f->cache);
    weir_mem_free(f->tensor_of);
    weir_mem_free(f->decisions);
}
