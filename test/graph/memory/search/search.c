/* search.c - the search on random steps; an independent replay checks its plans. */
#include "check.h"
#include "core/mem.h"
#include "graph/memory/policies/mincut.h"
#include "graph/memory/search/search.h"
#include "graph/memory/problems.h"

CASE(random_steps_at_many_budgets)
{
    for (int round = 0; round < 120; round++) {
        weir_mem_problem p;
        make_problem(&p, 4 + below(MAX_OPS - 4));
        size_t whole = 0;
        for (int tenth = 10; tenth >= 0; tenth -= 2) {
            weir_search s = {.p = &p, .seed = weir_mincut,
                             .budget = whole * (size_t)tenth / 10, .moves = 300};
            if (tenth == 10)
                s.budget = SIZE_MAX;
            if (!CHECK_OK(weir_search_run(&s)))
                break;
            replay(&p, &s.lowered.s, s.lowered.peak);
            if (!CHECK(s.lowered.peak == s.best_peak && s.lowered.extra == s.best_extra))
                printf("    round %d, %d/10: peak %zu, %zu; extra %.17g, %.17g\n", round, tenth,
                       s.lowered.peak, s.best_peak, s.lowered.extra, s.best_extra);
            if (tenth == 10) {
                whole = s.best_peak;
                CHECK(s.best_extra == 0 && s.lowered.s.events.n == p.ops.n);
            } else {
                CHECK(s.best_peak <= whole);
            }
            weir_search_free(&s);
        }
        weir_mem_problem_free(&p);
    }
}

/* Equal problems get equal plans. */
CASE(plans_are_reproducible)
{
    weir_mem_problem p;
    make_problem(&p, 30);
    weir_search a = {.p = &p, .seed = weir_mincut, .budget = 64 * 40, .moves = 2000}, b = a;
    CHECK_OK(weir_search_run(&a));
    CHECK_OK(weir_search_run(&b));
    CHECK(a.best_peak == b.best_peak && a.best_extra == b.best_extra);
    CHECK(memcmp(a.best, b.best, a.lowered.intervals) == 0);
    weir_search_free(&a);
    weir_search_free(&b);
    weir_mem_problem_free(&p);
}

/* Returns the least extra time over all plans that keep or recompute in each interval. */
static double best_of_all(const weir_mem_problem *p, size_t budget)
{
    weir_lower_state w;
    double           best = INFINITY;

    CHECK(weir_lower_init(&w, p));
    uint8_t *decisions = weir_mem_zalloc(w.intervals + 1u, 1);
    CHECK(decisions != NULL);
    for (uint32_t set = 0; decisions && set < 1u << (w.intervals < 16 ? w.intervals : 16); set++) {
        for (uint32_t g = 0; g < w.intervals; g++)
            decisions[g] = set >> g & 1 ? WEIR_RECOMPUTE : WEIR_KEEP;
        CHECK(weir_lower(&w, decisions));
        if (w.valid && w.peak <= budget && w.extra < best)
            best = w.extra;
    }
    weir_mem_free(decisions);
    weir_lower_free(&w);
    return best;
}

/* On steps small enough to try all plans, the search is as good as the best of them, or better,
 * since it has more decisions than keep and recompute. */
CASE(small_steps_are_solved)
{
    for (int round = 0; round < 60; round++) {
        weir_mem_problem p;
        make_problem(&p, 4 + below(3));
        weir_search all = {.p = &p, .seed = weir_mincut, .budget = SIZE_MAX, .moves = 1};
        CHECK_OK(weir_search_run(&all));
        for (size_t percent = 50; percent < 100; percent += 10) {
            weir_search  s = {.p = &p, .seed = weir_mincut,
                              .budget = all.best_peak * percent / 100, .moves = 4000};
            const double best = best_of_all(&p, s.budget);
            CHECK_OK(weir_search_run(&s));
            if (isfinite(best) && !CHECK(s.best_peak <= s.budget && s.best_extra <= best))
                printf("    round %d, %zu %%: peak %zu of %zu, extra %g, possible %g\n", round,
                       percent, s.best_peak, s.budget, s.best_extra, best);
            weir_search_free(&s);
        }
        weir_search_free(&all);
        weir_mem_problem_free(&p);
    }
}

/* If an op by itself exceeds the budget, the search stops at the first plan that needs no more than
 * the bound, after few others. */
CASE(what_cannot_fit_is_not_searched_for)
{
    enum { ROUNDS = 60, MOVES = 40000 };
    int met = 0;

    for (int round = 0; round < ROUNDS; round++) {
        weir_mem_problem p;
        make_problem(&p, 4 + below(MAX_OPS - 4));
        p.link_out = p.link_in = 1e9;
        weir_search s = {.p = &p, .seed = weir_mincut, .budget = 1, .moves = MOVES};
        CHECK_OK(weir_search_run(&s));
        CHECK(s.floor > s.budget && s.best_peak >= s.floor);
        CHECK(s.tried <= MOVES / 4 + 30 * (uint64_t)(s.lowered.intervals + 16));
        if (s.best_peak == s.floor) {
            met++;
            CHECK(s.tried < MOVES / 4);
        }
        weir_search room = {.p = &p, .seed = weir_mincut, .budget = s.best_peak, .moves = MOVES};
        CHECK_OK(weir_search_run(&room));
        CHECK(room.floor == 0 && room.best_peak <= s.best_peak);
        weir_search_free(&room);
        weir_search_free(&s);
        weir_mem_problem_free(&p);
    }
    CHECK(met > ROUNDS / 4);
}
