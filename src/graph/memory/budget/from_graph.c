/* from_graph.c - states a recorded graph as a planning problem.
 *
 * Parameters and states may be tensors of the problem, too: during a run only this graph's nodes
 * read them, and between runs a block is prefetched when the program accesses it. */
#include "graph/memory/budget/from_graph.h"

#include <string.h>

#include "core/status.h"
#include "device/kernel.h"
#include "device/memory/guard.h"
#include "graph/plan/plan.h"
#include "graph/memory/budget/value_ranges.h"

/* Sets first[storage] to the first node that overwrites it in place; to the number of nodes if none
 * does. */
static void first_writers(const weir_graph *g, uint32_t *first)
{
    for (uint32_t i = 0; i < g->storages.n; i++)
        first[i] = g->nodes.n;
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++)
            if (n->def->mutates >> k & 1)
                first[weir_storage_of(g, n->in[k])] = i;
    }
}

/* Returns the node from which on running node i again would be wrong; 0: it runs only once. */
static uint32_t rerun_before_of(const weir_graph *g, uint32_t i, const uint32_t *first)
{
    const weir_node  *n = &g->nodes.at[i];
    const weir_opdef *def = n->def;
    uint32_t          rerun_before = g->nodes.n;

    if (def->mutates || def->flags & WEIR_RUNS_ONCE)
        return 0;
    for (int k = 0; k < n->nin; k++) {
        const uint32_t at = first[weir_storage_of(g, n->in[k])];
        rerun_before = at < rerun_before ? at : rerun_before;
    }
    return rerun_before;
}

/* Is input k overwritten without being read? No other input of the node shares its storage then. */
static bool is_write_only(const weir_node *n, int k)
{
    return n->def->write_only >> k & 1;
}

static bool add_op(weir_mem_problem *p, const weir_graph *g, uint32_t i, double seconds,
                   size_t work, bool inplace, uint32_t rerun_before, const uint32_t *tensor_of)
{
    const weir_node *n = &g->nodes.at[i];
    uint32_t         in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    uint32_t         pairs[2 * WEIR_EW_MAX_IN * WEIR_MAX_OUT], nin = 0, nout = 0, npairs = 0;
    uint32_t         changes[WEIR_EW_MAX_IN], nchanges = 0, n_write_only;

    for (int k = 0; k < n->nin; k++)
        if (tensor_of[weir_storage_of(g, n->in[k])] != WEIR_NO_TENSOR && !is_write_only(n, k))
            in[nin++] = tensor_of[weir_storage_of(g, n->in[k])];
    n_write_only = nin;
    for (int k = 0; k < n->nin; k++)
        if (tensor_of[weir_storage_of(g, n->in[k])] != WEIR_NO_TENSOR && is_write_only(n, k))
            in[nin++] = tensor_of[weir_storage_of(g, n->in[k])];
    n_write_only = nin - n_write_only;
    for (int k = 0; k < n->nin; k++)
        if (tensor_of[weir_storage_of(g, n->in[k])] != WEIR_NO_TENSOR && n->def->mutates >> k & 1)
            changes[nchanges++] = tensor_of[weir_storage_of(g, n->in[k])];
    for (int o = 0; o < n->nout; o++)
        if (tensor_of[weir_storage_of(g, n->out[o])] != WEIR_NO_TENSOR)
            out[nout++] = tensor_of[weir_storage_of(g, n->out[o])];
    for (int o = 0; o < n->nout && inplace; o++)
        for (int k = 0; k < n->nin; k++)
            if (weir_may_take_over(g, n, k, o)) {
                pairs[npairs++] = tensor_of[weir_storage_of(g, n->in[k])];
                pairs[npairs++] = tensor_of[weir_storage_of(g, n->out[o])];
            }
    const weir_mem_op_def def = {.time = seconds,
                                 .work = work,
                                 .rerun_before = rerun_before,
                                 .region = n->region,
                                 .phase = n->phase,
                                 .kind = weir_op_class_of(n->def->name),
                                 .nin = nin,
                                 .in = in,
                                 .nout = nout,
                                 .out = out,
                                 .npairs = npairs,
                                 .pairs = pairs,
                                 .nchanges = nchanges,
                                 .changes = changes,
                                 .n_write_only = n_write_only};
    return weir_mem_problem_add_op(p, &def);
}

