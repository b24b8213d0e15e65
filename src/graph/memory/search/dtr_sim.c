/* dtr_sim.c - Dynamic Tensor Rematerialization (Kirisame and others, ICLR 2021) over a step known
 * in advance.
 *
 * A tensor that no remaining first run reads is evicted at once (eager eviction); recomputing
 * others may restore it. Inputs of a run are pinned from request to completion. A tensor is evicted
 * only if it can still be recomputed at its next use. The clock is the sum of the runs' seconds.
 * Each eviction scores all tensors on the device: O(tensors) plus the neighborhoods to update. */
#include "graph/memory/search/dtr_sim.h"

#include <string.h>

#include "core/status.h"
#include "graph/memory/problem/copy_streams.h"
#include "graph/memory/search/best.h"

/* per op on average; beyond that, recomputation counts as endless */
enum { MAX_RECOMPUTES = 6 };

bool weir_dtr_sim_init(weir_dtr_sim *v, const weir_mem_problem *p)
{
    const size_t n = (size_t)p->tensors.n + 1;

    v->p = p;
    v->when = weir_mem_zalloc(p->ops.n + 1u, sizeof *v->when);
    v->op_stamp = weir_mem_zalloc(p->ops.n + 1u, sizeof *v->op_stamp);
    v->next = weir_mem_alloc(n * sizeof *v->next);
    v->locks = weir_mem_alloc(n * sizeof *v->locks);
    v->used = weir_mem_alloc(n * sizeof *v->used);
    v->near = weir_mem_alloc(n * sizeof *v->near);
    v->class_of = weir_mem_alloc(n * sizeof *v->class_of);
    v->place = weir_mem_alloc(n * sizeof *v->place);
    v->stamp = weir_mem_zalloc(n, sizeof *v->stamp);
    v->barred = weir_mem_zalloc(n, sizeof *v->barred);
    if (!weir_schedule_init(&v->s, p) || !v->when || !v->op_stamp || !v->next || !v->locks ||
        !v->used || !v->near || !v->class_of || !v->place || !v->stamp || !v->barred ||
        !weir_vec_reserve(&v->there, n) || !weir_vec_reserve(&v->stack, n) ||
        !weir_vec_reserve(&v->roots, n) || !weir_vec_reserve(&v->frames, p->ops.n + 1u))
        return false;
    for (uint32_t i = 0; i < p->ops.n; i++)
        v->when[i + 1] = v->when[i] + p->ops.at[i].time;
    return true;
}

void weir_dtr_sim_free(weir_dtr_sim *v)
{
    weir_schedule_free(&v->s);
    weir_mem_free(v->when);
    weir_mem_free(v->op_stamp);
    weir_mem_free(v->next);
    weir_mem_free(v->locks);
    weir_mem_free(v->used);
    weir_mem_free(v->near);
    weir_mem_free(v->class_of);
    weir_mem_free(v->place);
    weir_mem_free(v->stamp);
    weir_mem_free(v->barred);
    weir_vec_free(&v->there);
    weir_vec_free(&v->stack);
    weir_vec_free(&v->frames);
    weir_vec_free(&v->roots);
    weir_vec_free(&v->class_nodes);
}

static bool is_there(const weir_dtr_sim *v, uint32_t tensor)
{
    return weir_schedule_has(&v->s, tensor, WEIR_FORM_PLAIN);
}

/* Was the tensor made and then evicted? */
static bool is_evicted(const weir_dtr_sim *v, uint32_t tensor)
{
    const uint32_t producer = v->p->tensors.at[tensor].producer;
    return producer != WEIR_NO_OP && producer < v->done && !is_there(v, tensor);
}

/* Will only recomputations read the tensor from now on? */
static bool is_dead(const weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    return v->next[tensor] == k->uses.n && !k->output && k->producer != WEIR_NO_OP;
}

/* ---- evicted neighbours ---- */

static void visit(weir_dtr_sim *v, uint32_t tensor)
{
    if (v->stamp[tensor] == v->stamps)
        return;
    v->stamp[tensor] = v->stamps;
    v->stack.at[v->stack.n++] = tensor;      /* reserved for all tensors */
    v->work++;
}

