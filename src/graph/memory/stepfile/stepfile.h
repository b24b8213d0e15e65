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
    weir_mem_problem  problem; /* bytes as in the file, not aligned; resident tensors come last */
    char             *name;
    WEIR_VEC(int64_t) tensor_id; /* [tensors] their numbers in the file */
    WEIR_VEC(int64_t) op_id;     /* [ops] their numbers in the file */
    WEIR_VEC(char *)  op_name;   /* [ops] owned */
    WEIR_VEC(uint8_t) kind;      /* [tensors] weir_kind */
};

/* weir_stepfile_plan with a frontier that outlives the call, used if the policy allows it. The
 * frontier starts as {0} and must always get the same step and, apart from the budget, the same
 * options. The caller owns it and the returned text; NULL with an error if no plan is made. */
char *weir_stepfile_plan_frontier(const weir_stepfile *o, const weir_stepfile_options *options,
                                  weir_frontier *frontier, weir_stepfile_plan_stats *stats);

/* Sets *ordered to the same step with its ops in an order with a small peak, never larger than that
 * of the given order; owned by the caller. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_stepfile_reorder(const weir_stepfile *o, weir_stepfile **ordered);

/* Adds the id and a copy of the name of the next op. Returns false if memory runs out. */
bool weir_stepfile_name_op(weir_stepfile *o, int64_t id, const char *name);

/* Returns how texts about schedules for the step name its tensors and ops; valid as long as *o. */
weir_naming weir_stepfile_naming(const weir_stepfile *o);

/* Returns a plan for the step as JSON, owned by the caller; NULL if memory runs out. The plan's
 * problem has all tensors of the step, or all but the resident ones. `budget` is in bytes. */
char *weir_stepfile_write(const weir_stepfile *o, const weir_mem_plan *a, size_t budget);

/* Sets the bandwidths of the problem, in bytes per second, from the options, in GB/s. Returns
 * ERR_INVALID if one is negative, tiny or not finite. */
weir_status weir_stepfile_rates(const weir_stepfile_options *how, weir_mem_problem *p);

#endif
