/* collective_times.c - explains how long the collectives of a planned graph take, as predicted. */
#include "graph/memory/explain/collective_times.h"

#include "device/collective.h"

static void add_row(const weir_plan *p, const weir_wire_span *w, weir_string *s)
{
    const weir_call *const call = &p->instr[w->start].call;
    const weir_collective  job = weir_collective_of(call);

    weir_string_add(s, "%8u %8u %13zu ", w->start, w->wait,
                    (size_t)job.count * weir_dtype_size(job.dtype));
    if (w->exposed >= 0)
        weir_string_add(s, "%12.4f %12.4f", w->seconds * 1e3, w->exposed * 1e3);
    else
        weir_string_add(s, "%12s %12s", "-", "-");
    weir_string_add(s, "  %s\n", call->def->name);
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
    weir_string_add(s, "\n%8s %8s %13s %12s %12s  %s\n", "starts", "awaited", "bytes", "wire, ms",
                    "waits, ms", "collective");
    for (uint32_t i = 0; i < p->wire.n; i++)
        add_row(p, &p->wire.at[i], s);
}
