/* portfolio.c - runs policies that plan for a budget: those that drop alone, and
 * those that copy.
 *
 * A plan for which no addresses are found is made again for half as many bytes less as were too
 * many: few policies meet every budget. */
#include "graph/memory/policies/portfolio.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/offsets.h"

typedef struct weir_entry {
    weir_status (*plan)(weir_policy_job *job);
    const char *variant;
} weir_entry;

/* mincut is left out: the search begins with it anyway. */
static const weir_entry rivals[] = {
    {weir_policy_dtr_lookahead, ""},     {weir_policy_dtr, ""},
    {weir_policy_dtr, "eq"},             {weir_policy_dtr, "local"},
    {weir_policy_dtr, "lru"},            {weir_policy_dtr, "size"},
    {weir_policy_dtr, "msps"},           {weir_policy_sublinear, ""},
    {weir_policy_checkpoint, "speed"},   {weir_policy_checkpoint, "memory"},
    {weir_policy_checkpoint, "sequential"}};

static const weir_entry swappers[] = {{weir_policy_delta, ""},
                                      {weir_policy_capuchin, ""},
                                      {weir_policy_autotm, ""},
                                      {weir_policy_checkpoint, "offload"},
                                      {weir_policy_vdnn, ""}};

/* *height: of the schedule's addresses, as far as the job asks for such. */
static weir_status height_of(const weir_policy_job *job, const weir_schedule *s, size_t *height)
{
    const size_t align = job->align ? job->align : 1;
    weir_lay     lay = {0};
    weir_status  status = WEIR_OK;

    if (job->addresses > 0)
        status = weir_lay_within(s, align, job->addresses, &lay);
    if (status == WEIR_OK && lay.height > job->addresses)
        status = weir_lay_out(s, align, NULL, &lay);
    *height = lay.height;
    weir_lay_free(&lay);
    return status;
}

/* The policy's plan becomes the rival if it is faster. */
static weir_status try_policy(const weir_policy_job *job, const weir_entry *entry, weir_rival *r)
{
    enum { TRIES = 4 };
    weir_policy_job own = {.p = job->p, .room = job->room, .align = job->align,
                           .variant = entry->variant, .or_none = true};
    weir_status     status = WEIR_OK;

    for (int i = 0; i < TRIES && status == WEIR_OK; i++) {
        size_t height;
        status = entry->plan(&own);
        if (status != WEIR_OK || !own.s.valid || own.s.peak > job->room ||
            (r->found && own.s.time >= r->s.time))
            break;
        status = height_of(job, &own.s, &height);
        if (status == WEIR_OK && height <= job->addresses) {
            weir_schedule_free(&r->s);
            *r = (weir_rival){.s = own.s, .found = true};
            return WEIR_OK;
        }
        const size_t less = (height - job->addresses) / 2 + 1;
        if (own.s.peak < less || own.s.peak > own.room)
            break;
        own.room = own.s.peak - less;
        weir_schedule_free(&own.s);
        own.s = (weir_schedule){0};
    }
    weir_schedule_free(&own.s);
    return status;
}

weir_status weir_rivals_run(const weir_policy_job *job, weir_rival *r)
{
    *r = (weir_rival){0};
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++)
        WEIR_TRY(try_policy(job, &rivals[i], r));
    return WEIR_OK;
}

weir_status weir_rivals_swap(const weir_policy_job *job, weir_rival *r)
{
    for (size_t i = 0; i < sizeof swappers / sizeof *swappers; i++)
        WEIR_TRY(try_policy(job, &swappers[i], r));
    return WEIR_OK;
}

void weir_rival_free(weir_rival *r)
{
    weir_schedule_free(&r->s);
    *r = (weir_rival){0};
}
