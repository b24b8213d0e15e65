/* autotm.c - AutoTM (Hildebrand et al., "AutoTM: automatic tensor movement in heterogeneous memory
 * systems using integer linear programming", ASPLOS 2020): between two accesses each piece lies in
 * fast or in slow memory; kernels read and write fast memory, nothing is made anew. Resident pieces
 * may lie on the host between steps.
 *
 * The paper's integer program, by Lagrangian relaxation: bytes of fast memory have a price during
 * each task, seconds of the link a price each way. Under given prices every piece decides for
 * itself, exactly: it lies in slow memory where that costs less than its place in fast memory. The
 * prices follow the bytes and seconds exceeded (subgradient), each set of decisions is walked, and
 * the best one is kept. Then it is made to fit, the cheapest seconds for the bytes first, and taken
 * back, the dearest first, as far as it goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/policies/policy.h"
#include "graph/memory/search/best.h"
#include "graph/memory/search/search_state.h"

enum { PRICES = 160, MOST_TAKEN_BACK = 400 };

/* A piece between two accesses, in slow memory. */
typedef struct weir_stay {
    uint32_t piece, gap;        /* of lower.h */
    uint32_t first, end;        /* the tasks during which it is away */
    uint32_t first2, end2;      /* a resident piece that is at home: before its first use, too */
    double   out, in;           /* seconds of the copies */
    double   late;              /* seconds by which both exceed the time between */
} weir_stay;

typedef struct weir_autotm {
    weir_best b;
    WEIR_VEC(weir_stay) stays;
    double   *when;             /* [tasks + 1] seconds before each */
    double   *price;            /* [tasks] seconds per byte */
    double   *sum;              /* [tasks + 1] of the prices before each */
    int64_t  *kept;             /* [tasks] bytes with everything in fast memory */
    int64_t  *live;             /* [tasks + 1] under the decisions at hand */
    double    out_price, in_price;
} weir_autotm;

