/* milp.c - the columns and rows of the recomputation programme, event by event.
 *
 * An event is a first run, or a rerun that may happen (a column of 0 or 1). Between two accesses of
 * a tensor, one column says whether it is held, so a tensor has as many columns as accesses, not as
 * many as stages. Let r be a run, h whether a tensor is held before it, h' after it, and v whether
 * an output is made in place. Bytes are in units of the budget:
 *     reads      r <= h,  h' <= h
 *     makes      h <= h' <= h + r            (a first run: h' free)
 *     memory     sum of bytes h + bytes r of outputs and workspace - bytes v <= limit
 *     in place   v <= r, v <= 1 - h' of the input, v <= h' of the output, v <= 1 - h of the output
 * Only r must be integer: for given runs, the least live ranges reach from each reader back to the
 * last run that made the tensor, and are integral. (The columns of cuts are integer as well, so
 * that the solver can branch on them.) Live bytes are a column that each event changes, which keeps
 * rows short. Where an output could take over one of several inputs, weir_schedule_end takes the
 * first possible one and the programme the best one; the bound holds nevertheless, and the plan is
 * checked like any other.
 *
 * Two simplifications lose nothing. A stage in which everything made so far fits has no reruns and
 * drops nothing. Among the last stages, in which everything needed fits, only the first has reruns:
 * it recomputes all that is missing. */
#include "graph/memory/bounds/milp.h"

#include <math.h>
#include <string.h>

#include "core/status.h"

/* budget and step time in the programme, since the solver's tolerances are absolute */
#define SCALE 1000.0

static uint8_t *needed_at(const weir_recompute_milp *g, uint32_t stage)
{
    return g->needed + (size_t)stage * g->p->tensors.n;
}

/* Can op i run again in `stage` and make something that is still needed? */
static bool may_repeat(const weir_recompute_milp *g, uint32_t i, uint32_t stage)
{
    const weir_mem_op *t = &g->p->ops.at[i];

    if (i >= stage || t->rerun_before <= stage)
        return false;
    for (uint32_t k = 0; k < t->out.n; k++)
        if (needed_at(g, stage)[weir_refs(g->p, t->out)[k]])
            return true;
    return false;
}

/* Finds the tensors needed when each stage begins: by first runs from it on, or by reruns before
 * stage `end`. Producers precede readers, so one pass from the last op to the first is enough. */
static void find_needed(weir_recompute_milp *g, uint32_t end)
{
    const weir_mem_problem *p = g->p;

    for (uint32_t stage = 0; stage <= p->ops.n; stage++) {
        uint8_t *const needed = needed_at(g, stage);
        for (uint32_t k = 0; k < p->tensors.n; k++) {
            const weir_index_range uses = p->tensors.at[k].uses;
            needed[k] = !weir_mem_tensor_is_resident(p, k) &&
                        (p->tensors.at[k].output ||
                         (uses.n > 0 && weir_refs(p, uses)[uses.n - 1] >= stage));
        }
        for (uint32_t i = stage; i-- > 0 && stage < end;) {
            const weir_index_range in = p->ops.at[i].in;
            const bool             repeat = may_repeat(g, i, stage);
            for (uint32_t j = 0; j < in.n && repeat; j++)
                needed[weir_refs(p, in)[j]] = !weir_mem_tensor_is_resident(p, weir_refs(p, in)[j]);
        }
    }
}

static size_t bytes_made(const weir_mem_problem *p, const weir_mem_op *t)
{
    size_t bytes = 0;

    for (uint32_t k = 0; k < t->out.n; k++)
        bytes += p->tensors.at[weir_refs(p, t->out)[k]].bytes;
    return bytes;
}

/* Returns the first stage in which not everything made so far fits. */
static uint32_t first_full(const weir_recompute_milp *g)
{
    size_t   made = 0;
    uint32_t i = 0;

    for (; i < g->p->ops.n; i++) {
        const weir_mem_op *t = &g->p->ops.at[i];
        made += bytes_made(g->p, t);
        if (made > g->limit || t->work > g->limit - made)
            break;
    }
    return i;
}

