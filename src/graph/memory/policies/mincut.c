/* mincut.c - turns a minimum cut into a plan: what the cut does not keep is dropped over the
 * interval in which it would be idle across the moment.
 *
 * The partitioner is that of He and Yu, "Transcending runtime-memory tradeoffs in checkpointing by
 * being fusion aware" (MLSys 2023; PyTorch's AOTAutograd), but it minimises seconds of
 * recomputation instead of bytes kept, and takes a number of bytes instead of a list of ops that
 * may be repeated. A cut sees only one moment, so its target is lowered until the peak of the
 * schedule fits. */
#include "graph/memory/policies/mincut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/bounds/bound_branch.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/search.h"

/* limit of: ops in a network, times cuts solved in bound_branch.h */
enum { BRANCH_WORK = 4000 };

typedef struct weir_mincut_state {
    weir_lower_state *w;
    weir_mincut_bound cut;
    size_t            budget;
    uint8_t          *decisions, *best; /* [intervals] the current plan, the best so far */
    size_t            best_peak;
    double            best_extra;
} weir_mincut_state;

/* Keeps the inputs of a repeated op that nothing recomputes, even after their last use. */
static void keep_inputs(weir_mincut_state *m, uint32_t op)
{
    const weir_mem_problem *p = m->w->p;
    const weir_index_range  in = p->ops.at[op].in;

    for (uint32_t i = 0; i < in.n; i++) {
        const uint32_t         k = weir_refs(p, in)[i];
        const weir_index_range uses = p->tensors.at[k].uses;
        if (!weir_mem_tensor_is_resident(p, k) && m->cut.fate[k] != WEIR_MINCUT_RECOMPUTED &&
            weir_refs(p, uses)[uses.n - 1] <= m->cut.stage)
            m->decisions[m->w->first_interval[k] + uses.n] = WEIR_KEEP_FOR_RECOMPUTE;
    }
}

/* Applies the choice of the cut; keeps everything else. */
static void decide(weir_mincut_state *m)
{
    const weir_mem_problem *p = m->w->p;

    memset(m->decisions, WEIR_KEEP, m->w->intervals);
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_index_range uses = p->tensors.at[k].uses;
        uint32_t               j = 0;
        while (j < uses.n && weir_refs(p, uses)[j] <= m->cut.stage)
            j++;
        if (m->cut.fate[k] == WEIR_MINCUT_RECOMPUTED && j < uses.n)
            m->decisions[m->w->first_interval[k] + j] = WEIR_RECOMPUTE;
    }
    for (uint32_t i = 0; i < p->ops.n; i++)
        if (m->cut.recomputed[i])
            keep_inputs(m, i);
}

/* Tries the plan for `target` bytes at that moment, from a single cut (most = 0) or with branching:
 * either may need less elsewhere. Records it if it is the best so far. */
static bool try_target(weir_mincut_state *m, uint32_t stage, size_t target, uint32_t most)
{
    weir_lower_state *const w = m->w;
    double                  extra;

    if (!weir_mincut_bound_at(&m->cut, stage, w->p->ops.n) ||
        !weir_bound_branch(&m->cut, target, most / (m->cut.ops.n + 1), &extra))
        return false;
    decide(m);
    if (!weir_lower(w, m->decisions))
        return false;
    const bool fits = w->peak <= m->budget, best_fits = m->best_peak <= m->budget;
    if (w->valid && (fits ? !best_fits || w->extra < m->best_extra
                          : !best_fits && w->peak < m->best_peak)) {
        memcpy(m->best, m->decisions, w->intervals);
        m->best_peak = w->peak;
        m->best_extra = w->extra;
    }
    return true;
}

/* Bisects for the largest target whose schedule fits: peaks rise with the target, if not
 * strictly. */
static bool search_target(weir_mincut_state *m, uint32_t stage, uint32_t most)
{
    enum { TRIES = 10 };
    size_t low = 0, high = m->budget, target = high;

    for (int i = 0; i < TRIES && low < high; i++) {
        if (!try_target(m, stage, target, most))
            return false;
        if (m->w->peak <= m->budget)
            low = target;
        else
            high = target;
        if (target == m->budget && low == target)
            break;                          /* everything fits */
        target = low + (high - low) / 2;
    }
    return true;
}

/* An op's seconds per byte that it moves, and these bytes. */
typedef struct weir_price {
    double seconds, bytes;      /* seconds per byte; bytes */
} weir_price;

