/* fit.c - asks a policy for fewer bytes, by what the height exceeds the limit, as long as its
 * schedule cannot be placed within the limit. */
#include "graph/memory/policies/fit.h"

#include "core/status.h"
#include "graph/memory/policies/compress.h"
#include "graph/placement/progress.h"

weir_status weir_fit_run(weir_fit *f)
{
    enum { MOST_TRIES = 8 };
    size_t target = f->limit;

    for (int i = 0; i < MOST_TRIES && !f->fits; i++) {
        weir_policy_job job = {.p = f->p,
                               .limit = target,
                               .addresses = f->quick ? 0 : f->limit,
                               .align = f->align,
                               .variant = f->variant,
                               .moves = f->moves,
                               .decisions = f->decisions};
        weir_progress_phase("search");
        weir_status     status = weir_compress_plan(f->policy, &job);
        f->decisions = job.decisions;
        f->made_by = job.quick;
        f->target = target;
        f->proven = i ? f->proven : job.proven;
        weir_schedule_free(&f->s);
        f->s = job.s;
        if (status == WEIR_OK && !f->s.valid)
            return WEIR_OK;
        weir_progress_phase("placement");
        if (status == WEIR_OK)
            status = f->place(f->ctx, &f->s, f->limit, &f->height);
        WEIR_TRY(status);
        f->fits = f->height <= f->limit;
        if (f->s.peak > target || target == 0)
            break;
        const size_t over = f->fits ? 0 : f->height - f->limit;
        target = f->s.peak > over ? f->s.peak - over : 0;
    }
    return WEIR_OK;
}

void weir_fit_free(weir_fit *f)
{
    weir_schedule_free(&f->s);
    weir_mem_free(f->decisions);
}
