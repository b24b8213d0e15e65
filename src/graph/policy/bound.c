/* bound.c - the best of many cuts: any set of moments gives a valid bound.
 *
 * A grid over the step, then ever smaller steps around the best moment of the grid; usually that is
 * where forward meets backward. A count, so the answer is reproducible. */
#include "graph/policy/bound.h"

#include <math.h>

enum { MOST_GRID = 32 };

typedef struct weir_bounder {
    weir_cut    cut;
    weir_bound *b;
    size_t      budget;
    uint32_t    fewest_task;        /* where feasible_bytes was found */
} weir_bounder;

static bool look(weir_bounder *r, uint32_t task)
{
    weir_bound *const b = r->b;

    if (!weir_cut_at(&r->cut, task))
        return false;
    if (r->cut.least > b->feasible_bytes) {
        b->feasible_bytes = r->cut.least;
        r->fewest_task = task;
    }
    if (r->cut.all <= r->budget)
        return true;
    if (!weir_cut_solve(&r->cut, r->budget, b->extra_seconds))
        return false;
    if (r->cut.extra > b->extra_seconds) {
        b->extra_seconds = r->cut.extra;
        b->task = task;
    }
    return true;
}

/* Moments at half the distance on either side of the best, until there is no other between. */
static bool refine(weir_bounder *r, uint32_t step, const uint32_t *best)
{
    for (; step > 0; step /= 2) {
        const uint32_t at = *best;
        if (at >= step && !look(r, at - step))
            return false;
        if (at + step < r->cut.p->tasks.n && !look(r, at + step))
            return false;
    }
    return true;
}

static bool look_everywhere(weir_bounder *r)
{
    const uint32_t n = r->cut.p->tasks.n, step = (n + MOST_GRID - 1) / MOST_GRID;

    for (uint32_t i = 0; i < n; i += step)
        if (!look(r, i))
            return false;
    return refine(r, step / 2, &r->b->task) && refine(r, step / 2, &r->fewest_task);
}

size_t weir_bound_floor(const weir_problem *p, const weir_levers *levers)
{
    size_t most = 0;

    for (uint32_t i = 0; i < p->tasks.n; i++) {
        const size_t bytes = weir_cut_must(p, levers, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

weir_status weir_bound_of(const weir_problem *p, size_t budget, const weir_levers *levers,
                          weir_bound *b)
{
    weir_bounder r = {.b = b, .budget = budget};
    bool         ok = weir_cut_init(&r.cut, p, levers);

    *b = (weir_bound){.feasible_bytes = weir_bound_floor(p, levers)};
    ok = ok && look_everywhere(&r);
    const size_t away = levers ? levers->away : 0;
    b->feasible_bytes -= away < b->feasible_bytes ? away : b->feasible_bytes;
    if (budget < b->feasible_bytes)
        b->extra_seconds = INFINITY;
    weir_cut_free(&r.cut);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}
