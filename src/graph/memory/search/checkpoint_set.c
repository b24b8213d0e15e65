/* checkpoint_set.c - turns the set of tensors that stay into decisions.
 *
 * If a tensor is recomputed at step s, its producer, and every producer back to the nearest
 * checkpoint, must still be allowed to run at s. One backward sweep over the ops finds for each
 * tensor the last such s, since all readers of a tensor come after its producer. */
#include "graph/memory/search/checkpoint_set.h"

#include <string.h>

/* Keeps what could not be recomputed when it is needed. asked[tensor] is the last op that needs the
 * tensor recomputed, plus 1; 0: none does. */
static void settle_legal(const weir_mem_problem *p, uint32_t *drop, uint32_t *asked)
{
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        drop[k] = weir_mem_tensor_is_resident(p, k) ? WEIR_NEVER_DROPPED : drop[k];
        asked[k] = drop[k] < x->uses.n ? weir_refs(p, x->uses)[drop[k]] + 1 : 0;
    }
    for (uint32_t i = p->ops.n; i-- > 0;) {
        const weir_mem_op *t = &p->ops.at[i];
        const uint32_t    *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
        uint32_t           last = 0;
        for (uint32_t k = 0; k < t->out.n; k++)
            if (drop[out[k]] != WEIR_NEVER_DROPPED && asked[out[k]] > last)
                last = asked[out[k]];
        if (last > 0 && t->rerun_before < last)
            for (uint32_t k = 0; k < t->out.n; k++)
                drop[out[k]] = WEIR_NEVER_DROPPED;
        else
            for (uint32_t k = 0; k < t->in.n; k++)
                asked[in[k]] = last > asked[in[k]] ? last : asked[in[k]];
    }
}

bool weir_checkpoint_set_decide(const weir_lower_state *w, uint32_t *drop, uint8_t *decisions)
{
    const weir_mem_problem *p = w->p;
    uint32_t *const     asked = weir_mem_alloc((p->tensors.n + 1u) * sizeof *asked);

    if (!asked)
        return false;
    settle_legal(p, drop, asked);
    memset(decisions, WEIR_KEEP, w->intervals);
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t uses = p->tensors.at[k].uses.n;
        if (drop[k] == WEIR_NEVER_DROPPED)
            decisions[w->first_interval[k] + uses] =
                weir_mem_tensor_is_resident(p, k) ? WEIR_KEEP : WEIR_KEEP_FOR_RECOMPUTE;
        else if (drop[k] < uses)
            decisions[w->first_interval[k] + drop[k]] = WEIR_RECOMPUTE;
    }
    weir_mem_free(asked);
    return true;
}

uint32_t weir_forward_end(const weir_mem_problem *p)
{
    uint32_t turn = 0;
    int64_t  gain = 0, best = 0;

    for (uint32_t i = 0; i < p->ops.n; i++) {
        gain += p->ops.at[i].phase == WEIR_FORWARD ? 1 : -1;
        turn = gain > best ? i + 1 : turn;
        best = gain > best ? gain : best;
    }
    return turn;
}

uint32_t weir_forward_end_interval(const weir_mem_problem *p, uint32_t tensor, uint32_t turn)
{
    const weir_index_range uses = p->tensors.at[tensor].uses;
    uint32_t               j = 0;

    while (j < uses.n && weir_refs(p, uses)[j] < turn)
        j++;
    return j;
}

/* Will a forward reader of the tensor run again? */
static bool is_checkpoint(const weir_mem_problem *p, uint32_t tensor, const uint32_t *drop)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];

    for (uint32_t j = 0; j < k->uses.n; j++) {
        const weir_mem_op *t = &p->ops.at[weir_refs(p, k->uses)[j]];
        for (uint32_t i = 0; i < t->out.n && t->phase == WEIR_FORWARD; i++) {
            const uint32_t made = weir_refs(p, t->out)[i];
            if (drop[made] < p->tensors.at[made].uses.n)
                return true;
        }
    }
    return false;
}

void weir_checkpoint_set_offload(const weir_lower_state *w, const uint32_t *drop,
                                 uint8_t *decisions)
{
    const weir_mem_problem *p = w->p;
    const uint32_t          turn = weir_forward_end(p);

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        if (drop[k] == WEIR_NEVER_DROPPED && !weir_mem_tensor_is_resident(p, k) && !x->output &&
            x->bytes > 0 && is_checkpoint(p, k, drop))
            decisions[w->first_interval[k] + weir_forward_end_interval(p, k, turn)] = WEIR_OFFLOAD;
    }
}

static uint32_t segment_of(const weir_mem_problem *p, const uint32_t *segment, uint32_t op)
{
    return segment ? segment[op] : p->ops.at[op].region;
}

/* Does a forward op of another segment read the tensor? */
static bool is_result(const weir_mem_problem *p, uint32_t tensor, const uint32_t *segment)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    const uint32_t        *use = weir_refs(p, k->uses), own = segment_of(p, segment, k->producer);

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (p->ops.at[use[j]].phase == WEIR_FORWARD && segment_of(p, segment, use[j]) != own)
            return true;
    return false;
}

void weir_checkpoint_set_segments(const weir_mem_problem *p, const uint32_t *segment,
                                  uint32_t *drop)
{
    const uint32_t turn = weir_forward_end(p);

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t producer = p->tensors.at[k].producer;
        const bool     inside = producer != WEIR_NO_OP && segment_of(p, segment, producer) &&
                            p->ops.at[producer].phase == WEIR_FORWARD;
        drop[k] = inside && !is_result(p, k, segment) ? weir_forward_end_interval(p, k, turn)
                                                      : WEIR_NEVER_DROPPED;
    }
}

void weir_checkpoint_set_products(const weir_mem_problem *p, uint32_t *drop)
{
    const uint32_t turn = weir_forward_end(p);

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const uint32_t producer = p->tensors.at[k].producer;
        const bool cheap = producer != WEIR_NO_OP && p->ops.at[producer].phase == WEIR_FORWARD &&
                           p->ops.at[producer].kind == WEIR_OP_CLASS_OTHER;
        drop[k] = cheap ? weir_forward_end_interval(p, k, turn) : WEIR_NEVER_DROPPED;
    }
}
