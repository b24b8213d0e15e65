/* autotm.c - AutoTM (Hildebrand and others, "AutoTM: automatic tensor movement in heterogeneous
 * memory systems using integer linear programming", ASPLOS 2020): between two accesses each tensor
 * is in fast or in slow memory; kernels read and write fast memory, and nothing is recomputed.
 * Resident tensors may be on the host between steps.
 *
 * Instead of the paper's integer programme, its Lagrangian relaxation is solved by subgradients
 * (Held and Karp, 1971): bytes of fast memory have a price during each op, seconds of the link a
 * price in each direction. Given the prices, every tensor decides by itself and exactly: it is in
 * slow memory if that costs less than its place in fast memory. Prices follow the excess of bytes
 * and seconds; each set of decisions is lowered, and the best plan is kept. Finally, offloads are
 * added until the plan fits, those with the fewest seconds per byte first, and taken back, the
 * costliest first, as long as it still fits. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/search_state.h"

enum { PRICES = 160, MAX_UNDONE = 400 };

/* The time that a tensor may spend in slow memory between two accesses. */
typedef struct weir_stay {
    uint32_t tensor, interval; /* of lower.h */
    uint32_t first, end;       /* the ops [first, end) during which it is offloaded */
    uint32_t first2, end2;     /* the same after the last use, if resident and on the host */
    double   out, in;          /* seconds of the copies to the host and back */
    double   late;             /* seconds by which the copies exceed the time in between */
} weir_stay;

typedef struct weir_autotm {
    weir_best           b;
    WEIR_VEC(weir_stay) stays;
    double             *when;  /* [ops + 1] seconds before each op */
    double             *price; /* [ops] price in seconds per byte */
    double             *sum;   /* [ops + 1] sum of the prices before each op */
    int64_t            *kept;  /* [ops] live bytes with everything in fast memory */
    int64_t            *live;  /* [ops + 1] the change of that by the current decisions */
    double              out_price, in_price;
} weir_autotm;

static bool init(weir_autotm *a, const weir_policy_job *job)
{
    const size_t n = job->p->ops.n + 1u;

    if (!weir_best_init(&a->b, job))
        return false;
    a->when = weir_mem_zalloc(n, sizeof *a->when);
    a->price = weir_mem_zalloc(n, sizeof *a->price);
    a->sum = weir_mem_zalloc(n, sizeof *a->sum);
    a->kept = weir_mem_zalloc(n, sizeof *a->kept);
    a->live = weir_mem_zalloc(n, sizeof *a->live);
    if (!a->when || !a->price || !a->sum || !a->kept || !a->live)
        return false;
    for (uint32_t i = 0; i < job->p->ops.n; i++) {    /* everything is kept, so events are ops */
        a->when[i + 1] = a->when[i] + job->p->ops.at[i].time;
        a->kept[i] = a->b.w.s.live.at[i];
    }
    return true;
}

static void free_all(weir_autotm *a)
{
    weir_vec_free(&a->stays);
    weir_mem_free(a->when);
    weir_mem_free(a->price);
    weir_mem_free(a->sum);
    weir_mem_free(a->kept);
    weir_mem_free(a->live);
}

static bool is_changed(const weir_mem_problem *p, uint32_t tensor)
{
    const weir_mem_tensor *k = &p->tensors.at[tensor];

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (weir_among(p, p->ops.at[weir_refs(p, k->uses)[j]].changes, tensor))
            return true;
    return false;
}

/* Returns the stay of a resident tensor on the host between steps: from its last use to its
 * first. */
static weir_stay offloaded_of(const weir_autotm *a, uint32_t tensor)
{
    const weir_mem_problem *p = a->b.job->p;
    const weir_mem_tensor  *k = &p->tensors.at[tensor];
    const uint32_t          n = p->ops.n, *u = weir_refs(p, k->uses);
    const double            in = k->uses.n ? (double)k->bytes / p->link_in : 0;

    return (weir_stay){.tensor = tensor,
                       .interval = a->b.w.first_interval[tensor],
                       .first = 0,
                       .end = k->uses.n ? u[0] : n,
                       .first2 = k->uses.n ? u[k->uses.n - 1] + 1 : n,
                       .end2 = n,
                       .out = is_changed(p, tensor) ? (double)k->bytes / p->link_out : 0,
                       .in = in,
                       .late = k->uses.n ? fmax(0, in - a->when[u[0]]) : 0};
}

