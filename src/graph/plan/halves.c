/* halves.c - finds the two halves of the plan of a graph with a stop.
 *
 * Nodes that the planner added (repeated calls, transfers) belong to the half in which the list has
 * them: those behind the last recorded node of the first half run in the second. */
#include "core/status.h"
#include "graph/plan/plan.h"

/* The storage outside of the step that an operand is, or is a copy of; WEIR_NONE: none. */
static uint32_t external_of(const weir_graph *g, const weir_operand *o)
{
    uint32_t s = o->storage;

    while (!g->storages.at[s].external && g->storages.at[s].origin != WEIR_NONE)
        s = g->storages.at[s].origin;
    return g->storages.at[s].external ? s : WEIR_NONE;
}

/* Does the instruction overwrite the external storage of operand k (inputs, then results)? A result
 * in the arena is a copy of it. */
static bool writes(const weir_instr *ins, int k)
{
    return k < ins->call.nin ? ins->call.def->mutates >> k & 1 : ins->in[k].external;
}

/* Notes for each external storage which halves write it, and whether the second reads what the
 * first has touched. */
static weir_status note_external(weir_graph *g)
{
    const weir_plan *const p = g->plan;
    bool *const touched = weir_mem_zalloc(g->storages.n + 1u, sizeof *touched);

    if (!touched)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *const ins = &p->instr[i];
        const bool              first = i < p->stop;
        for (int k = 0; k < ins->call.nin + ins->call.nout; k++) {
            const uint32_t s = external_of(g, &ins->in[k]);
            if (s == WEIR_NONE)
                continue;
            const bool read = k < ins->call.nin && !(ins->call.def->write_only >> k & 1);
            touched[s] |= first;
            g->storages.at[s].crosses |= !first && read && touched[s];
            if (writes(ins, k))
                g->storages.at[s].written_in |= first ? WEIR_FIRST_HALF : WEIR_SECOND_HALF;
        }
    }
    weir_mem_free(touched);
    return WEIR_OK;
}

weir_status weir_plan_find_halves(weir_graph *g)
{
    weir_plan *const p = g->plan;

    p->halves = g->stops;
    p->stop = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].half == WEIR_FIRST_HALF)
            p->stop = i + 1;
    for (uint32_t i = 0; i < p->stop; i++)
        if (g->nodes.at[i].half == WEIR_SECOND_HALF)
            return weir_fail(WEIR_ERR_STATE, "internal: instruction %u belongs to the second half, "
                             "and a later one to the first", i);
    for (uint32_t i = 0; i < g->storages.n; i++) {
        g->storages.at[i].crosses = false;
        g->storages.at[i].written_in = 0;
    }
    return g->stops ? note_external(g) : WEIR_OK;
}
