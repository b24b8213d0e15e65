/* measure.c - the step peak as it really is: canaries in the arena, one run, the highest byte
 * changed.
 *
 * The device's pattern differs from byte to byte. The answer is counted to the end of its alignment
 * unit, so a kernel would have to write the pattern's own values into a whole unit to go unseen. */
#include "core/status.h"
#include "graph/runtime/execute.h"

weir_status weir_graph_measure(weir_graph *g, size_t *arena_peak)
{
    if (!g || !arena_peak)
        return weir_fail_null("weir_graph_measure", "the graph or the place for the number");
    *arena_peak = 0;
    WEIR_TRY(weir_device_check(g->dev, "weir_graph_measure"));
    if (g->state != WEIR_GRAPH_PLANNED)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_measure: the graph is not planned");
    WEIR_TRY(weir_plan_send(g));
    WEIR_TRY(weir_plan_bind(g));
    weir_device *const d = g->dev;
    size_t             end = 0;

    WEIR_TRY(d->ops->paint(d, d->arena.at, d->arena.bytes));
    WEIR_TRY(weir_graph_run(g));
    WEIR_TRY(d->ops->painted(d, d->arena.at, d->arena.bytes, &end));
    if (!weir_size_align(end, d->ops->align, arena_peak))
        return weir_fail(WEIR_ERR_NOMEM, "weir_graph_measure: %zu bytes overflow", end);
    return WEIR_OK;
}
