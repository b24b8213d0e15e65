/* dump.c - a planned graph as text: the nodes after the passes, and the instructions with
 * offsets. */
#include <string.h>

#include "core/status.h"
#include "core/attr.h"
#include "graph/ir/pass_set.h"
#include "graph/ir/format.h"
#include "graph/report/report.h"

static void passes(weir_string *s, uint32_t set)
{
#define X(ID, id, text)                                                                            \
    if (set >> WEIR_PASS_##ID & 1)                                                                 \
        weir_string_add(s, " %s", #id);
    WEIR_PASSES(X)
#undef X
    weir_string_add(s, "%s\n", set ? "" : " none");
}

static void legend(weir_string *s)
{
    weir_string_add(
        s, "# p parameter, s state, i input, o output, t temporary, each with the number of "
           "its storage\n# and its name; at the end of a line the name of the call\n# ! "
           "overwritten; [..] strides in elements of a view; +n bytes into the storage; =inK takes "
           "over the memory of input K\n");
}

/* Writes value v as an operand; `planned` adds its offset. */
static void operand(weir_string *s, const weir_graph *g, uint32_t v, const weir_operand *o,
                    bool planned)
{
    const weir_value *value = &g->values.at[v];
    const size_t      into = (size_t)value->offset * weir_dtype_size(value->layout.desc.dtype);

    weir_format_layout(s, &value->layout);
    weir_string_add(s, " ");
    weir_format_tensor(s, g, o->storage, NULL);
    if (planned && !o->external)
        weir_string_add(s, "@%zu", o->offset);
    else if (into > 0)
        weir_string_add(s, "+%zu", into);
}

/* The input of instruction i whose memory its output o takes over, or -1. */
static int taken_by(const weir_graph *g, uint32_t i, int o)
{
    const weir_instr *ins = &g->plan->instr[i];
    const uint32_t   *item_of = g->plan->item_of;

    if (ins->out[o].external)
        return -1;
    for (int k = 0; k < ins->call.nin; k++)
        if (!ins->in[k].external && item_of[ins->in[k].storage] == item_of[ins->out[o].storage])
            return k;
    return -1;
}

/* "f32(64,32) t7, f32(32) p2! -> f32(64,32) t8=in0" */
static void operands(weir_string *s, const weir_graph *g, uint32_t i, bool planned)
{
    const weir_instr *ins = &g->plan->instr[i];
    const weir_node  *n = &g->nodes.at[i];

    for (int k = 0; k < n->nin; k++) {
        weir_string_add(s, k ? ", " : "");
        operand(s, g, n->in[k], &ins->in[k], planned);
        weir_string_add(s, n->def->mutates >> k & 1 ? "!" : "");
    }
    weir_string_add(s, n->nin && n->nout ? " -> " : n->nout ? "-> " : "");
    for (int k = 0; k < n->nout; k++) {
        const int taken = taken_by(g, i, k);
        weir_string_add(s, k ? ", " : "");
        operand(s, g, n->out[k], &ins->out[k], planned);
        if (taken >= 0)
            weir_string_add(s, "=in%d", taken);
    }
}

/* Number, phase, operation and operands. */
static void line(weir_string *s, const weir_graph *g, uint32_t i, bool planned)
{
    const weir_instr *ins = &g->plan->instr[i];

    weir_string_add(s, "%5u %-8s ", i, weir_phase_name[ins->phase]);
    const size_t start = s->n;
    weir_format_op(s, &ins->call, "+");
    weir_format_pad(s, start, 20);
    weir_string_add(s, " ");
    operands(s, g, i, planned);
}

/* Says of a step that was recorded in training what evaluation would not do. */
static void training_calls(weir_string *s, const weir_graph *g)
{
    if (g->dropouts + g->batch_statistics > 0)
        weir_string_add(s, "# recorded in training: %zu dropout, %zu batch statistics\n",
                        g->dropouts, g->batch_statistics);
}

const char *weir_graph_remark(const weir_graph *g)
{
    if (!g || g->state != WEIR_GRAPH_PLANNED || g->trains)
        return "";
    return g->dropouts && g->batch_statistics
               ? "recorded in training mode: it draws dropout and uses the statistics of the batch"
           : g->dropouts         ? "recorded in training mode: it draws dropout"
           : g->batch_statistics ? "recorded in training mode: it uses the statistics of the batch"
                                 : "";
}

/* The name of the call, if it says more than the operation. */
static void called(weir_string *s, const weir_graph *g, uint32_t i)
{
    weir_string name = {0};

    weir_format_name(&name, g, i);
    s->failed |= name.failed;
    if (name.at && strcmp(name.at, g->nodes.at[i].def->name) != 0)
        weir_string_add(s, "  %s", name.at);
    weir_mem_free(name.at);
}

void weir_format_graph(const weir_graph *g, weir_string *s)
{
    weir_string_add(s, "# graph: %u nodes after the passes, %zu recorded; passes:", g->plan->n,
                    g->recorded);
    passes(s, g->plan->passes);
    training_calls(s, g);
    legend(s);
    for (uint32_t i = 0; i < g->plan->n; i++) {
        line(s, g, i, false);
        called(s, g, i);
        weir_string_add(s, "\n");
    }
}

static void plan_header(weir_string *s, const weir_graph *g)
{
    weir_graph_stats stats = {0};

    if (weir_graph_stats_of(g, &stats) != WEIR_OK)
        return;
    weir_string_add(s,
                    "# plan: %zu instructions; arena %zu bytes, lower bound %zu, largest workspace "
                    "%zu\n",
                    stats.instructions, stats.arena_bytes, stats.lower_bound_bytes,
                    stats.workspace_bytes);
    weir_string_add(s, "# persistent %zu bytes, planned peak %zu; offsets (@) are aligned to %zu\n",
                    stats.persistent_bytes, stats.planned_peak_bytes, g->dev->ops->align);
    if (g->budget)
        weir_string_add(s, "# budget %zu bytes, %zu without it; %zu instructions recompute values, "
                        "%.3g ms as estimated\n", stats.budget_bytes, stats.unbudgeted_peak_bytes,
                        stats.recomputed, stats.extra_ms);
    if (g->plan->events)
        weir_string_add(s, "# streams: %zu of the device's, %u events between them\n",
                        stats.streams, g->plan->events - 1);
    if (g->plan->halves)
        weir_string_add(s, "# stop: the second half begins at instruction %u\n", g->plan->stop);
    if (g->plan->unrecordable)
        weir_string_add(s, "# launched one by one, because recording a run failed: %s\n",
                        g->plan->unrecorded ? g->plan->unrecorded : "no memory for the sentence");
    training_calls(s, g);
    weir_string_add(s, "# placement: %s; passes:", g->plan->strategy);
    passes(s, g->plan->passes);
    legend(s);
}

/* Writes which transfer to or from the spill file the call starts or awaits. */
static void spilled(weir_string *s, const weir_call *c)
{
    const weir_spill_attr *a = weir_spill_attr_of(c->op, c->attr);

    if (a && a->bytes > 0)
        weir_string_add(s, ", %zu bytes at %s%zu", (size_t)a->bytes, a->persistent ? "home " : "",
                        (size_t)a->slot);
    if (a)
        weir_string_add(s, ", ticket %u", (unsigned)a->ticket);
}

void weir_format_plan(const weir_graph *g, weir_string *s)
{
    plan_header(s, g);
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *ins = &g->plan->instr[i];
        line(s, g, i, true);
        weir_string_add(s, "  [%s", ins->kernel->impl);
        if (g->nodes.at[i].recomputed)
            weir_string_add(s, ", recomputed");
        if (g->plan->events)
            weir_string_add(s, ", stream %d", ins->stream);
        if (ins->kernel->work > 0)
            weir_string_add(s, ", workspace %zu@%zu", ins->kernel->work, ins->work);
        if (weir_call_draws(&ins->call))
            weir_string_add(s, ", random position %llu", (unsigned long long)ins->rng);
        spilled(s, &ins->call);
        weir_string_add(s, "]");
        called(s, g, i);
        weir_string_add(s, "\n");
    }
}

weir_status weir_format_check(const weir_graph *g, const char *function)
{
    if (!g)
        return weir_fail_null(function, "the graph");
    WEIR_TRY(weir_device_check(g->dev, function));
    if (g->state == WEIR_GRAPH_BROKEN)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is not planned: %s", function,
                         g->broken_by ? g->broken_by : "its weir_graph_end failed");
    if (g->state == WEIR_GRAPH_UNPLANNED)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is not planned: memory failed while it was "
                         "planned again; its next run plans it", function);
    if (g->state != WEIR_GRAPH_PLANNED)
        return weir_fail(WEIR_ERR_STATE, "%s: the graph is not planned: call weir_graph_end first",
                         function);
    return WEIR_OK;
}
