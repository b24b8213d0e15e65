/* collectives.c - lets a plan compute while ranks exchange and sum.
 *
 * An all_reduce becomes two calls: all_reduce_start, where it stood, and all_reduce_wait ahead of
 * the first call that reads its result. Calls that depend on the result wait in a queue, and those
 * behind them that do not go on, until more than `most` collectives are under way; then the oldest
 * is awaited, and what it held back follows in its former order. So collectives keep their order,
 * and so do all calls that share memory of which one of them is written.
 *
 * Many small ones may be under way behind a large one: else computing would wait for that as soon
 * as they start. A finished plan is changed, and the change is kept if it fits into the budget, for
 * as many collectives as fit; without a budget, if the step needs no more than operands and windows
 * of the largest collective MORE times beyond what it needs without. So no step becomes infeasible.
 */
#include <string.h>

#include "core/attr.h"
#include "device/collective.h"
#include "graph/ir/pass_set.h"
#include "graph/ir/touched.h"
#include "graph/ops/op.h"
#include "graph/plan/plan.h"

/* MOST: collectives under way while another starts. TRIES: plans with some of them. */
enum { MOST = WEIR_STARTED_MOST - 1, MORE = 2, TRIES = 16 };

typedef struct weir_interleaving {
    weir_graph      *g;
    uint32_t         most;
    uint32_t         stop;              /* the last node of the first half; WEIR_NONE: no halves */
    bool            *may;               /* [nodes] an all_reduce that may be started early */
    weir_touched     t;                 /* by calls that are held back or under way */
    uint32_t        *held, n_held;      /* nodes that are held back */
    uint32_t         started[MOST + 1], n_started;      /* nodes that are under way */
    WEIR_VEC(weir_node) nodes;          /* the new list, */
    WEIR_VEC(uint32_t)  from;           /* and the place of each in the old one */
} weir_interleaving;

static const weir_node *node_at(const weir_interleaving *s, uint32_t i)
{
    return &s->g->nodes.at[i];
}

static bool is_held_back(const weir_interleaving *s, const weir_node *n)
{
    return (n->op == WEIR_OP_ALL_REDUCE && s->n_started > s->most) ||
           weir_touched_before(&s->t, s->g, n);
}

static void hold_back(weir_interleaving *s, uint32_t i)
{
    s->held[s->n_held++] = i;
    weir_touched_call(&s->t, s->g, node_at(s, i));
}

static bool push(weir_interleaving *s, const weir_node *n, uint32_t from)
{
    return weir_vec_push(&s->nodes, *n) && weir_vec_push(&s->from, from);
}

static bool add(weir_interleaving *s, uint32_t i)
{
    weir_node n = *node_at(s, i);

    if (n.op == WEIR_OP_ALL_REDUCE && s->may[i]) {
        n.op = WEIR_OP_ALL_REDUCE_START;
        n.def = weir_opdef_of(n.op);
        s->started[s->n_started++] = i;
        weir_touched_operands(&s->t, s->g, &n);
    }
    return push(s, &n, i);
}

static bool take(weir_interleaving *s, uint32_t i)
{
    if (!is_held_back(s, node_at(s, i)))
        return add(s, i);
    hold_back(s, i);
    return true;
}

/* Adds the wait for node i; a collective that would be awaited at once stays one call. */
static bool add_wait(weir_interleaving *s, uint32_t i)
{
    const weir_node *const start = node_at(s, i);
    weir_node *const       last = &s->nodes.at[s->nodes.n - 1];
    weir_node              n = *start;

    if (s->from.at[s->from.n - 1] == i) {
        *last = *start;
        return true;
    }
    n.op = WEIR_OP_ALL_REDUCE_WAIT;
    n.def = weir_opdef_of(n.op);
    n.in[0] = start->out[0];
    n.nout = 0;
    n.attr = weir_mem_alloc(n.attr_bytes);
    if (!n.attr || !push(s, &n, WEIR_NONE)) {
        weir_mem_free(n.attr);
        return false;
    }
    memcpy(n.attr, start->attr, n.attr_bytes);
    return true;
}

