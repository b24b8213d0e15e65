/* order.c - dependencies of the recorded list, and an order with a small peak.
 *
 * List scheduling: of the calls that are ready, one that frees at least as much as it allocates
 * goes first (updates and accumulations, so that gradients of all parameters never coexist);
 * otherwise the one recorded first. The recorded order is kept when the new one's peak is larger;
 * of equal ones the new one leaves more room for workspaces, which are not counted here. What a
 * checkpoint runs again stays behind the call recorded before it: its inputs are there long before
 * its gradient comes, and started early it would save nothing. */
#include <string.h>

#include "core/status.h"
#include "graph/passes.h"

/* ---- dependencies ---- */

typedef struct weir_edge {
    uint32_t from, to;
} weir_edge;

typedef WEIR_VEC(weir_edge) weir_edges;

typedef struct weir_access {
    uint32_t writer;        /* last node that wrote the storage */
    uint32_t reads;         /* head of a list of readers since */
} weir_access;

typedef struct weir_reader {
    uint32_t node, next;
} weir_reader;

typedef struct weir_deps_work {
    weir_edges            edges;
    weir_access          *access;
    WEIR_VEC(weir_reader) readers;
    uint32_t              caller;   /* last node that runs the caller's code */
    uint32_t              segment;  /* the newest second run so far, and the node before it */
    uint32_t              gate;
} weir_deps_work;

static bool add_edge(weir_deps_work *w, uint32_t from, uint32_t to)
{
    return from == WEIR_NONE || from == to || weir_vec_push(&w->edges, (weir_edge){from, to});
}

static bool note_read(weir_deps_work *w, uint32_t store, uint32_t node)
{
    weir_access *a = &w->access[store];

    if (!add_edge(w, a->writer, node) ||
        !weir_vec_push(&w->readers, (weir_reader){node, a->reads}))
        return false;
    a->reads = w->readers.n - 1;
    return true;
}

static bool note_write(weir_deps_work *w, uint32_t store, uint32_t node)
{
    weir_access *a = &w->access[store];

    for (uint32_t r = a->reads; r != WEIR_NONE; r = w->readers.at[r].next)
        if (!add_edge(w, w->readers.at[r].node, node))
            return false;
    if (!add_edge(w, a->writer, node))
        return false;
    *a = (weir_access){node, WEIR_NONE};
    return true;
}

/* Second runs are numbered in recorded order. */
static bool note_segment(weir_deps_work *w, const weir_node *n, uint32_t i)
{
    if (n->segment > w->segment) {
        w->segment = n->segment;
        w->gate = i > 0 ? i - 1 : WEIR_NONE;
    }
    return n->segment == 0 || n->segment != w->segment || add_edge(w, w->gate, i);
}

static bool note_node(weir_deps_work *w, const weir_graph *g, uint32_t i)
{
    const weir_node *n = &g->nodes.at[i];
    const uint32_t   mutates = weir_opdefs[n->op]->mutates;

    if (weir_opdefs[n->op]->flags & WEIR_CALLER) {
        if (!add_edge(w, w->caller, i))
            return false;
        w->caller = i;
    }
    if (!note_segment(w, n, i))
        return false;
    for (int k = 0; k < n->nin; k++)
        if (!note_read(w, weir_store_of(g, n->in[k]), i))
            return false;
    for (int k = 0; k < n->nin; k++)
        if (mutates >> k & 1 && !note_write(w, weir_store_of(g, n->in[k]), i))
            return false;
    for (int k = 0; k < n->nout; k++)
        if (!note_write(w, weir_store_of(g, n->out[k]), i))
            return false;
    return true;
}

static bool to_csr(const weir_edges *e, uint32_t n, weir_deps *d)
{
    d->first = weir_mem_zalloc(n + 2, sizeof *d->first);
    d->to = weir_mem_alloc((e->n + 1) * sizeof *d->to);
    d->indegree = weir_mem_zalloc(n + 1, sizeof *d->indegree);
    if (!d->first || !d->to || !d->indegree)
        return false;
    for (uint32_t i = 0; i < e->n; i++) {
        d->first[e->at[i].from + 2]++;
        d->indegree[e->at[i].to]++;
    }
    for (uint32_t i = 0; i < n; i++)
        d->first[i + 2] += d->first[i + 1];
    for (uint32_t i = 0; i < e->n; i++)
        d->to[d->first[e->at[i].from + 1]++] = e->at[i].to;
    return true;
}

void weir_deps_free(weir_deps *d)
{
    weir_mem_free(d->first);
    weir_mem_free(d->to);
    weir_mem_free(d->indegree);
    *d = (weir_deps){0};
}

