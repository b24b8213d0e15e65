/* frontier.c - a larger budget is never slower, whatever was planned before. */
#include "core/mem.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/budget/frontier.h"
#include "graph/memory/problem/lower.h"
#include "graph/memory/problems.h"

enum { ALIGN = 64, BUDGETS = 24 };

static weir_status assign_offsets(void *ctx, const weir_schedule *s, size_t limit, size_t *height)
{
    (void)limit;
    weir_offsets *const   l = ctx;
    const weir_status status = weir_assign_offsets(s, ALIGN, NULL, l);
    *height = l->height;
    return status;
}

static weir_fit fit_for(const weir_mem_problem *p, weir_offsets *offsets, size_t limit)
{
    weir_fit f = {.p = p,
                  .limit = limit,
                  .align = ALIGN,
                  .moves = 2000,
                  .place = assign_offsets,
                  .ctx = offsets};
    CHECK_OK(weir_policy_find("auto", &f.policy, &f.variant));
    return f;
}

/* Returns the height with everything kept. */
static size_t whole_of(const weir_mem_problem *p)
{
    weir_offsets offsets = {0};
    weir_fit     f = fit_for(p, &offsets, SIZE_MAX);
    CHECK_OK(weir_fit_run(&f));
    const size_t height = f.height;
    weir_fit_free(&f);
    weir_offsets_free(&offsets);
    return height;
}

/* Returns the extra seconds of the frontier's plan within `limit`; INFINITY if it has none. */
static double ask(weir_frontier *l, const weir_mem_problem *p, size_t limit)
{
    weir_offsets offsets = {0};
    weir_fit     f = fit_for(p, &offsets, limit);
    double       extra = INFINITY;

    if (CHECK_OK(weir_frontier_build(l, &f)) && CHECK_OK(weir_frontier_fit(l, &f)) && f.fits) {
        CHECK(offsets.height <= limit && f.s.valid && f.s.peak <= limit);
        extra = f.s.time - p->time;
    }
    weir_fit_free(&f);
    weir_offsets_free(&offsets);
    return extra;
}

/* Levels of a new frontier get the same answers in any order of requests. */
CASE(points_answer_the_same_in_any_order)
{
    for (int round = 0; round < 12; round++) {
        weir_mem_problem p;
        make_problem(&p, 8 + below(MAX_OPS - 8));
        const size_t  whole = whole_of(&p);
        weir_frontier down = {.whole = whole}, any = {.whole = whole};
        double        answer[WEIR_FRONTIER_LEVELS + 1], above = 0;
        for (size_t point = WEIR_FRONTIER_LEVELS; point > 0; point--) {
            answer[point] = ask(&down, &p, whole * point / WEIR_FRONTIER_LEVELS);
            CHECK(answer[point] >= above);
            above = answer[point];
        }
        CHECK(answer[WEIR_FRONTIER_LEVELS] == 0);
        for (int i = 0; i < BUDGETS; i++) {
            const size_t point = 1 + below(WEIR_FRONTIER_LEVELS);
            CHECK(ask(&any, &p, whole * point / WEIR_FRONTIER_LEVELS) == answer[point]);
        }
        weir_frontier_free(&down);
        weir_frontier_free(&any);
        weir_mem_problem_free(&p);
    }
}

/* Any budgets: at any time a larger budget is never slower, and no budget becomes slower later. */
CASE(more_room_is_never_slower)
{
    for (int round = 0; round < 12; round++) {
        weir_mem_problem p;
        make_problem(&p, 8 + below(MAX_OPS - 8));
        weir_frontier l = {.whole = whole_of(&p)};
        size_t        limit[BUDGETS];
        double        answer[BUDGETS];
        for (int i = 0; i < BUDGETS; i++) {
            limit[i] = 64 * below((uint32_t)(l.whole / 64 + 2));
            answer[i] = ask(&l, &p, limit[i]);
            for (int k = 0; k < i; k++)
                CHECK(limit[k] > limit[i] || answer[k] >= answer[i]);
        }
        for (int i = 0; i < BUDGETS; i++) {
            const double now = ask(&l, &p, limit[i]);
            CHECK(now <= answer[i]);
            for (int k = 0; k < BUDGETS; k++)
                CHECK(limit[k] < limit[i] || ask(&l, &p, limit[k]) <= now);
        }
        weir_frontier_free(&l);
        weir_mem_problem_free(&p);
    }
}

/* Dominated plans are dropped. */
CASE(beaten_plans_go)
{
    const uint8_t     decisions[3] = {0, 1, 2};
    const weir_frontier_point all[] = {
        {.target = 9, .height = 90, .extra = 1.0}, {.target = 5, .height = 50, .extra = 3.0},
        {.target = 7, .height = 70, .extra = 3.5}, {.target = 7, .height = 70, .extra = 2.0},
        {.target = 5, .height = 50, .extra = 3.0}, {.target = 4, .height = 45, .extra = 1.5}};
    static const uint32_t     n[] = {1, 2, 2, 3, 3, 2};
    weir_frontier             l = {0};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(weir_frontier_add(&l, &all[i], decisions, 3));
        CHECK(l.points.n == n[i]);
    }
    CHECK(weir_frontier_best(&l, 89)->extra == 1.5 && weir_frontier_best(&l, 90)->extra == 1.0);
    CHECK(weir_frontier_best(&l, 44) == NULL &&
          memcmp(l.points.at[1].decisions, decisions, 3) == 0);
    weir_frontier_free(&l);
}

/* Decisions from outside count only if they are a valid plan. */
CASE(foreign_decisions_are_judged)
{
    weir_mem_problem p;
    make_problem(&p, 20);
    weir_offsets   offsets = {0};
    weir_frontier  l = {.whole = whole_of(&p)};
    const weir_fit f = fit_for(&p, &offsets, l.whole);
    const uint32_t intervals = weir_lower_intervals(&p);
    uint8_t *const decisions = weir_mem_alloc(intervals + 1u);
    const weir_frontier_point from = {.target = l.whole};
    bool                      good;
    CHECK_OR_RETURN(decisions != NULL);
    memset(decisions, WEIR_KEEP, intervals);
    CHECK_OK(weir_frontier_evaluate(&l, &f, &from, decisions, &good));
    CHECK(good && l.points.n == 1 && l.points.at[0].extra == 0);
    for (int i = 0; i < 50; i++) {
        for (uint32_t g = 0; g < intervals; g++)
            decisions[g] = below(2) ? WEIR_RECOMPUTE : WEIR_RECOMPUTE_TRANSIENT;
        CHECK_OK(weir_frontier_evaluate(&l, &f, &from, decisions, &good));
    }
    for (uint32_t i = 1; i < l.points.n; i++)
        CHECK(l.points.at[i].height < l.points.at[i - 1].height &&
              l.points.at[i].extra > l.points.at[i - 1].extra);
    weir_mem_free(decisions);
    weir_frontier_free(&l);
    weir_offsets_free(&offsets);
    weir_mem_problem_free(&p);
}