/* Visits the evicted inputs of the tensor's producer. */
static void visit_above(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_index_range in = v->p->ops.at[v->p->tensors.at[tensor].producer].in;

    for (uint32_t i = 0; i < in.n; i++)
        if (is_evicted(v, weir_refs(v->p, in)[i]))
            visit(v, weir_refs(v->p, in)[i]);
}

/* Visits the evicted tensors made from this one. */
static void visit_below(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_index_range uses = v->p->tensors.at[tensor].uses;

    v->work += uses.n;
    for (uint32_t j = 0; j < uses.n && weir_refs(v->p, uses)[j] < v->done; j++) {
        const weir_index_range out = v->p->ops.at[weir_refs(v->p, uses)[j]].out;
        for (uint32_t i = 0; i < out.n; i++)
            if (is_evicted(v, weir_refs(v->p, out)[i]))
                visit(v, weir_refs(v->p, out)[i]);
    }
}

/* Returns the seconds of the tensor's producer; 0 if this traversal has counted them already. */
static double cost_once(weir_dtr_sim *v, uint32_t tensor)
{
    const uint32_t producer = v->p->tensors.at[tensor].producer;
    const bool     counted = v->op_stamp[producer] == v->stamps;

    v->op_stamp[producer] = v->stamps;
    return counted ? 0 : v->p->ops.at[producer].time;
}

/* Starts a traversal at the tensor, whose own producer does not count. */
static void begin_at(weir_dtr_sim *v, uint32_t tensor)
{
    v->stamps++;
    v->stack.n = 0;
    (void)cost_once(v, tensor);
    visit(v, tensor);
}

const weir_dtr_neighborhood *weir_dtr_sim_neighborhood(weir_dtr_sim *v, uint32_t tensor)
{
    weir_dtr_neighborhood *const n = &v->near[tensor];

    v->asks_near = true;
    if (n->known)
        return n;
    *n = (weir_dtr_neighborhood){.known = true};
    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const uint32_t x = v->stack.at[i];
        n->above += cost_once(v, x);
        n->bytes += x == tensor ? 0 : (double)v->p->tensors.at[x].bytes;
        visit_above(v, x);
    }
    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        n->below += cost_once(v, v->stack.at[i]);
        visit_below(v, v->stack.at[i]);
    }
    n->count = v->stack.n - 1;
    return n;
}

static void forget(weir_dtr_sim *v, weir_index_range tensors)
{
    for (uint32_t k = 0; k < tensors.n; k++)
        v->near[weir_refs(v->p, tensors)[k]].known = false;
}

/* Invalidates the neighborhoods that contain the tensor, which was just restored or evicted: those
 * of tensors made from it and of tensors it was made from, through evicted ones alone. */
static void invalidate_neighbors(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_problem *p = v->p;

    if (!v->asks_near)
        return;
    v->near[tensor].known = false;
    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        forget(v, p->ops.at[p->tensors.at[v->stack.at[i]].producer].in);
        visit_above(v, v->stack.at[i]);
    }
    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const weir_index_range uses = p->tensors.at[v->stack.at[i]].uses;
        for (uint32_t j = 0; j < uses.n && weir_refs(p, uses)[j] < v->done; j++)
            forget(v, p->ops.at[weir_refs(p, uses)[j]].out);
        visit_below(v, v->stack.at[i]);
    }
}

/* ---- classes ---- */

static uint32_t root_of(weir_dtr_sim *v, uint32_t c)
{
    while (v->class_nodes.at[c].parent != c) {
        v->class_nodes.at[c].parent = v->class_nodes.at[v->class_nodes.at[c].parent].parent;
        c = v->class_nodes.at[c].parent;
    }
    return c;
}

static void add_root(weir_dtr_sim *v, uint32_t tensor)
{
    if (!is_evicted(v, tensor))
        return;
    const uint32_t root = root_of(v, v->class_of[tensor]);
    for (uint32_t i = 0; i < v->roots.n; i++)
        if (v->roots.at[i] == root)
            return;
    v->roots.at[v->roots.n++] = root;
}

