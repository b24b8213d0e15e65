/* relower.c - lowers again the stages that a changed decision touches, in order. */
#include "graph/memory/problem/relower.h"
#include "graph/memory/problem/relower_profile.h"

#include <string.h>

bool weir_relower_can(const weir_lower_state *w, const uint8_t *decisions, bool *offloads)
{
    *offloads = false;
    for (uint32_t g = 0; g < w->intervals; g++) {
        if (decisions[g] == WEIR_COMPRESS || decisions[g] == WEIR_COMPRESS_MASK)
            return false;
        *offloads = *offloads || decisions[g] == WEIR_OFFLOAD;
    }
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
    if (k->producer != WEIR_NO_OP)
        ask_reruns(r, k->producer, after, to);
    for (uint32_t j = 0; j < k->uses.n && u[j] < to; j++)
        ask_reruns(r, u[j], after, to);
}

/* ---- live stages of intervals ---- */

/* Does the tensor stay once it has been restored? */
static bool is_rebuilt(uint8_t decision)
{
    return decision == WEIR_RECOMPUTE || decision == WEIR_OFFLOAD ||
           decision >= WEIR_RECOMPUTE_EARLY;
}

/* Counts the interval's bytes in the stages at whose beginning its tensor is live. */
static void count_live(weir_relower *r, weir_relower_interval *g)
{
    const weir_mem_tensor *k = &r->p->tensors.at[g->tensor];
    uint32_t               begin = 0, end = 0;

    if (k->producer == WEIR_NO_OP && (g->last || !weir_relower_offloaded(r, g->tensor))) {
        /* not counted, or among r->resident */
    } else if (g->last ? k->output : g->decision == WEIR_KEEP) {
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
    r->changed = r->changed || begin < end || g->begin < g->end;
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

    if (weir_relower_stays(r, tensor))
        return true;
    const weir_relower_interval *g = &r->at[weir_relower_interval_at(r, tensor, s)];
    if (g->last)
        return k->producer != WEIR_NO_OP &&
               (k->output || g->decision == WEIR_KEEP_FOR_RECOMPUTE);
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

/* Prefetches the tensor unless it is there; pushes its producer on the stack if it has no copy. */
static bool request(weir_relower *r, uint32_t tensor, uint32_t s)
{
    if (is_there(r, tensor, s))
        return true;
    if (!weir_relower_is_on_host(r, tensor, s))
        return weir_vec_push(&r->stack, r->p->tensors.at[tensor].producer);
    r->there[tensor] = 1;
    return weir_vec_push(&r->made, weir_relower_fetch(r, tensor));
}

/* Prefetches the tensor, or recomputes its producer after restoring the inputs that it lacks, depth
 * first, as run_stack in lower.c. */
static bool restore(weir_relower *r, uint32_t tensor, uint32_t s)
{
    const weir_mem_problem *p = r->p;

    r->stack.n = 0;
    if (!request(r, tensor, s))
        return false;
    while (r->stack.n > 0 && r->valid) {
        const uint32_t     op = r->stack.at[r->stack.n - 1], depth = r->stack.n;
        const weir_mem_op *t = &p->ops.at[op];
        const uint32_t    *in = weir_refs(p, t->in), *out = weir_refs(p, t->out);
        bool               wanted = false;

        r->valid = t->rerun_before > s;
        for (uint32_t i = 0; i < t->in.n && r->valid; i++)
            if (!request(r, in[i], s))
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

/* Lists what stage s restores. */
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

/* Returns the tensors that `restored`, an entry of a list of what a stage restores, brings back; a
 * prefetch brings back *one. */
static const uint32_t *tensors_of(const weir_relower *r, uint32_t restored, uint32_t *one,
                                  uint32_t *n)
{
    if (weir_relower_is_fetch(r, restored)) {
        *one = restored - r->p->ops.n;
        *n = 1;
        return one;
    }
    const weir_index_range out = r->p->ops.at[restored].out;
    *n = out.n;
    return weir_refs(r->p, out);
}

/* Updates the intervals that stage s restores: it used to restore runs[s], now `made`. */
static void settle_restored(weir_relower *r, uint32_t s)
{
    uint32_t one, n;

    r->stamp++;
    for (uint32_t i = 0; i < r->made.n; i++) {
        const uint32_t *const y = tensors_of(r, r->made.at[i], &one, &n);
        for (uint32_t k = 0; k < n; k++) {
            weir_relower_interval *const g = &r->at[weir_relower_interval_at(r, y[k], s)];
            if (g->last || !is_rebuilt(g->decision) || g->restored < s)
                continue;
            r->asked[y[k]] = r->stamp;
            if (g->restored != s)
                set_restored(r, g, s);
        }
    }
    for (uint32_t i = 0; i < r->runs[s].list.n; i++) {
        const uint32_t *const y = tensors_of(r, r->runs[s].list.at[i], &one, &n);
        for (uint32_t k = 0; k < n; k++) {
            weir_relower_interval *const g = &r->at[weir_relower_interval_at(r, y[k], s)];
            if (g->restored == s && r->asked[y[k]] != r->stamp)
                set_restored(r, g, WEIR_NO_STAGE);
        }
    }
}

static bool restores_as_before(const weir_relower *r, uint32_t s)
{
    const weir_numbers *runs = &r->runs[s];

    return r->made.n == runs->list.n &&
           (r->made.n == 0 ||
            memcmp(r->made.at, runs->list.at, r->made.n * sizeof *r->made.at) == 0);
}

/* Replaces what stage s restores by `made`. */
static bool replace_runs(weir_relower *r, uint32_t s)
{
    weir_numbers *const runs = &r->runs[s];
    const uint64_t      now = ++r->stamp, both = ++r->stamp;

    r->changed = r->changed || !restores_as_before(r, s);
    r->events += r->made.n;
    r->events -= runs->list.n;
    for (uint32_t i = 0; i < r->made.n; i++)
        if (!weir_relower_is_fetch(r, r->made.at[i]))
            r->marked[r->made.at[i]] = now;
    for (uint32_t i = 0; i < runs->list.n; i++) {
        const uint32_t op = runs->list.at[i];
        if (weir_relower_is_fetch(r, op))
            continue;
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
        if (weir_relower_is_fetch(r, op) || r->marked[op] == both)
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

/* All that ask for the tensor in its intervals from `first` on are out of date. */
static void ask_intervals(weir_relower *r, uint32_t tensor, uint32_t first)
{
    for (uint32_t g = first; g < r->w->first_interval[tensor + 1]; g++) {
        const weir_relower_interval *const x = &r->at[g];
        ask_readers(r, x, x->from, x->to);
        if (x->to == 0)                 /* stage 0 belongs to it */
            ask_stage(r, 0);
        ask_sum(r, x->from);
    }
}

/* Finds the first interval over which a temporary tensor is offloaded: its copy then stays. */
static void find_host(weir_relower *r, uint32_t tensor)
{
    const uint32_t first = r->w->first_interval[tensor], end = r->w->first_interval[tensor + 1];
    const uint32_t was = r->host[tensor];
    uint32_t       g = first;

    while (g < end && (r->at[g].decision != WEIR_OFFLOAD ||
                       (r->at[g].last && r->p->tensors.at[tensor].output)))
        g++;
    r->host[tensor] = g < end ? r->at[g].from : WEIR_NO_STAGE;
    if (r->host[tensor] == was)
        return;
    r->changed = true;
    g = first;
    while (r->at[g].from < was && r->at[g].from < r->host[tensor])
        g++;
    ask_intervals(r, tensor, g);
}

/* The decision for an interval of a resident tensor has changed. */
static void change_resident(weir_relower *r, uint32_t interval, bool was_offloaded)
{
    const uint32_t tensor = r->at[interval].tensor;
    const uint32_t first = r->w->first_interval[tensor], end = r->w->first_interval[tensor + 1];
    const bool     offloaded = weir_relower_offloaded(r, tensor);

    if (!offloaded && !was_offloaded)
        return;
    r->changed = true;
    r->resident += was_offloaded ? r->p->tensors.at[tensor].bytes : 0;
    r->resident -= offloaded ? r->p->tensors.at[tensor].bytes : 0;
    for (uint32_t g = first; g < end; g++) {
        if (g == interval || offloaded != was_offloaded)
            r->at[g].restored = WEIR_NO_STAGE;
        count_live(r, &r->at[g]);
    }
    ask_intervals(r, tensor, first);
}

/* Moves the interval to the list of the stage in which it is recomputed early. */
static bool change_early(weir_relower *r, uint32_t interval, uint32_t was, uint32_t now)
{
    if (was != WEIR_NO_STAGE) {
        withdraw(&r->early[was], interval);
        ask_stage(r, was);
    }
    if (now != WEIR_NO_STAGE) {
        if (!insert(&r->early[now], interval))
            return false;
        ask_stage(r, now);
    }
    return true;
}

bool weir_relower_set(weir_relower *r, uint32_t interval, uint8_t decision)
{
    weir_relower_interval *const g = &r->at[interval];
    const uint8_t                before = g->decision;
    const uint32_t               was = early_stage(r, g);

    if (before == decision)
        return true;
    r->events -= weir_relower_count_copies_out(r, g->tensor);
    if (r->p->tensors.at[g->tensor].producer == WEIR_NO_OP) {
        const bool offloaded = weir_relower_offloaded(r, g->tensor);
        g->decision = decision;
        change_resident(r, interval, offloaded);
        r->events += weir_relower_count_copies_out(r, g->tensor);
        return true;
    }
    g->decision = decision;
    g->restored = WEIR_NO_STAGE;
    if (!change_early(r, interval, was, early_stage(r, g)))
        return false;
    ask_readers(r, g, g->from, g->to);
    ask_sum(r, g->from);
    if (before == WEIR_OFFLOAD || decision == WEIR_OFFLOAD)
        find_host(r, g->tensor);
    if (g->last)
        find_last_reader(r, g->tensor);
    count_live(r, g);
    r->events += weir_relower_count_copies_out(r, g->tensor);
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
