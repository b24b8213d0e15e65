/* policies_placed.c - planned steps of every policy have aligned addresses with every placement.
 * $WEIR_TEST_COUNT: rounds. */
#include "graph/memory/policies.h"
#include "graph/memory/policies/recycle.h"
#include "graph/memory/problem/offsets.h"
#include "graph/memory/random_problem.h"
#include "graph/memory/verify/check.h"
#include "graph/placed.h"

/* Sizes are not multiples of the alignment: planning must round them. */
static void make_odd(weir_mem_problem *p)
{
    for (uint32_t k = 0; k < p->tensors.n; k++)
        if (p->tensors.at[k].bytes > 40)
            p->tensors.at[k].bytes -= (size_t)check_int(0, 40);
}

static void check_offsets(const weir_schedule *s, const char *placer, const char *policy,
                          size_t unit)
{
    weir_offsets l = {0};
    bool         aligned = true;

    CHECK_OR_RETURN(weir_assign_offsets(s, unit, placer, &l) == WEIR_OK);
    for (uint32_t i = 0; i < s->ranges.n; i++)
        aligned = aligned && l.offset[i] % unit == 0;
    for (uint32_t e = 0; e < s->events.n; e++)
        aligned = aligned && l.work[e] % unit == 0;
    if (!CHECK(aligned) || !CHECK_OK(weir_schedule_check(s, &l, unit, l.height)))
        printf("    %s by %s, alignment %zu\n", policy, placer, unit);
    weir_offsets_free(&l);
}

/* Places a plan of the policy, if it finds one, by every strategy. */
static void check_policy(const weir_mem_problem *p, const char *policy)
{
    weir_schedule s = {0};
    size_t        peak;

    CHECK_OK(weir_inplace_peak(p, &peak));
    if (plan_with(policy, p, peak - peak / 5, &s) == WEIR_OK && s.valid)
        for (size_t u = 0; u < ARRAY_LENGTH(units); u++)
            for (size_t i = 0; i < ARRAY_LENGTH(placers); i++)
                check_offsets(&s, placers[i], policy, units[u]);
    weir_schedule_free(&s);
}

CASE(every_policy_by_every_placement)
{
    policy_case  policies[MOST_POLICIES];
    const size_t count = policy_cases(policies);

    for (int round = 0, n = rounds(3); round < n; round++)
        for (size_t k = 0; k < count; k++) {
            weir_mem_problem p = {0};
            problem_make(&p, 8 + below(24));
            make_odd(&p);
            check_policy(&p, policies[k].name);
            weir_mem_problem_free(&p);
        }
}