/* Lists all stays that free memory during at least one op. */
static bool list_stays(weir_autotm *a)
{
    const weir_mem_problem *p = a->b.job->p;

    for (uint32_t k = 0; k < p->tensors.n; k++) {
        const weir_mem_tensor *x = &p->tensors.at[k];
        const uint32_t        *u = weir_refs(p, x->uses);
        const double out = (double)x->bytes / p->link_out, in = (double)x->bytes / p->link_in;
        if (x->bytes == 0)
            continue;
        if (weir_mem_tensor_is_resident(p, k) && !weir_vec_push(&a->stays, offloaded_of(a, k)))
            return false;
        for (uint32_t j = weir_mem_tensor_is_resident(p, k); j < x->uses.n; j++) {
            const uint32_t first = (j ? u[j - 1] : x->producer) + 1;
            weir_stay      s = {.tensor = k,
                                .interval = a->b.w.first_interval[k] + j,
                                .first = first,
                                .end = u[j],
                                .out = out,
                                .in = in};
            s.late = fmax(0, out + in - (a->when[s.end] - a->when[s.first]));
            if (s.first < s.end && !weir_vec_push(&a->stays, s))
                return false;
        }
    }
    return true;
}

/* A stay of a resident tensor between uses counts only if the tensor starts on the host. */
static bool is_allowed(const weir_autotm *a, const weir_stay *s)
{
    return !weir_mem_tensor_is_resident(a->b.job->p, s->tensor) ||
           a->b.decisions[a->b.w.first_interval[s->tensor]] == WEIR_OFFLOAD;
}

static double gain_of(const weir_autotm *a, const weir_stay *s)
{
    const double bytes = (double)a->b.job->p->tensors.at[s->tensor].bytes;
    return bytes * (a->sum[s->end] - a->sum[s->first] + a->sum[s->end2] - a->sum[s->first2]);
}

static double cost_of(const weir_autotm *a, const weir_stay *s)
{
    /* fraction of a copy's time that counts even if nothing waits for it */
    const double least = 1e-3;
    return s->late + (least + a->out_price) * s->out + (least + a->in_price) * s->in;
}

/* Lets every stay decide by the prices. *out and *in receive the seconds of all copies. */
static void decide(weir_autotm *a, double *out, double *in)
{
    const weir_mem_problem *p = a->b.job->p;

    for (uint32_t i = 0; i < p->ops.n; i++)
        a->sum[i + 1] = a->sum[i] + a->price[i];
    memset(a->b.decisions, WEIR_KEEP, a->b.w.intervals);
    memset(a->live, 0, (p->ops.n + 1u) * sizeof *a->live);
    *out = *in = 0;
    /* the stay between steps comes before the others of its tensor */
    for (uint32_t i = 0; i < a->stays.n; i++) {
        const weir_stay *s = &a->stays.at[i];
        const bool       offloaded = weir_mem_tensor_is_resident(p, s->tensor) &&
                               s->interval == a->b.w.first_interval[s->tensor];
        const int64_t    bytes = (int64_t)p->tensors.at[s->tensor].bytes;
        if ((!offloaded && !is_allowed(a, s)) || gain_of(a, s) <= cost_of(a, s))
            continue;
        a->b.decisions[s->interval] = WEIR_OFFLOAD;
        *out += s->out;
        *in += s->in;
        a->live[s->first] -= bytes;
        a->live[s->end] += bytes;
        a->live[s->first2] -= bytes;
        a->live[s->end2] += bytes;
    }
    for (uint32_t i = 1; i < p->ops.n; i++)
        a->live[i] += a->live[i - 1];
}

/* Raises or lowers the prices by the relative excess, in ever smaller steps. */
static void move_prices(weir_autotm *a, uint32_t round, double out, double in)
{
    const weir_mem_problem *p = a->b.job->p;
    const double            step = 1 / sqrt(round + 1.0);
    const double            byte = (1 / p->link_out + 1 / p->link_in) / 8;
    int64_t                 most = 1;

    for (uint32_t i = 0; i < p->ops.n; i++) {
        a->live[i] += a->kept[i] - (int64_t)a->b.job->limit;
        most = llabs(a->live[i]) > most && a->live[i] > 0 ? a->live[i] : most;
    }
    for (uint32_t i = 0; i < p->ops.n; i++) {
        const double over = fmax((double)a->live[i] / (double)most, -1);
        a->price[i] = fmax(0, a->price[i] + step * byte * over);
    }
    a->out_price = fmax(0, a->out_price + 0.2 * step * (out - p->time) / (p->time + 1e-30));
    a->in_price = fmax(0, a->in_price + 0.2 * step * (in - p->time) / (p->time + 1e-30));
}

