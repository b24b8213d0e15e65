/* lower.c - lowers decisions in one pass over the ops: restores the inputs of each, then runs it.
 *
 * A live range ends at the last event that reads it, even if a decision would have kept the tensor
 * longer, so a superfluous decision to keep costs no memory. */
#include "graph/memory/problem/lower.h"

#include <math.h>
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

/* What WEIR_KEEP does where an interval begins. */
typedef enum weir_kept { KEPT_STAYS, KEPT_DROPPED, KEPT_BY_STATE } weir_kept;

/* Returns that of interval j of the tensor. Of an offloaded resident tensor, the last interval ends
 * on the host. */
static weir_kept kept(const weir_mem_tensor *k, uint32_t j)
{
    if (j < k->uses.n)
        return KEPT_STAYS;
    return k->producer == WEIR_NO_OP ? KEPT_BY_STATE : k->output ? KEPT_STAYS : KEPT_DROPPED;
}

static void add_start(weir_lower_state *w, uint32_t *n, uint32_t tensor, uint32_t j)
{
    w->starts[(*n)++] = (weir_interval_start){
        tensor, w->first_interval[tensor] + j, (uint8_t)kept(&w->p->tensors.at[tensor], j)};
}

/* Lists the intervals that begin at each op. */
static void list_starts(weir_lower_state *w)
{
    const weir_mem_problem *p = w->p;
    uint32_t                n = 0;

    for (uint32_t i = 0; i < p->ops.n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        w->first_start[i] = n;
        for (uint32_t k = 0; k < t->in.n; k++) {
            const uint32_t tensor = weir_refs(p, t->in)[k];
            add_start(w, &n, tensor, weir_interval_at(p, tensor, i) + 1);
        }
        for (uint32_t k = 0; k < t->out.n; k++)
            add_start(w, &n, weir_refs(p, t->out)[k], 0);
    }
    w->first_start[p->ops.n] = n;
}

bool weir_lower_init(weir_lower_state *w, const weir_mem_problem *p)
{
    *w = (weir_lower_state){.p = p, .budget = SIZE_MAX};
    w->first_interval = weir_mem_alloc(((size_t)p->tensors.n + 1) * sizeof *w->first_interval);
    w->offloaded = weir_mem_alloc((size_t)p->tensors.n + 1);
    w->early = weir_mem_alloc(((size_t)p->ops.n + 1) * sizeof *w->early);
    w->early_next = weir_mem_alloc(((size_t)p->tensors.n + 1) * sizeof *w->early_next);
    w->first_start = weir_mem_alloc(((size_t)p->ops.n + 1) * sizeof *w->first_start);
    w->step = p->ops.n / (UINT8_MAX - WEIR_RECOMPUTE_EARLY) + 1;
    if (!weir_schedule_init(&w->s, p) || !w->first_interval || !w->offloaded ||
        !w->early || !w->early_next || !w->first_start)
        return false;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        w->first_interval[k] = w->intervals;
        w->intervals += p->tensors.at[k].uses.n + 1;
    }
    w->first_interval[p->tensors.n] = w->intervals;
    w->starts = weir_mem_alloc((w->intervals + 1u) * sizeof *w->starts);
    if (!w->starts)
        return false;
    list_starts(w);
    return true;
}

void weir_lower_free(weir_lower_state *w)
{
    weir_mem_free(w->first_interval);
    weir_mem_free(w->offloaded);
    weir_mem_free(w->early);
    weir_mem_free(w->early_next);
    weir_mem_free(w->starts);
    weir_mem_free(w->first_start);
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
            !(k->output && weir_interval_at(w->p, tensor, w->op) + 1 >= k->uses.n));
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

/* Returns whether the tensor stays on the device in its interval j until its next use; `burst`: it
 * has just been restored. */
static bool stays(const weir_lower_state *w, uint32_t tensor, uint32_t j, uint8_t decision,
                  bool burst)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];

    if (k->producer == WEIR_NO_OP && !w->offloaded[tensor])
        return true;
    /* after its last use, an offloaded resident tensor returns to the host */
    if (j == k->uses.n)
        return k->producer != WEIR_NO_OP && (decision == WEIR_KEEP_FOR_RECOMPUTE || k->output);
    return decision == WEIR_KEEP || (burst && decision != WEIR_RECOMPUTE_TRANSIENT);
}

