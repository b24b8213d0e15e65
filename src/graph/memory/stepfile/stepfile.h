/* stepfile.h - a step description: its problem, and the names used in its file.
 * Defined in stepfile.c, stepfile_names.c, stepfile_order.c, stepfile_plan.c and
 * stepfile_write.c. */
#ifndef WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H
#define WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H

#include "graph/memory/problem/mem_plan.h"
#include "graph/memory/explain/explain.h"
#include "graph/memory/budget/frontier.h"
#include "weir/plan.h"

struct weir_stepfile {
    weir_mem_problem  problem; /* bytes as in the file, not aligned; resident tensors are the
                                * last tensors */
    char             *name;
    WEIR_VEC(int64_t) tensor_id; /* [tensors] numbers in the file */
    WEIR_VEC(int64_t) op_id;     /* [ops] */
    WEIR_VEC(char *)  op_name;   /* [ops] */
    WEIR_VEC(uint8_t) kind;      /* [tensors] weir_kind */
};

/* weir_stepfile_plan by a frontier that outlives the call, if the policy has a use for one. The
 * frontier, {0} at first, must always get the same step and the same options but for the budget. */
char *weir_stepfile_plan_frontier(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_frontier *frontier, weir_stepfile_plan_stats *stats);

/* *ordered: the same step with its operations in an order with a small peak, owned by the caller;
 * NULL if the given order is better. ERR_NOMEM. */
weir_status weir_stepfile_reorder(const weir_stepfile *o, weir_stepfile **ordered);

/* Adds the id and the name of the next op. False when memory is short. */
bool weir_stepfile_name_op(weir_stepfile *o, int64_t id, const char *name);

/* How texts about schedules for the step name its tensors and operations. */
weir_naming weir_stepfile_naming(const weir_stepfile *o);

/* Writes a plan for the step as JSON, owned by the caller; a->p has all of its tensors, or all but
 * the resident ones. NULL when memory is short. */
char *weir_stepfile_write(const weir_stepfile *o, const weir_mem_plan *a, size_t budget);

/* Sets the problem's rates, bytes per second, from the options; ERR_INVALID for impossible ones. */
weir_status weir_stepfile_rates(const weir_stepfile_options *how, weir_mem_problem *p);

#endif
