/* relower.c - lowers again the stages that a changed decision touches, in order. */
#include "graph/memory/problem/relower.h"
#include "graph/memory/problem/relower_profile.h"

#include <math.h>
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
    r->most = weir_mem_zalloc(ops, sizeof *r->most);
    r->ticks = weir_mem_zalloc(ops, sizeof *r->ticks);
    r->queued = weir_mem_zalloc(ops, 1);
    r->asked = weir_mem_zalloc(tensors, sizeof *r->asked);
    r->there = weir_mem_zalloc(tensors, sizeof *r->there);
    r->read_in = weir_mem_zalloc(tensors, sizeof *r->read_in);
    r->over = weir_mem_zalloc(tensors, sizeof *r->over);
    r->last = weir_mem_zalloc(tensors, sizeof *r->last);
    r->marked = weir_mem_zalloc(ops, sizeof *r->marked);
    return r->at && r->runs && r->stages && r->early && r->read && r->most && r->ticks &&
           r->queued && r->asked && r->there && r->read_in && r->over && r->last && r->marked &&
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
    void *const own[] = {r->at,   r->runs,   r->stages, r->early, r->read,    r->most, r->ticks,
                         r->last, r->queued, r->asked,  r->there, r->read_in, r->over, r->marked};
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

bool weir_relower_can(const weir_lower_state *w, const uint8_t *decisions)
{
    for (uint32_t g = 0; g < w->intervals; g++)
        if (decisions[g] >= WEIR_OFFLOAD && decisions[g] < WEIR_RECOMPUTE_EARLY)
            return false;
    return true;
}

/* ---- sorted lists ---- */