/* Awaits the oldest collective and adds what nothing holds back any more. */
static bool retire(weir_interleaving *s)
{
    const uint32_t n = s->n_held;
    bool           ok = add_wait(s, s->started[0]);

    s->n_started--;
    memmove(s->started, s->started + 1, s->n_started * sizeof *s->started);
    weir_touched_clear(&s->t);
    s->n_held = 0;
    for (uint32_t k = 0; k < s->n_started; k++)
        weir_touched_operands(&s->t, s->g, node_at(s, s->started[k]));
    for (uint32_t k = 0; k < n && ok; k++)
        ok = take(s, s->held[k]);
    return ok;
}

/* Fills the new list. Nothing is under way between the halves of a graph, nor at the end. */
static bool interleave(weir_interleaving *s)
{
    bool ok = true;

    for (uint32_t i = 0; i < s->g->nodes.n && ok; i++) {
        const bool last = i == s->stop || i + 1 == s->g->nodes.n;
        ok = take(s, i);
        while (ok && s->n_started > (last ? 0 : s->most))
            ok = retire(s);
    }
    return ok;
}

/* ---- trials ---- */

/* Frees the attributes of waits, which own them, and the lists. */
static void drop_lists(weir_interleaving *s)
{
    for (uint32_t i = 0; i < s->nodes.n; i++)
        if (s->nodes.at[i].op == WEIR_OP_ALL_REDUCE_WAIT)
            weir_mem_free(s->nodes.at[i].attr);
    weir_vec_free(&s->nodes);
    weir_vec_free(&s->from);
}

/* Exchanges the list with the graph's. */
static void swap_nodes(weir_interleaving *s)
{
    const weir_graph *const g = s->g;
    weir_node *const        at = g->nodes.at;
    const uint32_t          n = g->nodes.n, cap = g->nodes.cap;

    s->g->nodes.at = s->nodes.at;
    s->g->nodes.n = s->nodes.n;
    s->g->nodes.cap = s->nodes.cap;
    s->nodes.at = at;
    s->nodes.n = n;
    s->nodes.cap = cap;
}

/* Bytes of the arena that a value's item takes. */
static size_t taken(const weir_graph *g, uint32_t value)
{
    const uint32_t item = g->plan->item_of[weir_storage_of(g, value)];

    return item == WEIR_NONE ? 0 : g->plan->items.at[item].bytes;
}

