/* measure.c - the step peak as it really is: canaries in the arena, one run, the highest byte
 * changed.
 *
 * The pattern differs from byte to byte. The answer is counted to the end of its alignment unit,
 * so a kernel would have to write the pattern's own values into a whole unit to go unseen. */
#include "core/status.h"
#include "graph/execute.h"

static unsigned char canary(size_t i)
{
    return (unsigned char)(((i + 1) * 0x9E3779B97F4A7C15u) >> 56);
}

weir_status weir_graph_measure(weir_graph *g, size_t *arena_peak)
{
    if (!g || !arena_peak)
        return weir_fail_null("weir_graph_measure", "the graph or the place for the number");
    *arena_peak = 0;
    WEIR_TRY(weir_device_check(g->dev, "weir_graph_measure"));
    if (g->state != WEIR_GRAPH_PLANNED)
        return weir_fail(WEIR_ERR_STATE, "weir_graph_measure: the graph is not planned");
    WEIR_TRY(weir_plan_bind(g));
    unsigned char *at = (unsigned char *)g->dev->arena.at;
    size_t         end = g->dev->arena.bytes;

    for (size_t i = 0; i < end; i++)
        at[i] = canary(i);
    WEIR_TRY(weir_graph_run(g));
    while (end > 0 && at[end - 1] == canary(end - 1))
        end--;
    if (!weir_size_align(end, g->dev->ops->align, arena_peak))
        return weir_fail(WEIR_ERR_NOMEM, "weir_graph_measure: %zu bytes overflow", end);
    return WEIR_OK;
}
