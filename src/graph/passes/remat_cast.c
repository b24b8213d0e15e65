/* remat_cast.c - repeats casts of the forward pass for the backward pass.
 *
 * In mixed precision, norms and sums read the f32 cast of a product's half output, and products
 * read the half cast of an f32 weight; so do their gradients. Keeping the cast's result for the
 * backward pass takes twice the bytes of the half value, or duplicates the parameter. Instead the
 * cast is repeated right before the first gradient that reads it. That costs one pass over the
 * value, so small values are not worth it. */
#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/status.h"
#include "graph/passes/passes.h"

#define REMAT_CAST_MIN_BYTES ((size_t)1 << 16)

/* Is the node a forward cast whose input takes fewer bytes to keep than its output? */
static bool suits(const weir_graph *g, const weir_node *n)
{
    if (n->dead || n->op != WEIR_OP_CAST || n->phase != WEIR_FORWARD || n->region != 0)
        return false;
    const weir_value *const from = &g->values.at[n->in[0]], *const to = &g->values.at[n->out[0]];
    const weir_storage *const made = &g->storages.at[to->storage];
    const bool                there = g->storages.at[from->storage].external;
    return weir_is_any_float(from->layout.desc.dtype) && weir_is_any_float(to->layout.desc.dtype) &&
           (there || weir_dtype_size(from->layout.desc.dtype) <
                         weir_dtype_size(to->layout.desc.dtype)) &&
           !made->external && made->bytes >= REMAT_CAST_MIN_BYTES;
}

static bool reads(const weir_graph *g, const weir_node *n, uint32_t storage)
{
    for (int k = 0; k < n->nin && !n->dead; k++)
        if (weir_storage_of(g, n->in[k]) == storage)
            return true;
    return false;
}

static bool overwrites(const weir_graph *g, const weir_node *n, uint32_t storage)
{
    for (int k = 0; k < n->nin && !n->dead; k++)
        if (n->def->mutates >> k & 1 && weir_storage_of(g, n->in[k]) == storage)
            return true;
    return false;
}

/* The first node of the backward pass that reads the output of node `cast`; WEIR_NONE without such
 * a node, if the forward pass does not read it, or if the cast's input is overwritten before. */
static uint32_t first_gradient(const weir_graph *g, uint32_t cast)
{
    const uint32_t from = weir_storage_of(g, g->nodes.at[cast].in[0]);
    const uint32_t made = weir_storage_of(g, g->nodes.at[cast].out[0]);
    bool           forward = false;

    for (uint32_t i = cast + 1; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        if (reads(g, n, made) && n->phase != WEIR_FORWARD)
            return forward ? i : WEIR_NONE;
        forward = forward || reads(g, n, made);
        if (overwrites(g, n, from))
            return WEIR_NONE;
    }
    return WEIR_NONE;
}

/* Redirects reads of storage `from` to `to` in nodes from `first` on, except those of the forward
 * pass. */
static weir_status move_readers(weir_graph *g, uint32_t first, uint32_t from, uint32_t to)
{
    for (uint32_t i = first; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i].nin; k++) {
            const weir_node *const n = &g->nodes.at[i];
            const weir_value       v = g->values.at[n->in[k]];
            if (n->dead || n->phase == WEIR_FORWARD || v.storage != from)
                continue;
            const uint32_t moved = weir_graph_value_of(g, to, &v.layout, v.offset);
            if (moved == WEIR_NONE)
                return WEIR_ERR_NOMEM;
            g->nodes.at[i].in[k] = moved;
        }
    return WEIR_OK;
}

/* Inserts a copy of the cast `node` before node `first`. */
static weir_status recompute_cast(weir_graph *g, uint32_t node, uint32_t first)
{
    const weir_node  cast = g->nodes.at[node];
    const weir_call  call = {.op = cast.op, .def = cast.def, .attr = cast.attr,
                             .attr_bytes = cast.attr_bytes};
    const weir_value out = g->values.at[cast.out[0]];
    const uint32_t   storage =
        weir_graph_storage_new(g, g->storages.at[out.storage].bytes, WEIR_KIND_GRADIENT);
    if (storage == WEIR_NONE)
        return WEIR_ERR_NOMEM;
    const uint32_t made = weir_graph_value_of(g, storage, &out.layout, out.offset);
    if (made == WEIR_NONE || !weir_graph_node_new(g, &call))
        return WEIR_ERR_NOMEM;
    weir_node own = g->nodes.at[g->nodes.n - 1];
    own.phase = g->nodes.at[first].phase;
    own.half = g->nodes.at[first].half;
    own.nin = own.nout = 1;
    own.in[0] = cast.in[0];
    own.out[0] = made;
    memmove(&g->nodes.at[first + 1], &g->nodes.at[first], sizeof own * (g->nodes.n - 1 - first));
    g->nodes.at[first] = own;
    return move_readers(g, first + 1, out.storage, storage);
}

weir_status weir_pass_remat_cast(weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (!suits(g, &g->nodes.at[i]))
            continue;
        const uint32_t first = first_gradient(g, i);
        if (first != WEIR_NONE)
            WEIR_TRY(recompute_cast(g, i, first));
    }
    return WEIR_OK;
}
