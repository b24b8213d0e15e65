/* update_rows.c - computes a large gradient of a weight in blocks of rows, each followed by the
 * update of those rows, so that the whole gradient never exists.
 *
 * It applies where the update alone reads the gradient, element by element. Clipping by a norm,
 * accumulation of several gradients, a check for infinities and a second reader thus prevent it.
 * The bits stay: the kernel of the whole product says how many rows it computes at a time
 * (weir_kernel.rows), and computes them as a call of those rows alone. */
#include <string.h>

#include "core/attr.h"
#include "core/status.h"
#include "device/kernel.h"
#include "graph/passes/passes.h"

/* What is known about the storages. */
typedef struct row_state {
    uint32_t *reader;       /* [storages] last node that reads it */
    uint32_t *reads;        /* [storages] number of nodes that do */
    bool     *changes;      /* [storages] a node overwrites it */
} row_state;

static void note_reads(const weir_graph *g, row_state *s)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            const uint32_t storage = weir_storage_of(g, n->in[k]);
            s->reads[storage] += s->reads[storage] == 0 || s->reader[storage] != i;
            s->reader[storage] = i;
            s->changes[storage] |= n->def->mutates >> k & 1;
        }
    }
}

/* ---- what suits ---- */

static bool like_param(const weir_graph *g, const weir_node *update, int k)
{
    return weir_desc_equal(&g->values.at[update->in[k]].layout.desc,
                           &g->values.at[update->in[0]].layout.desc);
}

/* Does the node update each element of its parameter by the same element of input 1, the only use
 * of value `gradient`? */
static bool is_update(const weir_graph *g, const weir_node *n, uint32_t gradient)
{
    if (!(n->def->flags & WEIR_ROWWISE) || n->nin < 2 || !like_param(g, n, 1) ||
        !weir_view_equal(g, n->in[1], gradient))
        return false;
    for (int k = 0; k < n->nin; k++) {
        const weir_value *v = &g->values.at[n->in[k]];
        const bool        rows = like_param(g, n, k);
        if ((rows && !weir_shape_is_dense(&v->layout)) || (n->def->mutates >> k & 1 && !rows) ||
            (k != 1 && v->storage == weir_storage_of(g, gradient)))
            return false;
    }
    return true;
}

/* Returns the number of rows of a block if the node is a product whose result is read by one update
 * alone; 0 if not. *update gets that node. */
static weir_status rows_of(const weir_graph *g, uint32_t i, const row_state *s, int64_t *rows,
                           uint32_t *update)
{
    const weir_node *n = &g->nodes.at[i];
    weir_layout      in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];

    *rows = 0;
    if (n->op != WEIR_OP_MATMUL || n->region != 0 || n->segment != 0 ||
        !((const weir_matmul_attr *)n->attr)->ta)
        return WEIR_OK;
    const weir_storage *made = weir_storage_at(g, n->out[0]);
    const uint32_t      storage = weir_storage_of(g, n->out[0]);
    if (made->external || s->reads[storage] != 1 || s->reader[storage] < i ||
        s->changes[weir_storage_of(g, n->in[0])] || s->changes[weir_storage_of(g, n->in[1])] ||
        !is_update(g, &g->nodes.at[s->reader[storage]], n->out[0]))
        return WEIR_OK;
    const weir_call    call = weir_node_call(g, n, in, out);
    const weir_kernel *kernel;
    WEIR_TRY(weir_kernel_of(g->dev, &call, &kernel));
    *rows = weir_shape_is_dense(&in[0]) && weir_shape_is_dense(&out[0]) ? kernel->rows : 0;
    *update = s->reader[storage];
    return WEIR_OK;
}

/* ---- blocks ---- */

/* Rows or, of the product's first operand, columns that a block takes. */
typedef struct row_block {
    int64_t first, count;
} row_block;

/* The part of a value that the block takes along `axis`; WEIR_NONE if memory runs out. */
static uint32_t part_of(weir_graph *g, uint32_t value, int axis, row_block b)
{
    const weir_value v = g->values.at[value];
    weir_layout      l = v.layout;

    l.desc.dim[axis] = b.count;
    return weir_graph_value_of(g, v.storage, &l, v.offset + b.first * l.stride[axis]);
}

/* Appends a node like `n`, with the same attributes, whose operands the caller sets. */
static weir_node *append_like(weir_graph *g, const weir_node *n)
{
    const weir_call call = {.op = n->op, .def = n->def, .attr = n->attr,
                            .attr_bytes = n->attr_bytes};
    const weir_node like = *n;
    weir_node      *made = weir_graph_node_new(g, &call);

    if (!made)
        return NULL;
    made->phase = like.phase;
    made->half = like.half;
    made->name = like.name;
    made->nin = like.nin;
    made->nout = like.nout;
    memcpy(made->in, like.in, sizeof like.in);
    memcpy(made->out, like.out, sizeof like.out);
    return made;
}

