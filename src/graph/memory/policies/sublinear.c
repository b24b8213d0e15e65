/* sublinear.c - splits the forward pass into blocks by a search, like the sublinear memory
 * optimiser of MegEngine (core/impl/graph/seq_sublinear_memory), after Chen and others, 2016.
 *
 * A tensor is dropped over its longest interval if that begins in the block that made it and ends
 * outside; then the block is recomputed from what it reads. The first plans end a block where it
 * holds more bytes than a threshold. The threshold is halved, starting from all bytes; then the
 * best neighbourhood is searched in equal steps, coarse then fine. Genetic refinement follows: a
 * pool of split sets, which lose, gain or move a split or switch a block off, and are crossed; the
 * exact peak and time of its schedule rate a set. Finally whole blocks are kept again, as long as
 * that fits. */
#include <math.h>
#include <string.h>

#include "core/splitmix.h"
#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/checkpoint_set.h"

enum { HALVINGS = 24, STEPS = 10, POOL = 20, ROUNDS = 50, SPLIT = 1, STAYS = 2 };

typedef struct weir_blocks {
    weir_best b;
    uint32_t  n;              /* ops of the forward pass, which come first */
    uint32_t *block;          /* [ops] number of the op's block, from 1; 0: kept */
    uint32_t *longest;        /* [tensors] number of its longest interval */
    /* [(POOL + 1) * n] bits: SPLIT, a block begins at the op; STAYS, it is kept */
    uint8_t  *genes;
    size_t    peak[POOL + 1]; /* of each set, in bytes; SIZE_MAX: no plan */
    double    time[POOL + 1];
    uint32_t  pool; /* number of sets */
    uint64_t  random;
} weir_blocks;

static uint32_t below(weir_blocks *x, uint32_t n)
{
    return weir_splitmix_below(&x->random, n);
}

static uint8_t *set_of(weir_blocks *x, uint32_t i)
{
    return x->genes + (size_t)i * x->n;
}

/* Returns the interval of a tensor in which the most ops run. */
static uint32_t longest_interval(const weir_mem_problem *p, uint32_t tensor)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];
    const uint32_t        *use = weir_refs(p, k->uses);
    uint32_t               best = 0, most = 0;

    for (uint32_t j = 0; j < k->uses.n && k->producer != WEIR_NO_OP; j++) {
        const uint32_t length = use[j] - (j ? use[j - 1] : k->producer);
        best = length > most ? j : best;
        most = length > most ? length : most;
    }
    return best;
}

/* Returns the interval over which the tensor is dropped under the current blocks. */
static uint32_t drop_of(const weir_blocks *x, uint32_t tensor)
{
    const weir_mem_problem *p = x->b.job->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t         *use = weir_refs(p, k->uses), j = x->longest[tensor];

    if (k->producer == WEIR_NO_OP || x->block[k->producer] == 0)
        return WEIR_NEVER_DROPPED;
    const uint32_t own = x->block[k->producer];
    if (k->uses.n == 0 || x->block[use[k->uses.n - 1]] == own)
        return k->uses.n;                       /* no op outside the block reads it */
    return x->block[j ? use[j - 1] : k->producer] == own && x->block[use[j]] != own
               ? j
               : WEIR_NEVER_DROPPED;
}

/* Tries set i and records its peak and time. */
static bool try_set(weir_blocks *x, uint32_t i)
{
    const weir_mem_problem *p = x->b.job->p;
    const uint8_t          *set = set_of(x, i);
    uint32_t                number = 1;
    bool                    stays = false;

    for (uint32_t t = 0; t < p->ops.n; t++) {
        if (t < x->n && set[t] & SPLIT) {
            number++;
            stays = set[t] & STAYS;
        }
        x->block[t] = t < x->n && !stays ? number : 0;
    }
    for (uint32_t k = 0; k < p->tensors.n; k++)
        x->b.drop[k] = drop_of(x, k);
    if (!weir_best_try_drop(&x->b))
        return false;
    x->peak[i] = x->b.w.valid ? x->b.w.peak : SIZE_MAX;
    x->time[i] = x->b.w.extra;
    return true;
}

static bool better(const weir_blocks *x, uint32_t i, uint32_t than)
{
    return weir_better(x->b.job->limit, x->peak[i], x->time[i], x->peak[than], x->time[than]);
}

/* Lets the set after the pool, which has been tried, enter the pool; it replaces the worst set of a
 * full pool. A set with exactly the peak and time of another does not enter: the pool stays
 * diverse. */
static void enter_pool(weir_blocks *x)
{
    uint32_t to = x->pool;

    for (uint32_t i = 0; i < x->pool; i++)
        if (x->peak[i] == x->peak[x->pool] && x->time[i] == x->time[x->pool])
            return;
    if (x->pool == POOL) {
        to = 0;
        for (uint32_t i = 1; i < POOL; i++)
            to = better(x, to, i) ? i : to;
        if (!better(x, POOL, to))
            return;
    }
    memmove(set_of(x, to), set_of(x, x->pool == POOL ? POOL : to), x->n);
    x->peak[to] = x->peak[x->pool == POOL ? POOL : to];
    x->time[to] = x->time[x->pool == POOL ? POOL : to];
    x->pool += x->pool < POOL;
}

/* ---- thresholds ---- */

