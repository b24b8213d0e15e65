/* sweep.h - the extra time of policies at falling budgets. */
#ifndef WEIR_GRAPH_MEMORY_STEPFILE_SWEEP_H
#define WEIR_GRAPH_MEMORY_STEPFILE_SWEEP_H

#include "graph/memory/budget/frontier.h"
#include "weir/plan.h"

/* The plans of one policy, from level WEIR_FRONTIER_LEVELS down to the last one that fits. */
typedef struct weir_sweep_line {
    char                              *policy;
    WEIR_VEC(weir_stepfile_plan_stats) points;
} weir_sweep_line;

struct weir_sweep {
    char                     *name;  /* of the step; owned */
    weir_stepfile_plan_stats  whole; /* at level WEIR_FRONTIER_LEVELS, whether it fits or not */
    double                    link_out, link_in; /* GB/s; 0: no link */
    WEIR_VEC(weir_sweep_line) lines;
};

/* Returns the extra time of a plan in percent of the step. */
static inline double weir_sweep_extra(const weir_stepfile_plan_stats *p)
{
    return 100 * p->extra_ms / (p->step_ms > 0 ? p->step_ms : 1);
}

#endif