/* Sets `roots` to the classes that the tensor touches. */
static void find_roots(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    const weir_index_range in = v->p->ops.at[k->producer].in;

    v->roots.n = 0;
    for (uint32_t i = 0; i < in.n; i++)
        add_root(v, weir_refs(v->p, in)[i]);
    for (uint32_t j = 0; j < k->uses.n && weir_refs(v->p, k->uses)[j] < v->done; j++) {
        const weir_index_range out = v->p->ops.at[weir_refs(v->p, k->uses)[j]].out;
        for (uint32_t i = 0; i < out.n; i++)
            add_root(v, weir_refs(v->p, out)[i]);
    }
}

double weir_dtr_sim_class_cost(weir_dtr_sim *v, uint32_t tensor)
{
    double sum = 0;

    find_roots(v, tensor);
    for (uint32_t i = 0; i < v->roots.n; i++)
        sum += v->class_nodes.at[v->roots.at[i]].seconds;
    return sum;
}

/* Merges the tensor, which was just evicted, and the classes that it touches into one class. */
static bool merge_classes(weir_dtr_sim *v, uint32_t tensor)
{
    const uint32_t own = v->class_nodes.n;
    const double   cost = v->p->ops.at[v->p->tensors.at[tensor].producer].time;

    v->class_of[tensor] = own;
    if (!weir_vec_push(&v->class_nodes, (weir_dtr_class){own, cost}))
        return false;
    find_roots(v, tensor);
    for (uint32_t i = 0; i < v->roots.n; i++) {
        weir_dtr_class *const c = &v->class_nodes.at[v->roots.at[i]];
        if (v->roots.at[i] == own)
            continue;
        c->parent = own;
        v->class_nodes.at[own].seconds += c->seconds;
    }
    return true;
}

/* ---- tensors appear and disappear ---- */

static void note_made(weir_dtr_sim *v, uint32_t tensor, bool first)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];

    v->live += k->bytes;
    v->near[tensor].known = false;
    v->place[tensor] = v->there.n;
    v->there.at[v->there.n++] = tensor;
    if (!first && v->use_classes)
        v->class_nodes.at[root_of(v, v->class_of[tensor])].seconds -=
            v->p->ops.at[k->producer].time;
    if (!first)
        invalidate_neighbors(v, tensor);
}

static bool evict_tensor(weir_dtr_sim *v, uint32_t tensor)
{
    const uint32_t at = v->place[tensor], last = v->there.at[--v->there.n];

    v->there.at[at] = last;
    v->place[last] = at;
    v->live -= v->p->tensors.at[tensor].bytes;
    weir_schedule_drop(&v->s, tensor);
    invalidate_neighbors(v, tensor);
    return !v->use_classes || merge_classes(v, tensor);
}

/* May the tensor be evicted? It will be needed at its own next use and at those of its evicted
 * descendants; its producer, and those of its evicted ancestors, must be allowed to run then. */
static bool may_evict(weir_dtr_sim *v, uint32_t tensor)
{
    const weir_mem_problem *p = v->p;
    uint32_t                asked = 0;
    bool                    may = true;

    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n; i++) {
        const uint32_t         x = v->stack.at[i];
        const weir_index_range uses = p->tensors.at[x].uses;
        if (v->next[x] < uses.n && weir_refs(p, uses)[v->next[x]] + 1 > asked)
            asked = weir_refs(p, uses)[v->next[x]] + 1;
        visit_below(v, x);
    }
    begin_at(v, tensor);
    for (uint32_t i = 0; i < v->stack.n && asked > 0 && may; i++) {
        may = p->ops.at[p->tensors.at[v->stack.at[i]].producer].rerun_before >= asked;
        visit_above(v, v->stack.at[i]);
    }
    return may;
}

/* Evicts the tensor if no first run needs it, it is not pinned, and it may be evicted. */
static bool evict_if_dead(weir_dtr_sim *v, uint32_t tensor)
{
    const bool goes =
        is_dead(v, tensor) && v->locks[tensor] == 0 && is_there(v, tensor) && may_evict(v, tensor);
    return !goes || evict_tensor(v, tensor);
}

static bool may_be_chosen(const weir_dtr_sim *v, uint32_t tensor, uint32_t round)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    return v->locks[tensor] == 0 && v->barred[tensor] != round && k->bytes > 0 &&
           !(k->output && v->next[tensor] == k->uses.n);
}