/* Does everything needed in a stage fit, together with any one op that may run there? */
static bool all_fits(const weir_recompute_milp *g, uint32_t stage)
{
    const weir_mem_problem *p = g->p;
    size_t                  held = 0, most = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (needed_at(g, stage)[k] && p->tensors.at[k].producer < stage)
            held += p->tensors.at[k].bytes;
    for (uint32_t i = 0; i <= stage; i++) {
        const size_t bytes = bytes_made(p, &p->ops.at[i]) + p->ops.at[i].work;
        if (i == stage || may_repeat(g, i, stage))
            most = bytes > most ? bytes : most;
    }
    return held <= g->limit && most <= g->limit - held;
}

static void find_stages(weir_recompute_milp *g)
{
    const uint32_t n = g->p->ops.n;

    find_needed(g, n);
    g->begin = first_full(g);
    g->tight = n;
    while (g->tight > g->begin && all_fits(g, g->tight - 1))
        g->tight--;
    g->end = g->tight < n ? g->tight + 1 : n;
    find_needed(g, g->end);
}

/* ---- columns ---- */

static double share(const weir_recompute_milp *g, size_t bytes)
{
    return SCALE * (double)bytes / (double)(g->limit + 1);
}

/* Adds the run to the open row; for a first run the row's bounds contain its value 1 instead. */
static void add_run(weir_recompute_milp *g, const weir_milp_run *r, double value)
{
    if (r->column != WEIR_NO_COLUMN)
        weir_milp_entry(&g->m, r->column, value);
}

static void add_held(weir_recompute_milp *g, uint32_t column, double value)
{
    if (column != WEIR_NO_COLUMN)
        weir_milp_entry(&g->m, column, value);
}

/* Adds the row x <= y; an absent column y is 0. */
static void at_most(weir_recompute_milp *g, uint32_t x, uint32_t y)
{
    weir_milp_row(&g->m, -INFINITY, 0);
    weir_milp_entry(&g->m, x, 1);
    add_held(g, y, -1);
}

/* Adds rows that require the inputs to be held. */
static void read_inputs(weir_recompute_milp *g, const weir_milp_run *r)
{
    const weir_mem_problem *p = g->p;
    const weir_index_range  in = p->ops.at[r->op].in;

    for (uint32_t j = 0; j < in.n; j++) {
        const uint32_t k = weir_refs(p, in)[j];
        if (weir_mem_tensor_is_resident(p, k))
            continue;
        weir_milp_row(&g->m, r->column == WEIR_NO_COLUMN ? 1 : 0, INFINITY);
        add_held(g, g->now[k], 1);
        add_run(g, r, -1);
    }
}

/* May an event after this one read the tensor? */
static bool read_later(const weir_recompute_milp *g, uint32_t tensor, const weir_milp_run *r)
{
    const weir_mem_problem *p = g->p;
    const weir_index_range  uses = p->tensors.at[tensor].uses;

    if (needed_at(g, r->stage + 1)[tensor])
        return true;
    if (r->column == WEIR_NO_COLUMN)
        return false;
    for (uint32_t j = 0; j < uses.n; j++) {
        const uint32_t i = weir_refs(p, uses)[j];
        if (i == r->stage || (i > r->op && may_repeat(g, i, r->stage)))
            return true;
    }
    return false;
}

/* Adds a column for the tensor after the event if an event may still read it, and its rows. */
static void hold(weir_recompute_milp *g, uint32_t tensor, const weir_milp_run *r, bool made)
{
    const uint32_t before = g->now[tensor];
    const bool     later = read_later(g, tensor, r);
    const uint32_t after = later ? weir_milp_column(&g->m, 0, 1, 0, false) : WEIR_NO_COLUMN;

    if (later && !(made && r->column == WEIR_NO_COLUMN)) {
        weir_milp_row(&g->m, -INFINITY, 0);
        weir_milp_entry(&g->m, after, 1);
        add_held(g, before, -1);
        if (made)
            add_run(g, r, -1);
    }
    if (made && before != WEIR_NO_COLUMN && later)
        at_most(g, before, after);
    if (!made && g->inplace_taker[tensor] && before != WEIR_NO_COLUMN &&
        r->column != WEIR_NO_COLUMN) {
        weir_milp_row(&g->m, -INFINITY, 0);         /* held only for this reader */
        weir_milp_entry(&g->m, before, 1);
        add_held(g, after, -1);
        add_run(g, r, -1);
    }
    g->now[tensor] = after;
    if (!weir_vec_push(&g->held, (weir_milp_held){tensor, after}))
        g->m.short_of_memory = true;
}

