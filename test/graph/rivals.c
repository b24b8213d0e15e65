/* rivals.c - auto beside the other policies on random steps. */
#include "lab.h"
#include "policies.h"
#include "problems.h"

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
