/* auto.c - policy auto: decides about recomputation, offloading, compression and masks together by
 * search.c. The search starts from the minimum cut (mincut.c) and from the best plan of the
 * policies that only recompute (portfolio.c). If that plan, or the best one of those that offload,
 * is faster than all that the search finds, it is the answer; so auto never loses to a baseline.
 *
 * A variant names the levers that may be used, joined by '+' ("recompute+swap"); without a variant
 * all are. The lever `order` applies to steps described in a file (reorder.c); recorded graphs have
 * been ordered before (graph/passes/order.c). */
#include "graph/memory/policies/auto.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/policies/mincut.h"
#include "graph/memory/policies/portfolio.h"
#include "graph/memory/policies/recycle.h"
#include "graph/memory/problem/decisions.h"
#include "graph/memory/search/search.h"

static const struct { const char *name; weir_lever lever;
} levers[] = {{"recompute", WEIR_LEVER_RECOMPUTE},
              {"swap", WEIR_LEVER_OFFLOAD},
              {"pack", WEIR_LEVER_COMPRESS},
              {"mask", WEIR_LEVER_MASK},
              {"order", WEIR_LEVER_ORDER}};

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
            return weir_fail(WEIR_ERR_INVALID, "policy auto: unknown lever '%.*s' (expected "
                             "recompute, swap, pack, mask or order)", (int)n, text);
        *set |= one;
        text += n + (text[n] != 0);
    }
    return WEIR_OK;
}

bool weir_auto_uses(const weir_policy *policy, const char *variant, unsigned lever)
{
    unsigned set;
    char     own[WEIR_VARIANT];

    (void)weir_compress_split(variant, own);
    return policy->plan == weir_policy_auto && levers_from(own, &set) == WEIR_OK &&
           (set == 0 || set & lever);
}

/* Finds the best plan of the portfolio; *hint receives its decisions, which the caller frees.
 * Finds none if everything fits, if no plan can fit, or if recomputation is not allowed. */
static weir_status find_portfolio(const weir_policy_job *job, unsigned set, weir_portfolio *r,
                                  uint8_t **hint)
{
    weir_lower_state w = {0};
    size_t           peak;

    *r = (weir_portfolio){0};
    WEIR_TRY(weir_inplace_peak(job->p, &peak));
    if (peak <= job->limit || weir_bound_excludes(job->p, job->limit) ||
        (set && !(set & WEIR_LEVER_RECOMPUTE)))
        return WEIR_OK;
    WEIR_TRY(weir_portfolio_run(job, r));
    const bool ok = !r->found || (weir_lower_init(&w, job->p) &&
                                  (*hint = weir_mem_alloc(w.intervals + 1u)) != NULL &&
                                  weir_decisions_from_schedule(&w, &r->s, *hint));
    weir_lower_free(&w);
    if (!ok)
        return WEIR_ERR_NOMEM;
    const bool offload =
        (!set || set & WEIR_LEVER_OFFLOAD) && job->p->link_out > 0 && job->p->link_in > 0;
    return offload ? weir_portfolio_run_offload(job, r) : WEIR_OK;
}

static weir_status search(weir_policy_job *job, weir_search *s, const weir_portfolio *r)
{
    const weir_status status = weir_search_run(s);

    weir_mem_free(job->decisions);
    job->decisions = s->best;
    s->best = NULL;
    if (status == WEIR_OK && r->found &&
        (!s->lowered.s.valid || s->best_peak > job->limit || r->s.time < s->lowered.s.time))
        return WEIR_OK;
    job->s = s->lowered.s;
    s->lowered.s = (weir_schedule){0};
    return status;
}

weir_status weir_auto_portfolio(const weir_policy_job *job, weir_portfolio *r)
{
    unsigned set;
    uint8_t *hint = NULL;

    *r = (weir_portfolio){0};
    WEIR_TRY(levers_from(job->variant, &set));
    const weir_status status = find_portfolio(job, set, r, &hint);
    weir_mem_free(hint);
    return status;
}

weir_status weir_policy_auto(weir_policy_job *job)
{
    weir_search s = {.p = job->p,
                     .seed = weir_mincut,
                     .budget = job->limit,
                     .address_limit = job->addresses,
                     .align = job->align ? job->align : 1,
                     .moves = job->moves ? job->moves : weir_policy_moves(job->p->ops.n)};

    WEIR_TRY(levers_from(job->variant, &s.levers));
    weir_portfolio portfolio = {0};
    uint8_t       *hint = NULL;
    weir_status    status =
        job->decisions ? WEIR_OK : find_portfolio(job, s.levers, &portfolio, &hint);
    s.start = job->decisions;
    s.hint = hint;
    if (status == WEIR_OK)
        status = search(job, &s, &portfolio);
    if (status == WEIR_OK && !job->s.now) {     /* the portfolio's plan is faster */
        job->s = portfolio.s;
        job->quick = portfolio.made_by;
        portfolio.s = (weir_schedule){0};
    }
    weir_mem_free(hint);
    weir_portfolio_free(&portfolio);
    weir_search_free(&s);
    return status;
}