/* Evicts the tensor with the smallest score; sets *went if there was one. */
static bool evict_smallest(weir_dtr_sim *v, uint32_t round, bool *went)
{
    for (;;) {
        uint32_t best = WEIR_NO_TENSOR;
        double   least = 0;
        v->work += v->there.n;
        for (uint32_t i = 0; i < v->there.n; i++) {
            const uint32_t x = v->there.at[i];
            if (!may_be_chosen(v, x, round))
                continue;
            const double score = v->score(v, x);
            if (best == WEIR_NO_TENSOR || score < least || (score == least && x < best)) {
                best = x;
                least = score;
            }
        }
        *went = best != WEIR_NO_TENSOR;
        if (!*went || may_evict(v, best))
            return !*went || evict_tensor(v, best);
        v->barred[best] = round;
    }
}

/* ---- runs ---- */

/* Is the next run the last reader of the input? */
static bool dies_in(const weir_dtr_sim *v, uint32_t tensor, bool recomputed)
{
    const weir_mem_tensor *k = &v->p->tensors.at[tensor];
    return !k->output && k->producer != WEIR_NO_OP && v->locks[tensor] == 1 &&
           v->next[tensor] + !recomputed == k->uses.n;
}

/* Returns the bytes that a run needs in addition to those live; outputs made in place need none. */
static size_t bytes_of(const weir_dtr_sim *v, const weir_mem_op *t, bool recomputed)
{
    const uint32_t *out = weir_refs(v->p, t->out), *pair = weir_refs(v->p, t->pairs);
    size_t          bytes = t->work;

    for (uint32_t i = 0; i < t->out.n; i++)
        bytes += v->p->tensors.at[out[i]].bytes;
    for (uint32_t i = 0; i + 1 < t->pairs.n; i += 2) {
        bool first = true;
        for (uint32_t j = 0; j < i; j += 2)
            first = first && pair[j] != pair[i] && pair[j + 1] != pair[i + 1];
        if (first && dies_in(v, pair[i], recomputed) && !is_there(v, pair[i + 1]) &&
            v->p->tensors.at[pair[i]].bytes == v->p->tensors.at[pair[i + 1]].bytes)
            bytes -= v->p->tensors.at[pair[i]].bytes;
    }
    return bytes;
}

static bool free_memory(weir_dtr_sim *v, size_t bytes)
{
    const uint32_t round = ++v->stamps;
    bool           went = true, ok = true;

    while (ok && went && v->live + bytes > v->limit)
        ok = evict_smallest(v, round, &went);
    return ok;
}

/* Runs the op, whose inputs are on the device and pinned. */
static bool run(weir_dtr_sim *v, uint32_t op, bool recomputed)
{
    const weir_mem_op *t = &v->p->ops.at[op];
    const uint32_t    *in = weir_refs(v->p, t->in), *out = weir_refs(v->p, t->out);
    bool               ok = free_memory(v, bytes_of(v, t, recomputed));

    v->roots.n = 0;                     /* reused for the outputs that did not exist before */
    for (uint32_t i = 0; i < t->out.n; i++)
        if (!is_there(v, out[i]))
            v->roots.at[v->roots.n++] = out[i];
    if (!ok || !weir_schedule_run(&v->s, op, recomputed))
        return false;
    v->clock += t->time;
    v->done += !recomputed;
    v->recomputed += recomputed;
    for (uint32_t i = 0; i < v->roots.n; i++)
        note_made(v, v->roots.at[i], !recomputed);
    for (uint32_t i = 0; i < t->out.n; i++)
        v->used[out[i]] = v->clock;
    for (uint32_t i = 0; i < t->in.n; i++) {
        v->locks[in[i]]--;
        v->used[in[i]] = v->clock;
        v->next[in[i]] += !recomputed;
    }
    for (uint32_t i = 0; i < t->in.n && ok; i++)
        ok = evict_if_dead(v, in[i]);
    for (uint32_t i = 0; i < t->out.n && ok; i++)
        ok = evict_if_dead(v, out[i]);
    return ok;
}

