/* relower_profile.c - the largest sum of bytes within one stage, as weir_schedule_sum_live and
 * take_over in schedule.c compute it for a whole schedule. */
#include "graph/memory/problem/relower_profile.h"

/* Is the live range of a tensor that stage s reads or makes over when the stage ends? */
static bool ends(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_mem_tensor       *k = &r->p->tensors.at[tensor];
    const weir_relower_interval *g;
    bool                         used = false; /* the stage's op itself reads or makes it */

    if (weir_relower_stays(r, tensor))
        return false;
    g = &r->at[weir_relower_interval_at(r, tensor, s)];
    used = k->producer == s;
    if (!g->last && g->to == s) {
        used = true;
        g++;
    }
    if (g->last && k->producer == WEIR_NO_OP)
        return true;
    if (g->last)
        return !k->output &&
               (g->decision != WEIR_KEEP_FOR_RECOMPUTE || r->read[tensor] == WEIR_NO_STAGE ||
                r->read[tensor] <= s);
    return used ? g->decision != WEIR_KEEP : g->decision == WEIR_RECOMPUTE_TRANSIENT;
}

typedef struct weir_stage_sum {
    weir_relower *r;
    uint32_t      s, e;     /* stage and event */
    uint64_t      whole;    /* stamp of the stage; events have the stamps after it */
    int64_t       live, most;
} weir_stage_sum;

/* Is the tensor, which the stage's own op reads or makes, copied to the host at its end? */
static bool copied_out(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_mem_tensor *k = &r->p->tensors.at[tensor];
    uint32_t               g = weir_relower_interval_at(r, tensor, s);

    if (!r->at[g].last && r->at[g].to == s)
        g++;
    else if (k->producer != s)
        return false;
    return weir_relower_copies_out(r, g);
}

/* Does event e, which reads the tensor, end its live range? */
static bool dies(const weir_stage_sum *x, uint32_t tensor)
{
    return x->r->read_in[tensor] == x->whole && x->r->last[tensor] == x->e &&
           ends(x->r, tensor, x->s);
}

/* Does the last op of the step have copies behind it? */
static bool has_copies_behind(const weir_relower *r, uint32_t s)
{
    const weir_index_range in = r->p->ops.at[s].in, out = r->p->ops.at[s].out;

    for (uint32_t i = 0; i < in.n; i++)
        if (copied_out(r, weir_refs(r->p, in)[i], s))
            return true;
    for (uint32_t i = 0; i < out.n; i++)
        if (copied_out(r, weir_refs(r->p, out)[i], s))
            return true;
    return false;
}

/* Does the output live beyond event e? Nothing does beyond the last event of the step. */
static bool outlives(const weir_stage_sum *x, uint32_t tensor)
{
    const bool own = x->e == x->r->runs[x->s].list.n;

    if (own && x->s + 1 == x->r->p->ops.n && !has_copies_behind(x->r, x->s))
        return false;
    if (own && copied_out(x->r, tensor, x->s))
        return true;
    return (x->r->read_in[tensor] == x->whole && x->r->last[tensor] > x->e) ||
           !ends(x->r, tensor, x->s);
}

/* Is the output on the device already, so that the run makes it as scratch? The stage's own op
 * makes its outputs for the first time. */
static bool is_scratch(weir_stage_sum *x, const weir_mem_op *t, uint32_t tensor)
{
    const weir_relower *r = x->r;
    const bool          first = t == &r->p->ops.at[x->s];

    if (first)
        return false;
    if (r->fetched[tensor] == x->whole)
        return true;
    const weir_relower_interval *g = &r->at[weir_relower_interval_at(r, tensor, x->s)];
    if (g->last)
        return r->p->tensors.at[tensor].output || g->decision == WEIR_KEEP_FOR_RECOMPUTE;
    return g->decision == WEIR_KEEP ||
           (g->decision != WEIR_RECOMPUTE_TRANSIENT && g->restored < x->s);
}

/* Marks outputs that take over the memory of inputs, by the first permitted pair of each. */
static void take_over(weir_stage_sum *x, const weir_mem_op *t, uint64_t event)
{
    weir_relower *const     r = x->r;
    const weir_mem_problem *p = r->p;
    const uint32_t         *pair = weir_refs(p, t->pairs);

    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        const uint32_t in = pair[i], out = pair[i + 1];
        if (r->over[in] == event || r->over[out] == event ||
            p->tensors.at[in].bytes != p->tensors.at[out].bytes || !dies(x, in) ||
            (t == &p->ops.at[x->s] && copied_out(r, in, x->s)) || is_scratch(x, t, out) ||
            !outlives(x, out))
            continue;
        r->over[in] = r->over[out] = event;
    }
}

static void add_event(weir_stage_sum *x, uint32_t op)
{
    weir_relower *const     r = x->r;
    const weir_mem_problem *p = r->p;
    const weir_mem_op      *t = &p->ops.at[op];
    const uint64_t          event = x->whole + 1 + x->e;
    int64_t                 now = (int64_t)t->work, then = 0;

    if (t->pairs.n)
        take_over(x, t, event);
    for (uint32_t i = 0; i < t->out.n; i++) {
        const uint32_t y = weir_refs(p, t->out)[i];
        const int64_t  bytes = (int64_t)p->tensors.at[y].bytes;
        now += r->over[y] == event ? 0 : bytes;
        then += !is_scratch(x, t, y) && outlives(x, y) ? bytes : 0;
    }
    for (uint32_t i = 0; i < t->in.n; i++) {
        const uint32_t k = weir_refs(p, t->in)[i];
        then -= dies(x, k) ? (int64_t)p->tensors.at[k].bytes : 0;
    }
    x->most = x->live + now > x->most ? x->live + now : x->most;
    x->live += then;
    x->e++;
}

/* Adds the prefetch of a tensor. */
static void add_fetch(weir_stage_sum *x, uint32_t tensor)
{
    const int64_t bytes = (int64_t)x->r->p->tensors.at[tensor].bytes;

    x->r->fetched[tensor] = x->whole;
    x->most = x->live + bytes > x->most ? x->live + bytes : x->most;
    x->live += outlives(x, tensor) ? bytes : 0;
    x->e++;
}

static void note_reads(weir_stage_sum *x, uint32_t op, uint32_t e)
{
    const weir_index_range in = x->r->p->ops.at[op].in;

    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t k = weir_refs(x->r->p, in)[i];
        x->r->read_in[k] = x->whole;
        x->r->last[k] = e;
    }
}

void weir_relower_sum(weir_relower *r, uint32_t s)
{
    const weir_numbers *runs = &r->runs[s];
    const uint32_t      n = runs->list.n;
    weir_stage_sum      x = {.r = r, .s = s, .whole = ++r->stamp, .most = INT64_MIN};

    r->stamp += n + 1;
    for (uint32_t e = 0; e < n; e++)
        if (!weir_relower_is_fetch(r, runs->list.at[e]))
            note_reads(&x, runs->list.at[e], e);
    note_reads(&x, s, n);
    for (uint32_t e = 0; e < n; e++)
        if (weir_relower_is_fetch(r, runs->list.at[e]))
            add_fetch(&x, runs->list.at[e] - r->p->ops.n);
        else
            add_event(&x, runs->list.at[e]);
    add_event(&x, s);
    r->most[s] = x.most;
}
