/* execute.h - binds and runs a plan.
 * Defined in execute.c and measure.c. */
#ifndef WEIR_GRAPH_RUNTIME_EXECUTE_H
#define WEIR_GRAPH_RUNTIME_EXECUTE_H

#include "graph/plan/plan.h"

/* Instructions [from, to) of a plan: the whole step, or one half of a graph with a stop. */
typedef struct weir_instr_range {
    uint32_t from, to;
} weir_instr_range;

static inline weir_instr_range weir_plan_whole(const weir_plan *p)
{
    return (weir_instr_range){0, p->n};
}

/* Allocates the arena and external blocks without memory, and sets all pointers of the plan. Fails
 * with ERR_STATE if the instructions up to the end of the span read a storage that was never
 * written, ERR_BUDGET or ERR_NOMEM if memory is short. */
weir_status weir_plan_bind(weir_graph *g, weir_instr_range span);

/* Are the pointers still valid: has neither the arena nor a block moved since weir_plan_bind? Has
 * the span been checked then? */
bool weir_plan_is_bound(const weir_graph *g, weir_instr_range span);

/* Runs a span of the bound plan once. rng: where the random numbers of the whole run begin.
 * profile: adds the seconds of each instruction to instr[i].seconds. Returns the first failure of a
 * kernel. */
weir_status weir_plan_run(weir_graph *g, weir_instr_range span, uint64_t rng, bool profile);

/* Runs the bound plan once on one stream and calls `seen` after each instruction. */
weir_status weir_plan_watch(weir_graph *g, void (*seen)(void *ctx, uint32_t instr), void *ctx);

/* Binds the plan, fills the arena with a pattern and calls `run` once. *peak: bytes from the start
 * of the arena to the end of the last one that changed. */
weir_status weir_plan_measure(weir_graph *g, weir_status (*run)(weir_graph *g), size_t *peak);

#endif