static weir_status add_ops(const weir_graph *g, const double *seconds, bool inplace,
                           weir_mem_problem *p, const uint32_t *tensor_of, const uint32_t *first)
{
    weir_layout      in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    const weir_rates rates = g->dev->ops->rates(g->dev);     /* used until times are measured */

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_call    call = weir_node_call(g, &g->nodes.at[i], in, out);
        const weir_kernel *kernel;
        size_t             work;
        WEIR_TRY(weir_kernel_of(g->dev, &call, &kernel));
        if (!weir_guard_size(g->dev, weir_guard_work(g->dev, kernel->work), &work))
            return weir_fail(WEIR_ERR_NOMEM, "planning: a workspace of %zu bytes", kernel->work);
        const double time =
            seconds && seconds[i] >= 0 ? seconds[i] : weir_rates_seconds(&rates, &call);
        if (!add_op(p, g, i, time, work, inplace, rerun_before_of(g, i, first), tensor_of))
            return WEIR_ERR_NOMEM;
    }
    return weir_mem_problem_end(p) ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* Returns the bytes of the compressed form; 0 if it saves nothing. */
static size_t packed_bytes(const weir_graph *g, const weir_pack_attr *pack, size_t plain)
{
    size_t bytes;

    return pack->bits && weir_guard_size(g->dev, weir_pack_bytes(pack), &bytes) && bytes < plain
               ? bytes : 0;
}

/* Adds a tensor for every temporary storage that a node makes. */
static weir_status add_tensors(const weir_graph *g, const weir_pack_attr *pack, weir_mem_problem *p,
                               uint32_t *tensor_of)
{
    memset(tensor_of, 0xff, g->storages.n * sizeof *tensor_of);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int o = 0; o < n->nout; o++) {
            const uint32_t s = weir_storage_of(g, n->out[o]);
            size_t         bytes;
            if (g->storages.at[s].external)
                continue;
            if (!weir_guard_size(g->dev, g->storages.at[s].bytes, &bytes))
                return weir_fail(WEIR_ERR_NOMEM, "planning: a storage of %zu bytes and its guard "
                                 "zones exceed SIZE_MAX",
                                 g->storages.at[s].bytes);
            tensor_of[s] = p->tensors.n;
            if (!weir_mem_problem_add_tensor(p, bytes, packed_bytes(g, &pack[s], bytes), false))
                return WEIR_ERR_NOMEM;
        }
    }
    return WEIR_OK;
}

/* May the storage, of at least `least` bytes, be offloaded between its uses? */
static bool may_leave(const weir_graph *g, uint32_t s, size_t least)
{
    const weir_storage *st = &g->storages.at[s];

    return st->external && st->block->kind <= WEIR_KIND_STATE && st->bytes > 0 &&
           st->bytes >= least && st->block->written && !st->block->shared &&
           g->dev->ops->spill_slots;
}

/* Adds, after all others, a tensor for every parameter and state that nodes use and that may be
 * offloaded. */
static weir_status add_resident(const weir_graph *g, size_t least, weir_mem_problem *p,
                                uint32_t *tensor_of)
{
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        for (int k = 0; k < n->nin; k++) {
            const uint32_t s = weir_storage_of(g, n->in[k]);
            if (tensor_of[s] != WEIR_NO_TENSOR || !may_leave(g, s, least))
                continue;
            tensor_of[s] = p->tensors.n;
            if (!weir_mem_problem_add_tensor(p, weir_plan_taken(g, s), 0, false))
                return WEIR_ERR_NOMEM;
        }
    }
    return WEIR_OK;
}

