/* relower_state.c - the state of incremental lowering, and the copies on the host that follow from
 * decisions alone. */
#include "graph/memory/problem/relower_state.h"

#include <string.h>

/* The step in ticks: sums of six steps fit into 53 bits, so they are exact as doubles, too. */
#define STEP_TICKS 0x1p48

static bool init_arrays(weir_relower *r)
{
    const size_t ops = r->p->ops.n + 1u, tensors = r->p->tensors.n + 1u;

    r->at = weir_mem_zalloc(r->w->intervals + 1u, sizeof *r->at);
    r->runs = weir_mem_zalloc(ops, sizeof *r->runs);
    r->stages = weir_mem_zalloc(ops, sizeof *r->stages);
    r->early = weir_mem_zalloc(ops, sizeof *r->early);
    r->read = weir_mem_alloc(tensors * sizeof *r->read);
    r->host = weir_mem_alloc(tensors * sizeof *r->host);
    r->most = weir_mem_zalloc(ops, sizeof *r->most);
    r->ticks = weir_mem_zalloc(ops, sizeof *r->ticks);
    r->queued = weir_mem_zalloc(ops, 1);
    r->asked = weir_mem_zalloc(tensors, sizeof *r->asked);
    r->there = weir_mem_zalloc(tensors, sizeof *r->there);
    r->read_in = weir_mem_zalloc(tensors, sizeof *r->read_in);
    r->over = weir_mem_zalloc(tensors, sizeof *r->over);
    r->fetched = weir_mem_zalloc(tensors, sizeof *r->fetched);
    r->last = weir_mem_zalloc(tensors, sizeof *r->last);
    r->marked = weir_mem_zalloc(ops, sizeof *r->marked);
    return r->at && r->runs && r->stages && r->early && r->read && r->host && r->most &&
           r->ticks && r->queued && r->asked && r->there && r->read_in && r->over && r->fetched &&
           r->last && r->marked &&
           weir_vec_reserve(&r->queue, ops) && weir_vec_reserve(&r->unsummed, ops) &&
           weir_vec_reserve(&r->unread, tensors);
}

static void number_intervals(weir_relower *r)
{
    const weir_mem_problem *p = r->p;

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *t = &p->tensors.at[k];
        const uint32_t        *u = weir_refs(p, t->uses);
        uint32_t               from = t->producer == WEIR_NO_OP ? 0 : t->producer;

        r->resident += t->producer == WEIR_NO_OP ? t->bytes : 0;
        for (uint32_t j = 0; j <= t->uses.n; j++) {
            const bool last = j == t->uses.n;
            r->at[r->w->first_interval[k] + j] =
                (weir_relower_interval){.tensor = k,
                                        .from = from,
                                        .to = last ? p->ops.n - 1 : u[j],
                                        .restored = WEIR_NO_STAGE,
                                        .last = last};
            from = last ? 0 : u[j];
        }
    }
}

bool weir_relower_init(weir_relower *r, const weir_lower_state *w)
{
    const weir_mem_problem *p = w->p;

    *r = (weir_relower){.p = p, .w = w, .events = p->ops.n};
    r->second = p->time > 0 ? STEP_TICKS / p->time : 0;
    if (!init_arrays(r) || !weir_peak_tree_init(&r->tree, p->ops.n))
        return false;
    for (uint32_t i = 0; i < p->ops.n; i++)
        r->ticks[i] = (int64_t)(p->ops.at[i].time * r->second);
    memset(r->read, 0xff, p->tensors.n * sizeof *r->read);
    memset(r->host, 0xff, p->tensors.n * sizeof *r->host);
    number_intervals(r);
    return true;
}

void weir_relower_free(weir_relower *r)
{
    for (uint32_t i = 0; r->p && i < r->p->ops.n; i++) {
        if (r->runs)
            weir_vec_free(&r->runs[i].list);
        if (r->stages)
            weir_vec_free(&r->stages[i].list);
        if (r->early)
            weir_vec_free(&r->early[i].list);
    }
    void *const own[] = {r->at,    r->runs,   r->stages, r->early, r->read,    r->host,
                         r->most,  r->ticks,  r->last,   r->queued, r->asked,  r->there,
                         r->read_in, r->over, r->fetched, r->marked};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        weir_mem_free(own[i]);
    weir_vec_free(&r->queue);
    weir_vec_free(&r->unsummed);
    weir_vec_free(&r->made);
    weir_vec_free(&r->stack);
    weir_vec_free(&r->unread);
    weir_peak_tree_free(&r->tree);
    *r = (weir_relower){0};
}

/* ---- copies on the host ---- */

bool weir_relower_is_on_host(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    if (r->p->tensors.at[tensor].producer == WEIR_NO_OP)
        return weir_relower_offloaded(r, tensor);
    return r->host[tensor] < s;
}

/* Was the resident tensor changed by its use number j - 1, or by an earlier one since which it has
 * not left the device? */
static bool is_stale(const weir_relower *r, uint32_t tensor, uint32_t j)
{
    const weir_index_range       uses = r->p->tensors.at[tensor].uses;
    const weir_relower_interval *own = &r->at[r->w->first_interval[tensor]];

    for (; j > 0; j--) {
        if (weir_among(r->p, r->p->ops.at[weir_refs(r->p, uses)[j - 1]].changes, tensor))
            return true;
        if (own[j - 1].decision != WEIR_KEEP)
            return false;
    }
    return false;
}

bool weir_relower_copies_out(const weir_relower *r, uint32_t g)
{
    const weir_relower_interval *x = &r->at[g];
    const uint32_t               j = g - r->w->first_interval[x->tensor];

    if (r->p->tensors.at[x->tensor].producer != WEIR_NO_OP)
        return x->decision == WEIR_OFFLOAD && r->host[x->tensor] == x->from;
    return j > 0 && weir_relower_offloaded(r, x->tensor) &&
           (x->last || x->decision != WEIR_KEEP) && is_stale(r, x->tensor, j);
}

uint32_t weir_relower_count_copies_out(const weir_relower *r, uint32_t tensor)
{
    uint32_t n = 0;

    if (r->p->tensors.at[tensor].producer != WEIR_NO_OP)
        return r->host[tensor] != WEIR_NO_STAGE;
    for (uint32_t g = r->w->first_interval[tensor]; g < r->w->first_interval[tensor + 1]; g++)
        n += weir_relower_copies_out(r, g);
    return n;
}