static int by_price(const void *a, const void *b)
{
    const weir_price *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

static double bytes_moved(const weir_mem_problem *p, const weir_mem_op *t)
{
    double bytes = 0;
    for (uint32_t i = 0; i < t->in.n; i++)
        bytes += (double)p->tensors.at[weir_refs(p, t->in)[i]].bytes;
    for (uint32_t i = 0; i < t->out.n; i++)
        bytes += (double)p->tensors.at[weir_refs(p, t->out)[i]].bytes;
    return bytes;
}

/* Marks ops that compute: those whose seconds per byte exceed twice the median over all bytes. */
static bool mark_computing(const weir_mem_problem *p, bool *banned)
{
    weir_price *const price = weir_mem_alloc((p->ops.n + 1u) * sizeof *price);
    double            whole = 0, part = 0;
    uint32_t          n = 0, i = 0;

    if (!price)
        return false;
    for (uint32_t t = 0; t < p->ops.n; t++) {
        const double bytes = bytes_moved(p, &p->ops.at[t]);
        whole += bytes;
        if (bytes > 0)
            price[n++] = (weir_price){p->ops.at[t].time / bytes, bytes};
    }
    qsort(price, n, sizeof *price, by_price);
    for (; i + 1 < n && part + price[i].bytes < whole / 2; i++)
        part += price[i].bytes;
    for (uint32_t t = 0; t < p->ops.n && n > 0; t++)
        banned[t] = p->ops.at[t].time > 2 * price[i].seconds * bytes_moved(p, &p->ops.at[t]);
    weir_mem_free(price);
    return true;
}

/* Finds the moment across which the most bytes are live, the end of the forward pass, and these
 * bytes. */
static bool fullest(const weir_mem_problem *p, uint32_t *stage, size_t *bytes)
{
    int64_t *const change = weir_mem_zalloc(p->ops.n + 2u, sizeof *change);
    int64_t        live = 0, most = -1;

    if (!change)
        return false;
    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *tensor = &p->tensors.at[k];
        if (weir_mem_tensor_is_resident(p, k))
            continue;
        const uint32_t n = tensor->uses.n;
        const uint32_t read = n ? weir_refs(p, tensor->uses)[n - 1] : 0;
        const uint32_t last = tensor->output ? p->ops.n : read;
        if (last <= tensor->producer)
            continue;
        change[tensor->producer + 1] += (int64_t)tensor->bytes;
        change[last] -= (int64_t)tensor->bytes;
    }
    for (uint32_t i = 0; i < p->ops.n; i++) {
        live += change[i];
        if (live > most) {
            most = live;
            *stage = i;
        }
    }
    *bytes = most > 0 ? (size_t)most : 0;
    weir_mem_free(change);
    return true;
}

/* Takes the bytes live across the fullest moment, times the ratio, as the target. */
static bool run_ratio(weir_mincut_state *m, double ratio)
{
    const weir_mem_problem *p = m->w->p;
    bool *const         banned = weir_mem_zalloc(p->ops.n + 1u, sizeof *banned);
    uint32_t            stage = 0;
    size_t              bytes;
    bool                ok = banned && fullest(p, &stage, &bytes) && mark_computing(p, banned);

    if (ok) {
        m->cut.levers.banned = banned;
        ok = weir_mincut_bound_at(&m->cut, stage, p->ops.n);
    }
    if (ok) {
        const size_t idle = m->cut.all - m->cut.own;
        ok = try_target(m, stage, m->cut.own + (size_t)(ratio * (double)idle), BRANCH_WORK);
    }
    m->cut.levers.banned = NULL;
    weir_mem_free(banned);
    return ok;
}

/* Tries the fullest moment and the moment of the best bound. */
static bool run_budget(weir_mincut_state *m)
{
    const weir_mem_problem *p = m->w->p;
    weir_bound              b;
    uint32_t                stage = 0;
    size_t                  bytes;

    if (weir_bound_quick(p, m->budget, NULL, &b) != WEIR_OK || !fullest(p, &stage, &bytes) ||
        !search_target(m, stage, 0) || !search_target(m, stage, BRANCH_WORK))
        return false;
    return b.op == stage || (search_target(m, b.op, 0) && search_target(m, b.op, BRANCH_WORK));
}

weir_status weir_mincut(weir_lower_state *w, size_t budget, double ratio, uint8_t *decisions)
{
    weir_mincut_state m = {.w = w, .budget = budget, .best = decisions, .best_peak = SIZE_MAX};
    bool              ok = weir_mincut_bound_init(&m.cut, w->p, NULL);

    m.decisions = weir_mem_zalloc(w->intervals + 1u, 1);
    memset(decisions, WEIR_KEEP, w->intervals);
    ok = ok && m.decisions && weir_lower(w, decisions);
    if (ok && ratio > 0) {
        ok = run_ratio(&m, ratio);
    } else if (ok && w->peak > budget) {
        m.best_peak = w->peak;
        ok = run_budget(&m);
    }
    ok = ok && weir_lower(w, decisions);
    weir_mincut_bound_free(&m.cut);
    weir_mem_free(m.decisions);
    return ok ? WEIR_OK : WEIR_ERR_NOMEM;
}

weir_status weir_policy_mincut(weir_policy_job *job)
{
    static const char key[] = "ratio=";
    weir_search       s = {.p = job->p,
                           .budget = job->limit,
                           .levers = WEIR_LEVER_RECOMPUTE,
                           .seed = weir_mincut,
                           .seed_only = true};
    char             *end = NULL;

    if (strncmp(job->variant, key, sizeof key - 1) == 0)
        s.ratio = strtod(job->variant + sizeof key - 1, &end);
    if (*job->variant && (!end || *end || !(s.ratio > 0 && s.ratio <= 1)))
        return weir_fail(WEIR_ERR_INVALID, "policy mincut: unknown variant '%s' (expected ratio=R "
                                           "with 0 < R <= 1)",
                         job->variant);
    const weir_status status = weir_search_run(&s);
    job->s = s.lowered.s;
    s.lowered.s = (weir_schedule){0};
    weir_search_free(&s);
    return status;
}
