/* search.c - greedy construction, restoration and simulated annealing over the decisions of
 * lower.h.
 *
 * A line of search starts with the best of three greedy plans (greedy.c) and the caller's seed,
 * takes evictions back where possible, and continues with annealing (anneal.c). With several levers
 * there are three lines: recomputation alone, which is fast and often best; all levers; and all
 * levers once more from the better of the two, which at a link is refined. So allowing more levers
 * never gives a worse plan.
 *
 * If the budget is proven infeasible, only the peak counts, and the bound says when no plan is
 * lower. One line with all levers is then enough: greedy plans for the budget, greedy plans for the
 * bound (which drop less at once), the seed and annealing, within a count of plans. */
#include "graph/memory/search/search.h"

#include <math.h>
#include <string.h>

#include "core/status.h"
#include "graph/memory/bounds/bound.h"
#include "graph/memory/search/anneal.h"
#include "graph/memory/search/greedy.h"

/* Exponents of bytes in the greedy score bytes^power / seconds. */
static const double powers[] = {0.7, 1.0, 1.4};

/* Runs a line from a plan that is nearly what is wanted. */
static bool run_from(weir_search_state *a, const uint8_t *start, unsigned levers, uint64_t moves)
{
    weir_search_open_line(a, levers);
    memcpy(a->decisions, start, a->s->lowered.intervals);
    const bool ok = weir_search_greedy(a, 1.0) && weir_search_anneal(a, moves);
    weir_search_close_line(a);
    return ok;
}

/* Starts from the seed and evicts greedily what exceeds the budget. The plan of a seed with a ratio
 * is the answer, unchanged. */
static bool start_at_seed(weir_search_state *a)
{
    weir_search *s = a->s;

    if (s->seed(&s->lowered, s->budget, s->ratio, a->decisions) != WEIR_OK)
        return false;
    if (s->ratio > 0)
        return weir_search_lower(a) && weir_search_note(a);
    return weir_search_greedy(a, 1.0) &&
           (!s->lowered.valid || s->lowered.peak > s->budget || weir_search_restore(a));
}

/* Starts from the hint and evicts greedily what exceeds the budget. */
static bool start_at_hint(weir_search_state *a)
{
    weir_search *s = a->s;

    memcpy(a->decisions, s->hint, s->lowered.intervals);
    return weir_search_greedy(a, 1.0) &&
           (!s->lowered.valid || s->lowered.peak > s->budget || weir_search_restore(a));
}

/* Runs the seed alone. */
static bool run_seed(weir_search_state *a)
{
    weir_search_open_line(a, WEIR_LEVER_RECOMPUTE);
    const bool ok = start_at_seed(a);
    weir_search_close_line(a);
    return ok;
}

/* Runs a line from greedy plans. */
static bool run_line(weir_search_state *a, unsigned levers, uint64_t moves)
{
    weir_search *s = a->s;

    weir_search_open_line(a, levers);
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++) {
        memset(a->decisions, WEIR_KEEP, s->lowered.intervals);
        if (!weir_search_greedy(a, powers[i]))
            return false;
        if (i == 0 && a->best.extra == 0 && a->best.peak <= s->budget)
            break;                      /* everything fits without evictions */
        if (s->lowered.valid && s->lowered.peak <= s->budget && !weir_search_restore(a))
            return false;
    }
    if (s->hint && levers & WEIR_LEVER_RECOMPUTE && !start_at_hint(a))
        return false;
    const bool done = a->worth.n == 0 || (a->best.extra <= 0 && a->best.peak <= s->budget);
    const bool seeds = s->seed && levers & WEIR_LEVER_RECOMPUTE;
    const bool ok = done || ((!seeds || start_at_seed(a)) && weir_search_anneal(a, moves));
    weir_search_close_line(a);
    return ok;
}

/* If no plan fits: is a plan with the lowest possible peak found, or the count of plans used up? */
static bool is_enough(const weir_search_state *a, uint64_t most)
{
    return weir_search_at_floor(a->s, a->best.peak) || a->s->tried * a->s->p->ops.n > most;
}

/* Makes greedy plans that aim at `aim` bytes. */
static bool run_greedy(weir_search_state *a, size_t aim, uint64_t most)
{
    bool ok = true;

    a->aim = aim;
    for (size_t i = 0; i < sizeof powers / sizeof powers[0] && ok && !is_enough(a, most); i++) {
        memset(a->decisions, WEIR_KEEP, a->s->lowered.intervals);
        ok = weir_search_greedy(a, powers[i]);
    }
    a->aim = a->s->budget;
    return ok;
}

