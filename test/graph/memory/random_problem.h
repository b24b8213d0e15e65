/* random_problem.h - random steps for planners: a chain with side branches, like a forward and a
 * backward pass, with everything that a problem can say. */
#ifndef WEIR_TEST_GRAPH_MEMORY_RANDOM_PROBLEM_H
#define WEIR_TEST_GRAPH_MEMORY_RANDOM_PROBLEM_H

#include "check.h"
#include "problems.h"

enum { PROBLEM_WIDTH = 4, PROBLEM_RESIDENT = 6 };

typedef struct problem_draw {
    weir_problem *p;
    uint32_t tasks;             /* of the chain; updates come behind them */
    uint32_t pieces;            /* temporary ones: their numbers come first */
    uint32_t last[64][2];       /* [tasks] what it makes: one or two pieces */
    uint32_t n[64];
    uint32_t resident;          /* number of the first; the last two are running statistics */
} problem_draw;

/* The pieces of all tasks, numbered in the order of their makers. */
static inline void problem_pieces(problem_draw *d)
{
    for (uint32_t i = 0; i < d->tasks; i++) {
        d->n[i] = 1 + (below(5) == 0);
        for (uint32_t k = 0; k < d->n[i]; k++) {
            const size_t bytes = 64 * (1 + below(16));
            const bool   output = (i + 1 == d->tasks && k == 0) || below(12) == 0;
            d->last[i][k] = d->pieces++;
            CHECK(weir_problem_piece(d->p, bytes, below(4) ? 0 : bytes / 8, output));
        }
    }
    d->resident = d->pieces;
    for (uint32_t k = 0; k < PROBLEM_RESIDENT; k++)
        CHECK(weir_problem_piece(d->p, 64 * below(9), 0, below(9) == 0));
}

/* Task i of the chain reads the piece before it, its mirror image and some earlier ones. */
static inline void problem_task(problem_draw *d, uint32_t i)
{
    uint32_t in[3 * PROBLEM_WIDTH], nin = 0, nmasked = 0, changes = 0, only = 0;

    if (i > 0)
        in[nin++] = d->last[i - 1][0];
    if (i > d->tasks / 2)
        in[nin++] = d->last[d->tasks - 1 - i][0];
    for (uint32_t k = below(PROBLEM_WIDTH - 1); k > 0 && i > 0; k--)
        in[nin++] = d->last[below(i)][0];
    const uint32_t *masked = in + (nin ? nin - 1 : 0);
    nmasked = i > d->tasks / 2 && below(2);
    const uint32_t weight = below(PROBLEM_RESIDENT - 2);
    const bool     reads = below(2), moves = below(6) == 0;
    if (reads)
        in[nin++] = d->resident + weight;
    if (moves) {
        changes = in[nin++] = d->resident + PROBLEM_RESIDENT - 1 - below(2);
        only = 1;
    }
    const uint32_t pairs[2] = {in[0], d->last[i][0]};
    const bool     pair = i > 0 && below(3) == 0;
    const weir_task_def def = {
        .time = 1e-6 * (1.0 + below(9)),
        .work = below(2) ? 0 : 64 * below(8),
        .until = reads ? d->tasks + weight : d->tasks + PROBLEM_RESIDENT, .nin = nin, .in = in,
        .nout = d->n[i], .out = d->last[i], .npairs = pair ? 2 : 0, .pairs = pairs,
        .nmasked = nmasked, .masked = masked, .nchanges = moves, .changes = &changes, .only = only};
    CHECK(weir_problem_task(d->p, &def));
}

/* `tasks` (at most 64) of a chain, then an update of each of the first resident pieces. */
static inline void problem_make(weir_problem *p, uint32_t tasks)
{
    problem_draw d = {.p = p, .tasks = tasks};

    *p = (weir_problem){0};
    problem_pieces(&d);
    for (uint32_t i = 0; i < tasks; i++)
        problem_task(&d, i);
    for (uint32_t k = 0; k < PROBLEM_RESIDENT - 2; k++) {
        const uint32_t weight = d.resident + k;
        const uint32_t in[2] = {weight, d.last[tasks - 1 - below(tasks / 2)][0]};
        const weir_task_def def = {.time = 1e-6, .nin = 2, .in = in, .nchanges = 1,
                                   .changes = &weight, .phase = WEIR_UPDATES};
        CHECK(weir_problem_task(p, &def));
    }
    CHECK(weir_problem_end(p));
}

#endif
