/* capuchin_passive.c - Capuchin's passive mode (Peng and others, ASPLOS 2020): a step runs in
 * order; when memory runs out, the least recently used tensor is offloaded, and prefetched when it
 * is read. Compute waits for both copies.
 *
 * Space for every output is freed beforehand, even if the output could be made in place. */
#include "graph/memory/policies/capuchin_passive.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/problem/copy_streams.h"

typedef struct weir_capuchin_state {
    const weir_mem_problem *p;
    size_t                  limit, live; /* bytes: limit; tensors on the device */
    weir_schedule          *s;
    uint32_t               *used; /* [tensors] op that made or read it last */
    uint32_t               *next; /* [tensors] number of its next use */
} weir_capuchin_state;

static bool is_there(const weir_capuchin_state *v, uint32_t tensor)
{
    return weir_schedule_has(v->s, tensor, WEIR_FORM_PLAIN);
}

/* Is the tensor needed later? */
static bool is_wanted(const weir_capuchin_state *v, uint32_t tensor)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    return v->next[tensor] < k->uses.n || k->output || k->producer == WEIR_NO_OP;
}

static void drop(weir_capuchin_state *v, uint32_t tensor)
{
    weir_schedule_drop(v->s, tensor);
    v->live -= v->p->tensors.at[tensor].bytes;
}

/* Offloads tensors that op i does not read until `bytes` more fit or no such tensor is left. */
static bool free_memory(weir_capuchin_state *v, uint32_t i, size_t bytes)
{
    while (v->live + bytes > v->limit) {
        uint32_t oldest = WEIR_NO_TENSOR;
        for (uint32_t k = 0; k < v->p->tensors.n; k++) {
            const weir_mem_tensor *x = &v->p->tensors.at[k];
            if (is_there(v, k) && x->producer != WEIR_NO_OP && x->bytes > 0 &&
                v->next[k] < x->uses.n && !weir_among(v->p, v->p->ops.at[i].in, k) &&
                (oldest == WEIR_NO_TENSOR || v->used[k] < v->used[oldest]))
                oldest = k;
        }
        if (oldest == WEIR_NO_TENSOR)
            return true;
        if (!weir_schedule_copy(v->s, oldest, WEIR_EVENT_OFFLOAD))
            return false;
        drop(v, oldest);
    }
    return true;
}

static bool prefetch(weir_capuchin_state *v, uint32_t i)
{
    const weir_index_range in = v->p->ops.at[i].in;

    for (uint32_t k = 0; k < in.n; k++) {
        const uint32_t tensor = weir_refs(v->p, in)[k];
        if (is_there(v, tensor))
            continue;
        if (!free_memory(v, i, v->p->tensors.at[tensor].bytes) ||
            !weir_schedule_copy(v->s, tensor, WEIR_EVENT_PREFETCH))
            return false;
        v->live += v->p->tensors.at[tensor].bytes;
    }
    return true;
}

static bool run(weir_capuchin_state *v, uint32_t i)
{
    const weir_mem_op *t = &v->p->ops.at[i];
    const uint32_t    *in = weir_refs(v->p, t->in), *out = weir_refs(v->p, t->out);
    size_t             made = 0;

    for (uint32_t k = 0; k < t->out.n; k++)
        made += v->p->tensors.at[out[k]].bytes;
    if (!prefetch(v, i) || !free_memory(v, i, made + t->work) || !weir_schedule_run(v->s, i, false))
        return false;
    v->live += made;
    for (uint32_t k = 0; k < t->in.n; k++) {
        v->used[in[k]] = i;
        v->next[in[k]]++;
        if (!is_wanted(v, in[k]))
            drop(v, in[k]);
    }
    for (uint32_t k = 0; k < t->out.n; k++) {
        v->used[out[k]] = i;
        if (!is_wanted(v, out[k]))
            drop(v, out[k]);
    }
    return true;
}

/* Runs the step within `limit` bytes. Returns false if memory runs out. */
static bool play(weir_capuchin_state *v, size_t limit)
{
    bool ok = weir_schedule_begin(v->s, NULL);

    v->limit = limit;
    v->live = 0;
    v->s->lockstep = true;
    memset(v->next, 0, v->p->tensors.n * sizeof *v->next);
    for (uint32_t k = 0; k < v->p->tensors.n; k++)
        v->live += weir_mem_tensor_is_resident(v->p, k) ? v->p->tensors.at[k].bytes : 0;
    for (uint32_t i = 0; i < v->p->ops.n && ok; i++)
        ok = run(v, i);
    return ok && weir_schedule_end(v->s, limit);
}

weir_status weir_capuchin_passive(weir_policy_job *job)
{
    const size_t        n = job->p->tensors.n + 1u;
    weir_capuchin_state v = {.p = job->p, .s = &job->s};
    bool                ok = weir_schedule_init(v.s, job->p);

    v.used = weir_mem_zalloc(n, sizeof *v.used);
    v.next = weir_mem_zalloc(n, sizeof *v.next);
    ok = ok && v.used && v.next && play(&v, SIZE_MAX);
    if (ok && job->s.peak > job->limit)      /* in place, everything may fit */
        ok = play(&v, job->limit);
    weir_mem_free(v.used);
    weir_mem_free(v.next);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
