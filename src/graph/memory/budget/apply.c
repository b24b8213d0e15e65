/* apply.c - turns a schedule into graph nodes: a repeated op becomes a copy of its node; offloads,
 * prefetches, compression and decompression become nodes, too.
 *
 * The copy of a node writes storages that belong to it and draws the same random numbers, since it
 * keeps the node's position in the random stream. From then on every reader of the tensor reads the
 * copy's storage. An offload is awaited where its live range ends, a prefetch before its first
 * reader; the wait node reads the storage, so that it lives as long as the transfer may take. A
 * parameter or state that lives in the spill file is prefetched into storages of the step; ops that
 * update it update those, and they are offloaded to its slot. Later passes need not know about
 * budgets: liveness, offsets and instructions come from the longer list of nodes. */
#include <string.h>

#include "core/status.h"

#include "core/attr.h"
#include "core/rng.h"
#include "graph/memory/budget/value_ranges.h"
#include "graph/memory/budget/from_graph.h"
#include "graph/ops/op.h"

#define NO_TICKET UINT64_MAX

typedef struct weir_apply_state {
    weir_graph          *g;
    const weir_schedule *s;
    const uint32_t      *tensor_of;
    uint32_t            *storage_of_range;  /* [ranges] */
    uint32_t            *storage_of_tensor; /* [tensors] the recorded storage of each */
    /* [ranges] ticket of a copy under way; NO_TICKET: none */
    uint64_t       *leaving, *coming;
    /* [tensors] offset in the spill file; UINT64_MAX: not assigned */
    uint64_t       *slot;
    weir_pack_attr *pack;                   /* [recorded storages] how they are compressed */
    uint64_t        slots, tickets;         /* bytes of slots, and tickets, assigned so far */
    uint32_t       *end_first, *ends;       /* [events + 2], [ranges]: weir_schedule_ends */
    weir_phase      phase;                  /* of the last run; copies get it, too */
    WEIR_VEC(weir_node) nodes;
} weir_apply_state;

/* Returns the tensor's live range among the inputs or outputs of an event. */
static uint32_t range_of(const weir_apply_state *x, uint32_t event, uint32_t tensor, bool output)
{
    uint32_t        nin, nout;
    const uint32_t *range = weir_schedule_refs(x->s, event, &nin, &nout) + (output ? nin : 0);
    uint32_t        i = 0;

    nin = output ? nout : nin;
    while (i + 1 < nin && x->s->ranges.at[range[i]].tensor != tensor)
        i++;
    return range[i];
}

/* Returns a value that views `storage` as `value` views its own; WEIR_NONE if memory runs out. */
static uint32_t view_in(weir_graph *g, uint32_t value, uint32_t storage)
{
    const weir_layout layout = g->values.at[value].layout;
    return weir_graph_value_of(g, storage, &layout, g->values.at[value].offset);
}

static weir_status map_inputs(weir_apply_state *x, uint32_t event, weir_node *n)
{
    for (int k = 0; k < n->nin; k++) {
        const uint32_t tensor = x->tensor_of[weir_storage_of(x->g, n->in[k])];
        if (tensor == WEIR_NO_TENSOR)
            continue;
        const uint32_t storage = x->storage_of_range[range_of(x, event, tensor, false)];
        if (storage == weir_storage_of(x->g, n->in[k]))
            continue;
        n->in[k] = view_in(x->g, n->in[k], storage);
        if (n->in[k] == WEIR_NONE)
            return WEIR_ERR_NOMEM;
    }
    return WEIR_OK;
}

/* Maps the event's outputs to storages: the recorded ones at the first run, new ones at a repeated
 * run, even for outputs that live outside the graph, since those have been written already. */
static weir_status map_outputs(weir_apply_state *x, uint32_t event, weir_node *n, bool recomputed)
{
    for (int k = 0; k < n->nout; k++) {
        const uint32_t old = weir_storage_of(x->g, n->out[k]), tensor = x->tensor_of[old];
        uint32_t       storage = old;
        if (recomputed) {
            const weir_kind kind = x->g->storages.at[old].external ? WEIR_KIND_ACTIVATION
                                                                   : x->g->storages.at[old].kind;
            storage = weir_graph_storage_new(x->g, x->g->storages.at[old].bytes, kind);
            if (storage == WEIR_NONE)
                return WEIR_ERR_NOMEM;
            x->g->storages.at[storage].origin = old;
            n->out[k] = view_in(x->g, n->out[k], storage);
            if (n->out[k] == WEIR_NONE)
                return WEIR_ERR_NOMEM;
        }
        if (tensor != WEIR_NO_TENSOR)
            x->storage_of_range[range_of(x, event, tensor, true)] = storage;
    }
    return WEIR_OK;
}

