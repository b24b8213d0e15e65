/* portfolio.c - runs the fast policies that plan for a limit: those that only recompute, and those
 * that offload.
 *
 * If a plan cannot be placed within the limit, the policy plans again for fewer bytes: less by half
 * of the excess, since few policies use their limit exactly. */
#include "graph/memory/policies/portfolio.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/offsets.h"
#include "graph/placement/progress.h"

typedef struct weir_entry {
    weir_status (*plan)(weir_policy_job *job);
    const char *variant;
} weir_entry;

/* Caches name plans by their index here, so a change needs a new VERSION in cache.c. mincut is not
 * among them: the search starts from it in any case. The first RECOMPUTING only recompute, the
 * others need a link. */
static const weir_entry entries[] = {
    {weir_policy_dtr_lookahead, ""},     {weir_policy_dtr, ""},
    {weir_policy_dtr, "eq"},             {weir_policy_dtr, "local"},
    {weir_policy_dtr, "lru"},            {weir_policy_dtr, "size"},
    {weir_policy_dtr, "msps"},           {weir_policy_sublinear, ""},
    {weir_policy_checkpoint, "speed"},   {weir_policy_checkpoint, "memory"},
    {weir_policy_checkpoint, "sequential"},
    {weir_policy_delta, ""},             {weir_policy_capuchin, ""},
    {weir_policy_autotm, ""},            {weir_policy_checkpoint, "offload"},
    {weir_policy_vdnn, ""}};

enum { RECOMPUTING = 11, ENTRIES = sizeof entries / sizeof *entries };

/* A simulation that visits more tensors than these thrashes: its plan would be slow. */
static uint64_t most_work(uint32_t ops)
{
    enum { LEAST = 4000000, PER_OP = 1000 };
    return LEAST + PER_OP * (uint64_t)ops;
}

static weir_policy_job job_for(const weir_mem_problem *p, weir_portfolio_plan by, size_t align)
{
    return (weir_policy_job){.p = p,
                             .limit = by.limit,
                             .align = align,
                             .variant = entries[by.entry - 1].variant,
                             .or_none = true,
                             .most_work = most_work(p->ops.n)};
}

bool weir_portfolio_has(const weir_mem_problem *p, uint32_t entry)
{
    const bool linked = p->link_out > 0 && p->link_in > 0;

    return entry > 0 && entry <= (linked ? ENTRIES : RECOMPUTING);
}

weir_status weir_portfolio_make(const weir_mem_problem *p, weir_portfolio_plan by, size_t align,
                                weir_schedule *s)
{
    weir_policy_job   own = job_for(p, by, align);
    const weir_status status = entries[by.entry - 1].plan(&own);

    weir_mem_free(own.decisions);
    *s = own.s;
    return status;
}

/* *height receives the height of the schedule's placement if the job asks for addresses, else 0.
 * quick: gives up where a long search for offsets would follow. */
static weir_status height_of(const weir_policy_job *job, const weir_schedule *s, bool quick,
                             size_t *height)
{
    const size_t align = job->align ? job->align : 1;
    weir_offsets offsets = {0};
    weir_status  status = WEIR_OK;

    if (job->addresses > 0)
        status = weir_assign_offsets_within(s, align, job->addresses, &offsets);
    if (status == WEIR_OK && offsets.height > job->addresses && !quick)
        status = weir_assign_offsets(s, align, NULL, &offsets);
    *height = offsets.height;
    weir_offsets_free(&offsets);
    return status;
}

/* The policy's plan becomes the best one if it fits and is faster. quick: as in height_of. */
static weir_status try_policy(const weir_policy_job *job, uint32_t entry, bool quick,
                              weir_portfolio *r)
{
    enum { TRIES = 4 };
    weir_policy_job own = job_for(job->p, (weir_portfolio_plan){entry, job->limit}, job->align);
    weir_status     status = WEIR_OK;

    own.slowest = r->found ? r->s.time : 0;
    for (int i = 0; i < TRIES && status == WEIR_OK; i++) {
        size_t height;
        status = entries[entry - 1].plan(&own);
        if (status != WEIR_OK || !own.s.valid || own.s.peak > job->limit ||
            (r->found && own.s.time >= r->s.time))
            break;
        status = height_of(job, &own.s, quick, &height);
        if (status == WEIR_OK && height <= job->addresses) {
            weir_schedule_free(&r->s);
            *r = (weir_portfolio){
                .s = own.s, .found = true, .made_by = {entry, own.limit}};
            weir_progress_best(own.s.peak, own.s.time - job->p->time);
            return WEIR_OK;
        }
        const size_t less = (height - job->addresses) / 2 + 1;
        if (own.s.peak < less || own.s.peak > own.limit)
            break;
        own.limit = own.s.peak - less;
        weir_schedule_free(&own.s);
        own.s = (weir_schedule){0};
    }
    weir_schedule_free(&own.s);
    return status;
}

weir_status weir_portfolio_run(const weir_policy_job *job, weir_portfolio *r)
{
    enum { FIRST = 3 }; /* dtr:local, which finds some plan in milliseconds */

    *r = (weir_portfolio){0};
    WEIR_TRY(try_policy(job, FIRST + 1, true, r));
    for (uint32_t i = 0; i < RECOMPUTING; i++)
        if (i != FIRST)
            WEIR_TRY(try_policy(job, i + 1, false, r));
    return WEIR_OK;
}

weir_status weir_portfolio_run_offload(const weir_policy_job *job, weir_portfolio *r)
{
    for (uint32_t i = RECOMPUTING; i < ENTRIES; i++)
        WEIR_TRY(try_policy(job, i + 1, false, r));
    return WEIR_OK;
}

void weir_portfolio_free(weir_portfolio *r)
{
    weir_schedule_free(&r->s);
    *r = (weir_portfolio){0};
}
