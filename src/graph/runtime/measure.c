/* measure.c - measures the step peak: fills the arena with a pattern, runs the step once, and finds
 * the highest byte that changed.
 *
 * The pattern differs from byte to byte and the result is rounded up to the alignment, so a write
 * is missed only if a kernel writes the pattern's own values to a whole aligned unit. */
#include "core/status.h"
#include "graph/runtime/execute.h"

weir_status weir_plan_measure(weir_graph *g, weir_status (*run)(weir_graph *g), size_t *peak)
{
    weir_device *const d = g->dev;
    size_t             end = 0;

    WEIR_TRY(weir_plan_bind(g, weir_plan_whole(g->plan)));
    WEIR_TRY(d->ops->paint(d, d->arena.at, d->arena.bytes));
    WEIR_TRY(run(g));
    WEIR_TRY(d->ops->painted(d, d->arena.at, d->arena.bytes, &end));
    if (!weir_size_align(end, d->ops->align, peak))
        return weir_fail(WEIR_ERR_NOMEM, "weir_graph_measure: the peak of %zu bytes exceeds "
                         "SIZE_MAX when it is rounded up to the alignment", end);
    return WEIR_OK;
}