/* Finds the plan with the smallest peak, for a budget that no plan fits. */
static bool run_tightest(weir_search_state *a, unsigned levers)
{
    enum { STARTS = 8000000, MOST = 24000000 }; /* limits of: plans times ops */
    weir_search *s = a->s;
    const bool   seeds = s->seed && levers & WEIR_LEVER_RECOMPUTE;
    uint64_t     moves = s->moves / 4;

    weir_search_open_line(a, levers);
    if (!run_greedy(a, s->budget, STARTS) || !run_greedy(a, s->floor, STARTS) ||
        (seeds && !is_enough(a, STARTS) && !start_at_seed(a)))
        return false;
    const uint64_t left = is_enough(a, MOST) ? 0 : MOST / s->p->ops.n - s->tried;
    moves = left < moves ? left : moves;
    if (a->worth.n > 0 && !weir_search_anneal(a, moves))
        return false;
    weir_search_close_line(a);
    return true;
}

/* Returns the levers that are asked for and that the problem can use. */
static unsigned levers_of(const weir_search *s)
{
    const weir_mem_problem *p = s->p;
    unsigned                has = WEIR_LEVER_RECOMPUTE;

    has |= p->link_out > 0 && p->link_in > 0 ? WEIR_LEVER_OFFLOAD : 0;
    for (uint32_t k = 0; k < p->tensors.n && p->pack_bandwidth > 0; k++)
        has |= (p->tensors.at[k].packed ? WEIR_LEVER_COMPRESS : 0u) |
               (p->tensors.at[k].mask ? WEIR_LEVER_MASK : 0u);
    return has & (s->levers ? s->levers : (unsigned)WEIR_LEVERS);
}

/* Makes the answer so far the best plan of the current line. */
static void begin_at_best(weir_search_state *a)
{
    const weir_search *s = a->s;

    memcpy(a->best.decisions, s->best, s->lowered.intervals);
    a->best.peak = s->best_peak;
    a->best.extra = s->best_extra;
}

/* Runs the lines with all levers. At a link, refining improves the answer so far more than
 * annealing does, and most moves are timed copies, which take longer than other moves. */
static bool run_all_levers(weir_search_state *a, unsigned levers)
{
    weir_search *s = a->s;
    const bool   offloads = levers & WEIR_LEVER_OFFLOAD;

    if (!run_line(a, levers, s->moves / (offloads ? 8 : 4)))
        return false;
    if (s->best_extra <= 0 && s->best_peak <= s->budget)
        return true;
    weir_search_open_line(a, levers);
    begin_at_best(a);
    const bool ok = offloads ? weir_search_refine(a, s->moves * 2 / 5)
                             : weir_search_anneal(a, s->moves - s->moves / 4);
    weir_search_close_line(a);
    return ok;
}

static bool run(weir_search_state *a)
{
    const unsigned levers = levers_of(a->s);
    weir_search   *s = a->s;

    if (s->seed_only)
        return run_seed(a);
    if (s->start && !run_from(a, s->start, levers, s->moves / 2))
        return false;
    if (s->start && s->best_peak <= s->budget)
        return true;
    if (levers == WEIR_LEVER_RECOMPUTE || !(levers & WEIR_LEVER_RECOMPUTE))
        return run_line(a, levers, s->moves);
    if (s->floor > 0 && !s->start)
        return run_tightest(a, levers);
    if (!run_line(a, WEIR_LEVER_RECOMPUTE, s->moves / 2))
        return false;
    if (s->best_extra <= 0 && s->best_peak <= s->budget)
        return true;
    return run_all_levers(a, levers);
}

/* Sets s->floor to a proven lower bound if some op by itself needs more than the budget. */
static weir_status find_floor(weir_search *s)
{
    const weir_levers levers = weir_levers_of(s->p);
    weir_bound        b;

    s->floor = s->tried = 0;
    if (!weir_bound_excludes(s->p, s->budget))
        return WEIR_OK;
    WEIR_TRY(weir_bound_quick(s->p, s->budget, &levers, &b));
    s->floor = b.feasible_bytes;
    return WEIR_OK;
}

weir_status weir_search_run(weir_search *s)
{
    WEIR_TRY(find_floor(s));
    weir_search_state a = {.s = s, .random = 1};
    const bool ok = weir_lower_init(&s->lowered, s->p) && weir_search_state_init(&a) && run(&a) &&
                    weir_lower(&s->lowered, s->best);

    if (ok && s->lowered.valid)
        s->best_extra = s->lowered.extra; /* its rounding, not that of the relower's ticks */
    weir_search_state_free(&a);
    return ok ? WEIR_OK : a.status != WEIR_OK ? a.status : WEIR_ERR_NOMEM;
}

void weir_search_free(weir_search *s)
{
    weir_lower_free(&s->lowered);
    weir_mem_free(s->best);
    s->best = NULL;
}
