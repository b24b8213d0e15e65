/* stepfile.h - a described step: its problem, and the names of the file it came from. */
#ifndef WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H
#define WEIR_GRAPH_MEMORY_STEPFILE_STEPFILE_H

#include "graph/memory/problem/mem_plan.h"
#include "graph/memory/explain/explain.h"
#include "graph/memory/budget/frontier.h"
#include "weir/plan.h"

struct weir_outline {
    weir_problem problem;               /* bytes as in the file: not aligned; resident tensors are
                                         * its last pieces */
    char        *name;
    WEIR_VEC(int64_t) piece_id;         /* [pieces] the file's numbers */
    WEIR_VEC(int64_t) task_id;          /* [tasks] */
    WEIR_VEC(char *) task_name;         /* [tasks] */
    WEIR_VEC(uint8_t) kind;             /* [pieces] weir_kind */
};

/* weir_outline_plan by a ladder that outlives the call, {0} at first, where the policy has a use
 * for one. It is the same outline's and the same options' but for the budget. */
char *weir_outline_plan_by(const weir_outline *o, const weir_outline_options *options,
                           weir_ladder *ladder, weir_outline_plan_stats *stats);

/* *ordered: the same step with its operations in an order with a small peak, yours; NULL where the
 * given one's is smaller. */
weir_status weir_outline_reorder(const weir_outline *o, weir_outline **ordered);

/* The file's number and name of the next task. False when memory is short. */
bool weir_outline_name_task(weir_outline *o, int64_t id, const char *name);

/* How texts about schedules for the outline name its tensors and operations. */
weir_naming weir_outline_naming(const weir_outline *o);

/* A plan of it as JSON, the caller's; a->p has its first pieces or all of them. NULL when memory is
 * short. */
char *weir_outline_write(const weir_outline *o, const weir_actions *a, size_t budget);

/* Rates of the options, in bytes per second, for the step; ERR_INVALID where they are none. */
weir_status weir_outline_rates(const weir_outline_options *how, weir_problem *p);

#endif