/* Adds the run of an op on the live ranges that the event names. */
static weir_status add_run(weir_apply_state *x, uint32_t event)
{
    const weir_event e = x->s->events.at[event];
    weir_node        n = x->g->nodes.at[e.what];

    if (e.recomputed && n.attr_bytes) {
        n.attr = weir_mem_alloc(n.attr_bytes);
        if (!n.attr)
            return WEIR_ERR_NOMEM;
        memcpy(n.attr, x->g->nodes.at[e.what].attr, n.attr_bytes);
    }
    n.recomputed = e.recomputed;
    n.half = e.recomputed ? WEIR_NO_HALF : n.half;
    if (!weir_vec_push(&x->nodes, n)) {
        if (e.recomputed)
            weir_mem_free(n.attr);
        return WEIR_ERR_NOMEM;
    }
    weir_node *const added = &x->nodes.at[x->nodes.n - 1];
    WEIR_TRY(map_inputs(x, event, added));
    return map_outputs(x, event, added, e.recomputed);
}

/* ---- copies ---- */

/* Returns a value of all bytes of a storage. */
static uint32_t bytes_of(weir_graph *g, uint32_t storage)
{
    const weir_layout l = {.desc = weir_1d(WEIR_U8, (int64_t)g->storages.at[storage].bytes),
                           .stride = {1}};
    return weir_graph_value_of(g, storage, &l, 0);
}

/* The name of the call that makes a tensor; of parameters and states: none. */
static weir_node_name name_of(const weir_apply_state *x, uint32_t tensor)
{
    const uint32_t producer = x->s->p->tensors.at[tensor].producer;

    return producer == WEIR_NO_OP ? (weir_node_name){0} : x->g->nodes.at[producer].name;
}

/* Adds an op on the spill file for a live range's storage. */
static weir_status add_spill(weir_apply_state *x, weir_op op, uint32_t range, weir_spill_attr attr)
{
    const uint32_t value = bytes_of(x->g, x->storage_of_range[range]);
    weir_node      n = {.op = op, .def = weir_opdef_of(op), .phase = x->phase,
                        .name = name_of(x, x->s->ranges.at[range].tensor),
                        .attr_bytes = sizeof attr, .nin = op != WEIR_OP_SPILL_IN,
                        .nout = op == WEIR_OP_SPILL_IN};

    n.attr = weir_mem_alloc(sizeof attr);
    if (value == WEIR_NONE || !n.attr || !weir_vec_push(&x->nodes, n)) {
        weir_mem_free(n.attr);
        return WEIR_ERR_NOMEM;
    }
    memcpy(n.attr, &attr, sizeof attr);
    weir_node *const added = &x->nodes.at[x->nodes.n - 1];
    *(n.nin ? added->in : added->out) = value;
    return WEIR_OK;
}

/* Returns the spill slot of a temporary tensor, which is assigned when it is first offloaded. */
static uint64_t slot_of(weir_apply_state *x, uint32_t tensor, size_t bytes)
{
    if (x->slot[tensor] == UINT64_MAX) {
        x->slot[tensor] = x->slots;
        x->slots += (bytes + WEIR_SPILL_ALIGN - 1) / WEIR_SPILL_ALIGN * WEIR_SPILL_ALIGN;
    }
    return x->slot[tensor];
}

static weir_status add_copy(weir_apply_state *x, uint32_t event)
{
    const weir_event e = x->s->events.at[event];
    const uint32_t  *range = x->s->refs.at + x->s->first.at[event];
    const bool       out = e.kind == WEIR_EVENT_OFFLOAD;
    const uint32_t   on = range[out ? 0 : 1];

    const weir_storage  like = x->g->storages.at[x->storage_of_tensor[e.what]];

    if (!out) {
        x->storage_of_range[on] = weir_graph_storage_new(x->g, like.bytes, like.kind);
        if (x->storage_of_range[on] == WEIR_NONE)
            return WEIR_ERR_NOMEM;
        x->g->storages.at[x->storage_of_range[on]].origin = x->storage_of_tensor[e.what];
    }
    const weir_spill_attr attr = {like.external ? like.block->spill_slot
                                                : slot_of(x, e.what, like.bytes),
                                  like.bytes, x->tickets, like.external};
    (out ? x->leaving : x->coming)[on] = x->tickets++;
    return add_spill(x, out ? WEIR_OP_SPILL_OUT : WEIR_OP_SPILL_IN, on, attr);
}

/* ---- compression ---- */

/* Returns a value of the elements of a storage in memory order. */
static uint32_t row_of(weir_graph *g, uint32_t storage, weir_dtype dtype, int64_t count)
{
    const weir_layout l = {.desc = weir_1d(dtype, count), .stride = {1}};
    return weir_graph_value_of(g, storage, &l, 0);
}