weir_status weir_mem_problem_from_graph(const weir_graph *g, const double *seconds, bool inplace,
                                        size_t movable, weir_mem_problem *p, uint32_t **tensor_of)
{
    uint32_t *const first = weir_mem_alloc((g->storages.n + 1) * sizeof *first);
    weir_pack_attr *pack = NULL;
    weir_status     status = WEIR_ERR_NOMEM;

    *p = (weir_mem_problem){0};
    *tensor_of = weir_mem_alloc((g->storages.n + 1) * sizeof **tensor_of);
    if (first && *tensor_of)
        status = weir_value_ranges_pack(g, &pack);
    if (status == WEIR_OK) {
        first_writers(g, first);
        p->pack_bandwidth = g->dev->ops->rates(g->dev).bytes;
        status = add_tensors(g, pack, p, *tensor_of);
        if (status == WEIR_OK && movable < SIZE_MAX)
            status = add_resident(g, movable, p, *tensor_of);
        if (status == WEIR_OK)
            status = add_ops(g, seconds, inplace, p, *tensor_of, first);
    }
    weir_mem_free(first);
    weir_mem_free(pack);
    if (status != WEIR_OK) {
        weir_mem_problem_free(p);
        weir_mem_free(*tensor_of);
        *tensor_of = NULL;
    }
    return status;
}

size_t weir_mem_problem_resident_bytes(const weir_mem_problem *p)
{
    size_t bytes = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (weir_mem_tensor_is_resident(p, k))
            bytes += p->tensors.at[k].bytes;
    return bytes;
}

/* On the CPU, the threads of the spill store take time from those that compute. */
void weir_mem_problem_set_rates(weir_mem_problem *p, weir_device *d)
{
    const weir_rates rates = d->ops->rates(d);

    p->link_out = rates.link_out;
    p->link_in = rates.link_in;
    p->copy_latency = rates.copy;
    p->copy_interference = d->ops->host ? 1.0 / weir_threads_count(d->threads) : 0;
}

weir_status weir_mem_problem_widen(const weir_graph *g, const double *seconds, bool inplace,
                                   size_t whole, const weir_mem_problem *p,
                                   weir_mem_problem *widest)
{
    uint32_t *tensor_of;

    *widest = (weir_mem_problem){0};
    if (!g->dev->ops->spill_slots)
        return WEIR_OK;
    WEIR_TRY(weir_mem_problem_from_graph(g, seconds, inplace, weir_least_movable(whole), widest,
                                         &tensor_of));
    weir_mem_free(tensor_of);
    widest->link_out = p->link_out;
    widest->link_in = p->link_in;
    widest->copy_latency = p->copy_latency;
    widest->copy_interference = p->copy_interference;
    return WEIR_OK;
}

/* ---- what a plan was made from ---- */

static void reasons_destroy(weir_ref *self)
{
    weir_reasons *const r = (weir_reasons *)self;

    weir_schedule_free(&r->s);
    weir_mem_problem_free(&r->p);
    weir_mem_problem_free(&r->widest);
    weir_mem_free(r->tensor_of);
    weir_mem_free(r);
}

weir_reasons *weir_reasons_new(void)
{
    weir_reasons *const r = weir_mem_zalloc(1, sizeof *r);

    if (r)
        r->ref = (weir_ref){1, reasons_destroy};
    return r;
}

weir_status weir_reasons_keep(weir_graph *g, weir_mem_problem *p, weir_mem_problem *widest,
                              weir_schedule *s, uint32_t **tensor_of, uint32_t storages)
{
    weir_reasons *const r = weir_reasons_new();

    if (!r)
        return WEIR_ERR_NOMEM;
    r->p = *p;
    r->widest = *widest;
    r->s = *s;
    r->s.p = &r->p;
    r->tensor_of = *tensor_of;
    r->storages = storages;
    weir_vec_free(&r->s.scratch);
    weir_vec_free(&r->s.clock);
    *p = *widest = (weir_mem_problem){0};
    *s = (weir_schedule){0};
    *tensor_of = NULL;
    weir_ref_drop(g->plan->reasons);
    g->plan->reasons = r;
    return WEIR_OK;
}
