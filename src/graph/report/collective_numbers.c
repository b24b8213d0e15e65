/* collective_numbers.c - a collective of a plan in the numbers that its reports share. */
#include "graph/report/collective_numbers.h"

weir_collective_numbers weir_collective_numbers_of(const weir_plan *p, const weir_wire_span *w)
{
    const bool known = weir_plan_wire_known(p);

    return (weir_collective_numbers){
        .start = w->start,
        .wait = w->wait,
        .bytes = weir_plan_wire_bytes(p, w),
        .begin_ms = known ? w->begin * 1e3 : -1,
        .wire_ms = known ? w->seconds * 1e3 : -1,
        .exposed_ms = known ? w->exposed * 1e3 : -1,
        .measured_exposed_ms =
            weir_plan_waits_known(p) ? weir_plan_profiled_wait(p, w) * 1e3 : -1};
}
