/* auto.c - the policy of our own: recomputation, swapping, packing and masks decided together, by
 * search.c. A variant names the levers it may use, joined by '+' ("recompute+swap"); none: all. */
#include <string.h>

#include "core/status.h"
#include "graph/policy/policy.h"
#include "graph/policy/search.h"

static const struct { const char *name; weir_lever lever; } levers[] = {
    {"recompute", WEIR_LEVER_RECOMPUTE}, {"swap", WEIR_LEVER_SWAP},
    {"pack", WEIR_LEVER_PACK},           {"mask", WEIR_LEVER_MASK}};

static weir_status levers_from(const char *text, unsigned *set)
{
    *set = 0;
    while (*text) {
        const size_t n = strcspn(text, "+,");
        unsigned     one = 0;
        for (size_t i = 0; i < sizeof levers / sizeof *levers; i++)
            if (strlen(levers[i].name) == n && strncmp(levers[i].name, text, n) == 0)
                one = levers[i].lever;
        if (!one)
            return weir_fail(WEIR_ERR_INVALID, "policy auto: there is no lever '%.*s'; there are "
                             "recompute, swap, pack, mask", (int)n, text);
        *set |= one;
        text += n + (text[n] != 0);
    }
    return WEIR_OK;
}

weir_status weir_policy_auto(weir_policy_job *job)
{
    weir_search s = {.p = job->p, .budget = job->room, .room_bytes = job->addresses,
                     .align = job->align ? job->align : 1,
                     .moves = job->moves ? job->moves : weir_policy_moves(job->p->tasks.n)};

    WEIR_TRY(levers_from(job->variant, &s.levers));
    s.start = job->gap;
    const weir_status status = weir_search_run(&s);
    weir_mem_free(job->gap);
    job->gap = s.best;
    s.best = NULL;
    job->s = s.room.s;
    s.room.s = (weir_schedule){0};
    weir_search_free(&s);
    return status;
}