/* Appends the product of a block and its update. */
static weir_status append_block(weir_graph *g, uint32_t product, uint32_t update, row_block b)
{
    const weir_layout whole = g->values.at[g->nodes.at[product].out[0]].layout;
    weir_layout       rows = whole;
    const size_t      row = (size_t)whole.desc.dim[1] * weir_dtype_size(whole.desc.dtype);

    rows.desc.dim[0] = b.count;
    const uint32_t storage =
        weir_graph_storage_new(g, (size_t)b.count * row, WEIR_KIND_GRADIENT);
    const uint32_t gradient =
        storage == WEIR_NONE ? WEIR_NONE : weir_graph_value_of(g, storage, &rows, 0);
    const uint32_t columns = part_of(g, g->nodes.at[product].in[0], 1, b);
    if (gradient == WEIR_NONE || columns == WEIR_NONE)
        return WEIR_ERR_NOMEM;
    weir_node *n = append_like(g, &g->nodes.at[product]);
    if (!n)
        return WEIR_ERR_NOMEM;
    n->in[0] = columns;
    n->out[0] = gradient;
    n->half = g->nodes.at[update].half;
    if (!(n = append_like(g, &g->nodes.at[update])))
        return WEIR_ERR_NOMEM;
    for (int k = 0; k < n->nin; k++) {
        if (!like_param(g, &g->nodes.at[update], k))
            continue;
        n->in[k] = k == 1 ? gradient : part_of(g, n->in[k], 0, b);
        if (n->in[k] == WEIR_NONE)
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

/* The blocks that replace an update: nodes first .. first + n. n 0: none do. */
typedef struct row_blocks {
    uint32_t first, n;
} row_blocks;

/* Appends the blocks of each product that suits, and notes them at its update. */
static weir_status append_all(weir_graph *g, const row_state *s, row_blocks *blocks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t update = 0;
        int64_t  rows;
        WEIR_TRY(rows_of(g, i, s, &rows, &update));
        if (rows == 0)
            continue;
        const int64_t all = g->values.at[g->nodes.at[i].out[0]].layout.desc.dim[0];
        blocks[update].first = g->nodes.n;
        for (int64_t r = 0; r < all; r += rows)
            WEIR_TRY(append_block(g, i, update,
                                  (row_block){r, r + rows < all ? rows : all - r}));
        blocks[update].n = g->nodes.n - blocks[update].first;
        g->nodes.at[i].dead = g->nodes.at[update].dead = true;
    }
    return WEIR_OK;
}

/* Moves each update's blocks, which are behind the first n nodes, to its place. */
static weir_status place_blocks(weir_graph *g, const row_blocks *blocks, uint32_t n)
{
    weir_node *const nodes = weir_mem_alloc((g->nodes.n + 1u) * sizeof *nodes);
    uint32_t         to = 0;

    if (!nodes)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(&nodes[to], &g->nodes.at[blocks[i].first], blocks[i].n * sizeof *nodes);
        to += blocks[i].n;
        nodes[to++] = g->nodes.at[i];
    }
    memcpy(g->nodes.at, nodes, to * sizeof *nodes);
    weir_mem_free(nodes);
    return WEIR_OK;
}

static weir_status split_all(weir_graph *g, const row_state *s)
{
    const uint32_t    n = g->nodes.n;
    row_blocks *const blocks = weir_mem_zalloc(n + 1u, sizeof *blocks);
    weir_status       status = blocks ? append_all(g, s, blocks, n) : WEIR_ERR_NOMEM;

    if (status == WEIR_OK && g->nodes.n > n)
        status = place_blocks(g, blocks, n);
    if (status != WEIR_OK)
        for (uint32_t i = 0; i < g->nodes.n; i++)
            g->nodes.at[i].dead = i >= n;       /* as before */
    weir_mem_free(blocks);
    return status;
}

weir_status weir_pass_update_rows(weir_graph *g)
{
    row_state   s = {weir_mem_zalloc(g->storages.n + 1u, sizeof *s.reader),
                     weir_mem_zalloc(g->storages.n + 1u, sizeof *s.reads),
                     weir_mem_zalloc(g->storages.n + 1u, sizeof *s.changes)};
    weir_status status = WEIR_ERR_NOMEM;

    weir_graph_compact(g);
    if (s.reader && s.reads && s.changes) {
        note_reads(g, &s);
        status = split_all(g, &s);
    }
    weir_mem_free(s.reader);
    weir_mem_free(s.reads);
    weir_mem_free(s.changes);
    weir_graph_compact(g);
    return status;
}
