/* portfolio.c - auto compared with the other policies on random steps. */
#include <math.h>

#include "graph/memory/policies/fit.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/policies.h"
#include "graph/memory/problems.h"

/* auto is no slower than any policy that plans for a limit, and the same each time. */
CASE(auto_is_never_slower)
{
    policy_case  policies[MOST_POLICIES];
    const size_t n = policy_cases(policies);

    for (int round = 0; round < 40; round++) {
        weir_mem_problem p;
        weir_schedule    plain, own, same, s;
        make_problem_with(&p, 6 + below(MAX_OPS - 6), round % 3 ? 0 : 1 + below(3));
        if (round % 2)
            p.link_out = p.link_in = 64 << below(6);
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        for (size_t percent = 35; percent < 100; percent += 20) {
            const size_t limit = plain.peak * percent / 100;
            CHECK_OK(plan_with("auto", &p, limit, &own));
            CHECK_OK(plan_with("auto", &p, limit, &same));
            CHECK(same_events(&own, &same));
            weir_schedule_free(&same);
            for (size_t i = 0; i < n; i++) {
                if (policies[i].asked || (policies[i].link && p.link_out <= 0))
                    continue;
                CHECK_OK(plan_with(policies[i].name, &p, limit, &s));
                const bool fits = s.valid && s.peak <= limit;
                if (fits && !CHECK(own.valid && own.peak <= limit && own.time <= s.time))
                    printf("    round %d, %zu %%: %.9g s, %s %.9g s\n", round, percent, own.time,
                           policies[i].name, s.time);
                weir_schedule_free(&s);
            }
            weir_schedule_free(&own);
        }
        weir_schedule_free(&plain);
        weir_mem_problem_free(&p);
    }
}

/* ---- with addresses ---- */

typedef struct place {
    weir_offsets offsets;
    size_t       limit;
} place;

static weir_status assign_offsets(void *ctx, const weir_schedule *s, size_t limit, size_t *height)
{
    (void)limit;
    place      *x = ctx;
    weir_status status = weir_assign_offsets_within(s, 64, x->limit, &x->offsets);

    if (status == WEIR_OK && x->offsets.height > x->limit)
        status = weir_assign_offsets(s, 64, NULL, &x->offsets);
    *height = x->offsets.height;
    return status;
}

/* Returns the seconds of the policy's plan that can be placed within the limit; HUGE_VAL if
 * none. */
static double fitted(const char *name, const weir_mem_problem *p, size_t limit)
{
    place    at = {.limit = limit};
    weir_fit f = {
        .p = p, .limit = limit, .align = 64, .moves = 1, .place = assign_offsets, .ctx = &at};

    CHECK_OK(weir_policy_find(name, &f.policy, &f.variant));
    CHECK_OK(weir_fit_run(&f));
    const double seconds = f.fits && f.s.valid ? f.s.time : HUGE_VAL;
    weir_fit_free(&f);
    weir_offsets_free(&at.offsets);
    return seconds;
}

CASE(addresses_count_too)
{
    policy_case  policies[MOST_POLICIES];
    const size_t n = policy_cases(policies);
    int          fit = 0;

    for (int round = 0; round < 40; round++) {
        weir_mem_problem p;
        weir_schedule    plain;
        make_problem_with(&p, 12 + below(MAX_OPS - 12), 1 + below(3));
        p.link_out = p.link_in = 64 << below(6);
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        const size_t limit = plain.peak * (40 + below(40)) / 100;
        const double own = fitted("auto", &p, limit);
        for (size_t i = 0; i < n; i++) {
            const double other = policies[i].asked ? HUGE_VAL : fitted(policies[i].name, &p, limit);
            fit += other < HUGE_VAL;
            if (other < HUGE_VAL && !CHECK(own <= other))
                printf("    round %d, %zu bytes: %.9g s, %s %.9g s\n", round, limit, own,
                       policies[i].name, other);
        }
        weir_schedule_free(&plain);
        weir_mem_problem_free(&p);
    }
    CHECK(fit > 0);
}
