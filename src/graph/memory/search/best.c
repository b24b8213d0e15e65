/* best.c - plans are tried one after another; the best one is walked again at the end. */
#include "graph/memory/search/best.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/search/checkpoint_set.h"

bool weir_better(size_t room, size_t peak, double time, size_t than_peak, double than_time)
{
    if ((peak <= room) != (than_peak <= room))
        return peak <= room;
    if (peak <= room)
        return time < than_time || (time == than_time && peak < than_peak);
    return peak < than_peak || (peak == than_peak && time < than_time);
}

void weir_best_take(weir_policy_job *job, weir_schedule *s)
{
    const weir_schedule was = job->s;

    if (!s->valid || (was.valid && !weir_better(job->room, s->peak, s->time, was.peak, was.time)))
        return;
    job->s = *s;
    *s = was;
}

bool weir_best_init(weir_best *b, const weir_policy_job *job)
{
    *b = (weir_best){.job = job, .peak = SIZE_MAX};
    if (!weir_walk_init(&b->w, job->p))
        return false;
    b->w.budget = job->room;
    b->drop = weir_mem_alloc((job->p->pieces.n + 1u) * sizeof *b->drop);
    b->gap = weir_mem_zalloc(b->w.gaps + 1u, 1);
    b->best = weir_mem_zalloc(b->w.gaps + 1u, 1);
    return b->drop && b->gap && b->best && weir_best_gap(b);
}

bool weir_best_gap(weir_best *b)
{
    if (!weir_walk(&b->w, b->gap))
        return false;
    if (b->w.valid && (b->peak == SIZE_MAX || weir_better(b->job->room, b->w.peak, b->w.extra,
                                                          b->peak, b->time))) {
        memcpy(b->best, b->gap, b->w.gaps);
        b->peak = b->w.peak;
        b->time = b->w.extra;
    }
    return true;
}

bool weir_best_drop(weir_best *b)
{
    if (!weir_keep_decide(&b->w, b->drop, b->gap))
        return false;
    if (b->offload)
        weir_keep_offload(&b->w, b->drop, b->gap);
    return weir_best_gap(b);
}

weir_status weir_best_end(weir_best *b, bool ok, weir_policy_job *job)
{
    ok = ok && weir_walk(&b->w, b->best);
    job->s = b->w.s;
    b->w.s = (weir_schedule){0};
    weir_walk_free(&b->w);
    weir_mem_free(b->drop);
    weir_mem_free(b->gap);
    weir_mem_free(b->best);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