/* ---- memory ---- */

/* Adds a column: output b saves its bytes by taking over input a, which is held no longer. b_before
 * is b's column before the event. Returns WEIR_NO_COLUMN if that is impossible. */
static uint32_t add_pair(weir_recompute_milp *g, const weir_milp_run *r, uint32_t a, uint32_t b,
                         uint32_t b_before)
{
    const weir_mem_problem *p = g->p;
    const bool              first = r->column == WEIR_NO_COLUMN;

    if (weir_mem_tensor_is_resident(p, a) || p->tensors.at[a].bytes != p->tensors.at[b].bytes ||
        g->now[b] == WEIR_NO_COLUMN || r->stage + 1 == p->ops.n) /* not in the last event */
        return WEIR_NO_COLUMN;
    const uint32_t v = weir_milp_column(&g->m, 0, 1, 0, false);
    if (!first)
        at_most(g, v, r->column);
    at_most(g, v, g->now[b]);
    const uint32_t not[] = {g->now[a], b_before};
    for (int i = 0; i < 2; i++) {
        if (not[i] == WEIR_NO_COLUMN)
            continue;
        weir_milp_row(&g->m, -INFINITY, 1);
        weir_milp_entry(&g->m, v, 1);
        weir_milp_entry(&g->m, not[i], 1);
    }
    return v;
}

/* Adds rows: of pairs that share their input or their output, only one may be used. */
static void once_each(weir_recompute_milp *g, const uint32_t *pair, const uint32_t *v,
                      uint32_t pairs)
{
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < pairs; i++) {
            uint32_t same = 0, earlier = 0;
            for (uint32_t j = 0; j < pairs; j++)
                if (v[j] != WEIR_NO_COLUMN && pair[2 * j + side] == pair[2 * i + side]) {
                    same++;
                    earlier += j < i;
                }
            if (v[i] == WEIR_NO_COLUMN || earlier || same < 2)
                continue;
            weir_milp_row(&g->m, -INFINITY, 1);
            for (uint32_t j = i; j < pairs; j++)
                if (v[j] != WEIR_NO_COLUMN && pair[2 * j + side] == pair[2 * i + side])
                    weir_milp_entry(&g->m, v[j], 1);
        }
}

/* Adds the row that keeps the live bytes during the event within the limit. `before`: the columns
 * of its outputs before it; `bytes`: the column of live bytes. */
static bool add_memory(weir_recompute_milp *g, const weir_milp_run *r, const uint32_t *before,
                       uint32_t bytes)
{
    const weir_mem_problem *p = g->p;
    const weir_mem_op      *t = &p->ops.at[r->op];
    const uint32_t         *pair = weir_refs(p, t->pairs), *out = weir_refs(p, t->out);
    const uint32_t          pairs = t->pairs.n / 2;
    const double            mine = share(g, bytes_made(p, t)) + share(g, t->work);
    uint32_t *const     v = weir_mem_alloc((pairs + 1u) * sizeof *v);

    if (!v)
        return false;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t b = 0;
        while (out[b] != pair[2 * i + 1])
            b++;
        v[i] = add_pair(g, r, pair[2 * i], pair[2 * i + 1], before[b]);
    }
    once_each(g, pair, v, pairs);
    weir_milp_row(&g->m, -INFINITY,
                  share(g, g->limit) - (r->column == WEIR_NO_COLUMN ? mine : 0));
    weir_milp_entry(&g->m, bytes, 1);
    add_run(g, r, mine);
    for (uint32_t i = 0; i < pairs; i++)
        if (v[i] != WEIR_NO_COLUMN)
            weir_milp_entry(&g->m, v[i], -share(g, p->tensors.at[pair[2 * i]].bytes));
    weir_mem_free(v);
    return true;
}

/* ---- events ---- */

/* Adds to the open row, which defines the live bytes after the event, what the event changes. */
static void add_change(weir_recompute_milp *g, uint32_t tensor, uint32_t before)
{
    const double bytes = share(g, g->p->tensors.at[tensor].bytes);

    if (g->now[tensor] == before)
        return;
    add_held(g, before, bytes);
    add_held(g, g->now[tensor], -bytes);
}

