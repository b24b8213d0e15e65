/* lower.c - lowers decisions in one pass over the ops: restores the inputs of each, then runs it.
 *
 * A live range ends at the last event that reads it, even if a decision would have kept the tensor
 * longer, so a superfluous decision to keep costs no memory. */
#include "graph/memory/problem/lower.h"

#include <string.h>

#include "graph/memory/problem/copy_streams.h"

uint64_t weir_lower_most_events(const weir_mem_problem *p)
{
    enum { MOST_RUNS = 6 };
    return MOST_RUNS * ((uint64_t)p->ops.n + 1);
}

uint32_t weir_lower_early(const weir_lower_state *w, uint8_t decision, uint32_t from, uint32_t to)
{
    const uint32_t back = (decision - WEIR_RECOMPUTE_EARLY + 1u) * w->step;
    return back < to - from ? to - back : from + 1;
}

uint32_t weir_lower_intervals(const weir_mem_problem *p)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        n += p->tensors.at[k].uses.n + 1;
    return n;
}

bool weir_lower_init(weir_lower_state *w, const weir_mem_problem *p)
{
    *w = (weir_lower_state){.p = p, .budget = SIZE_MAX};
    w->first_interval = weir_mem_alloc(((size_t)p->tensors.n + 1) * sizeof *w->first_interval);
    w->offloaded = weir_mem_alloc((size_t)p->tensors.n + 1);
    w->next = weir_mem_alloc(((size_t)p->tensors.n + 1) * sizeof *w->next);
    w->early = weir_mem_alloc(((size_t)p->ops.n + 1) * sizeof *w->early);
    w->early_next = weir_mem_alloc(((size_t)p->tensors.n + 1) * sizeof *w->early_next);
    w->step = p->ops.n / (UINT8_MAX - WEIR_RECOMPUTE_EARLY) + 1;
    if (!weir_schedule_init(&w->s, p) || !w->first_interval || !w->offloaded || !w->next ||
        !w->early || !w->early_next)
        return false;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        w->first_interval[k] = w->intervals;
        w->intervals += p->tensors.at[k].uses.n + 1;
    }
    w->first_interval[p->tensors.n] = w->intervals;
    return true;
}

void weir_lower_free(weir_lower_state *w)
{
    weir_mem_free(w->first_interval);
    weir_mem_free(w->offloaded);
    weir_mem_free(w->next);
    weir_mem_free(w->early);
    weir_mem_free(w->early_next);
    weir_schedule_free(&w->s);
    weir_vec_free(&w->burst);
    weir_vec_free(&w->stack);
}

/* Appends a run of the op. Its inputs must be on the device. */
static bool run(weir_lower_state *w, uint32_t op, bool recomputed)
{
    const weir_mem_op *t = &w->p->ops.at[op];
    const uint32_t    *out = weir_refs(w->p, t->out);

    for (uint32_t i = 0; recomputed && i < t->out.n; i++)
        if (!weir_schedule_has(&w->s, out[i], WEIR_FORM_PLAIN) && !weir_vec_push(&w->burst, out[i]))
            return false;
    return weir_schedule_run(&w->s, op, recomputed);
}

/* Returns whether input `tensor` is on the device in a form that the op can read. For the last use
 * of a step output a mask is not enough: the plain form must exist at the end of the step. */
static bool is_readable(const weir_lower_state *w, const weir_mem_op *t, uint32_t tensor)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];

    return weir_schedule_has(&w->s, tensor, WEIR_FORM_PLAIN) ||
           (weir_schedule_has(&w->s, tensor, WEIR_FORM_MASK) &&
            weir_among(w->p, t->masked, tensor) &&
            !(k->output && w->next[tensor] + 1 >= k->uses.n));
}

/* Restores the tensor from its compressed or its host copy; sets *back if it has one. */
static bool restore_copy(weir_lower_state *w, uint32_t tensor, bool *back)
{
    const weir_event_kind kind = weir_schedule_has(&w->s, tensor, WEIR_FORM_COMPRESSED)
                                     ? WEIR_EVENT_DECOMPRESS
                                     : WEIR_EVENT_PREFETCH;

    *back = kind == WEIR_EVENT_DECOMPRESS || weir_schedule_has(&w->s, tensor, WEIR_FORM_HOST);
    return !*back || (weir_vec_push(&w->burst, tensor) && weir_schedule_copy(&w->s, tensor, kind));
}