weir_status weir_deps_of(const weir_graph *g, weir_deps *d)
{
    weir_deps_work w = {.caller = WEIR_NONE, .gate = WEIR_NONE};
    bool           ok = false;

    *d = (weir_deps){0};
    w.access = weir_mem_alloc((g->stores.n + 1) * sizeof *w.access);
    if (w.access) {
        memset(w.access, 0xff, (g->stores.n + 1) * sizeof *w.access);
        ok = true;
        for (uint32_t i = 0; i < g->nodes.n && ok; i++)
            ok = note_node(&w, g, i);
        ok = ok && to_csr(&w.edges, g->nodes.n, d);
    }
    weir_mem_free(w.access);
    weir_vec_free(&w.edges);
    weir_vec_free(&w.readers);
    if (!ok)
        weir_deps_free(d);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

/* ---- scheduling ---- */

typedef struct weir_scheduler {
    const weir_graph *g;
    uint32_t         *left;     /* [stores] nodes that still have to read it */
    uint32_t         *order;    /* [nodes] the answer */
    uint32_t         *ready;    /* nodes whose predecessors are done, by number */
    uint32_t          nready;
    uint32_t         *waits;    /* [nodes] predecessors not done */
} weir_scheduler;

/* Counts distinct storages only: a node may read one twice. */
static bool first_use(const weir_graph *g, const weir_node *n, int k)
{
    for (int j = 0; j < k; j++)
        if (weir_store_of(g, n->in[j]) == weir_store_of(g, n->in[k]))
            return false;
    return true;
}

static void count_readers(const weir_graph *g, uint32_t *left)
{
    memset(left, 0, g->stores.n * sizeof *left);
    for (uint32_t i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.at[i].nin; k++)
            left[weir_store_of(g, g->nodes.at[i].in[k])] += first_use(g, &g->nodes.at[i], k);
}

static int64_t allocates(const weir_graph *g, const weir_node *n)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nout; k++)
        if (!weir_store_at(g, n->out[k])->external)
            bytes += (int64_t)weir_store_at(g, n->out[k])->bytes;
    return bytes;
}

static int64_t frees(const weir_graph *g, const weir_node *n, const uint32_t *left)
{
    int64_t bytes = 0;
    for (int k = 0; k < n->nin; k++) {
        const weir_store *s = weir_store_at(g, n->in[k]);
        if (!s->external && left[weir_store_of(g, n->in[k])] == 1 && first_use(g, n, k))
            bytes += (int64_t)s->bytes;
    }
    return bytes;
}

static void run_node(const weir_graph *g, const weir_node *n, uint32_t *left, int64_t *live)
{
    *live -= frees(g, n, left);
    for (int k = 0; k < n->nin; k++)
        left[weir_store_of(g, n->in[k])] -= first_use(g, n, k);
    for (int k = 0; k < n->nout; k++)       /* made and never read: gone at once */
        if (!weir_store_at(g, n->out[k])->external && left[weir_store_of(g, n->out[k])] == 0)
            *live -= (int64_t)weir_store_at(g, n->out[k])->bytes;
}

/* Largest sum of live temporaries over an order. order NULL: as listed. */
static int64_t peak_of(const weir_graph *g, const uint32_t *order, uint32_t *left)
{
    int64_t live = 0, peak = 0;

    count_readers(g, left);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[order ? order[i] : i];
        live += allocates(g, n);
        peak = live > peak ? live : peak;
        run_node(g, n, left, &live);
    }
    return peak;
}

/* ready[] stays sorted by node number. */
static void make_ready(weir_scheduler *s, uint32_t node)
{
    uint32_t i = s->nready++;
    for (; i > 0 && s->ready[i - 1] > node; i--)
        s->ready[i] = s->ready[i - 1];
    s->ready[i] = node;
}

static uint32_t choose(weir_scheduler *s)
{
    uint32_t best = 0;

    for (uint32_t i = 0; i < s->nready; i++) {
        const weir_node *n = &s->g->nodes.at[s->ready[i]];
        if (allocates(s->g, n) <= frees(s->g, n, s->left)) {
            best = i;
            break;
        }
    }
    const uint32_t node = s->ready[best];
    memmove(&s->ready[best], &s->ready[best + 1], (s->nready - best - 1) * sizeof *s->ready);
    s->nready--;
    return node;
}

static void schedule(weir_scheduler *s, const weir_deps *d)
{
    int64_t live = 0;

    memcpy(s->waits, d->indegree, s->g->nodes.n * sizeof *s->waits);
    for (uint32_t i = 0; i < s->g->nodes.n; i++)
        if (s->waits[i] == 0)
            make_ready(s, i);
    for (uint32_t done = 0; done < s->g->nodes.n; done++) {
        const uint32_t node = choose(s);
        s->order[done] = node;
        run_node(s->g, &s->g->nodes.at[node], s->left, &live);
        for (uint32_t e = d->first[node]; e < d->first[node + 1]; e++)
            if (--s->waits[d->to[e]] == 0)
                make_ready(s, d->to[e]);
    }
}

static weir_status apply_order(weir_graph *g, const uint32_t *order)
{
    weir_node *nodes = weir_mem_alloc((g->nodes.n + 1) * sizeof *nodes);

    if (!nodes)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        nodes[i] = g->nodes.at[order[i]];
    if (g->nodes.n > 0)                 /* an empty list is at NULL, which memcpy does not take */
        memcpy(g->nodes.at, nodes, g->nodes.n * sizeof *nodes);
    weir_mem_free(nodes);
    return WEIR_OK;
}

weir_status weir_pass_order(weir_graph *g)
{
    const uint32_t n = g->nodes.n;
    weir_scheduler s = {.g = g};
    weir_deps      d;

    WEIR_TRY(weir_deps_of(g, &d));
    s.left = weir_mem_alloc((g->stores.n + 1) * sizeof *s.left);
    s.order = weir_mem_alloc((n + 1) * sizeof *s.order);
    s.ready = weir_mem_alloc((n + 1) * sizeof *s.ready);
    s.waits = weir_mem_alloc((n + 1) * sizeof *s.waits);
    weir_status status = WEIR_ERR_NOMEM;
    if (s.left && s.order && s.ready && s.waits) {
        const int64_t recorded = peak_of(g, NULL, s.left);
        count_readers(g, s.left);
        schedule(&s, &d);
        status = peak_of(g, s.order, s.left) <= recorded ? apply_order(g, s.order) : WEIR_OK;
    }
    weir_mem_free(s.left);
    weir_mem_free(s.order);
    weir_mem_free(s.ready);
    weir_mem_free(s.waits);
    weir_deps_free(&d);
    return status;
}