/* Ends a block where what it has made and still needs exceeds the threshold in bytes. */
static bool try_threshold(weir_blocks *x, double threshold)
{
    const weir_mem_problem *p = x->b.job->p;
    uint8_t *const      set = set_of(x, x->pool);
    uint32_t            begin = 0;
    double              held = 0;

    memset(set, 0, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        const weir_mem_op *t = &p->ops.at[i];
        if (i > begin && held >= threshold) {
            set[i] = SPLIT;
            begin = i;
            held = 0;
        }
        for (uint32_t k = 0; k < t->out.n; k++)
            held += (double)p->tensors.at[weir_refs(p, t->out)[k]].bytes;
        for (uint32_t k = 0; k < t->in.n; k++) {
            const weir_mem_tensor *y = &p->tensors.at[weir_refs(p, t->in)[k]];
            if (y->producer != WEIR_NO_OP && y->producer >= begin &&
                weir_refs(p, y->uses)[y->uses.n - 1] == i)
                held -= (double)y->bytes;
        }
    }
    if (!try_set(x, x->pool))
        return false;
    enter_pool(x);
    return true;
}

/* Tries thresholds between `from` and `to`; *best receives the best one. */
static bool try_steps(weir_blocks *x, double from, double to, double *best)
{
    size_t peak = SIZE_MAX;
    double time = INFINITY;
    bool   ok = true;

    for (int i = 0; i <= STEPS && ok; i++) {
        const double at = from + (to - from) * i / STEPS;
        ok = try_threshold(x, at);
        if (!weir_better(x->b.job->limit, x->b.w.valid ? x->b.w.peak : SIZE_MAX, x->b.w.extra, peak,
                         time))
            continue;
        peak = x->b.w.peak;
        time = x->b.w.extra;
        *best = at;
    }
    return ok;
}

static bool try_thresholds(weir_blocks *x)
{
    const weir_mem_problem *p = x->b.job->p;
    double                  all = 0, best = 0, step;
    size_t                  peak = SIZE_MAX;
    double                  time = INFINITY;
    bool                    ok = true;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        all += (double)p->tensors.at[k].bytes;
    for (int i = 0; i < HALVINGS && ok && all >= 1; i++, all /= 2) {
        ok = try_threshold(x, all);
        if (!x->b.w.valid || !weir_better(x->b.job->limit, x->b.w.peak, x->b.w.extra, peak, time))
            continue;
        peak = x->b.w.peak;
        time = x->b.w.extra;
        best = all;
    }
    step = best / STEPS;
    ok = ok && try_steps(x, best / 2, best * 2, &best);
    return ok && try_steps(x, best - step, best + step, &best);
}

/* ---- evolution ---- */

static void mutate(weir_blocks *x, uint8_t *set)
{
    const uint32_t at = below(x, x->n), to = below(x, x->n);

    switch (below(x, 4)) {
    case 0:
        set[at] ^= SPLIT;
        break;
    case 1: {                                   /* move a split by one op */
        uint32_t from = at;
        while (from < x->n && !(set[from] & SPLIT))
            from++;
        if (from == x->n)
            break;
        const uint32_t near = from ? from - 1 + 2 * (to & 1) : 1;
        const uint8_t  gene = set[from];
        set[from] = 0;
        set[near < x->n ? near : from] = gene;
        break;
    }
    case 2:
        set[at] ^= STAYS;
        break;
    default:
        set[at] |= SPLIT;
        set[to] |= SPLIT;
    }
}

/* Crosses two sets of the pool, one up to an op and the other after it, and mutates the child. */
static bool breed(weir_blocks *x)
{
    const uint32_t a = below(x, x->pool), b = below(x, x->pool), at = below(x, x->n + 1);
    uint8_t *const child = set_of(x, x->pool);

    memcpy(child, set_of(x, a), x->n);
    if (below(x, 2))
        memcpy(child + at, set_of(x, b) + at, x->n - at);
    for (uint32_t k = 1 + below(x, 2); k > 0; k--)
        mutate(x, child);
    if (!try_set(x, x->pool))
        return false;
    enter_pool(x);
    return true;
}

/* Toggles whole blocks of the best set between kept and recomputed, where that is better. */
static bool refine(weir_blocks *x)
{
    uint32_t best = 0;
    bool     ok = true;

    for (uint32_t i = 1; i < x->pool; i++)
        best = better(x, i, best) ? i : best;
    x->pool = POOL;
    for (uint32_t at = 0; at < x->n && ok; at++) {
        uint8_t *const last = set_of(x, POOL);
        memcpy(last, set_of(x, best), x->n);
        if (!(last[at] & SPLIT) && at > 0)
            continue;
        last[at] = (uint8_t)((last[at] | SPLIT) ^ STAYS);
        ok = try_set(x, POOL);
        if (!ok || !better(x, POOL, best))
            continue;
        memcpy(set_of(x, best), last, x->n);
        x->peak[best] = x->peak[POOL];
        x->time[best] = x->time[POOL];
    }
    return ok;
}

static bool search(weir_blocks *x)
{
    bool ok = try_thresholds(x);

    for (int i = 0; i < POOL * ROUNDS && ok; i++)
        ok = breed(x);
    return ok && refine(x);
}

static bool init(weir_blocks *x, const weir_mem_problem *p)
{
    x->n = weir_forward_end(p);
    x->block = weir_mem_alloc((p->ops.n + 1u) * sizeof *x->block);
    x->longest = weir_mem_alloc((p->tensors.n + 1u) * sizeof *x->longest);
    x->genes = weir_mem_zalloc((POOL + 1) * ((size_t)x->n + 1), 1);
    for (uint32_t k = 0; k < p->tensors.n && x->longest; k++)
        x->longest[k] = longest_interval(p, k);
    return x->block && x->longest && x->genes;
}

weir_status weir_policy_sublinear(weir_policy_job *job)
{
    weir_blocks x = {.random = 1};
    bool        ok = weir_best_init(&x.b, job);

    if (ok && !weir_best_fits(&x.b))
        ok = init(&x, job->p) && (x.n == 0 || search(&x));
    weir_mem_free(x.block);
    weir_mem_free(x.longest);
    weir_mem_free(x.genes);
    return weir_best_end(&x.b, ok, job);
}
