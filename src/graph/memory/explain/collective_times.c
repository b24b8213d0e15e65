/* collective_times.c - explains how long the collectives of a planned graph take: as predicted,
 * and as profiled where it was. */
#include "graph/memory/explain/collective_times.h"

#include "graph/report/collective_numbers.h"

static void add_row(const weir_plan *p, const weir_wire_span *w, weir_string *s)
{
    const weir_collective_numbers c = weir_collective_numbers_of(p, w);

    weir_string_add(s, "%8u %8u %13zu ", c.start, c.wait, c.bytes);
    if (c.wire_ms >= 0)
        weir_string_add(s, "%12.4f %12.4f", c.wire_ms, c.exposed_ms);
    else
        weir_string_add(s, "%12s %12s", "-", "-");
    if (c.measured_exposed_ms >= 0)
        weir_string_add(s, " %12.4f", c.measured_exposed_ms);
    weir_string_add(s, "  %s\n", p->instr[w->start].call.def->name);
}

void weir_explain_collectives(const weir_plan *p, weir_string *s)
{
    double seconds, exposed;

    if (p->wire.n == 0)
        return;
    weir_plan_wire_sums(p, &seconds, &exposed);
    weir_string_add(s, "\ncollectives: %u", p->wire.n);
    if (p->wire.at[0].exposed >= 0)
        weir_string_add(s, ", predicted to take %.4f ms on the wire, for %.4f ms of which "
                        "computing waits\n", seconds * 1e3, exposed * 1e3);
    else
        weir_string_add(s, "; how long they take is not known: weir_comm_measure, ahead of "
                        "weir_graph_end, finds it for all_reduce\n");
    weir_string_add(s, "\n%8s %8s %13s %12s %12s%s  %s\n", "starts", "awaited", "bytes",
                    "wire, ms", "waits, ms", weir_plan_waits_known(p) ? " measured, ms" : "",
                    "collective");
    for (uint32_t i = 0; i < p->wire.n; i++)
        add_row(p, &p->wire.at[i], s);
}
