/* budget_context.c - lays out a schedule: expands the graph to it and places the plan. */
#include "graph/memory/budget/budget_context.h"

#include "core/status.h"
#include "graph/memory/verify/check.h"

size_t weir_fitter_movable(const weir_fitter *f)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < f->g->stores.n && f->movable < SIZE_MAX; i++) {
        const weir_store *const s = &f->g->stores.at[i];
        if (s->external && !s->away && f->piece_of[i] != WEIR_NO_PIECE)
            bytes += weir_plan_taken(f->g, i);
    }
    return bytes;
}

weir_status weir_fitter_lay(void *ctx, const weir_schedule *s, size_t *height)
{
    weir_fitter *const f = ctx;
    bool               fits = false;

    weir_status status = weir_schedule_check(s, NULL, 1, SIZE_MAX);
    if (status == WEIR_OK)
        status = weir_graph_expand(f->g, s, f->piece_of, &f->old);
    if (status == WEIR_OK)
        status = weir_plan_build(f->g, f->passes);
    if (status == WEIR_OK) {
        *height = f->g->plan->arena + weir_fitter_movable(f);
        fits = *height <= f->limit;
        f->g->plan->extra_seconds = s->time - s->p->time;
        f->g->plan->seconds = s->time;
        if (*height < f->least) {
            f->least = *height;
            f->peak_task = weir_schedule_stage(s, s->peak_event);
        }
    }
    if (!fits || f->probe)
        weir_graph_unexpand(f->g, &f->old);
    return status;
}

void weir_fitter_free(weir_fitter *f)
{
    weir_schedule_free(&f->answer);
    weir_unexpanded_free(&f->old);
    weir_problem_free(&f->problem);
    weir_problem_free(&f->timed);
    weir_cache_close(&f->cache);
    weir_mem_free(f->piece_of);
    weir_mem_free(f->gap);
}
