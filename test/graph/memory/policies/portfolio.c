/* portfolio.c - auto beside the other policies on random steps. */
#include <math.h>

#include "graph/memory/policies/fit.h"
#include "graph/memory/problem/offsets.h"
#include "graph/fixture.h"
#include "policies.h"
#include "graph/memory/problems.h"

/* auto is no slower than any policy that plans for a budget and the same each time. */
CASE(auto_is_never_slower)
{
    for (int round = 0; round < 40; round++) {
        weir_problem  p;
        weir_schedule plain, own, same, s;
        make_problem_with(&p, 6 + below(MOST_TASKS - 6), round % 3 ? 0 : 1 + below(3));
        if (round % 2)
            p.link_out = p.link_in = 64 << below(6);
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        for (size_t percent = 35; percent < 100; percent += 20) {
            const size_t room = plain.peak * percent / 100;
            CHECK_OK(plan_with("auto", &p, room, &own));
            CHECK_OK(plan_with("auto", &p, room, &same));
            CHECK(same_events(&own, &same));
            weir_schedule_free(&same);
            for (size_t i = 0; i < LAB_COUNT(policies); i++) {
                if (policies[i].asked || (policies[i].link && p.link_out <= 0))
                    continue;
                CHECK_OK(plan_with(policies[i].name, &p, room, &s));
                const bool fits = s.valid && s.peak <= room;
                if (fits && !CHECK(own.valid && own.peak <= room && own.time <= s.time))
                    printf("    round %d, %zu %%: %.9g s, %s %.9g s\n", round, percent, own.time,
                           policies[i].name, s.time);
                weir_schedule_free(&s);
            }
            weir_schedule_free(&own);
        }
        weir_schedule_free(&plain);
        weir_problem_free(&p);
    }
}

/* ---- with addresses ---- */

typedef struct place {
    weir_lay lay;
    size_t   room;
} place;

static weir_status lay_out(void *ctx, const weir_schedule *s, size_t *height)
{
    place      *x = ctx;
    weir_status status = weir_lay_within(s, 64, x->room, &x->lay);

    if (status == WEIR_OK && x->lay.height > x->room)
        status = weir_lay_out(s, 64, NULL, &x->lay);
    *height = x->lay.height;
    return status;
}

/* Seconds of the policy's plan whose addresses lie within the room; HUGE_VAL: there is none. */
static double fitted(const char *name, const weir_problem *p, size_t room)
{
    place    at = {.room = room};
    weir_fit f = {.p = p, .room = room, .align = 64, .moves = 1, .lay = lay_out,
                  .ctx = &at};

    CHECK_OK(weir_policy_find(name, &f.policy, &f.variant));
    CHECK_OK(weir_fit_run(&f));
    const double seconds = f.fits && f.s.valid ? f.s.time : HUGE_VAL;
    weir_fit_free(&f);
    weir_lay_free(&at.lay);
    return seconds;
}

CASE(addresses_count_too)
{
    int fit = 0;

    for (int round = 0; round < 40; round++) {
        weir_problem  p;
        weir_schedule plain;
        make_problem_with(&p, 12 + below(MOST_TASKS - 12), 1 + below(3));
        p.link_out = p.link_in = 64 << below(6);
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        const size_t room = plain.peak * (40 + below(40)) / 100;
        const double own = fitted("auto", &p, room);
        for (size_t i = 0; i < LAB_COUNT(policies); i++) {
            const double other = policies[i].asked ? HUGE_VAL : fitted(policies[i].name, &p, room);
            fit += other < HUGE_VAL;
            if (other < HUGE_VAL && !CHECK(own <= other))
                printf("    round %d, %zu bytes: %.9g s, %s %.9g s\n", round, room, own,
                       policies[i].name, other);
        }
        weir_schedule_free(&plain);
        weir_problem_free(&p);
    }
    CHECK(fit > 0);
}