/* Requests a run of the op and pins its inputs. */
static void request_run(weir_dtr_sim *v, uint32_t op)
{
    const weir_index_range in = v->p->ops.at[op].in;

    for (uint32_t i = 0; i < in.n; i++)
        v->locks[weir_refs(v->p, in)[i]]++;
    v->frames.at[v->frames.n++] = op;
}

static uint32_t missing_input(const weir_dtr_sim *v, uint32_t op)
{
    const weir_index_range in = v->p->ops.at[op].in;

    for (uint32_t i = 0; i < in.n; i++)
        if (!is_there(v, weir_refs(v->p, in)[i]))
            return weir_refs(v->p, in)[i];
    return WEIR_NO_TENSOR;
}

/* Has the run done so much, or recomputed so much, that its schedule is of no use? */
static bool is_hopeless(const weir_dtr_sim *v)
{
    return v->recomputed > MAX_RECOMPUTES * v->p->ops.n ||
           (v->most_work > 0 && v->work > v->most_work) ||
           (v->slowest > 0 && v->clock + v->p->time - v->when[v->done] > v->slowest);
}

/* Runs op i for the first time, after the producers of the inputs that it lacks, depth first. */
static bool run_first(weir_dtr_sim *v, uint32_t i)
{
    request_run(v, i);
    while (v->frames.n > 0 && v->s.valid) {
        const uint32_t op = v->frames.at[v->frames.n - 1], tensor = missing_input(v, op);
        const uint32_t producer =
            tensor == WEIR_NO_TENSOR ? WEIR_NO_OP : v->p->tensors.at[tensor].producer;
        if (producer != WEIR_NO_OP && !is_hopeless(v)) {
            request_run(v, producer);
        } else if (tensor != WEIR_NO_TENSOR) {
            v->s.valid = false;
        } else {
            v->frames.n--;
            if (!run(v, op, op != i))
                return false;
        }
    }
    return true;
}

static bool begin(weir_dtr_sim *v)
{
    const weir_mem_problem *p = v->p;

    v->clock = 0;
    v->done = v->recomputed = 0;
    v->live = v->work = 0;
    v->there.n = v->frames.n = v->class_nodes.n = 0;
    memset(v->next, 0, p->tensors.n * sizeof *v->next);
    memset(v->locks, 0, p->tensors.n * sizeof *v->locks);
    for (uint32_t k = 0; k < p->tensors.n; k++)
        v->live += weir_mem_tensor_is_resident(p, k) ? p->tensors.at[k].bytes : 0;
    return weir_schedule_begin(&v->s, NULL);
}

bool weir_dtr_sim_run(weir_dtr_sim *v)
{
    if (!begin(v))
        return false;
    for (uint32_t i = 0; i < v->p->ops.n && v->s.valid; i++)
        if (!run_first(v, i))
            return false;
    return weir_schedule_end(&v->s, v->limit);
}

/* ---- the limit ---- */

/* Runs within `limit`; job->s keeps the better schedule. *peak receives the peak of this run;
 * SIZE_MAX if it is not valid. */
static bool run_within(weir_dtr_sim *v, size_t limit, weir_policy_job *job, size_t *peak)
{
    v->limit = limit;
    if (!weir_dtr_sim_run(v))
        return false;
    *peak = v->s.valid ? v->s.peak : SIZE_MAX;
    weir_best_take(job, &v->s);
    return v->s.now || weir_schedule_init(&v->s, v->p);
}

weir_status weir_dtr_sim_plan(weir_dtr_sim *v, weir_policy_job *job)
{
    enum { HALVINGS = 12 };
    size_t lo = job->limit, hi, peak;

    v->most_work = job->most_work;
    v->slowest = job->slowest;
    bool ok = run_within(v, lo, job, &peak);

    if (!ok || peak <= lo || job->or_none)
        return ok ? WEIR_OK : WEIR_ERR_NOMEM;
    ok = run_within(v, SIZE_MAX, job, &hi);
    for (int i = 0; i < HALVINGS && ok && hi > lo; i++) {
        const size_t limit = lo + (hi - lo) / 2;
        ok = run_within(v, limit, job, &peak);
        *(peak <= limit ? &hi : &lo) = limit;
    }
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
