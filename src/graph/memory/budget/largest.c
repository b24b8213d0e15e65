/* largest.c - the largest batch whose step fits: estimated by what steps need, settled by plans.
 *
 * The bytes of the smallest plan grow almost linearly with the batch. So the secant through two
 * batches finds the largest one whose smallest plan fits within a few probes (regula falsi; every
 * fifth probe halves or doubles instead, which bounds their number where growth is not linear).
 * That batch can be planned. If the next one is not proven to be too large, the smallest plan may
 * be a poor one: then a second search finds the last batch that the proven floor allows. Plans
 * settle what lies between: the last batch that may fit comes first, as the floor is often met. */
#include "core/status.h"
#include "weir/plan.h"

/* A batch and what its step needs; needs of zero bytes are unknown. */
typedef struct point {
    int64_t          batch;
    weir_graph_needs needs;
} point;

typedef struct state {
    const weir_batch_search *s;
    point low, high;        /* the largest that fits (batch 0: none), the smallest that does not */
    point before;           /* the `low` or `high` before the last one */
    bool  bounded;          /* `high` was found; else it is one above the largest allowed */
    bool  by_floor;         /* what is compared with the limit: floor_bytes, not least_bytes */
} state;

static bool too_large(weir_status s)
{
    return s == WEIR_ERR_BUDGET || s == WEIR_ERR_NOMEM;
}

static bool near_enough(const weir_batch_search *s, int64_t low, int64_t high)
{
    return high - low == 1 || (low > 0 && (double)(high - low) <= (double)low * s->within);
}

static int64_t clamp(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

static size_t bytes_of(const state *t, const point *p)
{
    return t->by_floor ? p->needs.floor_bytes : p->needs.least_bytes;
}

/* The zero of the line through a and b, relative to the limit; 0 without a rising line. Without
 * a, the line begins in the origin. */
static int64_t secant(const state *t, const point *a, const point *b)
{
    const double bytes = (double)bytes_of(t, b);
    const double rise = bytes - (double)bytes_of(t, a);
    const double run = (double)(b->batch - a->batch);
    const double n = (double)b->batch + ((double)t->s->limit - bytes) * run / rise;

    return rise == 0 || run / rise <= 0 ? 0 : n < 1 ? 1 : n > 1e15 ? (int64_t)1e15 : (int64_t)n;
}

/* The batch to try next. */
static int64_t next(const state *t, int probes)
{
    enum { GROWTH = 64, PATIENCE = 5 };
    const int64_t low = t->low.batch, high = t->high.batch;
    const int64_t halfway = t->bounded ? low + (high - low) / 2 : 2 * low;
    const bool    both = t->bounded && low > 0 && bytes_of(t, &t->high) > 0;
    const point  *at = low > 0 ? &t->low : &t->high;
    int64_t       n = 0;

    if (probes % PATIENCE != 0 && bytes_of(t, at) > 0)
        n = both ? secant(t, &t->low, &t->high) : secant(t, &t->before, at);
    if (n > 0 && !t->bounded && n / GROWTH > low)
        n = low * GROWTH;
    return clamp(n > 0 ? n : halfway, low + 1, high - 1);
}

/* Finds about the largest batch whose bytes are within the limit: t->low. Begins at n. */
static weir_status estimate(state *t, int64_t n)
{
    const weir_batch_search *const s = t->s;

    for (int probes = 1; !near_enough(s, t->low.batch, t->high.batch); probes++) {
        point             p = {.batch = n};
        const weir_status status = s->needs(s->ctx, n, &p.needs);
        if (status != WEIR_OK && !too_large(status))
            return status;
        if (status != WEIR_OK)
            p.needs = (weir_graph_needs){0};
        const bool   fits = status == WEIR_OK && bytes_of(t, &p) <= s->limit;
        point *const side = fits ? &t->low : &t->high;
        t->before = fits || t->bounded ? *side : (point){0};
        *side = p;
        t->bounded = t->bounded || !fits;
        n = next(t, probes);
    }
    return WEIR_OK;
}

/* Finds about the largest batch that the floor allows: t->low. */
static weir_status estimate_by_floor(state *t, const state *least)
{
    *t = *least;
    t->by_floor = true;
    if (!least->bounded || least->high.needs.floor_bytes > least->s->limit)
        return WEIR_OK;
    t->before = least->low;
    t->low = least->high;
    t->high = (point){.batch = least->s->most + 1};
    t->bounded = false;
    return t->low.needs.floor_bytes > 0 ? estimate(t, next(t, 1)) : WEIR_OK;
}

/* Finds the largest batch that is planned. Begins at n; `sure`, if not 0, can be planned; from
 * `high` on, if not 0, none can. */
static weir_status settle(const weir_batch_search *s, int64_t n, int64_t sure, int64_t high,
                          int64_t *batch)
{
    int64_t     step = s->needs ? 1 : n;
    weir_status status;

    for (;;) {
        status = s->fits(s->ctx, n);
        if (status != WEIR_OK && !too_large(status))
            return status;
        *(status == WEIR_OK ? batch : &high) = n;
        if (*batch == s->most || high == 1 || (high > 0 && near_enough(s, *batch, high)))
            break;
        if (high > 0 && *batch > 0) {
            n = *batch + (high - *batch) / 2;
        } else if (s->needs && high > sure) {
            n = high > sure + 1 ? sure + 1 : sure;
        } else {
            n = high == 0               ? step < s->most - n ? n + step : s->most
                : high - step > high / 2 ? high - step : high / 2;
            step = step > s->most / 2 ? s->most : 2 * step;
        }
    }
    return *batch > 0 ? WEIR_OK : status;
}

weir_status weir_largest_batch(const weir_batch_search *s, int64_t *batch)
{
    if (!s || !s->fits || !batch)
        return weir_fail_null("largest_batch", !s ? "the search" : s->fits ? "batch" : "fits");
    *batch = 0;
    if (s->first < 1 || s->most < s->first)
        return weir_fail(WEIR_ERR_INVALID, "largest_batch: first %lld must be 1 to most, %lld",
                         (long long)s->first, (long long)s->most);
    if (!(s->within >= 0 && s->within < 1))
        return weir_fail(WEIR_ERR_INVALID, "largest_batch: within is %g, must be from 0 to 1",
                         s->within);
    if (s->most == INT64_MAX)
        return weir_fail(WEIR_ERR_INVALID, "largest_batch: most is %lld, must be less",
                         (long long)s->most);
    if (!s->needs)
        return settle(s, s->first, 0, 0, batch);
    state least = {.s = s, .high.batch = s->most + 1}, top;
    WEIR_TRY(estimate(&least, s->first));
    WEIR_TRY(estimate_by_floor(&top, &least));
    return settle(s, top.low.batch > 0 ? top.low.batch : 1, least.low.batch,
                  top.bounded ? top.high.batch : 0, batch);
}