/* Adds the columns of what is held after the event, and the row of its live bytes. */
static bool settle(weir_recompute_milp *g, const weir_milp_run *r)
{
    const weir_mem_problem *p = g->p;
    const weir_mem_op      *t = &p->ops.at[r->op];
    const uint32_t         *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
    uint32_t *const     before = weir_mem_alloc((t->in.n + t->out.n + 1u) * sizeof *before);
    const uint32_t      bytes = g->bytes;
    bool                ok = before != NULL;

    for (uint32_t j = 0; j < t->in.n && ok; j++) {
        before[t->out.n + j] = g->now[in[j]];
        if (!weir_mem_tensor_is_resident(p, in[j]))
            hold(g, in[j], r, false);
    }
    for (uint32_t j = 0; j < t->out.n && ok; j++) {
        before[j] = g->now[out[j]];
        hold(g, out[j], r, true);
    }
    if (ok && r->stage < g->tight) {
        ok = add_memory(g, r, before, bytes);
        g->bytes = weir_milp_column(&g->m, 0, share(g, g->limit), 0, false);
        weir_milp_row(&g->m, 0, 0);
        weir_milp_entry(&g->m, g->bytes, 1);
        weir_milp_entry(&g->m, bytes, -1);
        for (uint32_t j = 0; j < t->in.n; j++)
            add_change(g, in[j], before[t->out.n + j]);
        for (uint32_t j = 0; j < t->out.n; j++)
            add_change(g, out[j], before[j]);
    }
    weir_mem_free(before);
    return ok;
}

static bool add_event(weir_recompute_milp *g, uint32_t op, uint32_t stage)
{
    const double   cost = g->p->ops.at[op].time / g->unit;
    const weir_milp_run r = {
        op, stage, op < stage ? weir_milp_column(&g->m, 0, 1, cost, true) : WEIR_NO_COLUMN,
        g->held.n};

    if (!weir_vec_push(&g->runs, r))
        return false;
    read_inputs(g, &r);
    return settle(g, &r);
}

/* ---- cuts ---- */

static bool choose_moments(weir_recompute_milp *g, uint32_t best)
{
    const uint32_t from = g->begin, to = g->tight, most = WEIR_MILP_CUTS - 1;

    for (uint32_t i = 0; i < most && from < to; i++) {
        const uint32_t at = from + (uint32_t)((uint64_t)i * (to - from) / most);
        const uint32_t next = from + (uint32_t)((uint64_t)(i + 1) * (to - from) / most);
        if (at == next)
            continue;
        g->moment[g->moments++] = at;
        if (best > at && best < next)
            g->moment[g->moments++] = best;
    }
    g->later = weir_mem_alloc((WEIR_MILP_CUTS * (size_t)g->p->ops.n + 1) * sizeof *g->later);
    return g->later != NULL;
}

/* Adds the row: held at the moment + recomputed after it >= needed after it. `by` is the column of
 * the rerun that needs the tensor; WEIR_NO_COLUMN: a first run needs it. */
static void cover(weir_recompute_milp *g, const uint32_t *later, uint32_t tensor, uint32_t by)
{
    weir_milp_row(&g->m, by == WEIR_NO_COLUMN, INFINITY);
    add_held(g, g->now[tensor], 1);
    add_held(g, later[g->p->tensors.at[tensor].producer], 1);
    add_held(g, by, -1);
}

/* Adds the cut before the first run of a stage: what is needed later is held there, or recomputed
 * later from what is held. Integral reruns imply it, fractional ones do not: many fractional runs,
 * each reading the same fraction of an input, could add up to one whole tensor. */
static void add_cut(weir_recompute_milp *g, uint32_t moment)
{
    const weir_mem_problem *p = g->p;
    const uint32_t          stage = g->moment[moment];
    uint32_t *const     later = g->later + (size_t)moment * p->ops.n;

    for (uint32_t i = 0; i < p->ops.n; i++)
        later[i] = i < stage && stage + 1 < g->end && may_repeat(g, i, stage + 1)
                       ? weir_milp_column(&g->m, 0, 1, 0, true) : WEIR_NO_COLUMN;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_index_range uses = p->tensors.at[k].uses;
        const bool             used = uses.n > 0 && weir_refs(p, uses)[uses.n - 1] > stage;
        if (weir_mem_tensor_is_resident(p, k) || p->tensors.at[k].producer >= stage)
            continue;
        if (used || p->tensors.at[k].output)
            cover(g, later, k, WEIR_NO_COLUMN);
    }
    for (uint32_t i = 0; i < stage; i++)
        for (uint32_t j = 0; j < p->ops.at[i].in.n && later[i] != WEIR_NO_COLUMN; j++) {
            const uint32_t k = weir_refs(p, p->ops.at[i].in)[j];
            if (!weir_mem_tensor_is_resident(p, k))
                cover(g, later, k, later[i]);
        }
}