/* Queues the tensor for recomputation before the op at which it is due, by ascending number. Each
 * tensor has one link: this is called when interval j begins, when no earlier interval of the
 * tensor is queued. */
static void list_early(weir_lower_state *w, uint32_t tensor, uint32_t j, uint8_t decision)
{
    const weir_mem_tensor *k = &w->p->tensors.at[tensor];

    if (j >= k->uses.n || decision < WEIR_RECOMPUTE_EARLY || k->producer == WEIR_NO_OP)
        return;
    const uint32_t use = weir_refs(w->p, k->uses)[j];
    const uint32_t from = j > 0 ? weir_refs(w->p, k->uses)[j - 1] : k->producer;
    uint32_t      *link = &w->early[weir_lower_early(w, decision, from, use)];
    while (*link != WEIR_NO_TENSOR && *link < tensor)
        link = &w->early_next[*link];
    w->early_next[tensor] = *link;
    *link = tensor;
}

/* Carries out the decision for an interval that begins now. A resident tensor has no producer, so
 * evicting it always means offloading it. */
static bool decide(weir_lower_state *w, const weir_interval_start *g, uint8_t decision)
{
    static const uint8_t kind[] = {[WEIR_OFFLOAD] = WEIR_EVENT_OFFLOAD,
                                   [WEIR_COMPRESS] = WEIR_EVENT_COMPRESS,
                                   [WEIR_COMPRESS_MASK] = WEIR_EVENT_MASK,
                                   [WEIR_RECOMPUTE_EARLY] = WEIR_EVENT_RUN};
    const uint32_t tensor = g->tensor, j = g->interval - w->first_interval[tensor];
    uint8_t        to = decision < WEIR_RECOMPUTE_EARLY ? kind[decision] : WEIR_EVENT_RUN;

    list_early(w, tensor, j, decision);
    if (stays(w, tensor, j, decision, false) || !weir_schedule_has(&w->s, tensor, WEIR_FORM_PLAIN))
        return true;
    if (weir_mem_tensor_is_resident(w->p, tensor))
        to = WEIR_EVENT_OFFLOAD;
    else if (j == w->p->tensors.at[tensor].uses.n && decision != WEIR_OFFLOAD)
        to = WEIR_EVENT_RUN;
    if (to != WEIR_EVENT_RUN &&
        (to == WEIR_EVENT_OFFLOAD ||
         !weir_schedule_has(&w->s, tensor, (weir_form)weir_event_writes[to])) &&
        !weir_schedule_copy(&w->s, tensor, (weir_event_kind)to))
        return false;
    weir_schedule_drop(&w->s, tensor);
    return true;
}

/* After the first run of the op: decides about all its inputs and outputs, and drops what had been
 * restored only for recomputation. Most intervals are kept and need no call. */
static bool end_first_run(weir_lower_state *w, const uint8_t *decisions, uint32_t op)
{
    w->op = op + 1;
    for (uint32_t i = w->first_start[op]; i < w->first_start[op + 1]; i++) {
        const weir_interval_start *const g = &w->starts[i];
        const uint8_t                    d = decisions[g->interval];
        if (d != WEIR_KEEP || g->kept == KEPT_BY_STATE) {
            if (!decide(w, g, d))
                return false;
        } else if (g->kept == KEPT_DROPPED) {
            weir_schedule_drop(&w->s, g->tensor);
        }
    }
    for (uint32_t i = 0; i < w->burst.n; i++) {
        const uint32_t tensor = w->burst.at[i], j = weir_interval_at(w->p, tensor, w->op);
        if (!stays(w, tensor, j, decisions[w->first_interval[tensor] + j], true))
            weir_schedule_drop(&w->s, tensor);
    }
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

    w->burst.n = w->op = 0;
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
        if (w->valid && !end_first_run(w, decisions, i))
            return false;
    }
    w->s.valid = w->valid;
    if (!weir_schedule_end_runs(&w->s))
        return false;
    take_results(w);
    return true;
}

bool weir_lower_copies(weir_lower_state *w, double most)
{
    if (!weir_schedule_end_copies(&w->s, w->budget, w->p->time + most))
        return false;
    take_results(w);
    return true;
}

bool weir_lower(weir_lower_state *w, const uint8_t *decisions)
{
    return weir_lower_runs(w, decisions) && weir_lower_copies(w, INFINITY);
}