static bool relax(weir_autotm *a)
{
    double out, in;
    bool   ok = true;

    for (uint32_t i = 0; i < PRICES && ok; i++) {
        decide(a, &out, &in);
        ok = weir_best_try_decisions(&a->b);
        move_prices(a, i, out, in);
    }
    return ok;
}

/* ---- from prices to a plan ---- */

static bool covers(const weir_stay *s, uint32_t op)
{
    return (s->first <= op && op < s->end) || (s->first2 <= op && op < s->end2);
}

/* Returns the stay over the op that costs least per byte and is not chosen yet; stays.n if no stay
 * is left. */
static uint32_t cheapest(const weir_autotm *a, uint32_t op)
{
    uint32_t best = a->stays.n;
    double   least = INFINITY;

    for (uint32_t i = 0; i < a->stays.n; i++) {
        const weir_stay *s = &a->stays.at[i];
        const bool       offloaded = s->interval == a->b.w.first_interval[s->tensor] &&
                               weir_mem_tensor_is_resident(a->b.job->p, s->tensor);
        if (!covers(s, op) || a->b.decisions[s->interval] == WEIR_OFFLOAD ||
            (!offloaded && !is_allowed(a, s)))
            continue;
        const double cost = cost_of(a, s) / (double)a->b.job->p->tensors.at[s->tensor].bytes;
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/* Starts from the best plan and offloads tensors live at the peak until it fits or none is left. */
static bool make_fit(weir_autotm *a)
{
    memcpy(a->b.decisions, a->b.best, a->b.w.intervals);
    for (;;) {
        if (!weir_best_try_decisions(&a->b))
            return false;
        if (!a->b.w.valid || a->b.w.peak <= a->b.job->limit)
            return true;
        const uint32_t i = cheapest(a, weir_schedule_first_run(&a->b.w.s, a->b.w.peak_event));
        if (i == a->stays.n)
            return true;
        a->b.decisions[a->stays.at[i].interval] = WEIR_OFFLOAD;
    }
}

static int by_seconds(const void *x, const void *y)
{
    const weir_stay *a = x, *b = y;
    const double     s = a->late + a->out + a->in, t = b->late + b->out + b->in;
    return s != t ? (s < t ? 1 : -1) : (a->interval > b->interval) - (a->interval < b->interval);
}

/* Takes stays back, those with the most seconds first, if the plan gets no worse. */
static bool undo_move(weir_autotm *a)
{
    const weir_mem_problem *p = a->b.job->p;

    if (a->stays.n)
        qsort(a->stays.at, a->stays.n, sizeof *a->stays.at, by_seconds);
    for (uint32_t i = 0, tried = 0; i < a->stays.n && tried < MAX_UNDONE; i++) {
        const weir_stay *s = &a->stays.at[i];
        const uint32_t   first = a->b.w.first_interval[s->tensor],
                       n = p->tensors.at[s->tensor].uses.n;
        if (a->b.best[s->interval] != WEIR_OFFLOAD)
            continue;
        memcpy(a->b.decisions, a->b.best, a->b.w.intervals);
        a->b.decisions[s->interval] = WEIR_KEEP;
        if (s->interval == first && weir_mem_tensor_is_resident(p, s->tensor))
            /* it stays on the device, in all intervals */
            memset(a->b.decisions + first, WEIR_KEEP, n + 1u);
        tried++;
        if (!weir_best_try_decisions(&a->b))
            return false;
    }
    return true;
}

weir_status weir_policy_autotm(weir_policy_job *job)
{
    weir_autotm a = {0};

    WEIR_TRY(weir_policy_needs_link(job->p, "autotm"));
    const bool ok = init(&a, job) && list_stays(&a) &&
                    (weir_best_fits(&a.b) || (relax(&a) && make_fit(&a) && undo_move(&a)));
    free_all(&a);
    return weir_best_end(&a.b, ok, job);
}