/* Adds rows: an op counts as run again after a moment only if one of its reruns there happens. */
static void count_later(weir_recompute_milp *g)
{
    const uint32_t n = g->p->ops.n;

    for (uint32_t c = 0; c < g->moments; c++)
        for (uint32_t i = 0; i < n; i++) {
            if (g->later[(size_t)c * n + i] == WEIR_NO_COLUMN)
                continue;
            weir_milp_row(&g->m, -INFINITY, 0);
            weir_milp_entry(&g->m, g->later[(size_t)c * n + i], 1);
            for (uint32_t j = 0; j < g->runs.n; j++) {
                const weir_milp_run *r = &g->runs.at[j];
                if (r->op == i && r->stage > g->moment[c])
                    add_run(g, r, -1);
            }
        }
}

/* At the beginning, any tensor made before that may be needed may be held. */
static void begin(weir_recompute_milp *g)
{
    const weir_mem_problem *p = g->p;

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const bool may = !weir_mem_tensor_is_resident(p, k) &&
                         p->tensors.at[k].producer < g->begin && needed_at(g, g->begin)[k];
        g->now[k] = may ? weir_milp_column(&g->m, 0, 1, 0, false) : WEIR_NO_COLUMN;
        if (!weir_vec_push(&g->held, (weir_milp_held){k, g->now[k]}))
            g->m.short_of_memory = true;
    }
    g->bytes = weir_milp_column(&g->m, 0, share(g, g->limit), 0, false);
    weir_milp_row(&g->m, 0, 0);
    weir_milp_entry(&g->m, g->bytes, 1);
    for (uint32_t k = 0; k < p->tensors.n; k++)
        add_held(g, g->now[k], -share(g, p->tensors.at[k].bytes));
    for (uint32_t i = 0; i < p->ops.n; i++)
        for (uint32_t j = 0; j + 1 < p->ops.at[i].pairs.n; j += 2)
            g->inplace_taker[weir_refs(p, p->ops.at[i].pairs)[j + 1]] = 1;
}

/* Ends the columns of tensors that no event needs any more: holding them was of no use. */
static void evict(weir_recompute_milp *g, uint32_t stage)
{
    for (uint32_t k = 0; k < g->p->tensors.n; k++)
        if (g->now[k] != WEIR_NO_COLUMN && !needed_at(g, stage)[k]) {
            if (!g->m.short_of_memory)
                g->m.high.at[g->now[k]] = 0;
            g->now[k] = WEIR_NO_COLUMN;
        }
}

static bool add_stages(weir_recompute_milp *g)
{
    const weir_mem_problem *p = g->p;

    uint32_t            cut = 0;

    begin(g);
    for (uint32_t stage = g->begin; stage < p->ops.n; stage++) {
        evict(g, stage);
        for (uint32_t i = 0; i < stage && stage < g->end; i++)
            if (may_repeat(g, i, stage) && !add_event(g, i, stage))
                return false;
        if (cut < g->moments && g->moment[cut] == stage)
            add_cut(g, cut++);
        if (!add_event(g, stage, stage))
            return false;
    }
    count_later(g);
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (p->tensors.at[k].output && !weir_mem_tensor_is_resident(p, k) &&
            !g->m.short_of_memory && g->now[k] != WEIR_NO_COLUMN)
            g->m.low.at[g->now[k]] = 1;
    return true;
}