static uint32_t place_in(const weir_numbers *l, uint32_t number)
{
    uint32_t lo = 0, hi = l->list.n;

    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (l->list.at[mid] < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool insert(weir_numbers *l, uint32_t number)
{
    const uint32_t at = place_in(l, number);

    if (!weir_vec_push(&l->list, number))
        return false;
    memmove(l->list.at + at + 1, l->list.at + at, (l->list.n - 1 - at) * sizeof *l->list.at);
    l->list.at[at] = number;
    return true;
}

static void withdraw(weir_numbers *l, uint32_t number)
{
    const uint32_t at = place_in(l, number);

    l->list.n--;
    memmove(l->list.at + at, l->list.at + at + 1, (l->list.n - at) * sizeof *l->list.at);
}

/* ---- which stages are out of date ---- */

/* Adds a stage to the heap, the earliest stage first. */
static void ask_stage(weir_relower *r, uint32_t s)
{
    uint32_t i = r->queue.n;

    if (r->queued[s] & WEIR_TO_LOWER)
        return;
    r->queued[s] |= WEIR_TO_LOWER;
    r->queue.n++;                       /* reserved for all stages */
    for (; i > 0 && r->queue.at[(i - 1) / 2] > s; i = (i - 1) / 2)
        r->queue.at[i] = r->queue.at[(i - 1) / 2];
    r->queue.at[i] = s;
}

static uint32_t next_stage(weir_relower *r)
{
    const uint32_t first = r->queue.at[0], moved = r->queue.at[--r->queue.n];
    uint32_t       i = 0;

    for (uint32_t c = 1; c < r->queue.n; i = c, c = 2 * c + 1) {
        c += c + 1 < r->queue.n && r->queue.at[c + 1] < r->queue.at[c];
        if (r->queue.at[c] >= moved)
            break;
        r->queue.at[i] = r->queue.at[c];
    }
    r->queue.at[i] = moved;
    r->queued[first] &= (uint8_t)~WEIR_TO_LOWER;
    return first;
}

static void ask_sum(weir_relower *r, uint32_t s)
{
    if (r->queued[s] & WEIR_TO_SUM)
        return;
    r->queued[s] |= WEIR_TO_SUM;
    r->unsummed.at[r->unsummed.n++] = s; /* reserved for all stages */
}

static void ask_reruns(weir_relower *r, uint32_t op, uint32_t after, uint32_t to)
{
    const weir_numbers *l = &r->stages[op];

    for (uint32_t i = place_in(l, after + 1); i < l->list.n && l->list.at[i] <= to; i++)
        ask_stage(r, l->list.at[i]);
}

/* Returns the stage in which the interval is recomputed early; WEIR_NO_STAGE: it is not. */
static uint32_t early_stage(const weir_relower *r, const weir_relower_interval *g)
{
    if (g->last || g->decision < WEIR_RECOMPUTE_EARLY)
        return WEIR_NO_STAGE;
    return weir_lower_early(r->w, g->decision, g->from, g->to);
}

/* The interval's tensor appears or disappears in the stages after `after`, up to `to` or to the
 * interval's end: all that ask for it there are out of date. */
static void ask_readers(weir_relower *r, const weir_relower_interval *g, uint32_t after,
                        uint32_t to)
{
    const weir_mem_tensor *k = &r->p->tensors.at[g->tensor];
    const uint32_t        *u = weir_refs(r->p, k->uses), early = early_stage(r, g);

    to = to < g->to ? to : g->to;
    if (!g->last && to == g->to && to > after)
        ask_stage(r, to);
    if (early != WEIR_NO_STAGE && early > after && early <= to)
        ask_stage(r, early);
    ask_reruns(r, k->producer, after, to);
    for (uint32_t j = 0; j < k->uses.n && u[j] < to; j++)
        ask_reruns(r, u[j], after, to);
}

/* ---- live stages of intervals ---- */

static bool is_rebuilt(uint8_t decision)
{
    return decision == WEIR_RECOMPUTE || decision >= WEIR_RECOMPUTE_EARLY;
}

/* Counts the interval's bytes in the stages at whose beginning its tensor is live. */
static void count_live(weir_relower *r, weir_relower_interval *g)
{
    const weir_mem_tensor *k = &r->p->tensors.at[g->tensor];
    uint32_t               begin = 0, end = 0;

    if (g->last ? k->output : g->decision == WEIR_KEEP) {
        begin = g->from + 1;
        end = g->to + 1;
    } else if (g->last && g->decision == WEIR_KEEP_FOR_RECOMPUTE &&
               r->read[g->tensor] != WEIR_NO_STAGE) {
        begin = g->from + 1;
        end = r->read[g->tensor] + 1;
    } else if (!g->last && is_rebuilt(g->decision) && g->restored != WEIR_NO_STAGE) {
        begin = g->restored + 1;
        end = g->to + 1;
    }
    if (begin == g->begin && end == g->end)
        return;
    weir_peak_tree_add(&r->tree, g->begin, g->end, -(int64_t)k->bytes);
    weir_peak_tree_add(&r->tree, begin, end, (int64_t)k->bytes);
    g->begin = begin;
    g->end = end;
}

static weir_relower_interval *last_interval(weir_relower *r, uint32_t tensor)
{
    return &r->at[r->w->first_interval[tensor + 1] - 1];
}

/* Finds the last recomputation that reads a tensor kept for recomputation. */
static void find_last_reader(weir_relower *r, uint32_t tensor)
{
    const weir_mem_tensor       *k = &r->p->tensors.at[tensor];
    weir_relower_interval *const g = last_interval(r, tensor);
    const uint32_t               was = r->read[tensor];
    uint32_t                     last = WEIR_NO_STAGE;

    for (uint32_t j = 0; j < k->uses.n && g->decision == WEIR_KEEP_FOR_RECOMPUTE; j++) {
        const weir_numbers *l = &r->stages[weir_refs(r->p, k->uses)[j]];
        const uint32_t      s = l->list.n ? l->list.at[l->list.n - 1] : 0;
        if (s > g->from && (last == WEIR_NO_STAGE || s > last))
            last = s;
    }
    if (last == was)
        return;
    r->read[tensor] = last;
    ask_sum(r, g->from);
    if (was != WEIR_NO_STAGE)
        ask_sum(r, was);
    if (last != WEIR_NO_STAGE)
        ask_sum(r, last);
    count_live(r, g);
}

/* ---- a stage ---- */

/* Is the tensor on the device when stage s begins? */
static bool begins_with(const weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_mem_tensor *k = &r->p->tensors.at[tensor];

    if (k->producer == WEIR_NO_OP)
        return true;
    const weir_relower_interval *g = &r->at[weir_relower_interval_at(r, tensor, s)];
    if (g->last)
        return k->output || g->decision == WEIR_KEEP_FOR_RECOMPUTE;
    return g->decision == WEIR_KEEP || (is_rebuilt(g->decision) && g->restored < s);
}

/* Is it there now, after what the stage has recomputed so far? */
static bool is_there(weir_relower *r, uint32_t tensor, uint32_t s)
{
    if (r->asked[tensor] != r->stamp) {
        r->asked[tensor] = r->stamp;
        r->there[tensor] = begins_with(r, tensor, s);
    }
    return r->there[tensor] != 0;
}

/* Recomputes the tensor's producer after the producers of the inputs that it lacks, depth first, as
 * run_stack in lower.c. */
static bool restore(weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_mem_problem *p = r->p;

    r->stack.n = 0;
    if (!is_there(r, tensor, s) && !weir_vec_push(&r->stack, p->tensors.at[tensor].producer))
        return false;
    while (r->stack.n > 0 && r->valid) {
        const uint32_t     op = r->stack.at[r->stack.n - 1], depth = r->stack.n;
        const weir_mem_op *t = &p->ops.at[op];
        const uint32_t    *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
        bool               wanted = false;

        r->valid = t->rerun_before > s;
        for (uint32_t i = 0; i < t->in.n; i++)
            if (!is_there(r, in[i], s) &&
                !weir_vec_push(&r->stack, p->tensors.at[in[i]].producer))
                return false;
        if (r->stack.n > depth)
            continue;
        r->stack.n--;
        for (uint32_t i = 0; i < t->out.n; i++) {
            wanted = !is_there(r, out[i], s) || wanted;
            r->there[out[i]] = 1;
        }
        if (wanted && !weir_vec_push(&r->made, op))
            return false;
    }
    return true;
}

/* Lists the ops that stage s recomputes. */
static bool list_reruns(weir_relower *r, uint32_t s)
{
    const weir_index_range in = r->p->ops.at[s].in;
    const weir_numbers    *early = &r->early[s];

    r->made.n = 0;
    r->stamp++;
    for (uint32_t i = 0; i < early->list.n && r->valid; i++)
        if (!restore(r, r->at[early->list.at[i]].tensor, s))
            return false;
    for (uint32_t i = 0; i < in.n && r->valid; i++)
        if (!restore(r, weir_refs(r->p, in)[i], s))
            return false;
    return true;
}

/* Notes that the op's inputs have one recomputation more or less that reads them. */
static void ask_last_readers(weir_relower *r, uint32_t op, uint32_t s)
{
    const weir_index_range in = r->p->ops.at[op].in;

    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t k = weir_refs(r->p, in)[i];
        if (r->p->tensors.at[k].producer != WEIR_NO_OP && s > last_interval(r, k)->from &&
            last_interval(r, k)->decision == WEIR_KEEP_FOR_RECOMPUTE)
            find_last_reader(r, k);
    }
}

/* Sets which stage restores the interval's tensor. */
static void set_restored(weir_relower *r, weir_relower_interval *g, uint32_t s)
{
    const uint32_t was = g->restored;

    g->restored = s;
    ask_readers(r, g, s < was ? s : was, s < was ? was : s);
    count_live(r, g);
}

/* Updates the intervals that stage s restores: it used to recompute runs[s], now `made`. */
static void settle_restored(weir_relower *r, uint32_t s)
{
    const weir_mem_problem *p = r->p;

    r->stamp++;
    for (uint32_t i = 0; i < r->made.n; i++) {
        const weir_index_range out = p->ops.at[r->made.at[i]].out;
        for (uint32_t k = 0; k < out.n; k++) {
            const uint32_t               y = weir_refs(p, out)[k];
            weir_relower_interval *const g = &r->at[weir_relower_interval_at(r, y, s)];
            if (g->last || !is_rebuilt(g->decision) || g->restored < s)
                continue;
            r->asked[y] = r->stamp;
            if (g->restored != s)
                set_restored(r, g, s);
        }
    }
    for (uint32_t i = 0; i < r->runs[s].list.n; i++) {
        const weir_index_range out = p->ops.at[r->runs[s].list.at[i]].out;
        for (uint32_t k = 0; k < out.n; k++) {
            const uint32_t               y = weir_refs(p, out)[k];
            weir_relower_interval *const g = &r->at[weir_relower_interval_at(r, y, s)];
            if (g->restored == s && r->asked[y] != r->stamp)
                set_restored(r, g, WEIR_NO_STAGE);
        }
    }
}

/* Replaces what stage s recomputes by `made`. */
static bool replace_runs(weir_relower *r, uint32_t s)
{
    weir_numbers *const runs = &r->runs[s];
    const uint64_t      now = ++r->stamp, both = ++r->stamp;

    r->events += r->made.n;
    r->events -= runs->list.n;
    for (uint32_t i = 0; i < r->made.n; i++)
        r->marked[r->made.at[i]] = now;
    for (uint32_t i = 0; i < runs->list.n; i++) {
        const uint32_t op = runs->list.at[i];
        if (r->marked[op] == now) {
            r->marked[op] = both;
            continue;
        }
        withdraw(&r->stages[op], s);
        r->extra_ticks -= r->ticks[op];
        ask_last_readers(r, op, s);
    }
    for (uint32_t i = 0; i < r->made.n; i++) {
        const uint32_t op = r->made.at[i];
        if (r->marked[op] == both)
            continue;
        if (!insert(&r->stages[op], s))
            return false;
        r->extra_ticks += r->ticks[op];
        ask_last_readers(r, op, s);
    }
    if (!weir_vec_reserve(&runs->list, r->made.n))
        return false;
    runs->list.n = r->made.n;
    if (r->made.n)
        memcpy(runs->list.at, r->made.at, r->made.n * sizeof *r->made.at);
    return true;
}

static bool lower_stage(weir_relower *r, uint32_t s)
{
    if (!list_reruns(r, s))
        return false;
    r->work += r->made.n + 1;
    if (!r->valid) {
        ask_stage(r, s);
        return true;
    }
    settle_restored(r, s);
    ask_sum(r, s);
    return replace_runs(r, s);
}

/* ---- all stages ---- */

static void sum_stages(weir_relower *r)
{
    for (uint32_t i = 0; i < r->unsummed.n; i++) {
        const uint32_t s = r->unsummed.at[i];
        const int64_t  was = r->most[s];
        weir_relower_sum(r, s);
        weir_peak_tree_add(&r->tree, s, s + 1, r->most[s] - was);
        r->queued[s] &= (uint8_t)~WEIR_TO_SUM;
    }
    r->unsummed.n = 0;
}

bool weir_relower_run(weir_relower *r)
{
    const uint64_t most = weir_lower_most_events(r->p);

    r->valid = true;
    while (r->queue.n > 0 && r->valid) {
        if (!lower_stage(r, next_stage(r)))
            return false;
        r->valid = r->valid && r->events <= 2 * most;
    }
    r->valid = r->valid && r->events <= most;
    if (r->valid)
        sum_stages(r);
    const int64_t peak = r->p->ops.n ? weir_peak_tree_most(&r->tree) : 0;
    r->peak_stage = weir_peak_tree_where(&r->tree);
    r->peak = r->valid ? (size_t)peak + r->resident : SIZE_MAX;
    r->extra = r->second > 0 ? (double)r->extra_ticks / r->second : 0;
    return true;
}

bool weir_relower_set(weir_relower *r, uint32_t interval, uint8_t decision)
{
    weir_relower_interval *const g = &r->at[interval];
    const uint32_t               was = early_stage(r, g);

    if (g->decision == decision || r->p->tensors.at[g->tensor].producer == WEIR_NO_OP)
        return true;
    g->decision = decision;
    g->restored = WEIR_NO_STAGE;
    const uint32_t now = early_stage(r, g);
    if (was != WEIR_NO_STAGE) {
        withdraw(&r->early[was], interval);
        ask_stage(r, was);
    }
    if (now != WEIR_NO_STAGE) {
        if (!insert(&r->early[now], interval))
            return false;
        ask_stage(r, now);
    }
    ask_readers(r, g, g->from, g->to);
    ask_sum(r, g->from);
    if (g->last)
        find_last_reader(r, g->tensor);
    count_live(r, g);
    return true;
}

bool weir_relower_all(weir_relower *r, const uint8_t *decisions)
{
    for (uint32_t s = 0; s < r->p->ops.n && !r->counted; s++)
        ask_sum(r, s);
    for (uint32_t g = 0; g < r->w->intervals && !r->counted; g++)
        if (r->p->tensors.at[r->at[g].tensor].producer != WEIR_NO_OP)
            count_live(r, &r->at[g]);
    r->counted = true;
    for (uint32_t g = 0; g < r->w->intervals; g++)
        if (!weir_relower_set(r, g, decisions[g]))
            return false;
    return weir_relower_run(r);
}
