/* stepfile.h - a described step: its problem, and the names of the file it came from.
 * Defined in stepfile.c, stepfile_names.c, stepfile_order.c, stepfile_plan.c and
 * stepfile_write.c. */
#ifndef WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H
#define WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H

#include "graph/memory/problem/mem_plan.h"
#include "graph/memory/explain/explain.h"
#include "graph/memory/budget/frontier.h"
#include "weir/plan.h"

struct weir_stepfile {
    weir_mem_problem  problem; /* bytes as in the file: not aligned; resident tensors are
                                         * its last tensors */
    char             *name;
    WEIR_VEC(int64_t) tensor_id; /* [tensors] the file's numbers */
    WEIR_VEC(int64_t) op_id;     /* [ops] */
    WEIR_VEC(char *)  op_name;   /* [ops] */
    WEIR_VEC(uint8_t) kind;      /* [tensors] weir_kind */
};

/* weir_stepfile_plan by a ladder that outlives the call, {0} at first, where the policy has a use
 * for one. It is the same outline's and the same options' but for the budget. */
char *weir_stepfile_plan_frontier(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_frontier *frontier, weir_stepfile_plan_stats *stats);

/* *ordered: the same step with its operations in an order with a small peak, yours; NULL where the
 * given one's is smaller. */
weir_status weir_stepfile_reorder(const weir_stepfile *o, weir_stepfile **ordered);

/* The file's number and name of the next op. False when memory is short. */
bool weir_stepfile_name_op(weir_stepfile *o, int64_t id, const char *name);

/* How texts about schedules for the outline name its tensors and operations. */
weir_naming weir_stepfile_naming(const weir_stepfile *o);

/* A plan of it as JSON, the caller's; a->p has its first tensors or all of them. NULL when memory
 * is short. */
char *weir_stepfile_write(const weir_stepfile *o, const weir_mem_plan *a, size_t budget);

/* Rates of the options, in bytes per second, for the step; ERR_INVALID where they are none. */
weir_status weir_stepfile_rates(const weir_stepfile_options *how, weir_mem_problem *p);

#endif