/* Adds a storage for the form that the event makes, and the node that fills it. */
static weir_status add_compress(weir_apply_state *x, uint32_t event)
{
    const weir_event      e = x->s->events.at[event];
    const uint32_t       *range = x->s->refs.at + x->s->first.at[event];
    const uint32_t        origin = x->storage_of_tensor[e.what];
    const weir_pack_attr  attr = x->pack[origin];
    const bool            packs = e.kind == WEIR_EVENT_COMPRESS;
    const size_t          bytes = weir_pack_bytes(&attr);
    const weir_storage    like = x->g->storages.at[origin];
    const bool            lossy = attr.kind == WEIR_PACK_GROUPS;
    weir_node             n = {.op = packs ? WEIR_OP_PACK : WEIR_OP_UNPACK, .phase = x->phase,
                               .name = name_of(x, e.what), .attr_bytes = sizeof attr, .nin = 1,
                               .nout = 1};

    if (lossy) {
        n.op = packs ? WEIR_OP_QUANTIZE : WEIR_OP_DEQUANTIZE;
        n.rng = x->g->rng_total;
        x->g->rng_total += packs ? weir_rng_blocks(attr.count) : 0;
    }
    n.def = weir_opdef_of(n.op);

    const uint32_t made = weir_graph_storage_new(x->g, packs ? bytes : like.bytes, like.kind);
    if (made == WEIR_NONE)
        return WEIR_ERR_NOMEM;
    if (!packs)
        x->g->storages.at[made].origin = origin;
    x->storage_of_range[range[1]] = made;
    const uint32_t plain = row_of(x->g, packs ? x->storage_of_range[range[0]] : made,
                                  (weir_dtype)attr.dtype, attr.count);
    const uint32_t code =
        row_of(x->g, packs ? made : x->storage_of_range[range[0]], WEIR_U8, (int64_t)bytes);
    n.in[0] = packs ? plain : code;
    n.out[0] = packs ? code : plain;
    n.attr = weir_mem_alloc(sizeof attr);
    if (plain == WEIR_NONE || code == WEIR_NONE || !n.attr || !weir_vec_push(&x->nodes, n)) {
        weir_mem_free(n.attr);
        return WEIR_ERR_NOMEM;
    }
    memcpy(x->nodes.at[x->nodes.n - 1].attr, &attr, sizeof attr);
    return WEIR_OK;
}

/* Waits for the live range's transfer with this ticket, if any, and clears the ticket. */
static weir_status await(weir_apply_state *x, uint32_t range, uint64_t *ticket)
{
    const weir_spill_attr attr = {.ticket = *ticket};

    if (*ticket == NO_TICKET)
        return WEIR_OK;
    *ticket = NO_TICKET;
    return add_spill(x, WEIR_OP_SPILL_WAIT, range, attr);
}

/* Waits for the prefetches of the event's inputs. */
static weir_status await_inputs(weir_apply_state *x, uint32_t event)
{
    uint32_t        nin, nout;
    const uint32_t *range = weir_schedule_refs(x->s, event, &nin, &nout);

    for (uint32_t i = 0; i < nin; i++)
        WEIR_TRY(await(x, range[i], &x->coming[range[i]]));
    return WEIR_OK;
}

static weir_status add_event(weir_apply_state *x, uint32_t event)
{
    const weir_event e = x->s->events.at[event];

    if (e.kind == WEIR_EVENT_RUN)
        x->phase = x->g->nodes.at[e.what].phase;
    WEIR_TRY(await_inputs(x, event));
    WEIR_TRY(e.kind == WEIR_EVENT_RUN ? add_run(x, event)
             : e.kind == WEIR_EVENT_COMPRESS || e.kind == WEIR_EVENT_DECOMPRESS
                 ? add_compress(x, event)
                 : add_copy(x, event));
    for (uint32_t i = x->end_first[event]; i < x->end_first[event + 1]; i++)
        WEIR_TRY(await(x, x->ends[i], &x->leaving[x->ends[i]]));
    return WEIR_OK;
}

/* ---- the whole graph ---- */

/* Resident tensors keep their storages; those on the host between steps get a slot in the spill
 * file. */
static weir_status settle_resident(weir_apply_state *x)
{
    for (uint32_t i = 0; i < x->s->ranges.n && x->s->ranges.at[i].before; i++) {
        const weir_live_range *l = &x->s->ranges.at[i];
        weir_storage *const    s = &x->g->storages.at[x->storage_of_tensor[l->tensor]];
        x->storage_of_range[i] = x->storage_of_tensor[l->tensor];
        if (l->form != WEIR_FORM_HOST)
            continue;
        WEIR_TRY(weir_block_take_spill_slot(s->block));
        s->offloaded = true;
        x->g->n_offloaded++;
    }
    return WEIR_OK;
}