/* Restores the inputs of the op from copies; pushes the producers of all others on the stack. */
static bool request_inputs(weir_lower_state *w, const weir_mem_op *t)
{
    const weir_mem_problem *p = w->p;
    const uint32_t         *in = weir_refs(p, t->in);
    bool                    back;

    for (uint32_t i = 0; i < t->in.n; i++) {
        if (is_readable(w, t, in[i]))
            continue;
        if (!restore_copy(w, in[i], &back))
            return false;
        if (!back && weir_mem_tensor_is_resident(p, in[i]))
            w->valid = false;
        else if (!back && !weir_vec_push(&w->stack, p->tensors.at[in[i]].producer))
            return false;
    }
    return true;
}

/* Runs the ops on the stack, each after the producers of the inputs it lacks (depth first). */
static bool run_stack(weir_lower_state *w, uint32_t stage)
{
    const weir_mem_problem *p = w->p;

    while (w->stack.n > 0 && w->valid) {
        const uint32_t     op = w->stack.at[w->stack.n - 1], depth = w->stack.n;
        const weir_mem_op *t = &p->ops.at[op];
        /* false: another run has already restored all its outputs */
        bool               wanted = false;

        if (t->rerun_before <= stage || w->s.events.n > weir_lower_most_events(p)) {
            w->valid = false;
            break;
        }
        if (!request_inputs(w, t))
            return false;
        if (w->stack.n > depth)
            continue;
        w->stack.n--;
        for (uint32_t i = 0; i < t->out.n; i++)
            wanted = wanted || !weir_schedule_has(&w->s, weir_refs(p, t->out)[i], WEIR_FORM_PLAIN);
        if (wanted && w->valid && !run(w, op, true))
            return false;
    }
    return true;
}

/* Restores the tensor on the device if it is not there. */
static bool restore(weir_lower_state *w, uint32_t tensor, uint32_t stage)
{
    bool back;

    if (weir_schedule_has(&w->s, tensor, WEIR_FORM_PLAIN))
        return true;
    if (!restore_copy(w, tensor, &back))
        return false;
    if (back)
        return true;
    if (weir_mem_tensor_is_resident(w->p, tensor)) {
        w->valid = false;
        return true;
    }
    w->stack.n = 0;
    return weir_vec_push(&w->stack, w->p->tensors.at[tensor].producer) && run_stack(w, stage);
}

/* Restores the inputs of op i, one after another. */
static bool restore_inputs(weir_lower_state *w, uint32_t i)
{
    const weir_mem_op *t = &w->p->ops.at[i];
    const uint32_t    *in = weir_refs(w->p, t->in);

    for (uint32_t k = 0; k < t->in.n && w->valid; k++)
        if (!is_readable(w, t, in[k]) && !restore(w, in[k], i))
            return false;
    return true;
}

/* Returns whether the tensor stays on the device until its next use; `burst`: it has just been
 * restored. */
static bool stays(const weir_lower_state *w, const uint8_t *decisions, uint32_t tensor, bool burst)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];
    const uint8_t          d = decisions[w->first_interval[tensor] + w->next[tensor]];

    if (k->producer == WEIR_NO_OP && !w->offloaded[tensor])
        return true;
    /* after its last use, an offloaded resident tensor returns to the host */
    if (w->next[tensor] == k->uses.n)
        return k->producer != WEIR_NO_OP && (d == WEIR_KEEP_FOR_RECOMPUTE || k->output);
    return d == WEIR_KEEP || (burst && d != WEIR_RECOMPUTE_TRANSIENT);
}

/* Queues the tensor for recomputation before the op at which it is due, by ascending number. Each
 * tensor has one link: this is called when an interval begins, when no earlier interval of the
 * tensor is queued. */
static void list_early(weir_lower_state *w, const uint8_t *decisions, uint32_t tensor)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];
    const uint32_t         j = w->next[tensor];

    if (j >= k->uses.n || decisions[w->first_interval[tensor] + j] < WEIR_RECOMPUTE_EARLY ||
        k->producer == WEIR_NO_OP)
        return;
    const uint32_t use = weir_refs(w->p, k->uses)[j];
    const uint32_t from = j > 0 ? weir_refs(w->p, k->uses)[j - 1] : k->producer;
    uint32_t      *link =
        &w->early[weir_lower_early(w, decisions[w->first_interval[tensor] + j], from, use)];
    while (*link != WEIR_NO_TENSOR && *link < tensor)
        link = &w->early_next[*link];
    w->early_next[tensor] = *link;
    *link = tensor;
}

/* Carries out the decision for the interval that begins now. A resident tensor has no producer, so
 * evicting it always means offloading it. */
