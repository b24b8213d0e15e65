/* bound_branch.c - branch and bound over the cuts of one moment.
 *
 * The bound of a cut mixes a choice that fits with one that does not. A task over which they
 * disagree is fixed either way, and each half bounded anew; the half with the lower bound goes on
 * first. What is still open when the count is used up bounds the answer. */
#include "graph/memory/bounds/bound_branch.h"

#include <math.h>
#include <string.h>

typedef struct weir_branch {
    double   bound;
    uint32_t parent;            /* branch, WEIR_NO_TASK: none */
    uint32_t task;              /* fixed here, beyond what the parents fix */
    uint32_t open;              /* to be fixed next */
    uint8_t  fix;
    bool     done;
} weir_branch;

typedef struct weir_brancher {
    weir_cut *c;
    size_t    budget;
    double    best;             /* seconds of the cheapest choice that fits */
    double    closed;           /* lowest bound of a branch with nothing left to fix */
    uint8_t  *fate, *again;     /* of that choice */
    WEIR_VEC(weir_branch) branches;
} weir_brancher;

/* Bounds the choices with the parent's fixings and one more. */
static bool grow(weir_brancher *b, uint32_t parent, uint32_t task, uint8_t fix)
{
    weir_cut *const c = b->c;
    const bool      root = parent == WEIR_NO_TASK;

    memset(c->fixed, WEIR_CUT_FREE, c->p->tasks.n);
    if (!root)
        c->fixed[task] = fix;
    for (uint32_t i = parent; i != WEIR_NO_TASK && b->branches.at[i].parent != WEIR_NO_TASK;
         i = b->branches.at[i].parent)
        c->fixed[b->branches.at[i].task] = b->branches.at[i].fix;
    if (!weir_cut_solve(c, b->budget, 0))
        return false;
    const double bound = root ? c->extra : fmax(c->extra, b->branches.at[parent].bound);
    if (c->seconds < b->best || root) {
        b->best = c->seconds;
        memcpy(b->fate, c->fate, c->p->pieces.n);
        memcpy(b->again, c->again, c->p->tasks.n);
    }
    if (c->open == WEIR_NO_TASK)
        b->closed = fmin(b->closed, bound);
    if (c->open == WEIR_NO_TASK || bound >= b->best)
        return true;
    return weir_vec_push(&b->branches, (weir_branch){bound, parent, task, c->open, fix, false});
}

/* The branch with the lowest bound; WEIR_NO_TASK if all are done. */
static uint32_t lowest(const weir_brancher *b)
{
    uint32_t low = WEIR_NO_TASK;

    for (uint32_t i = 0; i < b->branches.n; i++)
        if (!b->branches.at[i].done &&
            (low == WEIR_NO_TASK || b->branches.at[i].bound < b->branches.at[low].bound))
            low = i;
    return low;
}

bool weir_cut_close(weir_cut *c, size_t budget, uint32_t most, double *extra)
{
    weir_brancher b = {.c = c, .budget = budget, .best = INFINITY, .closed = INFINITY};
    uint32_t      at = WEIR_NO_TASK;

    b.fate = weir_mem_zalloc(c->p->pieces.n + 1u, 1);
    b.again = weir_mem_zalloc(c->p->tasks.n + 1u, 1);
    bool ok = b.fate && b.again && grow(&b, WEIR_NO_TASK, 0, WEIR_CUT_FREE);
    for (uint32_t n = 0; ok && (at = lowest(&b)) != WEIR_NO_TASK; n += 2) {
        const weir_branch from = b.branches.at[at];
        if (n >= most || from.bound >= b.best)
            break;
        b.branches.at[at].done = true;
        ok = grow(&b, at, from.open, WEIR_CUT_NEVER) && grow(&b, at, from.open, WEIR_CUT_ALWAYS);
    }
    *extra = fmin(b.best, b.closed);
    if (ok && at != WEIR_NO_TASK)
        *extra = fmin(*extra, b.branches.at[at].bound);
    memset(c->fixed, WEIR_CUT_FREE, c->p->tasks.n);
    if (ok) {
        memcpy(c->fate, b.fate, c->p->pieces.n);
        memcpy(c->again, b.again, c->p->tasks.n);
        c->seconds = b.best;
    }
    weir_mem_free(b.fate);
    weir_mem_free(b.again);
    weir_vec_free(&b.branches);
    return ok;
}
