/* reorder.c - list scheduling (core/schedule/call_order.h) of a step's ops. */
#include "graph/memory/search/reorder.h"

#include <string.h>

#include "core/schedule/call_order.h"

/* Adds op i and its dependencies. *caller is the last op that calls back into the program; those
 * ops keep their order. */
static bool tell_op(weir_dep_list *l, const weir_mem_problem *p, uint32_t i, uint32_t *caller)
{
    const weir_mem_op *t = &p->ops.at[i];
    bool               ok = weir_dep_call(l);

    for (uint32_t k = 0; k < t->in.n && ok; k++)
        ok = weir_dep_read(l, weir_refs(p, t->in)[k]);
    for (uint32_t k = 0; k < t->changes.n && ok; k++)
        ok = weir_dep_write(l, weir_refs(p, t->changes)[k]);
    for (uint32_t k = 0; k < t->out.n && ok; k++) {
        const uint32_t tensor = weir_refs(p, t->out)[k];
        ok = weir_dep_make(l, tensor, p->tensors.at[tensor].bytes);
    }
    for (uint32_t k = 0; k + 1 < t->pairs.n && ok; k += 2)
        ok = weir_dep_take_over(l, weir_refs(p, t->pairs)[k], weir_refs(p, t->pairs)[k + 1]);
    if (ok)
        weir_dep_work(l, t->work);
    if (t->rerun_before == 0 && t->out.n > 0) {
        ok = ok && weir_dep_edge_to(l, *caller, i);
        *caller = i;
    }
    return ok && (t->rerun_before <= i || t->rerun_before >= p->ops.n ||
                  weir_dep_edge_to(l, i, t->rerun_before));
}

/* Finds the first update of every resident tensor; WEIR_NO_OP: none. */
static void find_updates(const weir_mem_problem *p, uint32_t *update)
{
    memset(update, 0xff, p->tensors.n * sizeof *update);
    for (uint32_t i = p->ops.n; i-- > 0;)
        for (uint32_t k = 0; k < p->ops.at[i].changes.n && p->ops.at[i].out.n == 0; k++)
            update[weir_refs(p, p->ops.at[i].changes)[k]] = i;
}

/* Returns rerun_before of t in the new order. at[op] is the new position of an old op. */
static uint32_t rerun_before_of(const weir_mem_problem *p, const weir_mem_op *t,
                                const uint32_t *update, const uint32_t *at)
{
    uint32_t rerun_before = p->ops.n;

    if (t->rerun_before == 0)
        return 0;
    if (t->rerun_before < rerun_before)
        rerun_before = at[t->rerun_before];
    for (uint32_t k = 0; k < t->in.n - t->n_write_only; k++) {
        const uint32_t u = update[weir_refs(p, t->in)[k]];
        if (u != WEIR_NO_OP && at[u] < rerun_before)
            rerun_before = at[u];
    }
    return rerun_before;
}

static bool copy(const weir_mem_problem *p, const uint32_t *order, const uint32_t *update,
                 const uint32_t *at, weir_mem_problem *q)
{
    bool ok = true;

    for (uint32_t k = 0; k < p->tensors.n && ok; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        ok = weir_mem_problem_add_tensor(q, x->bytes, x->packed, x->output);
    }
    for (uint32_t i = 0; i < p->ops.n && ok; i++) {
        const weir_mem_op    *t = &p->ops.at[order[i]];
        const weir_mem_op_def d = {.time = t->time,
                                   .work = t->work,
                                   .rerun_before = rerun_before_of(p, t, update, at),
                                   .region = t->region,
                                   .kind = (weir_op_class)t->kind,
                                   .phase = (weir_phase)t->phase,
                                   .n_write_only = t->n_write_only,
                                   .nin = t->in.n,
                                   .in = weir_refs(p, t->in),
                                   .nout = t->out.n,
                                   .out = weir_refs(p, t->out),
                                   .npairs = t->pairs.n,
                                   .pairs = weir_refs(p, t->pairs),
                                   .nmasked = t->masked.n,
                                   .masked = weir_refs(p, t->masked),
                                   .nchanges = t->changes.n,
                                   .changes = weir_refs(p, t->changes)};
        ok = weir_mem_problem_add_op(q, &d);
    }
    return ok && weir_mem_problem_end(q);
}

bool weir_mem_problem_reorder(const weir_mem_problem *p, weir_mem_problem *q, uint32_t *order)
{
    weir_dep_list   l;
    uint32_t *const update = weir_mem_alloc((p->tensors.n + 1u) * sizeof *update);
    uint32_t *const at = weir_mem_alloc((p->ops.n + 1u) * sizeof *at);
    uint32_t        caller = WEIR_NO_CALL;
    bool            ok = weir_dep_begin(&l, p->tensors.n) && update && at;

    *q = (weir_mem_problem){.resident = p->resident,
                            .link_out = p->link_out,
                            .link_in = p->link_in,
                            .copy_latency = p->copy_latency,
                            .copy_interference = p->copy_interference,
                            .pack_bandwidth = p->pack_bandwidth};
    for (uint32_t k = 0; k < p->tensors.n && ok; k++)
        ok = !p->tensors.at[k].output || weir_dep_keep(&l, k);
    for (uint32_t i = 0; i < p->ops.n && ok; i++)
        ok = tell_op(&l, p, i, &caller);
    ok = ok && weir_deps_order(&l, NULL, order);
    if (ok) {
        find_updates(p, update);
        for (uint32_t i = 0; i < p->ops.n; i++)
            at[order[i]] = i;
        ok = copy(p, order, update, at, q);
    }
    weir_dep_free(&l);
    weir_mem_free(update);
    weir_mem_free(at);
    return ok;
}
