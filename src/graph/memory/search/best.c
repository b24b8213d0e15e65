/* best.c - tries plans one after another and lowers the best one again at the end. */
#include "graph/memory/search/best.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/search/checkpoint_set.h"

bool weir_better(size_t limit, size_t peak, double time, size_t than_peak, double than_time)
{
    if ((peak <= limit) != (than_peak <= limit))
        return peak <= limit;
    if (peak <= limit)
        return time < than_time || (time == than_time && peak < than_peak);
    return peak < than_peak || (peak == than_peak && time < than_time);
}

void weir_best_take(weir_policy_job *job, weir_schedule *s)
{
    const weir_schedule was = job->s;

    if (!s->valid || (was.valid && !weir_better(job->limit, s->peak, s->time, was.peak, was.time)))
        return;
    job->s = *s;
    *s = was;
}

bool weir_best_init(weir_best *b, const weir_policy_job *job)
{
    *b = (weir_best){.job = job, .peak = SIZE_MAX};
    if (!weir_lower_init(&b->w, job->p))
        return false;
    b->w.budget = job->limit;
    b->drop = weir_mem_alloc((job->p->tensors.n + 1u) * sizeof *b->drop);
    b->decisions = weir_mem_zalloc(b->w.intervals + 1u, 1);
    b->best = weir_mem_zalloc(b->w.intervals + 1u, 1);
    return b->drop && b->decisions && b->best && weir_best_try_decisions(b);
}

bool weir_best_try_decisions(weir_best *b)
{
    if (!weir_lower(&b->w, b->decisions))
        return false;
    if (b->w.valid && (b->peak == SIZE_MAX ||
                       weir_better(b->job->limit, b->w.peak, b->w.extra, b->peak, b->time))) {
        memcpy(b->best, b->decisions, b->w.intervals);
        b->peak = b->w.peak;
        b->time = b->w.extra;
    }
    return true;
}

bool weir_best_try_drop(weir_best *b)
{
    if (!weir_checkpoint_set_decide(&b->w, b->drop, b->decisions))
        return false;
    if (b->offload)
        weir_checkpoint_set_offload(&b->w, b->drop, b->decisions);
    return weir_best_try_decisions(b);
}

weir_status weir_best_end(weir_best *b, bool ok, weir_policy_job *job)
{
    ok = ok && weir_lower(&b->w, b->best);
    job->s = b->w.s;
    b->w.s = (weir_schedule){0};
    weir_lower_free(&b->w);
    weir_mem_free(b->drop);
    weir_mem_free(b->decisions);
    weir_mem_free(b->best);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
