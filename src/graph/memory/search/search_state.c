/* search_state.c - the current plan of a search: its cost, its addresses, the best plan so far. */
#include "graph/memory/search/search_state.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "graph/placement/progress.h"

/* Weight of bytes above the limit (relative to the budget) against extra time (relative to the
 * step's). */
#define EXCESS_WEIGHT 20.0

/* Bytes below the limit that weigh, as a fraction of the budget: more than the largest tensors that
 * they could make room for are of no use. */
#define MOST_UNUSED 0.05

/* Takes from the lowered plan what it needs. */
static void read_lowered(weir_search_state *a)
{
    const weir_lower_state *w = &a->s->lowered;

    a->now = (weir_search_plan){w->peak, 0, w->extra, w->valid};
    if (w->valid && w->s.events.n > 0)
        a->now.peak_stage = weir_schedule_first_run(&w->s, w->peak_event);
}

bool weir_search_lower(weir_search_state *a)
{
    a->s->tried++;
    if (!weir_lower(&a->s->lowered, a->decisions))
        return false;
    read_lowered(a);
    return true;
}

/* ---- changes ---- */

static bool run_steps(weir_search_state *a)
{
    const weir_relower *r = &a->relower;

    a->s->tried++;
    weir_progress_tried();
    if (!weir_relower_run(&a->relower) || !weir_progress_poll())
        return false;
    a->now = (weir_search_plan){r->peak, r->peak_stage, r->extra, r->valid};
    return true;
}

void weir_search_begin_move(weir_search_state *a)
{
    a->undo.n = 0;
    a->relower.changed = false;
}

bool weir_search_change(weir_search_state *a, uint32_t interval, uint8_t to)
{
    if (a->decisions[interval] == to)
        return true;
    if (!weir_vec_push(&a->undo, (uint64_t)interval << 8 | a->decisions[interval]))
        return false;
    a->decisions[interval] = to;
    return !weir_search_is_incremental(a) || weir_relower_set(&a->relower, interval, to);
}

bool weir_search_try_runs(weir_search_state *a)
{
    if (weir_search_is_incremental(a))
        return run_steps(a);
    a->s->tried++;
    if (!weir_lower_runs(&a->s->lowered, a->decisions))
        return false;
    read_lowered(a);
    return true;
}

bool weir_search_try_copies(weir_search_state *a, double most)
{
    if (a->in_steps)
        return true;
    if ((a->screens && !weir_lower_runs(&a->s->lowered, a->decisions)) ||
        !weir_lower_copies(&a->s->lowered, most))
        return false;
    read_lowered(a);
    return true;
}

bool weir_search_try(weir_search_state *a)
{
    return weir_search_try_runs(a) && weir_search_try_copies(a, INFINITY);
}

bool weir_search_take_back(weir_search_state *a)
{
    while (a->undo.n > 0) {
        const uint64_t u = a->undo.at[--a->undo.n];
        a->decisions[u >> 8] = (uint8_t)(u & 0xff);
        if (weir_search_is_incremental(a) &&
            !weir_relower_set(&a->relower, (uint32_t)(u >> 8), (uint8_t)(u & 0xff)))
            return false;
    }
    return !weir_search_is_incremental(a) || weir_relower_run(&a->relower);
}

bool weir_search_evaluate(weir_search_state *a)
{
    if (weir_search_is_incremental(a) && !weir_relower_all(&a->relower, a->decisions))
        return false;
    return a->in_steps ? run_steps(a) : weir_search_lower(a);
}

double weir_search_objective(const weir_search_state *a)
{
    const weir_search *s = a->s;
    const size_t       limit = weir_search_limit(a);

    if (!a->now.valid)
        return INFINITY;
    const double over = a->now.peak > limit ? (double)(a->now.peak - limit) : 0;
    const double unused = a->now.peak < limit ? (double)(limit - a->now.peak) : 0;
    const double under = fmin(unused, MOST_UNUSED * (double)s->budget);
    return a->now.extra / (s->p->time + 1e-30) +
           (EXCESS_WEIGHT * over - a->unused_weight * under) / ((double)s->budget + 1);
}

