/* random_problem.h - random steps for planners: a chain with side branches, like a forward and a
 * backward pass, with every feature of a problem. */
#ifndef WEIR_TEST_GRAPH_MEMORY_RANDOM_PROBLEM_H
#define WEIR_TEST_GRAPH_MEMORY_RANDOM_PROBLEM_H

#include "check.h"
#include "problems.h"

enum { PROBLEM_WIDTH = 4, PROBLEM_RESIDENT = 6 };

typedef struct problem_draw {
    weir_mem_problem *p;
    uint32_t          ops;         /* of the chain; updates follow */
    uint32_t          tensors;     /* temporary ones, which have the first numbers */
    uint32_t          last[64][2]; /* [ops] its outputs: one or two tensors */
    uint32_t          n[64];
    uint32_t          resident; /* number of the first one; the last two are running statistics */
} problem_draw;

/* Numbers the tensors of all ops in the order of their producers. */
static inline void draw_tensors(problem_draw *d)
{
    for (uint32_t i = 0; i < d->ops; i++) {
        d->n[i] = 1 + (below(5) == 0);
        for (uint32_t k = 0; k < d->n[i]; k++) {
            const size_t bytes = 64 * (1 + below(16));
            const bool   output = (i + 1 == d->ops && k == 0) || below(12) == 0;
            d->last[i][k] = d->tensors++;
            CHECK(weir_mem_problem_add_tensor(d->p, bytes, below(4) ? 0 : bytes / 8, output));
        }
    }
    d->resident = d->tensors;
    for (uint32_t k = 0; k < PROBLEM_RESIDENT; k++)
        CHECK(weir_mem_problem_add_tensor(d->p, 64 * below(9), 0, below(9) == 0));
}

/* Op i of the chain reads the tensor before it, its mirror image and some earlier ones. */
static inline void draw_op(problem_draw *d, uint32_t i)
{
    uint32_t in[3 * PROBLEM_WIDTH], nin = 0, nmasked = 0, changes = 0, n_write_only = 0;

    if (i > 0)
        in[nin++] = d->last[i - 1][0];
    if (i > d->ops / 2)
        in[nin++] = d->last[d->ops - 1 - i][0];
    for (uint32_t k = below(PROBLEM_WIDTH - 1); k > 0 && i > 0; k--)
        in[nin++] = d->last[below(i)][0];
    const uint32_t *masked = in + (nin ? nin - 1 : 0);
    nmasked = i > d->ops / 2 && below(2);
    const uint32_t weight = below(PROBLEM_RESIDENT - 2);
    const bool     reads = below(2), moves = below(6) == 0;
    if (reads)
        in[nin++] = d->resident + weight;
    if (moves) {
        changes = in[nin++] = d->resident + PROBLEM_RESIDENT - 1 - below(2);
        n_write_only = 1;
    }
    const uint32_t pairs[2] = {in[0], d->last[i][0]};
    const bool     pair = i > 0 && below(3) == 0;
    const weir_mem_op_def def = {.time = 1e-6 * (1.0 + below(9)),
                                 .work = below(2) ? 0 : 64 * below(8),
                                 .rerun_before =
                                     reads ? d->ops + weight : d->ops + PROBLEM_RESIDENT,
                                 .nin = nin,
                                 .in = in,
                                 .nout = d->n[i],
                                 .out = d->last[i],
                                 .npairs = pair ? 2 : 0,
                                 .pairs = pairs,
                                 .nmasked = nmasked,
                                 .masked = masked,
                                 .nchanges = moves,
                                 .changes = &changes,
                                 .n_write_only = n_write_only};
    CHECK(weir_mem_problem_add_op(d->p, &def));
}

/* A chain of `ops` (at most 64), then an update of each of the first resident tensors. */
static inline void problem_make(weir_mem_problem *p, uint32_t ops)
{
    problem_draw d = {.p = p, .ops = ops};

    *p = (weir_mem_problem){0};
    draw_tensors(&d);
    for (uint32_t i = 0; i < ops; i++)
        draw_op(&d, i);
    for (uint32_t k = 0; k < PROBLEM_RESIDENT - 2; k++) {
        const uint32_t        weight = d.resident + k;
        const uint32_t        in[2] = {weight, d.last[ops - 1 - below(ops / 2)][0]};
        const weir_mem_op_def def = {.time = 1e-6,
                                     .nin = 2,
                                     .in = in,
                                     .nchanges = 1,
                                     .changes = &weight,
                                     .phase = WEIR_UPDATES};
        CHECK(weir_mem_problem_add_op(p, &def));
    }
    CHECK(weir_mem_problem_end(p));
}

#endif