weir_status weir_recompute_milp_build(weir_recompute_milp *g, const weir_mem_problem *p,
                                      size_t limit, uint32_t best)
{
    *g = (weir_recompute_milp){.p = p, .limit = limit, .unit = p->time / SCALE + 1e-30};
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (weir_mem_tensor_is_resident(p, k))
            g->limit -= g->limit < p->tensors.at[k].bytes ? g->limit : p->tensors.at[k].bytes;
    g->needed = weir_mem_alloc((p->ops.n + 1u) * (size_t)p->tensors.n + 1);
    g->now = weir_mem_alloc((p->tensors.n + 1u) * sizeof *g->now);
    g->inplace_taker = weir_mem_zalloc(p->tensors.n + 1u, 1);
    if (!g->needed || !g->now || !g->inplace_taker)
        return WEIR_ERR_NOMEM;
    find_stages(g);
    if (g->begin == p->ops.n)
        return WEIR_OK;
    const bool ok = choose_moments(g, best) && add_stages(g) && !g->m.short_of_memory;
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

void weir_recompute_milp_lower_bound(weir_recompute_milp *g, double seconds)
{
    weir_milp_row(&g->m, seconds / g->unit, INFINITY);
    for (uint32_t i = 0; i < g->runs.n; i++)
        add_run(g, &g->runs.at[i], g->p->ops.at[g->runs.at[i].op].time / g->unit);
}

static void guess_cuts(weir_recompute_milp *g, const weir_schedule *s)
{
    const uint32_t n = g->p->ops.n;

    for (uint32_t c = 0; c < g->moments; c++) {
        uint32_t e = 0;
        while (e < s->events.n &&
               (s->events.at[e].recomputed || s->events.at[e].what != g->moment[c]))
            e++;
        for (uint32_t i = 0; i < n; i++) {
            bool recomputed = false;
            for (uint32_t j = e; j < s->events.n; j++)
                recomputed =
                    recomputed || (s->events.at[j].recomputed && s->events.at[j].what == i);
            if (g->later[(size_t)c * n + i] != WEIR_NO_COLUMN)
                weir_milp_start(&g->m, g->later[(size_t)c * n + i], recomputed);
        }
    }
}

void weir_recompute_milp_start(weir_recompute_milp *g, const weir_schedule *s)
{
    uint32_t e = 0;

    guess_cuts(g, s);

    for (uint32_t i = 0; i < g->runs.n; i++) {
        const weir_milp_run *r = &g->runs.at[i];
        bool                 recomputed = false;
        if (r->column == WEIR_NO_COLUMN) {
            while (e < s->events.n && (s->events.at[e].recomputed || s->events.at[e].what != r->op))
                e++;
            continue;
        }
        for (uint32_t j = e; j < s->events.n && !recomputed; j++) {
            const weir_event v = s->events.at[j];
            if (!v.recomputed && v.what == r->stage)
                break;
            recomputed = v.recomputed && v.what == r->op;
        }
        weir_milp_start(&g->m, r->column, recomputed);
    }
}

/* Drops those of held[from..to) that the solution does not hold. */
static void drop_unheld(const weir_recompute_milp *g, weir_schedule *s, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const weir_milp_held *h = &g->held.at[i];
        const bool            may = g->p->tensors.at[h->tensor].producer != WEIR_NO_OP;
        if (may && (h->column == WEIR_NO_COLUMN || g->m.x[h->column] < 0.5))
            weir_schedule_drop(s, h->tensor);
    }
}

bool weir_recompute_milp_schedule(const weir_recompute_milp *g, weir_schedule *s)
{
    if (!weir_schedule_begin(s, NULL))
        return false;
    for (uint32_t i = 0; i < g->begin; i++)
        if (!weir_schedule_run(s, i, false))
            return false;
    drop_unheld(g, s, 0, g->runs.n ? g->runs.at[0].first_held : 0);
    for (uint32_t i = 0; i < g->runs.n; i++) {
        const weir_milp_run *r = &g->runs.at[i];
        const bool           first = r->column == WEIR_NO_COLUMN;
        const uint32_t       end = i + 1 < g->runs.n ? g->runs.at[i + 1].first_held : g->held.n;
        if ((first || g->m.x[r->column] > 0.5) && !weir_schedule_run(s, r->op, !first))
            return false;
        drop_unheld(g, s, r->first_held, end);
    }
    return true;
}

void weir_recompute_milp_free(weir_recompute_milp *g)
{
    weir_milp_free(&g->m);
    weir_vec_free(&g->runs);
    weir_vec_free(&g->held);
    weir_mem_free(g->needed);
    weir_mem_free(g->now);
    weir_mem_free(g->inplace_taker);
    weir_mem_free(g->later);
}
