/* bound_branch.c - best-first branch and bound over the choices at one moment.
 *
 * The maximum of the Lagrangian lies between a choice that fits and one that does not. An op that
 * only one of the two recomputes is fixed either way, and both subproblems are bounded again; the
 * open subproblem with the lowest bound is split next. After `most` subproblems, the lowest open
 * bound is the answer. */
#include "graph/memory/bounds/bound_branch.h"

#include <math.h>
#include <string.h>

typedef struct weir_branch_node {
    double   bound;
    uint32_t parent; /* index in branches; WEIR_NO_OP: the root */
    uint32_t op;     /* fixed here, in addition to what the ancestors fix */
    uint32_t open;   /* the op to fix next */
    uint8_t  fix;
    bool     done;
} weir_branch_node;

typedef struct weir_branch_state {
    weir_mincut_bound         *c;
    size_t                     budget;
    double                     best;   /* seconds of the cheapest choice so far that fits */
    /* lowest bound of a subproblem that cannot be split further */
    double                     closed;
    uint8_t                   *fate, *recomputed; /* of that cheapest choice */
    WEIR_VEC(weir_branch_node) branches;
} weir_branch_state;

/* Bounds the parent's subproblem with one more op fixed, and adds it if it may hold a better
 * choice. */
static bool bound_subproblem(weir_branch_state *b, uint32_t parent, uint32_t op, uint8_t fix)
{
    weir_mincut_bound *const c = b->c;
    const bool               root = parent == WEIR_NO_OP;

    memset(c->fixed, WEIR_MINCUT_FREE, c->p->ops.n);
    if (!root)
        c->fixed[op] = fix;
    for (uint32_t i = parent; i != WEIR_NO_OP && b->branches.at[i].parent != WEIR_NO_OP;
         i = b->branches.at[i].parent)
        c->fixed[b->branches.at[i].op] = b->branches.at[i].fix;
    if (!weir_mincut_bound_solve(c, b->budget, 0))
        return false;
    const double bound = root ? c->extra : fmax(c->extra, b->branches.at[parent].bound);
    if (c->seconds < b->best || root) {
        b->best = c->seconds;
        memcpy(b->fate, c->fate, c->p->tensors.n);
        memcpy(b->recomputed, c->recomputed, c->p->ops.n);
    }
    if (c->open == WEIR_NO_OP)
        b->closed = fmin(b->closed, bound);
    if (c->open == WEIR_NO_OP || bound >= b->best)
        return true;
    return weir_vec_push(&b->branches, (weir_branch_node){bound, parent, op, c->open, fix, false});
}

/* Returns the open subproblem with the lowest bound; WEIR_NO_OP if none is open. */
static uint32_t lowest(const weir_branch_state *b)
{
    uint32_t low = WEIR_NO_OP;

    for (uint32_t i = 0; i < b->branches.n; i++)
        if (!b->branches.at[i].done &&
            (low == WEIR_NO_OP || b->branches.at[i].bound < b->branches.at[low].bound))
            low = i;
    return low;
}

bool weir_bound_branch(weir_mincut_bound *c, size_t budget, uint32_t most, double *extra)
{
    weir_branch_state b = {.c = c, .budget = budget, .best = INFINITY, .closed = INFINITY};
    uint32_t          at = WEIR_NO_OP;

    b.fate = weir_mem_zalloc(c->p->tensors.n + 1u, 1);
    b.recomputed = weir_mem_zalloc(c->p->ops.n + 1u, 1);
    bool ok = b.fate && b.recomputed && bound_subproblem(&b, WEIR_NO_OP, 0, WEIR_MINCUT_FREE);
    for (uint32_t n = 0; ok && (at = lowest(&b)) != WEIR_NO_OP; n += 2) {
        const weir_branch_node from = b.branches.at[at];
        if (n >= most || from.bound >= b.best)
            break;
        b.branches.at[at].done = true;
        ok = bound_subproblem(&b, at, from.open, WEIR_MINCUT_NEVER) &&
             bound_subproblem(&b, at, from.open, WEIR_MINCUT_ALWAYS);
    }
    *extra = fmin(b.best, b.closed);
    if (ok && at != WEIR_NO_OP)
        *extra = fmin(*extra, b.branches.at[at].bound);
    memset(c->fixed, WEIR_MINCUT_FREE, c->p->ops.n);
    if (ok) {
        memcpy(c->fate, b.fate, c->p->tensors.n);
        memcpy(c->recomputed, b.recomputed, c->p->ops.n);
        c->seconds = b.best;
    }
    weir_mem_free(b.fate);
    weir_mem_free(b.recomputed);
    weir_vec_free(&b.branches);
    return ok;
}