static bool init(weir_autotm *a, const weir_policy_job *job)
{
    const size_t n = job->p->tasks.n + 1u;

    if (!weir_best_init(&a->b, job))
        return false;
    a->when = weir_mem_zalloc(n, sizeof *a->when);
    a->price = weir_mem_zalloc(n, sizeof *a->price);
    a->sum = weir_mem_zalloc(n, sizeof *a->sum);
    a->kept = weir_mem_zalloc(n, sizeof *a->kept);
    a->live = weir_mem_zalloc(n, sizeof *a->live);
    if (!a->when || !a->price || !a->sum || !a->kept || !a->live)
        return false;
    for (uint32_t i = 0; i < job->p->tasks.n; i++) {    /* everything is kept: events are tasks */
        a->when[i + 1] = a->when[i] + job->p->tasks.at[i].time;
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

static bool is_changed(const weir_problem *p, uint32_t piece)
{
    const weir_piece *k = &p->pieces.at[piece];

    for (uint32_t j = 0; j < k->uses.n; j++)
        if (weir_among(p, p->tasks.at[weir_refs(p, k->uses)[j]].changes, piece))
            return true;
    return false;
}

/* A resident piece that lives at home: one stay, from its last use to its first. */
static weir_stay home_of(const weir_autotm *a, uint32_t piece)
{
    const weir_problem *p = a->b.job->p;
    const weir_piece   *k = &p->pieces.at[piece];
    const uint32_t      n = p->tasks.n, *u = weir_refs(p, k->uses);
    const double        in = k->uses.n ? (double)k->bytes / p->link_in : 0;

    return (weir_stay){.piece = piece, .gap = a->b.w.first_gap[piece],
                       .first = 0, .end = k->uses.n ? u[0] : n,
                       .first2 = k->uses.n ? u[k->uses.n - 1] + 1 : n, .end2 = n,
                       .out = is_changed(p, piece) ? (double)k->bytes / p->link_out : 0,
                       .in = in, .late = k->uses.n ? fmax(0, in - a->when[u[0]]) : 0};
}

/* All stays that keep anything away for at least a task. */
static bool list_stays(weir_autotm *a)
{
    const weir_problem *p = a->b.job->p;

    for (uint32_t k = 0; k < p->pieces.n; k++) {
        const weir_piece *x = &p->pieces.at[k];
        const uint32_t   *u = weir_refs(p, x->uses);
        const double      out = (double)x->bytes / p->link_out, in = (double)x->bytes / p->link_in;
        if (x->bytes == 0)
            continue;
        if (weir_piece_resident(p, k) && !weir_vec_push(&a->stays, home_of(a, k)))
            return false;
        for (uint32_t j = weir_piece_resident(p, k); j < x->uses.n; j++) {
            const uint32_t first = (j ? u[j - 1] : x->maker) + 1;
            weir_stay      s = {.piece = k, .gap = a->b.w.first_gap[k] + j, .first = first,
                                .end = u[j], .out = out, .in = in};
            s.late = fmax(0, out + in - (a->when[s.end] - a->when[s.first]));
            if (s.first < s.end && !weir_vec_push(&a->stays, s))
                return false;
        }
    }
    return true;
}

/* A stay of a resident piece counts only where that lives at home. */
static bool is_allowed(const weir_autotm *a, const weir_stay *s)
{
    return !weir_piece_resident(a->b.job->p, s->piece) ||
           a->b.gap[a->b.w.first_gap[s->piece]] == WEIR_SWAP;
}

static double gain_of(const weir_autotm *a, const weir_stay *s)
{
    const double bytes = (double)a->b.job->p->pieces.at[s->piece].bytes;
    return bytes * (a->sum[s->end] - a->sum[s->first] + a->sum[s->end2] - a->sum[s->first2]);
}

static double cost_of(const weir_autotm *a, const weir_stay *s)
{
    const double least = 1e-3;      /* of what it takes, even where nothing waits for it */
    return s->late + (least + a->out_price) * s->out + (least + a->in_price) * s->in;
}

/* Every stay decides under the prices. *out, *in: seconds of all copies. */
static void decide(weir_autotm *a, double *out, double *in)
{
    const weir_problem *p = a->b.job->p;

    for (uint32_t i = 0; i < p->tasks.n; i++)
        a->sum[i + 1] = a->sum[i] + a->price[i];
    memset(a->b.gap, WEIR_KEEP, a->b.w.gaps);
    memset(a->live, 0, (p->tasks.n + 1u) * sizeof *a->live);
    *out = *in = 0;
    for (uint32_t i = 0; i < a->stays.n; i++) {     /* that at home comes first */
        const weir_stay *s = &a->stays.at[i];
        const bool       home = weir_piece_resident(p, s->piece) &&
                          s->gap == a->b.w.first_gap[s->piece];
        const int64_t    bytes = (int64_t)p->pieces.at[s->piece].bytes;
        if ((!home && !is_allowed(a, s)) || gain_of(a, s) <= cost_of(a, s))
            continue;
        a->b.gap[s->gap] = WEIR_SWAP;
        *out += s->out;
        *in += s->in;
        a->live[s->first] -= bytes;
        a->live[s->end] += bytes;
        a->live[s->first2] -= bytes;
        a->live[s->end2] += bytes;
    }
    for (uint32_t i = 1; i < p->tasks.n; i++)
        a->live[i] += a->live[i - 1];
}

/* Prices follow what is exceeded, in ever smaller steps. */
static void move_prices(weir_autotm *a, uint32_t round, double out, double in)
{
    const weir_problem *p = a->b.job->p;
    const double        step = 1 / sqrt(round + 1.0);
    const double        byte = (1 / p->link_out + 1 / p->link_in) / 8;
    int64_t             most = 1;

    for (uint32_t i = 0; i < p->tasks.n; i++) {
        a->live[i] += a->kept[i] - (int64_t)a->b.job->room;
        most = llabs(a->live[i]) > most && a->live[i] > 0 ? a->live[i] : most;
    }
    for (uint32_t i = 0; i < p->tasks.n; i++) {
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
        ok = weir_best_gap(&a->b);
        move_prices(a, i, out, in);
    }
    return ok;
}

/* ---- from prices to a plan ---- */

static bool covers(const weir_stay *s, uint32_t task)
{
    return (s->first <= task && task < s->end) || (s->first2 <= task && task < s->end2);
}

/* The stay over the task that costs least for its bytes and is not taken yet; stays.n: none. */
static uint32_t cheapest(const weir_autotm *a, uint32_t task)
{
    uint32_t best = a->stays.n;
    double   least = INFINITY;

    for (uint32_t i = 0; i < a->stays.n; i++) {
        const weir_stay *s = &a->stays.at[i];
        const bool       home = s->gap == a->b.w.first_gap[s->piece] &&
                          weir_piece_resident(a->b.job->p, s->piece);
        if (!covers(s, task) || a->b.gap[s->gap] == WEIR_SWAP || (!home && !is_allowed(a, s)))
            continue;
        const double cost = cost_of(a, s) / (double)a->b.job->p->pieces.at[s->piece].bytes;
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    return best;
}

/* From the best plan: what lies over the peak goes until it fits or nothing is left. */
static bool make_fit(weir_autotm *a)
{
    memcpy(a->b.gap, a->b.best, a->b.w.gaps);
    for (;;) {
        if (!weir_best_gap(&a->b))
            return false;
        if (!a->b.w.valid || a->b.w.peak <= a->b.job->room)
            return true;
        const uint32_t i = cheapest(a, weir_schedule_stage(&a->b.w.s, a->b.w.peak_event));
        if (i == a->stays.n)
            return true;
        a->b.gap[a->stays.at[i].gap] = WEIR_SWAP;
    }
}

static int by_seconds(const void *x, const void *y)
{
    const weir_stay *a = x, *b = y;
    const double     s = a->late + a->out + a->in, t = b->late + b->out + b->in;
    return s != t ? (s < t ? 1 : -1) : (a->gap > b->gap) - (a->gap < b->gap);
}

/* Takes stays back, those of most seconds first, where that is no worse. */
static bool take_back(weir_autotm *a)
{
    const weir_problem *p = a->b.job->p;

    if (a->stays.n)
        qsort(a->stays.at, a->stays.n, sizeof *a->stays.at, by_seconds);
    for (uint32_t i = 0, tried = 0; i < a->stays.n && tried < MOST_TAKEN_BACK; i++) {
        const weir_stay *s = &a->stays.at[i];
        const uint32_t   first = a->b.w.first_gap[s->piece], n = p->pieces.at[s->piece].uses.n;
        if (a->b.best[s->gap] != WEIR_SWAP)
            continue;
        memcpy(a->b.gap, a->b.best, a->b.w.gaps);
        a->b.gap[s->gap] = WEIR_KEEP;
        if (s->gap == first && weir_piece_resident(p, s->piece))
            memset(a->b.gap + first, WEIR_KEEP, n + 1u);    /* not at home: never away */
        tried++;
        if (!weir_best_gap(&a->b))
            return false;
    }
    return true;
}

weir_status weir_policy_autotm(weir_policy_job *job)
{
    weir_autotm a = {0};

    WEIR_TRY(weir_policy_needs_link(job->p, "autotm"));
    const bool ok = init(&a, job) && list_stays(&a) &&
                    (weir_best_fits(&a.b) || (relax(&a) && make_fit(&a) && take_back(&a)));
    free_all(&a);
    return weir_best_end(&a.b, ok, job);
}
