/* optimal.c - the best plan of recomputation alone, by a solver: for graphs of up to a few hundred
 * ops, and as the reference by which other policies are measured.
 *
 * milp.h says among which plans it is the best. The search runs first: the solver starts from its
 * plan, which is the answer if the solver finds no better one. "nodes=N" stops the solver after N
 * branch-and-bound nodes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/problem/copy_streams.h"
#include "graph/memory/bounds/milp.h"

enum { MAX_OPS = 1000 };     /* its tables take memory quadratic in the ops */

static weir_status read_variant(const char *text, uint64_t *nodes)
{
    static const char key[] = "nodes=";
    char             *end = NULL;

    if (strncmp(text, key, sizeof key - 1) == 0)
        *nodes = strtoull(text + sizeof key - 1, &end, 10);
    if (*text && (!end || *end || *nodes == 0 || text[sizeof key - 1] == '-'))
        return weir_fail(WEIR_ERR_INVALID, "policy optimal: unknown variant '%s' (expected "
                                           "nodes=N with N > 0)", text);
    return WEIR_OK;
}

/* Replaces the job's schedule by the solver's if that is better. */
static weir_status take(weir_policy_job *job, const weir_recompute_milp *g)
{
    weir_schedule s;
    bool          ok = weir_schedule_init(&s, job->p) && weir_recompute_milp_schedule(g, &s) &&
              weir_schedule_end(&s, job->limit);

    if (ok && s.valid && s.peak <= job->limit &&
        (job->s.peak > job->limit || !job->s.valid || s.time < job->s.time)) {
        const weir_schedule worse = job->s;
        job->s = s;
        s = worse;
    }
    weir_schedule_free(&s);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

static weir_status solve(weir_policy_job *job, uint64_t nodes)
{
    weir_recompute_milp g;
    weir_bound          b;

    WEIR_TRY(weir_bound_of(job->p, job->limit, NULL, &b));
    weir_status status = weir_recompute_milp_build(&g, job->p, job->limit, b.op);
    if (status == WEIR_OK && job->s.valid && job->s.peak <= job->limit)
        weir_recompute_milp_start(&g, &job->s);
    if (status == WEIR_OK && g.begin < job->p->ops.n && isfinite(b.extra_seconds))
        weir_recompute_milp_lower_bound(&g, b.extra_seconds * (1 - 1e-9));
    g.m.nodes = nodes;
    if (status == WEIR_OK && g.begin < job->p->ops.n)
        status = weir_milp_solve(&g.m);
    if (status == WEIR_OK && g.m.found)
        status = take(job, &g);
    if (status == WEIR_OK)
        job->proven = fmax(0, g.m.proven * g.unit);
    weir_recompute_milp_free(&g);
    return status;
}

weir_status weir_policy_optimal(weir_policy_job *job)
{
    const char *const variant = job->variant;
    uint64_t          nodes = 0;

    WEIR_TRY(read_variant(variant, &nodes));
    if (job->p->ops.n > MAX_OPS)
        return weir_fail(WEIR_ERR_INVALID, "policy optimal: %u operations are more than its limit "
                         "of %d", job->p->ops.n, MAX_OPS);
    WEIR_TRY(weir_highs_require());
    job->variant = "recompute";
    const weir_status status = weir_policy_auto(job);
    job->variant = variant;
    return status == WEIR_OK ? solve(job, nodes) : status;
}