static bool apply_init(weir_apply_state *x)
{
    const weir_schedule *s = x->s;

    x->storage_of_range = weir_mem_alloc((s->ranges.n + 1u) * sizeof *x->storage_of_range);
    x->leaving = weir_mem_alloc((s->ranges.n + 1u) * sizeof *x->leaving);
    x->coming = weir_mem_alloc((s->ranges.n + 1u) * sizeof *x->coming);
    x->storage_of_tensor = weir_mem_alloc((s->p->tensors.n + 1u) * sizeof *x->storage_of_tensor);
    x->slot = weir_mem_alloc((s->p->tensors.n + 1u) * sizeof *x->slot);
    x->end_first = weir_mem_alloc((s->events.n + 2u) * sizeof *x->end_first);
    x->ends = weir_mem_alloc((s->ranges.n + 1u) * sizeof *x->ends);
    if (!x->storage_of_range || !x->leaving || !x->coming || !x->storage_of_tensor ||
        !x->slot || !x->end_first || !x->ends)
        return false;
    for (uint32_t i = 0; i < s->ranges.n; i++)
        x->leaving[i] = x->coming[i] = NO_TICKET;
    for (uint32_t k = 0; k < s->p->tensors.n; k++)
        x->slot[k] = UINT64_MAX;
    for (uint32_t i = 0; i < x->g->storages.n; i++)
        if (x->tensor_of[i] != WEIR_NO_TENSOR)
            x->storage_of_tensor[x->tensor_of[i]] = i;
    weir_schedule_ends(s, NULL, x->end_first, x->ends);
    return true;
}

static void apply_free(weir_apply_state *x)
{
    weir_mem_free(x->storage_of_range);
    weir_mem_free(x->leaving);
    weir_mem_free(x->coming);
    weir_mem_free(x->storage_of_tensor);
    weir_mem_free(x->slot);
    weir_mem_free(x->pack);
    weir_mem_free(x->end_first);
    weir_mem_free(x->ends);
}

/* Did applying a schedule add the node? Then the node owns its attributes. */
static bool made_here(const weir_node *n)
{
    return n->recomputed || weir_op_moves(n->op);
}

void weir_applied_nodes_free(weir_node *nodes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (made_here(&nodes[i]))
            weir_mem_free(nodes[i].attr);
}

/* Drops the new storages and values. They are last in their arrays, but first in lists of views. */
static void drop_new(weir_graph *g, const weir_revert_record *old)
{
    g->storages.n = old->storages;
    g->n_offloaded = 0;
    for (uint32_t i = 0; i < g->storages.n; i++) {
        uint32_t *const first = &g->storages.at[i].values;
        g->storages.at[i].offloaded = false;
        while (*first != WEIR_NONE && *first >= old->values)
            *first = g->values.at[*first].next;
    }
    g->values.n = old->values;
    g->rng_total = old->rng;
}

weir_status weir_graph_apply(weir_graph *g, const weir_schedule *s, const uint32_t *tensor_of,
                             weir_revert_record *old)
{
    weir_apply_state x = {.g = g, .s = s, .tensor_of = tensor_of};
    weir_status      status = WEIR_OK;

    *old = (weir_revert_record){.storages = g->storages.n, .values = g->values.n,
                             .rng = g->rng_total};
    if (weir_value_ranges_pack(g, &x.pack) != WEIR_OK || !apply_init(&x))
        status = WEIR_ERR_NOMEM;
    if (status == WEIR_OK)
        status = settle_resident(&x);
    for (uint32_t e = 0; e < s->events.n && status == WEIR_OK; e++)
        status = add_event(&x, e);
    apply_free(&x);
    if (status != WEIR_OK) {
        weir_applied_nodes_free(x.nodes.at, x.nodes.n);
        weir_vec_free(&x.nodes);
        drop_new(g, old);
        return status;
    }
    old->nodes = g->nodes.at;
    old->n = g->nodes.n;
    old->cap = g->nodes.cap;
    g->nodes.at = x.nodes.at;
    g->nodes.n = x.nodes.n;
    g->nodes.cap = x.nodes.cap;
    return WEIR_OK;
}

void weir_graph_revert(weir_graph *g, weir_revert_record *old)
{
    if (!old->nodes)
        return;
    weir_applied_nodes_free(g->nodes.at, g->nodes.n);
    weir_mem_free(g->nodes.at);
    g->nodes.at = old->nodes;
    g->nodes.n = old->n;
    g->nodes.cap = old->cap;
    drop_new(g, old);
    *old = (weir_revert_record){0};
}

void weir_revert_record_free(weir_revert_record *old)
{
    weir_mem_free(old->nodes);
    *old = (weir_revert_record){0};
}
