/* sweep.h - what policies make of smaller and smaller budgets: the points of a curve. */
#ifndef WEIR_GRAPH_MEMORY_STEPFILE_SWEEP_H
#define WEIR_GRAPH_MEMORY_STEPFILE_SWEEP_H

#include "graph/memory/budget/frontier.h"
#include "weir/plan.h"

/* Plans from rung WEIR_RUNGS down to the last one that fits. */
typedef struct weir_curve_line {
    char *policy;
    WEIR_VEC(weir_outline_plan_stats) points;
} weir_curve_line;

struct weir_curve {
    char *name;                         /* of the step */
    weir_outline_plan_stats whole;      /* at rung WEIR_RUNGS, or of what was met there */
    double link_out, link_in;           /* GB/s; 0: no swapping */
    WEIR_VEC(weir_curve_line) lines;
};

static inline double weir_curve_extra(const weir_outline_plan_stats *p)
{
    return 100 * p->extra_ms / (p->step_ms > 0 ? p->step_ms : 1);
}

#endif