static bool decide(weir_lower_state *w, const uint8_t *decisions, uint32_t tensor)
{
    static const uint8_t kind[] = {[WEIR_OFFLOAD] = WEIR_EVENT_OFFLOAD,
                                   [WEIR_COMPRESS] = WEIR_EVENT_COMPRESS,
                                   [WEIR_COMPRESS_MASK] = WEIR_EVENT_MASK,
                                   [WEIR_RECOMPUTE_EARLY] = WEIR_EVENT_RUN};
    const uint8_t        d = decisions[w->first_interval[tensor] + w->next[tensor]];
    uint8_t              to = d < WEIR_RECOMPUTE_EARLY ? kind[d] : WEIR_EVENT_RUN;

    list_early(w, decisions, tensor);
    if (stays(w, decisions, tensor, false) || !weir_schedule_has(&w->s, tensor, WEIR_FORM_PLAIN))
        return true;
    if (weir_mem_tensor_is_resident(w->p, tensor))
        to = WEIR_EVENT_OFFLOAD;
    else if (w->next[tensor] == w->p->tensors.at[tensor].uses.n && d != WEIR_OFFLOAD)
        to = WEIR_EVENT_RUN;
    if (to != WEIR_EVENT_RUN &&
        (to == WEIR_EVENT_OFFLOAD ||
         !weir_schedule_has(&w->s, tensor, (weir_form)weir_event_writes[to])) &&
        !weir_schedule_copy(&w->s, tensor, (weir_event_kind)to))
        return false;
    weir_schedule_drop(&w->s, tensor);
    return true;
}

/* After the first run of an op: decides about all its inputs and outputs, and drops what had been
 * restored only for recomputation. */
static bool end_first_run(weir_lower_state *w, const uint8_t *decisions, const weir_mem_op *t)
{
    const uint32_t *in = weir_refs(w->p, t->in), *out = weir_refs(w->p, t->out);

    for (uint32_t i = 0; i < t->in.n; i++)
        w->next[in[i]]++;
    for (uint32_t i = 0; i < t->in.n; i++)
        if (!decide(w, decisions, in[i]))
            return false;
    for (uint32_t i = 0; i < t->out.n; i++)
        if (!decide(w, decisions, out[i]))
            return false;
    for (uint32_t i = 0; i < w->burst.n; i++)
        if (!stays(w, decisions, w->burst.at[i], true))
            weir_schedule_drop(&w->s, w->burst.at[i]);
    w->burst.n = 0;
    return true;
}

/* Recomputes the tensors that are due before op i. */
static bool recompute_early(weir_lower_state *w, uint32_t i)
{
    for (uint32_t k = w->early[i]; k != WEIR_NO_TENSOR && w->valid; k = w->early_next[k])
        if (!restore(w, k, i))
            return false;
    return true;
}

static bool begin(weir_lower_state *w, const uint8_t *decisions)
{
    const weir_mem_problem *p = w->p;

    w->burst.n = 0;
    memset(w->next, 0, p->tensors.n * sizeof *w->next);
    memset(w->early, 0xff, p->ops.n * sizeof *w->early);
    for (uint32_t k = 0; k < p->tensors.n; k++)
        w->offloaded[k] =
            weir_mem_tensor_is_resident(p, k) && decisions[w->first_interval[k]] == WEIR_OFFLOAD;
    return weir_schedule_begin(&w->s, w->offloaded);
}

static void take_results(weir_lower_state *w)
{
    w->peak = w->s.peak;
    w->peak_event = w->s.peak_event;
    w->extra = w->s.time - w->p->time;
}

bool weir_lower_runs(weir_lower_state *w, const uint8_t *decisions)
{
    const weir_mem_problem *p = w->p;

    w->valid = true;
    if (!begin(w, decisions))
        return false;
    for (uint32_t i = 0; i < p->ops.n && w->valid; i++) {
        if (!recompute_early(w, i))
            return false;
        if (w->valid && !restore_inputs(w, i))
            return false;
        if (w->valid && !run(w, i, false))
            return false;
        w->valid = w->valid && w->s.valid;
        w->valid = w->valid && w->s.events.n <= weir_lower_most_events(p);
        if (w->valid && !end_first_run(w, decisions, &p->ops.at[i]))
            return false;
    }
    w->s.valid = w->valid;
    if (!weir_schedule_end_runs(&w->s))
        return false;
    take_results(w);
    return true;
}

bool weir_lower_copies(weir_lower_state *w)
{
    if (!weir_schedule_end_copies(&w->s, w->budget))
        return false;
    take_results(w);
    return true;
}

bool weir_lower(weir_lower_state *w, const uint8_t *decisions)
{
    return weir_lower_runs(w, decisions) && weir_lower_copies(w);
}
