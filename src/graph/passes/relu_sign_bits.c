/* relu_sign_bits.c - stores one bit per element in place of a value that only ReLU gradients read
 * after the forward pass.
 *
 * The gradient of ReLU needs only the sign of its output ("binarize" in Jain et al., "Gist", ISCA
 * 2018). If nothing else in the backward pass reads the output, a SIGN_PACK node after its producer
 * stores the signs, the gradients read those, and the value dies with its last forward reader. The
 * extra node reads the whole value once, so small values are not worth it. */
#include <string.h>

#include "core/dtype.h"
#include "core/status.h"
#include "graph/ops/op.h"
#include "graph/passes/passes.h"

#define SIGN_BITS_MIN_BYTES ((size_t)1 << 20)

typedef struct weir_sign_use {
    uint32_t producer;
    bool     gradient;      /* a RELU_GRAD reads it as y */
    bool     other;         /* another node of the backward pass reads it */
} weir_sign_use;

static void note_uses(const weir_graph *g, weir_sign_use *use)
{
    for (uint32_t i = 0; i < g->storages.n; i++)
        use[i].producer = WEIR_NONE;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            weir_sign_use *u = &use[weir_storage_of(g, n->in[k])];
            if (n->op == WEIR_OP_RELU_GRAD && k == 1 && n->in[0] != n->in[1])
                u->gradient = true;
            else if (n->phase != WEIR_FORWARD)
                u->other = true;
        }
        for (int k = 0; k < n->nout; k++)
            use[weir_storage_of(g, n->out[k])].producer = i;
    }
}

static bool worth(const weir_graph *g, uint32_t storage, const weir_sign_use *u)
{
    const weir_storage *s = &g->storages.at[storage];

    if (s->external || s->bytes < SIGN_BITS_MIN_BYTES || !u->gradient || u->other ||
        u->producer == WEIR_NONE)
        return false;
    const weir_node *n = &g->nodes.at[u->producer];
    return n->phase == WEIR_FORWARD && weir_storage_of(g, n->out[0]) == storage &&
           weir_is_float(g->values.at[n->out[0]].layout.desc.dtype);
}

/* Appends bits = SIGN_PACK(y) to the end of the list; the caller moves the node into place. */
static weir_status append_pack(weir_graph *g, uint32_t y, uint32_t *bits)
{
    const weir_layout l = g->values.at[y].layout;
    const weir_layout packed = {.desc = weir_1d(WEIR_U8, (weir_shape_count(&l.desc) + 7) / 8),
                                .stride = {1}};
    const weir_call pack = {.op = WEIR_OP_SIGN_PACK, .def = &weir_op_sign_pack};
    const uint32_t    storage =
        weir_graph_storage_new(g, weir_shape_bytes(&packed.desc), WEIR_KIND_ACTIVATION);
    if (storage == WEIR_NONE)
        return WEIR_ERR_NOMEM;
    *bits = weir_graph_value_of(g, storage, &packed, 0);
    weir_node *n = *bits == WEIR_NONE ? NULL : weir_graph_node_new(g, &pack);
    if (!n)
        return WEIR_ERR_NOMEM;
    n->phase = WEIR_FORWARD;
    n->nin = n->nout = 1;
    n->in[0] = y;
    n->out[0] = *bits;
    return WEIR_OK;
}

/* Inserts the SIGN_PACK after the producer and lets the gradients read the bits: those that view
 * the value with the layout with which it was computed. */
static weir_status pack(weir_graph *g, uint32_t producer, uint32_t y)
{
    const uint32_t storage = weir_storage_of(g, y);
    uint32_t       bits;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == WEIR_OP_RELU_GRAD &&
            weir_storage_of(g, g->nodes.at[i].in[1]) == storage &&
            (g->nodes.at[i].in[1] != y ||
             !weir_shape_is_dense(&g->values.at[g->nodes.at[i].in[0]].layout)))
            return WEIR_OK;
    WEIR_TRY(append_pack(g, y, &bits));
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        weir_node *n = &g->nodes.at[i];
        if (n->op == WEIR_OP_RELU_GRAD && n->in[1] == y) {
            n->op = WEIR_OP_SIGN_RELU_GRAD;
            n->def = &weir_op_sign_relu_grad;
            n->in[1] = bits;
            weir_mem_free(n->attr);
            n->attr = NULL;
            n->attr_bytes = 0;
        }
    }
    weir_node made = g->nodes.at[g->nodes.n - 1];
    made.region = g->nodes.at[producer].region;
    made.half = g->nodes.at[producer].half;
    made.name = g->nodes.at[producer].name;
    memmove(&g->nodes.at[producer + 2], &g->nodes.at[producer + 1],
            sizeof made * (g->nodes.n - producer - 2));
    g->nodes.at[producer + 1] = made;
    return WEIR_OK;
}

weir_status weir_pass_relu_sign_bits(weir_graph *g)
{
    const uint32_t storages = g->storages.n;
    weir_sign_use *use = weir_mem_zalloc(storages + 1, sizeof *use);
    weir_status    status = use ? WEIR_OK : WEIR_ERR_NOMEM;

    if (use)
        note_uses(g, use);
    for (uint32_t i = 0; i < storages && status == WEIR_OK; i++) {
        if (!worth(g, i, &use[i]))
            continue;
        const uint32_t producer = use[i].producer;
        const uint32_t before = g->nodes.n;
        status = pack(g, producer, g->nodes.at[producer].out[0]);
        for (uint32_t k = 0; k < storages && g->nodes.n > before; k++)
            if (use[k].producer != WEIR_NONE && use[k].producer > producer)
                use[k].producer++;
    }
    weir_mem_free(use);
    return status;
}