/* The most bytes that operands and window of one collective take. */
static size_t largest(const weir_graph *g)
{
    size_t most = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *const n = &g->nodes.at[i];
        if (n->op != WEIR_OP_ALL_REDUCE)
            continue;
        const weir_instr *const ins = &g->plan->instr[i];
        const size_t window = ins->kernel->work ? g->plan->items.at[ins->work_item].bytes : 0;
        const size_t bytes = taken(g, n->in[0]) + taken(g, n->out[0]) + window;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Bytes that the arena may have. */
static size_t arena_limit(const weir_interleaving *s)
{
    const size_t resident = weir_plan_resident(s->g), budget = s->g->budget;
    const size_t arena = s->g->plan->arena;

    if (!budget)
        return arena + MORE * largest(s->g);
    return budget > resident + arena ? budget - resident : arena;
}

/* Makes a plan of the graph's nodes, of at most `limit` bytes; *fits says whether there is one. */
static weir_status plan_within(weir_graph *g, uint32_t passes, size_t limit, bool *fits)
{
    WEIR_TRY(weir_plan_lower(g, passes));
    WEIR_TRY(weir_plan_place_lowered(g, NULL, limit));
    *fits = g->plan->arena <= limit;
    return WEIR_OK;
}

static bool splits(const weir_interleaving *s)
{
    for (uint32_t i = 0; i < s->nodes.n; i++)
        if (s->nodes.at[i].op == WEIR_OP_ALL_REDUCE_WAIT)
            return true;
    return false;
}

/* Replaces the graph's list and plan by the new ones if they fit and are to be kept. */
static weir_status exchange(weir_interleaving *s, bool keep, bool *fits)
{
    weir_graph *const g = s->g;
    weir_plan *const  old = g->plan;
    const size_t      limit = arena_limit(s);

    swap_nodes(s);
    g->plan = NULL;
    const weir_status status = plan_within(g, old->passes, limit, fits);
    if (status == WEIR_OK && keep && *fits) {
        weir_plan_succeed(g->plan, old);
        g->plan->scheduled = s->from.at;
        memset(&s->from, 0, sizeof s->from);
        weir_vec_free(&s->nodes);       /* their attributes are in the new list */
        return WEIR_OK;
    }
    weir_plan_free(g->plan);
    g->plan = old;
    swap_nodes(s);
    return status;
}

/* Tries the collectives that may be started early. */
static weir_status try(weir_interleaving *s, bool keep, bool *fits)
{
    *fits = false;
    s->n_held = s->n_started = 0;
    weir_touched_clear(&s->t);
    weir_status status = interleave(s) ? WEIR_OK : WEIR_ERR_NOMEM;
    if (status == WEIR_OK && splits(s))
        status = exchange(s, keep, fits);
    drop_lists(s);
    return status;
}

static void set_all(weir_interleaving *s, bool may)
{
    for (uint32_t i = 0; i < s->g->nodes.n; i++)
        s->may[i] = may && s->g->nodes.at[i].op == WEIR_OP_ALL_REDUCE;
}

/* All collectives, with fewer and fewer under way. */
static weir_status try_all(weir_interleaving *s, bool *fits)
{
    static const uint32_t most[] = {MOST, MORE, 1};
    weir_status           status = WEIR_OK;

    set_all(s, true);
    for (size_t i = 0; i < sizeof most / sizeof *most && status == WEIR_OK && !*fits; i++) {
        s->most = most[i];
        status = try(s, true, fits);
    }
    return status;
}

/* Those that fit one beside the other, from the last on: a step has the most room where it has
 * freed what its forward part kept. */
static weir_status try_some(weir_interleaving *s)
{
    weir_status status = WEIR_OK;
    int         tries = 0;
    bool        fits;

    s->most = 1;
    set_all(s, false);
    for (uint32_t i = s->g->nodes.n; i-- > 0 && status == WEIR_OK && tries < TRIES;) {
        if (s->g->nodes.at[i].op != WEIR_OP_ALL_REDUCE)
            continue;
        s->may[i] = true;
        status = try(s, false, &fits);
        s->may[i] = fits;
        tries++;
    }
    return status == WEIR_OK ? try(s, true, &fits) : status;
}

static uint32_t stop_of(const weir_graph *g)
{
    uint32_t stop = WEIR_NONE;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].half == WEIR_FIRST_HALF)
            stop = i;
    return stop;
}

static bool has_any(const weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].op == WEIR_OP_ALL_REDUCE)
            return true;
    return false;
}

weir_status weir_plan_overlap_collectives(weir_graph *g)
{
    weir_interleaving s = {.g = g, .stop = stop_of(g)};
    bool              fits = false;

    if (!(g->plan->passes >> WEIR_PASS_OVERLAP & 1) || g->dev->ops->streams || !has_any(g))
        return WEIR_OK;
    s.may = weir_mem_alloc(g->nodes.n * sizeof *s.may);
    s.held = weir_mem_alloc(g->nodes.n * sizeof *s.held);
    weir_status status = weir_touched_open(&s.t, g->storages.n) && s.may && s.held
                             ? try_all(&s, &fits)
                             : WEIR_ERR_NOMEM;
    if (status == WEIR_OK && !fits && g->budget)
        status = try_some(&s);
    weir_mem_free(s.may);
    weir_mem_free(s.held);
    weir_touched_close(&s.t);
    return status;
}

void weir_plan_join_collectives(weir_graph *g)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        weir_node n = g->nodes.at[i];
        if (n.op == WEIR_OP_ALL_REDUCE_WAIT) {
            weir_mem_free(n.attr);
            continue;
        }
        if (n.op == WEIR_OP_ALL_REDUCE_START) {
            n.op = WEIR_OP_ALL_REDUCE;
            n.def = weir_opdef_of(n.op);
        }
        g->nodes.at[kept++] = n;
    }
    g->nodes.n = kept;
}
