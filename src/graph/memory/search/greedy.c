/* greedy.c - builds a plan that fits by greedy evictions, and takes back those it did not need.
 *
 * While the peak is too high, it evicts the tensors idle across the peak that save the most bytes
 * per second of restoring them. This is the ratio of Capuchin (Peng and others, ASPLOS 2020) and of
 * Dynamic Tensor Rematerialization (Kirisame and others, ICLR 2021), but computed for the end of
 * the interval, since the whole step is known. Each round lowers the plan once and evicts tensors
 * for about a third of the excess. */
#include "graph/memory/search/greedy.h"

#include <math.h>
#include <stdlib.h>

#include "graph/memory/search/candidates.h"

static int by_score(const void *x, const void *y)
{
    const weir_candidate *a = x, *b = y;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return (a->interval > b->interval) - (a->interval < b->interval);
}

static bool touches(const weir_mem_problem *p, uint32_t op, uint32_t tensor)
{
    const weir_mem_op *t = &p->ops.at[op];
    const uint32_t    *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
    for (uint32_t i = 0; i < t->in.n; i++)
        if (in[i] == tensor)
            return true;
    for (uint32_t i = 0; i < t->out.n; i++)
        if (out[i] == tensor)
            return true;
    return false;
}

/* Lists the intervals of tensors that are idle across the peak, best score first. */
static bool collect(weir_search_state *a, double power)
{
    const weir_search      *s = a->s;
    const weir_lower_state *w = &s->lowered;
    const uint32_t          e = w->peak_event, stage = weir_schedule_first_run(&w->s, e);
    const double            load = weir_link_load(a);
    const double            excess = (double)(w->peak - weir_search_limit(a));

    a->candidates.n = 0;
    for (uint32_t i = 0; i < w->s.ranges.n; i++) {
        const weir_live_range l = w->s.ranges.at[i];
        if (l.first > e || l.last < e || l.form != WEIR_FORM_PLAIN ||
            (w->s.events.at[e].kind == WEIR_EVENT_RUN &&
             touches(s->p, w->s.events.at[e].what, l.tensor)) ||
            s->p->tensors.at[l.tensor].bytes == 0)
            continue;
        const uint32_t j = weir_interval_at(s->p, l.tensor, stage),
                       interval = w->first_interval[l.tensor] + j;
        if (weir_candidate_evicted(a, interval, l.tensor, j))
            continue;
        double     cost = 0;
        const bool tail = j == s->p->tensors.at[l.tensor].uses.n &&
                          a->decisions[interval] == WEIR_KEEP_FOR_RECOMPUTE;
        const weir_decision decision =
            tail ? WEIR_RECOMPUTE_TRANSIENT : weir_candidate_cheapest(a, l.tensor, j, load, &cost);
        if (decision == WEIR_KEEP)
            continue;
        const double bytes = fmin((double)s->p->tensors.at[l.tensor].bytes, 2 * excess);
        const double score = pow(bytes, power) / (cost + 1e-12);
        if (!weir_vec_push(&a->candidates,
                           (weir_candidate){score, interval, l.tensor, (uint8_t)decision}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    return true;
}

/* Applies a candidate's decision. */
static void evict(weir_search_state *a, const weir_candidate *c)
{
    const uint32_t first = a->s->lowered.first_interval[c->tensor];
    const uint8_t  was = a->decisions[c->interval];

    if (weir_mem_tensor_is_resident(a->s->p, c->tensor))
        a->decisions[first] = a->decisions[c->interval] = WEIR_OFFLOAD;
    else if (c->interval + 1 == a->s->lowered.first_interval[c->tensor + 1])
        /* KEEP means that nothing stays after the last use */
        a->decisions[c->interval] = WEIR_KEEP;
    else if (c->to == WEIR_RECOMPUTE && (was == WEIR_RECOMPUTE || was == WEIR_KEEP_FOR_RECOMPUTE))
        a->decisions[c->interval] = WEIR_RECOMPUTE_TRANSIENT;
    else
        a->decisions[c->interval] = c->to;
}

bool weir_search_greedy(weir_search_state *a, double power)
{
    weir_search *s = a->s;
    const size_t rounds = 4 * (size_t)s->lowered.intervals + 16;

    for (size_t r = 0; r < rounds; r++) {
        if (!weir_search_lower(a))
            return false;
        if (!weir_search_note(a))
            return false;
        if (!s->lowered.valid || s->lowered.peak <= weir_search_limit(a) ||
            weir_search_at_floor(s, s->lowered.peak))
            return true;
        if (!collect(a, power))
            return false;
        double left = 0.3 * (double)(s->lowered.peak - weir_search_limit(a));
        if (a->candidates.n == 0)
            return true;
        for (uint32_t i = 0; i < a->candidates.n && (i == 0 || left > 0); i++) {
            const weir_candidate c = a->candidates.at[i];
            evict(a, &c);
            left -= (double)s->p->tensors.at[c.tensor].bytes;
        }
    }
    return true;
}

bool weir_search_restore(weir_search_state *a)
{
    weir_search *s = a->s;

    a->candidates.n = 0;
    for (uint32_t g = 0; g < s->lowered.intervals; g++) {
        if (a->decisions[g] == WEIR_KEEP || a->decisions[g] == WEIR_KEEP_FOR_RECOMPUTE)
            continue;
        const uint32_t tensor = a->tensor_of[g];
        const double   cost =
            fmin(weir_recompute_cost(a, tensor, g - s->lowered.first_interval[tensor]), 1e30);
        if (!weir_vec_push(&a->candidates, (weir_candidate){cost, g, tensor, 0}))
            return false;
    }
    if (a->candidates.n)
        qsort(a->candidates.at, a->candidates.n, sizeof *a->candidates.at, by_score);
    if (!weir_search_evaluate(a))
        return false;
    double   extra = a->now.extra;
    uint32_t taken = 0;
    for (uint32_t i = 0; i < a->candidates.n; i++) {
        weir_search_begin_move(a);
        if (!weir_search_change(a, a->candidates.at[i].interval, WEIR_KEEP) || !weir_search_try(a))
            return false;
        if (a->now.valid && a->now.peak <= weir_search_limit(a) && a->now.extra <= extra) {
            extra = a->now.extra;
            if (!weir_search_note_later(a) || (++taken % a->every == 0 && !weir_search_flush(a)))
                return false;
        } else if (!weir_search_take_back(a)) {
            return false;
        }
    }
    return weir_search_flush(a);
}
