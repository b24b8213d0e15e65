/* bound.c - the best of many minimum cuts (mincut_bound.h): every moment gives a valid bound.
 *
 * First a grid of moments over the step, then ever smaller steps around the best one of the grid,
 * which usually lies where the forward pass meets the backward pass. Then chains of moments: reruns
 * counted at one moment lie before the next moment of the chain, so that no rerun is counted twice
 * and the bounds of a chain's links add up. Dynamic programming from the end finds the best chain.
 * All work is limited by counts, never by a clock, so the answer is reproducible. */
#include "graph/memory/bounds/bound.h"

#include <math.h>

#include "graph/memory/bounds/bound_branch.h"

enum { MOST_GRID = 32, MOST_CHAIN = 32, LEAST_CHAIN = 10, CHAIN_WORK = 32000 };
/* limit of: ops in a network, times cuts solved in bound_branch.h */
enum { BRANCH_WORK = 50000 };

typedef struct weir_bound_state {
    weir_mincut_bound cut;
    weir_bound       *b;
    size_t            budget;
    uint32_t          fewest_op; /* the op whose moment gave feasible_bytes */
} weir_bound_state;

static bool try_moment(weir_bound_state *r, uint32_t op)
{
    weir_bound *const b = r->b;

    if (!weir_mincut_bound_at(&r->cut, op, r->cut.p->ops.n))
        return false;
    if (r->cut.least > b->feasible_bytes) {
        b->feasible_bytes = r->cut.least;
        r->fewest_op = op;
    }
    if (r->cut.all <= r->budget)
        return true;
    if (!weir_mincut_bound_solve(&r->cut, r->budget, b->extra_seconds))
        return false;
    if (r->cut.extra > b->extra_seconds) {
        b->extra_seconds = r->cut.extra;
        b->op = op;
    }
    return true;
}

/* Tries moments at half the distance on either side of the best one, down to its neighbours. */
static bool refine(weir_bound_state *r, uint32_t step, const uint32_t *best)
{
    for (; step > 0; step /= 2) {
        const uint32_t at = *best;
        if (at >= step && !try_moment(r, at - step))
            return false;
        if (at + step < r->cut.p->ops.n && !try_moment(r, at + step))
            return false;
    }
    return true;
}

static bool try_moments(weir_bound_state *r)
{
    const uint32_t n = r->cut.p->ops.n, step = (n + MOST_GRID - 1) / MOST_GRID;

    for (uint32_t i = 0; i < n; i += step)
        if (!try_moment(r, i))
            return false;
    return refine(r, step / 2, &r->b->op) && refine(r, step / 2, &r->fewest_op);
}

/* Chooses the moments of a chain: evenly spaced ones, and the best one. Returns their number. */
static uint32_t chain_moments(const weir_bound_state *r, uint32_t at[MOST_CHAIN + 2])
{
    const uint32_t n = r->cut.p->ops.n;
    const uint32_t most = n <= CHAIN_WORK / MOST_CHAIN ? MOST_CHAIN
                          : n < CHAIN_WORK / LEAST_CHAIN ? CHAIN_WORK / n : LEAST_CHAIN;
    uint32_t       count = 0;

    for (uint32_t i = 0; i < most; i++) {
        const uint32_t op = (uint32_t)((uint64_t)i * n / most);
        const uint32_t next = (uint32_t)((uint64_t)(i + 1) * n / most);
        if (op == next)
            continue;
        at[count++] = op;
        if (r->b->op > op && r->b->op < next)
            at[count++] = r->b->op;
    }
    return count;
}

typedef struct weir_chain {
    uint32_t at[MOST_CHAIN + 2], count;     /* moments; then the end of the step */
    /* best sum of a chain that begins at this moment or later */
    double   best[MOST_CHAIN + 2];
    /* next moment of that chain; the moment itself: it is skipped */
    uint32_t to[MOST_CHAIN + 2];
} weir_chain;

/* Finds the best chain, from the last moment back to the first. */
static bool find_best_chain(weir_bound_state *r, weir_chain *h)
{
    h->count = chain_moments(r, h->at);
    h->at[h->count] = r->cut.p->ops.n;
    h->best[h->count] = 0;
    for (uint32_t i = h->count; i-- > 0;) {
        h->best[i] = h->best[i + 1];
        h->to[i] = i;
        for (uint32_t j = h->count; j > i; j--) {
            if (!weir_mincut_bound_at(&r->cut, h->at[i], h->at[j]))
                return false;
            if (r->cut.all <= r->budget)
                break;                      /* an earlier end excludes nothing either */
            if (!weir_mincut_bound_solve(&r->cut, r->budget, h->best[i] - h->best[j]))
                return false;
            if (r->cut.extra + h->best[j] > h->best[i]) {
                h->best[i] = r->cut.extra + h->best[j];
                h->to[i] = j;
            }
        }
    }
    r->b->extra_seconds = fmax(r->b->extra_seconds, h->best[0]);
    return true;
}

/* Tightens each link of the best chain by branch and bound, where tensors are kept whole. */
static bool tighten_chain(weir_bound_state *r, const weir_chain *h)
{
    double whole = 0;

    for (uint32_t i = 0; i < h->count; i = h->to[i] == i ? i + 1 : h->to[i]) {
        double extra;
        if (h->to[i] == i)
            continue;
        if (!weir_mincut_bound_at(&r->cut, h->at[i], h->at[h->to[i]]) ||
            !weir_bound_branch(&r->cut, r->budget, BRANCH_WORK / (r->cut.ops.n + 1), &extra))
            return false;
        whole += extra;
    }
    r->b->extra_seconds = fmax(r->b->extra_seconds, whole);
    return true;
}

weir_levers weir_levers_of(const weir_mem_problem *p)
{
    const bool linked = p->link_out > 0 && p->link_in > 0;
    return (weir_levers){.link = linked ? p->link_out : 0, .pack = p->pack_bandwidth > 0};
}

size_t weir_bound_floor(const weir_mem_problem *p, const weir_levers *levers)
{
    size_t most = 0;

    for (uint32_t i = 0; i < p->ops.n; i++) {
        const size_t bytes = weir_mincut_bound_required(p, levers, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

bool weir_bound_excludes(const weir_mem_problem *p, size_t budget)
{
    const weir_levers levers = weir_levers_of(p);
    return weir_bound_floor(p, &levers) > budget;
}

static weir_status bound(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                         bool quick, weir_bound *b)
{
    weir_bound_state r = {.b = b, .budget = budget};
    weir_chain       chain;
    bool             ok = weir_mincut_bound_init(&r.cut, p, levers);
    /* bytes offloaded early count in every link, so links do not add up */
    const bool       link = levers && levers->link > 0;

    *b = (weir_bound){.feasible_bytes = weir_bound_floor(p, levers)};
    ok = ok && try_moments(&r);
    if (ok && isfinite(b->extra_seconds) && !quick && !link)
        ok = find_best_chain(&r, &chain) && tighten_chain(&r, &chain);
    if (budget < b->feasible_bytes)
        b->extra_seconds = INFINITY;
    weir_mincut_bound_free(&r.cut);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_bound_of(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                          weir_bound *b)
{
    return bound(p, budget, levers, false, b);
}

weir_status weir_bound_quick(const weir_mem_problem *p, size_t budget, const weir_levers *levers,
                             weir_bound *b)
{
    return bound(p, budget, levers, true, b);
}