/* A plan within the budget is better; then the faster, or the smaller if neither fits. */
static bool better(const weir_search *s, size_t peak, double extra, const weir_search_best *than)
{
    const bool fits = peak <= s->budget, than_fits = than->peak <= s->budget;

    if (fits != than_fits)
        return fits;
    return fits ? extra < than->extra : peak < than->peak;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Can the plan lowered last be placed within the address limit? If not, later plans get fewer
 * bytes, and after several failures in a row some plans are skipped: a failure takes long to
 * find. */
static bool has_addresses(weir_search_state *a)
{
    enum { FAILURES = 2, PASSED = 2, SPARED = 32 };
    const weir_search *s = a->s;

    if (s->address_limit == 0 || a->now.peak > s->budget)
        return true;                    /* too large in any case */
    if (a->now.peak > weir_search_limit(a) || a->wait > 0) {
        a->wait -= a->wait > 0;
        return false;
    }
    a->status = weir_assign_offsets_within(&s->lowered.s, s->align, s->address_limit, &a->offsets);
    const bool fits = a->status == WEIR_OK && a->offsets.height <= s->address_limit;
    if (fits)
        a->spare -= a->spare / 4;
    else if (a->spare < s->budget / SPARED && a->status == WEIR_OK)
        a->spare += smaller((a->offsets.height - s->address_limit) / 2, s->budget / SPARED);
    a->failed = fits ? 0 : a->failed + 1;
    a->wait = a->failed > FAILURES ? PASSED : 0;
    return fits;
}

static void remember(const weir_search_state *a, weir_search_best *f)
{
    memcpy(f->decisions, a->decisions, a->s->lowered.intervals);
    f->peak = a->now.peak;
    f->extra = a->now.extra;
}

bool weir_search_note(weir_search_state *a)
{
    const weir_search_plan *now = &a->now;

    if (!now->valid || !better(a->s, now->peak, now->extra, &a->best) || !has_addresses(a))
        return a->status == WEIR_OK;
    remember(a, &a->best);
    weir_progress_best(now->peak, now->extra);
    return true;
}

bool weir_search_note_later(weir_search_state *a)
{
    const weir_search_plan *now = &a->now;

    if (a->s->address_limit == 0 || now->peak > a->s->budget)
        return weir_search_note(a);
    if (now->valid && now->peak <= weir_search_limit(a) &&
        better(a->s, now->peak, now->extra, &a->best) &&
        better(a->s, now->peak, now->extra, &a->pending))
        remember(a, &a->pending);
    return true;
}

static void exchange(weir_search_state *a)
{
    uint8_t *const decisions = a->decisions;

    a->decisions = a->pending.decisions;
    a->pending.decisions = decisions;
}

bool weir_search_flush(weir_search_state *a)
{
    const weir_search_plan now = a->now;

    if (a->pending.peak == SIZE_MAX)
        return true;
    exchange(a);
    const bool ok = weir_search_lower(a) && weir_search_note(a);
    exchange(a);
    a->now = now;
    a->pending.peak = SIZE_MAX;
    return ok;
}

void weir_search_close_line(weir_search_state *a)
{
    weir_search *s = a->s;
    const weir_search_best answer = {s->best, s->best_peak, s->best_extra};

    if (!better(s, a->best.peak, a->best.extra, &answer))
        return;
    memcpy(s->best, a->best.decisions, s->lowered.intervals);
    s->best_peak = a->best.peak;
    s->best_extra = a->best.extra;
}

void weir_search_open_line(weir_search_state *a, unsigned levers)
{
    bool       offloads = false;
    const bool can = !a->s->start || weir_relower_can(&a->s->lowered, a->s->start, &offloads);

    a->levers = levers;
    a->in_steps = levers == WEIR_LEVER_RECOMPUTE && can && !offloads;
    a->can_screen = can && !(levers & ~(unsigned)(WEIR_LEVER_RECOMPUTE | WEIR_LEVER_OFFLOAD));
    a->spare = a->failed = a->wait = 0;
    a->pending.peak = SIZE_MAX;
    a->best.peak = SIZE_MAX;
    a->best.extra = INFINITY;
}

/* Returns the size below which evicting a tensor is not worth a move: 1/4096 of the largest. */
static size_t smallest_worth(const weir_mem_problem *p)
{
    enum { PARTS = 4096 };
    size_t most = 0;

    for (uint32_t k = 0; k < p->tensors.n; k++)
        most = p->tensors.at[k].bytes > most ? p->tensors.at[k].bytes : most;
    return most / PARTS;
}

/* Returns the moves between two checks: lowering takes linear time, placement quadratic time. */
static uint32_t settle_every(uint32_t ops)
{
    enum { LEAST = 16, TASKS = 5000 };
    return LEAST + (uint32_t)((uint64_t)ops * ops / TASKS);
}

bool weir_search_state_init(weir_search_state *a)
{
    weir_search *s = a->s;
    const size_t intervals = s->lowered.intervals + 1u, tensors = s->p->tensors.n + 1u;
    double       when = 0;

    a->small = smallest_worth(s->p) + 1;
    a->aim = s->budget;
    a->every = settle_every(s->p->ops.n);
    s->best = weir_mem_zalloc(intervals, 1);
    a->best.decisions = weir_mem_zalloc(intervals, 1);
    a->pending.decisions = weir_mem_zalloc(intervals, 1);
    a->decisions = weir_mem_zalloc(intervals, 1);
    a->tensor_of = weir_mem_alloc(intervals * sizeof *a->tensor_of);
    a->stamp = weir_mem_zalloc(tensors, sizeof *a->stamp);
    a->when = weir_mem_alloc((s->p->ops.n + 1u) * sizeof *a->when);
    if (!s->best || !a->best.decisions || !a->pending.decisions || !a->decisions || !a->tensor_of ||
        !a->stamp || !a->when)
        return false;
    for (uint32_t i = 0; i < s->p->ops.n; when += s->p->ops.at[i++].time)
        a->when[i] = when;
    for (uint32_t k = 0; k < s->p->tensors.n; k++)
        for (uint32_t g = s->lowered.first_interval[k]; g < s->lowered.first_interval[k + 1]; g++) {
            a->tensor_of[g] = k;
            if (s->p->tensors.at[k].bytes >= a->small && !weir_vec_push(&a->worth, g))
                return false;
        }
    if (!weir_relower_init(&a->relower, &s->lowered))
        return false;
    s->lowered.budget = s->budget;
    s->best_peak = SIZE_MAX;
    s->best_extra = INFINITY;
    return true;
}

void weir_search_state_free(weir_search_state *a)
{
    weir_mem_free(a->decisions);
    weir_mem_free(a->best.decisions);
    weir_mem_free(a->pending.decisions);
    weir_mem_free(a->tensor_of);
    weir_mem_free(a->stamp);
    weir_mem_free(a->when);
    weir_offsets_free(&a->offsets);
    weir_relower_free(&a->relower);
    weir_vec_free(&a->worth);
    weir_vec_free(&a->candidates);
    weir_vec_free(&a->undo);
}
