/* gist.c - compresses what waits from the forward to the backward pass and does nothing else (Jain
 * and others, "Gist: efficient data encoding for deep neural network training", ISCA 2018; its
 * lossless encodings).
 *
 * A tensor of which all later readers need only the signs becomes a mask (Gist's Binarize). Any
 * other that has a compressed form is compressed from its last forward reader to its first later
 * reader. The limit has no influence on the plan. */
#include "graph/memory/policies/gist.h"

#include "core/status.h"

/* Returns the number of the tensor's first use after the forward pass; uses.n if it has none, or if
 * the forward pass does not make it. */
static uint32_t crossing(const weir_mem_problem *p, const weir_mem_tensor *k)
{
    const uint32_t *const use = weir_refs(p, k->uses);
    uint32_t              j = 0;

    if (k->producer == WEIR_NO_OP || p->ops.at[k->producer].phase != WEIR_FORWARD)
        return k->uses.n;
    while (j < k->uses.n && p->ops.at[use[j]].phase == WEIR_FORWARD)
        j++;
    return j;
}

static bool signs_do(const weir_mem_problem *p, uint32_t tensor, uint32_t from)
{
    const weir_mem_tensor *const k = &p->tensors.at[tensor];
    bool                         enough = k->mask > 0 && !k->output;

    for (uint32_t j = from; j < k->uses.n && enough; j++)
        enough = weir_among(p, p->ops.at[weir_refs(p, k->uses)[j]].masked, tensor);
    return enough;
}

void weir_gist_decide(const weir_lower_state *w, uint8_t *decisions)
{
    const weir_mem_problem *const p = w->p;

    for (uint32_t i = 0; i < p->tensors.n && p->pack_bandwidth > 0; i++) {
        const weir_mem_tensor *const k = &p->tensors.at[i];
        const uint32_t               j = crossing(p, k);
        if (j == k->uses.n || decisions[w->first_interval[i] + j] != WEIR_KEEP)
            continue;
        if (signs_do(p, i, j))
            decisions[w->first_interval[i] + j] = WEIR_COMPRESS_MASK;
        else if (k->packed > 0)
            decisions[w->first_interval[i] + j] = WEIR_COMPRESS;
    }
}

weir_status weir_policy_gist(weir_policy_job *job)
{
    weir_lower_state w;
    uint8_t         *decisions = NULL;
    bool ok = weir_lower_init(&w, job->p) && (decisions = weir_mem_zalloc(w.intervals + 1u, 1));

    if (ok)
        weir_gist_decide(&w, decisions);
    ok = ok && weir_lower(&w, decisions);
    job->s = w.s;
    w.s = (weir_schedule){0};
    weir_lower_free(&w);
    weir_mem_free(decisions);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
