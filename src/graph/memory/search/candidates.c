/* candidates.c - which decisions may evict a tensor over an interval, and their estimated costs. */
#include "graph/memory/search/candidates.h"

#include <math.h>

/* Do the tensor's own decisions make it available before op `stage` without another run? */
static bool held_at(const weir_search_state *a, uint32_t tensor, uint32_t stage)
{
    const weir_lower_state *w = &a->s->lowered;
    const weir_mem_tensor  *k = &a->s->p->tensors.at[tensor];
    const uint32_t          j = weir_interval_at(a->s->p, tensor, stage);
    const uint8_t           d = a->decisions[w->first_interval[tensor] + j];

    if (k->producer == WEIR_NO_OP || (j < k->uses.n && (d == WEIR_OFFLOAD || d == WEIR_COMPRESS)))
        return true;                    /* a copy of it can be restored */
    return j == k->uses.n ? d == WEIR_KEEP_FOR_RECOMPUTE || k->output : d == WEIR_KEEP;
}

/* Returns the seconds to recompute the tensor just before `stage`, each op counted once; INFINITY
 * if an op must not run again by then. */
static double closure_cost(weir_search_state *a, uint32_t tensor, uint32_t stage, int depth)
{
    enum { DEEPEST = 200 };
    const weir_mem_problem *p = a->s->p;
    if (weir_mem_tensor_is_resident(p, tensor))
        return INFINITY;
    const weir_mem_op *t = &p->ops.at[p->tensors.at[tensor].producer];
    const uint32_t    *in = weir_refs(p, t->in);

    if (a->stamp[tensor] == a->call)
        return 0;                       /* counted already */
    a->stamp[tensor] = a->call;
    if (t->rerun_before <= stage || depth > DEEPEST)
        return INFINITY;
    double cost = t->time;
    for (uint32_t i = 0; i < t->in.n; i++)
        if (!held_at(a, in[i], stage))
            cost += closure_cost(a, in[i], stage, depth + 1);
    return cost;
}

double weir_recompute_cost(weir_search_state *a, uint32_t tensor, uint32_t use_number)
{
    const weir_mem_problem *p = a->s->p;
    const weir_index_range  uses = p->tensors.at[tensor].uses;

    if (use_number == uses.n)
        return 0;
    a->call++;
    return closure_cost(a, tensor, weir_refs(p, uses)[use_number], 0);
}

static bool allows(const weir_search_state *a, weir_lever l)
{
    return a->levers & l;
}

bool weir_candidate_possible(const weir_search_state *a, uint32_t tensor, uint32_t j,
                             weir_decision d)
{
    const weir_mem_problem *p = a->s->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];

    if (d == WEIR_KEEP)
        return true;
    if (k->bytes < a->small)
        return false;
    switch (d) {
    case WEIR_OFFLOAD:
        return allows(a, WEIR_LEVER_OFFLOAD) && p->link_out > 0 && p->link_in > 0 &&
               (j < k->uses.n || k->producer == WEIR_NO_OP);
    case WEIR_COMPRESS:
        return allows(a, WEIR_LEVER_COMPRESS) && p->pack_bandwidth > 0 && k->packed &&
               j < k->uses.n;
    case WEIR_COMPRESS_MASK:
        return allows(a, WEIR_LEVER_MASK) && p->pack_bandwidth > 0 && k->mask && j < k->uses.n &&
               weir_among(p, p->ops.at[weir_refs(p, k->uses)[j]].masked, tensor);
    default:
        return allows(a, WEIR_LEVER_RECOMPUTE) && k->producer != WEIR_NO_OP;
    }
}

double weir_link_load(const weir_search_state *a)
{
    const weir_schedule *s = &a->s->lowered.s;
    double               sum = 0;

    for (uint32_t e = 0; s->copies && e < s->events.n; e++)
        if (s->events.at[e].kind == WEIR_EVENT_OFFLOAD)
            sum += weir_event_seconds(s->p, &s->events.at[e]);
    return sum;
}

/* Estimates the seconds that offloading over interval j costs: few while the link has spare
 * time. */
static double offload_cost(const weir_search_state *a, uint32_t tensor, uint32_t j, double load)
{
    const weir_mem_problem *p = a->s->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t         *u = weir_refs(p, k->uses);
    const double        out = (double)k->bytes / p->link_out, in = (double)k->bytes / p->link_in;
    const double        end = j < k->uses.n ? a->when[u[j]] : p->time;
    const double        begin = j > 0 ? a->when[u[j - 1]]
                                : k->producer == WEIR_NO_OP ? 0 : a->when[k->producer];

    if (end - begin > out + in && load + out < 0.45 * p->time)
        return 0.02 * (out + in);
    return out + in;
}

static double compress_cost(const weir_mem_problem *p, const weir_mem_tensor *k, weir_decision d)
{
    return d == WEIR_COMPRESS_MASK ? (double)(k->bytes + k->mask) / p->pack_bandwidth
                                   : 2 * (double)(k->bytes + k->packed) / p->pack_bandwidth;
}

weir_decision weir_candidate_cheapest(weir_search_state *a, uint32_t tensor, uint32_t j,
                                      double load, double *seconds)
{
    const weir_mem_tensor *k = &a->s->p->tensors.at[tensor];
    weir_decision          best = WEIR_KEEP;

    *seconds = INFINITY;
    if (weir_candidate_possible(a, tensor, j, WEIR_RECOMPUTE)) {
        *seconds = weir_recompute_cost(a, tensor, j);
        best = isinf(*seconds) ? WEIR_KEEP : WEIR_RECOMPUTE;
    }
    for (weir_decision d = WEIR_OFFLOAD; d <= WEIR_COMPRESS_MASK; d++) {
        if (!weir_candidate_possible(a, tensor, j, d))
            continue;
        const double cost =
            d == WEIR_OFFLOAD ? offload_cost(a, tensor, j, load) : compress_cost(a->s->p, k, d);
        if (cost < *seconds) {
            *seconds = cost;
            best = d;
        }
    }
    return best;
}

/* A plain WEIR_RECOMPUTE does not count as evicted: it can still become transient. */
bool weir_candidate_evicted(const weir_search_state *a, uint32_t interval, uint32_t tensor,
                            uint32_t j)
{
    const uint8_t d = a->decisions[interval];
    const bool    last = j == a->s->p->tensors.at[tensor].uses.n;

    if (weir_mem_tensor_is_resident(a->s->p, tensor))
        return d != WEIR_KEEP;
    return d == WEIR_RECOMPUTE_TRANSIENT || d == WEIR_OFFLOAD || d == WEIR_COMPRESS ||
           (last && d != WEIR_KEEP_FOR_RECOMPUTE);
}
