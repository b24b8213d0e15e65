/* frontier.c - more room is never slower, whatever was asked before. */
#include "core/mem.h"
#include "graph/memory/policies/table.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/budget/frontier.h"
#include "graph/memory/problem/lower.h"
#include "graph/memory/problems.h"

enum { ALIGN = 64, BUDGETS = 24 };

static weir_status lay_out(void *ctx, const weir_schedule *s, size_t *height)
{
    weir_lay *const   l = ctx;
    const weir_status status = weir_lay_out(s, ALIGN, NULL, l);
    *height = l->height;
    return status;
}

static weir_fit fit_for(const weir_problem *p, weir_lay *lay, size_t room)
{
    weir_fit f = {.p = p, .room = room, .align = ALIGN, .moves = 2000, .lay = lay_out, .ctx = lay};
    CHECK_OK(weir_policy_find("auto", &f.policy, &f.variant));
    return f;
}

/* Height with everything kept. */
static size_t whole_of(const weir_problem *p)
{
    weir_lay lay = {0};
    weir_fit f = fit_for(p, &lay, SIZE_MAX);
    CHECK_OK(weir_fit_run(&f));
    const size_t height = f.height;
    weir_fit_free(&f);
    weir_lay_free(&lay);
    return height;
}

/* Extra seconds of the ladder's plan within `room`, INFINITY if there is none. */
static double ask(weir_ladder *l, const weir_problem *p, size_t room)
{
    weir_lay lay = {0};
    weir_fit f = fit_for(p, &lay, room);
    double   extra = INFINITY;

    if (CHECK_OK(weir_ladder_climb(l, &f)) && CHECK_OK(weir_ladder_fit(l, &f)) && f.fits) {
        CHECK(lay.height <= room && f.s.valid && f.s.peak <= room);
        extra = f.s.time - p->time;
    }
    weir_fit_free(&f);
    weir_lay_free(&lay);
    return extra;
}

/* Rungs of a new ladder get one answer, asked in any order. */
CASE(rungs_answer_the_same_in_any_order)
{
    for (int round = 0; round < 12; round++) {
        weir_problem p;
        make_problem(&p, 8 + below(MOST_TASKS - 8));
        const size_t whole = whole_of(&p);
        weir_ladder  down = {.whole = whole}, any = {.whole = whole};
        double       answer[WEIR_RUNGS + 1], above = 0;
        for (size_t rung = WEIR_RUNGS; rung > 0; rung--) {
            answer[rung] = ask(&down, &p, whole * rung / WEIR_RUNGS);
            CHECK(answer[rung] >= above);
            above = answer[rung];
        }
        CHECK(answer[WEIR_RUNGS] == 0);
        for (int i = 0; i < BUDGETS; i++) {
            const size_t rung = 1 + below(WEIR_RUNGS);
            CHECK(ask(&any, &p, whole * rung / WEIR_RUNGS) == answer[rung]);
        }
        weir_ladder_free(&down);
        weir_ladder_free(&any);
        weir_problem_free(&p);
    }
}

/* Budgets anywhere: at any moment more room is never slower, and nothing gets slower later. */
CASE(more_room_is_never_slower)
{
    for (int round = 0; round < 12; round++) {
        weir_problem p;
        make_problem(&p, 8 + below(MOST_TASKS - 8));
        weir_ladder  l = {.whole = whole_of(&p)};
        size_t       room[BUDGETS];
        double       answer[BUDGETS];
        for (int i = 0; i < BUDGETS; i++) {
            room[i] = 64 * below((uint32_t)(l.whole / 64 + 2));
            answer[i] = ask(&l, &p, room[i]);
            for (int k = 0; k < i; k++)
                CHECK(room[k] > room[i] || answer[k] >= answer[i]);
        }
        for (int i = 0; i < BUDGETS; i++) {
            const double now = ask(&l, &p, room[i]);
            CHECK(now <= answer[i]);
            for (int k = 0; k < BUDGETS; k++)
                CHECK(room[k] < room[i] || ask(&l, &p, room[k]) <= now);
        }
        weir_ladder_free(&l);
        weir_problem_free(&p);
    }
}

/* Plans that another one beats are not kept. */
CASE(beaten_plans_go)
{
    const uint8_t     gap[3] = {0, 1, 2};
    const weir_rung   all[] = {{9, 90, 1.0, NULL}, {5, 50, 3.0, NULL}, {7, 70, 3.5, NULL},
                               {7, 70, 2.0, NULL}, {5, 50, 3.0, NULL}, {4, 45, 1.5, NULL}};
    static const uint32_t n[] = {1, 2, 2, 3, 3, 2};
    weir_ladder       l = {0};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(weir_ladder_add(&l, &all[i], gap, 3));
        CHECK(l.rungs.n == n[i]);
    }
    CHECK(weir_ladder_best(&l, 89)->extra == 1.5 && weir_ladder_best(&l, 90)->extra == 1.0);
    CHECK(weir_ladder_best(&l, 44) == NULL && memcmp(l.rungs.at[1].gap, gap, 3) == 0);
    weir_ladder_free(&l);
}

/* Plans that come from outside count only if they are plans. */
CASE(foreign_decisions_are_judged)
{
    weir_problem p;
    make_problem(&p, 20);
    weir_lay       lay = {0};
    weir_ladder    l = {.whole = whole_of(&p)};
    const weir_fit f = fit_for(&p, &lay, l.whole);
    const uint32_t gaps = weir_walk_gaps(&p);
    uint8_t *const gap = weir_mem_alloc(gaps + 1u);
    bool           good;
    CHECK_OR_RETURN(gap != NULL);
    memset(gap, WEIR_KEEP, gaps);
    CHECK_OK(weir_ladder_judge(&l, &f, l.whole, gap, &good));
    CHECK(good && l.rungs.n == 1 && l.rungs.at[0].extra == 0);
    for (int i = 0; i < 50; i++) {
        for (uint32_t g = 0; g < gaps; g++)
            gap[g] = below(2) ? WEIR_DROP : WEIR_DROP_AGAIN;
        CHECK_OK(weir_ladder_judge(&l, &f, l.whole, gap, &good));
    }
    for (uint32_t i = 1; i < l.rungs.n; i++)
        CHECK(l.rungs.at[i].height < l.rungs.at[i - 1].height &&
              l.rungs.at[i].extra > l.rungs.at[i - 1].extra);
    weir_mem_free(gap);
    weir_ladder_free(&l);
    weir_lay_free(&lay);
    weir_problem_free(&p);
}
