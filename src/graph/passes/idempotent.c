/* idempotent.c - removes a function that is applied to its own result, where no bit changes.
 *
 * f(f(x)) equals f(x) to the bit, NaN and signed zeros included, for idempotent functions: relu,
 * abs, sign, rounding, clamping to the same bounds. Models converted from other formats apply them
 * twice where two converted layers meet. */
#include <string.h>

#include "graph/passes/passes.h"

static bool maps_range_to_itself(weir_op op)
{
    switch (op) {
    case WEIR_OP_RELU: case WEIR_OP_RELU6: case WEIR_OP_ABS: case WEIR_OP_SIGN:
    case WEIR_OP_FLOOR: case WEIR_OP_CEIL: case WEIR_OP_ROUND: case WEIR_OP_ROUND_EVEN:
    case WEIR_OP_CLAMP:
        return true;
    default:
        return false;
    }
}

/* Do both nodes make the same call, in the same region and second run of a checkpoint? A value must
 * not outlive the region or second run in which it is computed. */
static bool same_call(const weir_node *a, const weir_node *b)
{
    return a->op == b->op && a->region == b->region && a->segment == b->segment &&
           a->attr_bytes == b->attr_bytes &&
           (a->attr_bytes == 0 || memcmp(a->attr, b->attr, a->attr_bytes) == 0);
}

/* Does n compute f(y) with y = f(x) from `first`, and may y replace n's result? An external storage
 * must be written itself, and may be overwritten later. */
static bool repeats(const weir_graph *g, const weir_node *first, const weir_node *n)
{
    const weir_value *const y = &g->values.at[n->in[0]], *const out = &g->values.at[n->out[0]];

    return same_call(first, n) && n->in[0] == first->out[0] &&
           weir_desc_equal(&y->layout.desc, &out->layout.desc) &&
           memcmp(y->layout.stride, out->layout.stride, sizeof y->layout.stride) == 0 &&
           !weir_storage_at(g, first->out[0])->external &&
           !weir_storage_at(g, n->out[0])->external;
}

weir_status weir_pass_idempotent(weir_graph *g)
{
    uint32_t *const maker = weir_mem_alloc((g->storages.n + 1) * sizeof *maker);

    if (!maker)
        return WEIR_ERR_NOMEM;
    memset(maker, 0xff, (g->storages.n + 1) * sizeof *maker);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        weir_node *const n = &g->nodes.at[i];
        if (n->dead || !maps_range_to_itself(n->op))
            continue;
        const uint32_t from = weir_storage_of(g, n->in[0]), to = weir_storage_of(g, n->out[0]);
        if (maker[from] != WEIR_NONE && repeats(g, &g->nodes.at[maker[from]], n)) {
            weir_graph_redirect(g, to, from, 0);
            n->dead = true;
        } else {
            maker[to] = i;
        }
    }
    weir_mem_free(maker);
    weir_graph_compact(g);
    return WEIR_OK;
}
