/* recycle.c - frees memory after its last reader and does nothing else, as SINGA's graph does by
 * reference counting (Apache SINGA, pull request 626). The limit has no influence on the plan. */
#include "graph/memory/policies/recycle.h"

#include "core/status.h"
#include "graph/memory/problem/lower.h"

weir_status weir_policy_recycle(weir_policy_job *job)
{
    weir_lower_state w;
    uint8_t         *keep = NULL;
    const bool       ok = weir_lower_init(&w, job->p) &&
                    (keep = weir_mem_zalloc(w.intervals + 1u, 1)) != NULL && weir_lower(&w, keep);

    job->s = w.s;
    w.s = (weir_schedule){0};
    weir_lower_free(&w);
    weir_mem_free(keep);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_inplace_peak(const weir_mem_problem *p, size_t *peak)
{
    weir_policy_job   job = {.p = p, .limit = SIZE_MAX, .variant = ""};
    const weir_status status = weir_policy_recycle(&job);

    *peak = job.s.peak;
    weir_schedule_free(&job.s);
    return status;
}
