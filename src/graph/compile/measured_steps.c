/* measured_steps.c - counts the steps that are measured, and uses their times. See
 * measured_steps.h. */
#include "graph/compile/measured_steps.h"

#include "graph/memory/budget/replan.h"
#include "graph/plan/plan.h"

void weir_measured_steps_begin(weir_graph *g, int steps)
{
    g->to_measure = g->replan || g->plan->wire.n > 0 ? steps : 0;
}

/* Seconds of a step, from its profiled calls. */
static double mean(const weir_plan *p)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->n; i++)
        sum += p->instr[i].seconds;
    return p->profiled > 0 ? sum / (double)p->profiled : 0;
}

/* A simulated machine, which does not tell waits, takes what is estimated. */
static void use_times(weir_graph *g)
{
    weir_plan *const plan = g->plan;
    const bool       waits = weir_plan_waits_known(plan);

    if (g->replan)
        weir_replan_graph(g);
    else
        g->measured = mean(plan);
    if (waits && g->plan == plan)
        (void)weir_plan_take_times(plan, plan);
    if (waits)
        (void)weir_plan_predict_wire(g->plan);
}

static void forget_times(weir_plan *p)
{
    p->profiled = 0;
    for (uint32_t i = 0; i < p->n; i++)
        p->instr[i].seconds = 0;
}

/* The first of several steps only warms caches, so its times are dropped. */
void weir_measured_step(weir_graph *g)
{
    const weir_plan *const plan = g->plan;
    const bool             warm = plan->profiled == 1 && g->to_measure > 1;

    if (--g->to_measure == 0)
        use_times(g);
    if (g->plan == plan && (warm || g->to_measure == 0))
        forget_times(g->plan);
}
