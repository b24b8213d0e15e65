/* settle.c - completes the final plan: streams, collectives beside computing and their predicted
 * time, parts of concatenations, and space in the offload store. */
#include "core/attr.h"
#include "device/offload/spill_slots.h"
#include "graph/plan/plan.h"

/* Reserves slots and tickets in the offload store for the plan's transfers. */
static weir_status reclaim(const weir_graph *g)
{
    size_t   bytes = 0;
    uint64_t tickets = 0;

    g->plan->offloads = false;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_spill_attr *a = weir_spill_attr_of(g->nodes.at[i].op, g->nodes.at[i].attr);
        if (!a)
            continue;
        g->plan->offloads |= !a->persistent && g->nodes.at[i].op == WEIR_OP_SPILL_OUT;
        if (!a->persistent && a->slot + a->bytes > bytes)
            bytes = a->slot + a->bytes;
        tickets = a->ticket + 1 > tickets ? a->ticket + 1 : tickets;
    }
    return tickets ? weir_device_spill(g->dev, bytes, (uint32_t)tickets) : WEIR_OK;
}

weir_status weir_plan_settle(weir_graph *g)
{
    const weir_device_streams *const q = g->dev->ops->streams;
    const weir_rates                 rates = g->dev->ops->rates(g->dev);

    /* Between the halves of a graph no stream may be ahead of another: one stream runs both. */
    if (q)
        WEIR_TRY(weir_plan_overlap(g, g->stops ? 1 : q->count(g->dev), &rates));
    WEIR_TRY(weir_plan_overlap_collectives(g));
    WEIR_TRY(weir_plan_join_parts(g));
    WEIR_TRY(weir_plan_find_halves(g));
    WEIR_TRY(weir_plan_check_collectives(g->plan));
    WEIR_TRY(weir_plan_predict_wire(g->plan));
    return reclaim(g);
}
