/* decisions.c - reads decisions off live ranges: a range that spans an interval means that the
 * tensor was kept, one that begins inside it means that the tensor was restored there. */
#include "graph/memory/problem/decisions.h"

#include <string.h>

/* Sets event[op] to the event of the op's first run. */
static void list_first_runs(const weir_schedule *s, uint32_t *event)
{
    for (uint32_t e = 0; e < s->events.n; e++)
        if (s->events.at[e].kind == WEIR_EVENT_RUN && !s->events.at[e].recomputed)
            event[s->events.at[e].what] = e;
}

/* Classifies the intervals of a temporary tensor by its live range l: l spans the interval (keep),
 * begins inside it with a prefetch (offload), or begins and ends inside it (transient). */
static void decide(const weir_schedule *s, const weir_live_range *l, const uint32_t *event,
                   uint8_t *decisions)
{
    const weir_mem_problem *p = s->p;
    const weir_mem_tensor  *k = &p->tensors.at[l->tensor];
    const uint32_t         *u = weir_refs(p, k->uses), n = k->uses.n;
    const bool copied = !l->before && s->events.at[l->first].kind == WEIR_EVENT_PREFETCH;

    for (uint32_t j = 0; j < n; j++) {
        const uint32_t from = event[j > 0 ? u[j - 1] : k->producer], to = event[u[j]];
        if (l->first <= from && l->last >= to)
            decisions[j] = WEIR_KEEP;
        else if (copied && l->first > from && l->first < to)
            decisions[j] = WEIR_OFFLOAD;
        else if (l->first > from && l->last < to)
            decisions[j] = WEIR_RECOMPUTE_TRANSIENT;
    }
    const uint32_t end = event[n > 0 ? u[n - 1] : k->producer];
    if (l->first <= end && l->last > end && !k->output)
        decisions[n] = WEIR_KEEP_FOR_RECOMPUTE;
}

/* The same for a resident tensor: does it start on the host, and which intervals end in a
 * prefetch? */
static void decide_resident(const weir_schedule *s, const weir_live_range *l, const uint32_t *event,
                            uint8_t *decisions)
{
    const weir_mem_tensor *k = &s->p->tensors.at[l->tensor];
    const uint32_t        *u = weir_refs(s->p, k->uses);

    if (l->before && l->form == WEIR_FORM_HOST)
        decisions[0] = WEIR_OFFLOAD;
    if (l->before || l->form != WEIR_FORM_PLAIN)
        return;
    for (uint32_t j = 0; j < k->uses.n; j++)
        if (l->first < event[u[j]] && (j == 0 || l->first > event[u[j - 1]]))
            decisions[j] = WEIR_OFFLOAD;
}

bool weir_decisions_from_schedule(const weir_lower_state *w, const weir_schedule *s,
                                  uint8_t *decisions)
{
    const weir_mem_problem *p = w->p;
    uint32_t *const     event = weir_mem_zalloc(p->ops.n + 1u, sizeof *event);

    if (!event)
        return false;
    list_first_runs(s, event);
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t n = p->tensors.at[k].uses.n;
        memset(decisions + w->first_interval[k],
               weir_mem_tensor_is_resident(p, k) ? WEIR_KEEP : WEIR_RECOMPUTE, n);
        decisions[w->first_interval[k] + n] = WEIR_KEEP;
    }
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *l = &s->ranges.at[i];
        uint8_t *const   own = decisions + w->first_interval[l->tensor];
        if (weir_mem_tensor_is_resident(p, l->tensor))
            decide_resident(s, l, event, own);
        else if (l->form == WEIR_FORM_PLAIN)
            decide(s, l, event, own);
    }
    weir_mem_free(event);
    return true;
}

/* Is the decision for interval j of the tensor possible? */
static bool possible(const weir_mem_problem *p, const uint8_t *decisions, uint32_t tensor,
                     uint32_t j)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    const bool             last = j == k->uses.n, resident = k->producer == WEIR_NO_OP;

    switch (decisions[j]) {
    case WEIR_KEEP:
        return true;
    case WEIR_OFFLOAD:
        return p->link_out > 0 && p->link_in > 0 &&
               (resident ? decisions[0] == WEIR_OFFLOAD : !last);
    case WEIR_COMPRESS:
        return p->pack_bandwidth > 0 && k->packed && !last && !resident;
    case WEIR_COMPRESS_MASK:
        return p->pack_bandwidth > 0 && k->mask && !last && !resident &&
               weir_among(p, p->ops.at[weir_refs(p, k->uses)[j]].masked, tensor);
    case WEIR_KEEP_FOR_RECOMPUTE:
        return last && !resident;
    default:
        return !last && !resident;
    }
}

bool weir_decisions_are_possible(const weir_mem_problem *p, const uint8_t *decisions)
{
    for (uint32_t k = 0; k < p->tensors.n; decisions += p->tensors.at[k++].uses.n + 1)
        for (uint32_t j = 0; j <= p->tensors.at[k].uses.n; j++)
            if (!possible(p, decisions, k, j))
                return false;
    return true;
}
