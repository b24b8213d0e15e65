/* tasks.h - random planning problems. */
#ifndef WEIR_TEST_GRAPH_TASKS_H
#define WEIR_TEST_GRAPH_TASKS_H

#include "check.h"
#include "graph/policy/problem.h"

enum { MOST_TASKS = 40, MOST_WIDTH = 3 };

static inline uint32_t tasks_below(uint32_t n)
{
    return (uint32_t)check_int(0, (int64_t)n - 1);
}

/* A chain with side branches, like a forward and a backward pass: task i reads the last piece and
 * some earlier ones. */
static inline void tasks_make(weir_problem *p, uint32_t n)
{
    *p = (weir_problem){0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t in[MOST_WIDTH + 1], nin = 0;
        CHECK(weir_problem_piece(p, 64 * (1 + tasks_below(16)), 0, i + 1 == n));
        if (i > 0)
            in[nin++] = i - 1;
        if (i > n / 2)                          /* the mirror image is what a gradient reads */
            in[nin++] = n - 1 - i;
        for (uint32_t k = tasks_below(MOST_WIDTH); k > 0 && i > 0 && nin < MOST_WIDTH; k--)
            in[nin++] = tasks_below(i);
        const uint32_t until = tasks_below(4) ? n : tasks_below(n + 1);
        const uint32_t pairs[2] = {i > 0 ? i - 1 : 0, i};
        const bool     pair = i > 0 && tasks_below(3) == 0;
        const weir_task_def def = {
            .time = 1.0 + tasks_below(9), .work = tasks_below(2) ? 0 : 64 * tasks_below(8),
            .until = until,
            .nin = nin, .in = in, .nout = 1, .out = &i, .npairs = pair ? 2 : 0, .pairs = pairs};
        CHECK(weir_problem_task(p, &def));
    }
    CHECK(weir_problem_end(p));
}

#endif
