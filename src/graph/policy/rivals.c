/* rivals.c - runs the policies of the table that plan for a budget: those that drop alone, and
 * those that copy.
 *
 * A plan for which no addresses are found is made again for as many bytes less as were too many. */
#include "graph/policy/rivals.h"

#include <string.h>

#include "core/status.h"
#include "graph/policy/lay.h"

/* mincut is none: the search begins with it anyway. */
static const char *const rivals[] = {
    "dtr_lookahead", "dtr", "dtr:eq", "dtr:local", "dtr:lru", "dtr:size", "dtr:msps",
    "sublinear", "checkpoint:speed", "checkpoint:memory", "checkpoint:sequential"};

static const char *const swappers[] = {"delta", "capuchin", "autotm", "checkpoint:offload", "vdnn"};

/* *height: of the schedule's addresses, as far as the job asks for such. */
static weir_status height_of(const weir_policy_job *job, const weir_schedule *s, size_t *height)
{
    weir_lay    lay = {0};
    weir_status status = WEIR_OK;

    *height = 0;
    if (job->addresses > 0) {
        status = weir_lay_within(s, job->align ? job->align : 1, job->addresses, &lay);
        *height = lay.height;
    }
    weir_lay_free(&lay);
    return status;
}

/* The policy's plan becomes the rival if it is faster. */
static weir_status try_policy(const weir_policy_job *job, const char *name, weir_rival *r)
{
    enum { TRIES = 3 };
    const weir_policy *policy;
    weir_policy_job    own = {.p = job->p, .room = job->room, .align = job->align};
    weir_status        status = weir_policy_find(name, &policy, &own.variant);

    for (int i = 0; i < TRIES && status == WEIR_OK; i++) {
        size_t height;
        status = policy->plan(&own);
        if (status != WEIR_OK || !own.s.valid || own.s.peak > own.room ||
            (r->found && own.s.time >= r->s.time))
            break;
        status = height_of(job, &own.s, &height);
        if (status == WEIR_OK && height <= job->addresses) {
            weir_schedule_free(&r->s);
            *r = (weir_rival){.s = own.s, .found = true};
            return WEIR_OK;
        }
        if (own.s.peak < height - job->addresses)
            break;
        own.room = own.s.peak - (height - job->addresses);
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
        WEIR_TRY(try_policy(job, rivals[i], r));
    return WEIR_OK;
}

weir_status weir_rivals_swap(const weir_policy_job *job, weir_rival *r)
{
    for (size_t i = 0; i < sizeof swappers / sizeof *swappers; i++)
        WEIR_TRY(try_policy(job, swappers[i], r));
    return WEIR_OK;
}

void weir_rival_free(weir_rival *r)
{
    weir_schedule_free(&r->s);
    *r = (weir_rival){0};
}

/* The event of each task's first run. */
static void list_first_runs(const weir_schedule *s, uint32_t *event)
{
    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].act == WEIR_RUN && !s->events.at[e].again)
            event[s->events.at[e].what] = e;
}

/* What life l says of the piece's gaps: those within it are kept; one that it begins in was let
 * go, for good if the life ends there, too. */
static void decide(const weir_problem *p, const weir_life *l, const uint32_t *event, uint8_t *gap)
{
    const weir_piece *k = &p->pieces.at[l->piece];
    const uint32_t   *u = weir_refs(p, k->uses), n = k->uses.n;

    for (uint32_t j = 0; j < n; j++) {
        const uint32_t from = event[j > 0 ? u[j - 1] : k->maker], to = event[u[j]];
        if (l->first <= from && l->last >= to)
            gap[j] = WEIR_KEEP;
        else if (l->first > from && l->last < to)
            gap[j] = WEIR_DROP_AGAIN;
    }
    const uint32_t end = event[n > 0 ? u[n - 1] : k->maker];
    if (l->first <= end && l->last > end && !k->output)
        gap[n] = WEIR_TAIL;
}

bool weir_gap_of_schedule(const weir_walk_room *w, const weir_schedule *s, uint8_t *gap)
{
    const weir_problem *p = w->p;
    uint32_t *const     event = weir_mem_zalloc(p->tasks.n + 1u, sizeof *event);

    if (!event)
        return false;
    list_first_runs(s, event);
    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const uint32_t n = p->pieces.at[k].uses.n;
        memset(gap + w->first_gap[k], weir_piece_resident(p, k) ? WEIR_KEEP : WEIR_DROP, n);
        gap[w->first_gap[k] + n] = WEIR_KEEP;
    }
    for (uint32_t i = 0; i < s->lives.n; i++)
        if (s->lives.at[i].form == WEIR_PLAIN && !weir_piece_resident(p, s->lives.at[i].piece))
            decide(p, &s->lives.at[i], event, gap + w->first_gap[s->lives.at[i].piece]);
    weir_mem_free(event);
    return true;
}
