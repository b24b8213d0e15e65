/* reorder.c - list scheduling (deps.h) of a step's tasks. */
#include "graph/memory/search/reorder.h"

#include <string.h>

#include "core/deps.h"

/* *caller: the last task so far that is the program's own call; those keep their order. */
static bool tell_task(weir_dep_list *l, const weir_problem *p, uint32_t i, uint32_t *caller)
{
    const weir_task *t = &p->tasks.at[i];
    bool             ok = weir_dep_call(l);

    for (uint32_t k = 0; k < t->in.n && ok; k++)
        ok = weir_dep_read(l, weir_refs(p, t->in)[k]);
    for (uint32_t k = 0; k < t->changes.n && ok; k++)
        ok = weir_dep_write(l, weir_refs(p, t->changes)[k]);
    for (uint32_t k = 0; k < t->out.n && ok; k++) {
        const uint32_t piece = weir_refs(p, t->out)[k];
        ok = weir_dep_make(l, piece, p->pieces.at[piece].bytes);
    }
    if (t->until == 0 && t->out.n > 0) {
        ok = ok && weir_dep_edge_to(l, *caller, i);
        *caller = i;
    }
    return ok && (t->until <= i || t->until >= p->tasks.n || weir_dep_edge_to(l, i, t->until));
}

/* The first update of every resident piece; WEIR_NO_TASK: there is none. */
static void find_updates(const weir_problem *p, uint32_t *update)
{
    memset(update, 0xff, p->pieces.n * sizeof *update);
    for (uint32_t i = p->tasks.n; i-- > 0;)
        for (uint32_t k = 0; k < p->tasks.at[i].changes.n && p->tasks.at[i].out.n == 0; k++)
            update[weir_refs(p, p->tasks.at[i].changes)[k]] = i;
}

/* From which task of the new order on it is wrong to run t again. at: where the old ones went. */
static uint32_t until_of(const weir_problem *p, const weir_task *t, const uint32_t *update,
                         const uint32_t *at)
{
    uint32_t until = p->tasks.n;

    if (t->until == 0)
        return 0;
    if (t->until < until)
        until = at[t->until];
    for (uint32_t k = 0; k < t->in.n - t->only; k++) {
        const uint32_t u = update[weir_refs(p, t->in)[k]];
        if (u != WEIR_NO_TASK && at[u] < until)
            until = at[u];
    }
    return until;
}

static bool copy(const weir_problem *p, const uint32_t *order, const uint32_t *update,
                 const uint32_t *at, weir_problem *q)
{
    bool ok = true;

    for (uint32_t k = 0; k < p->pieces.n && ok; k++) {
        const weir_piece *x = &p->pieces.at[k];
        ok = weir_problem_piece(q, x->bytes, x->packed, x->output);
    }
    for (uint32_t i = 0; i < p->tasks.n && ok; i++) {
        const weir_task    *t = &p->tasks.at[order[i]];
        const weir_task_def d = {
            .time = t->time, .work = t->work, .until = until_of(p, t, update, at),
            .region = t->region, .kind = (weir_work)t->kind, .phase = (weir_phase)t->phase,
            .only = t->only, .nin = t->in.n, .in = weir_refs(p, t->in), .nout = t->out.n,
            .out = weir_refs(p, t->out), .npairs = t->pairs.n, .pairs = weir_refs(p, t->pairs),
            .nmasked = t->masked.n, .masked = weir_refs(p, t->masked),
            .nchanges = t->changes.n, .changes = weir_refs(p, t->changes)};
        ok = weir_problem_task(q, &d);
    }
    return ok && weir_problem_end(q);
}

bool weir_problem_reorder(const weir_problem *p, weir_problem *q, uint32_t *order, bool *better)
{
    weir_dep_list   l;
    uint32_t *const update = weir_mem_alloc((p->pieces.n + 1u) * sizeof *update);
    uint32_t *const at = weir_mem_alloc((p->tasks.n + 1u) * sizeof *at);
    uint32_t        caller = WEIR_NO_CALL;
    bool            ok = weir_dep_begin(&l, p->pieces.n) && update && at;

    *q = (weir_problem){.resident = p->resident, .link_out = p->link_out, .link_in = p->link_in,
                        .copy = p->copy, .steal = p->steal, .codec = p->codec};
    for (uint32_t k = 0; k < p->pieces.n && ok; k++)
        ok = !p->pieces.at[k].output || weir_dep_keep(&l, k);
    for (uint32_t i = 0; i < p->tasks.n && ok; i++)
        ok = tell_task(&l, p, i, &caller);
    ok = ok && weir_deps_order(&l, order, better);
    if (ok) {
        find_updates(p, update);
        for (uint32_t i = 0; i < p->tasks.n; i++)
            at[order[i]] = i;
        ok = copy(p, order, update, at, q);
    }
    weir_dep_free(&l);
    weir_mem_free(update);
    weir_mem_free(at);
    return ok;
}
