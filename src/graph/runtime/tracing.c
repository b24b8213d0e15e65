/* tracing.c - a run of a plan in the device's trace.
 *
 * A copy is shown from the instruction that begins it to the one that awaits it, and so is a
 * collective; they overlap, so they are spans of their own and not part of the row of
 * instructions. */
#include "graph/runtime/tracing.h"

#include "core/attr.h"
#include "core/trace.h"
#include "graph/ir/format.h"

static void count(const weir_tracing *t, double at, size_t live)
{
    weir_trace *const to = t->g->dev->trace;

    weir_trace_counter(to, "device memory, bytes", at, t->resident + live);
    weir_trace_counter(to, "arena, bytes", at, live);
    if (t->g->dev->tickets)
        weir_trace_counter(to, "spill file, bytes", at, t->spilled);
    if (t->g->budget)
        weir_trace_counter(to, "budget, bytes", at, t->g->budget);
}

void weir_tracing_begin(weir_tracing *t, const weir_graph *g)
{
    const weir_plan *const p = g->plan;

    *t = (weir_tracing){.g = g, .resident = weir_plan_resident(g)};
    if (!g->dev->trace)
        return;
    t->live = weir_mem_zalloc(p->n + 1u, sizeof *t->live);
    t->began = weir_mem_zalloc(p->n + 1u, sizeof *t->began);
    if (!t->live || !t->began) {
        weir_mem_free(t->live);
        weir_mem_free(t->began);
        t->live = NULL;
        t->began = NULL;
        return;
    }
    for (uint32_t i = 0; i < p->items.n; i++)
        for (uint32_t k = p->items.at[i].first; k <= p->items.at[i].last && k < p->n; k++)
            t->live[k] += p->items.at[i].bytes;
}

/* ---- copies ---- */

static const weir_spill_attr *spill_of(const weir_tracing *t, uint32_t i)
{
    return weir_spill_attr_of(t->g->nodes.at[i].op, t->g->nodes.at[i].attr);
}

/* Whether the slot is read again before it is written again. */
static bool read_later(const weir_tracing *t, uint32_t i, uint64_t slot)
{
    for (uint32_t k = i + 1; k < t->g->plan->n; k++) {
        const weir_op op = t->g->nodes.at[k].op;
        if (op != WEIR_OP_SPILL_WAIT && spill_of(t, k) && spill_of(t, k)->slot == slot)
            return op == WEIR_OP_SPILL_IN;
    }
    return false;
}

/* Adds the copy that instruction i has awaited. */
static void add_copy(weir_tracing *t, uint32_t i, double end)
{
    const uint64_t ticket = spill_of(t, i)->ticket;
    uint32_t       k = i;

    while (k-- > 0) {
        const weir_node *const       n = &t->g->nodes.at[k];
        const weir_spill_attr *const a = spill_of(t, k);
        weir_string                  name = {0};
        if (n->op == WEIR_OP_SPILL_WAIT || !a || a->ticket != ticket)
            continue;
        const bool out = n->op == WEIR_OP_SPILL_OUT;
        weir_format_tensor(&name, t->g, weir_storage_of(t->g, out ? n->in[0] : n->out[0]), NULL);
        weir_trace_span(t->g->dev->trace, weir_string_take(&name), out ? "copy out" : "copy in",
                        t->began[k], end, a->bytes);
        if (!out && !a->persistent && !read_later(t, i, a->slot))
            t->spilled -= a->bytes < t->spilled ? (size_t)a->bytes : t->spilled;
        return;
    }
}

/* ---- collectives ---- */

/* Adds the collectives that instruction i has awaited. */
static void add_collectives(weir_tracing *t, uint32_t i, double end)
{
    const weir_plan *const p = t->g->plan;

    for (uint32_t k = 0; k < p->wire.n; k++) {
        const weir_wire_span *const w = &p->wire.at[k];
        weir_string                 name = {0};
        if (w->wait != i)
            continue;
        weir_format_node(&name, t->g, w->start, NULL);
        weir_trace_span(t->g->dev->trace, weir_string_take(&name), "wire", t->began[w->start], end,
                        weir_plan_wire_bytes(p, w));
    }
}

/* ---- instructions ---- */

void weir_tracing_instr(weir_tracing *t, uint32_t i, double begin)
{
    if (!t->live)
        return;
    const weir_instr *const ins = &t->g->plan->instr[i];
    const double            end = weir_device_clock(t->g->dev);
    const weir_op           op = t->g->nodes.at[i].op;
    weir_string             name = {0};

    t->began[i] = begin;
    weir_format_node(&name, t->g, i, NULL);
    weir_trace_event_text(t->g->dev->trace, weir_string_take(&name), weir_phase_name[ins->phase],
                          begin, end, (uint64_t)weir_call_bytes(&ins->call));
    if (op == WEIR_OP_SPILL_OUT && !spill_of(t, i)->persistent)
        t->spilled += (size_t)spill_of(t, i)->bytes;
    if (op == WEIR_OP_SPILL_WAIT)
        add_copy(t, i, end);
    if (ins->call.def->flags & WEIR_COLLECTIVE)
        add_collectives(t, i, end);
    count(t, begin, t->live[i]);
}

void weir_tracing_end(weir_tracing *t)
{
    if (t->live)
        count(t, weir_device_clock(t->g->dev), 0);
    weir_mem_free(t->live);
    weir_mem_free(t->began);
}
