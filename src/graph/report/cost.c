/* cost.c - tables of flops and bytes of each instruction, by the definitions of the operations. */
#include "core/status.h"
#include "graph/ir/format.h"
#include "graph/plan/op_sums.h"
#include "graph/report/report.h"

weir_status weir_graph_cost_of(const weir_graph *g, weir_graph_cost *c)
{
    weir_layout in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];

    if (!g || !c)
        return weir_fail_null("weir_graph_cost_of", "the graph or the place for the numbers");
    *c = (weir_graph_cost){0};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i].dead)
            continue;
        const weir_call call = weir_node_call(g, &g->nodes.at[i], in, out);
        c->operations++;
        c->flops += weir_call_flops(&call);
        c->multiply_adds += weir_call_multiply_adds(&call);
        c->bytes += weir_call_bytes(&call);
    }
    return WEIR_OK;
}

static int by_flops(const void *a, const void *b)
{
    const weir_op_sum *x = a, *y = b;

    if (x->flops != y->flops)
        return x->flops < y->flops ? 1 : -1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return (x->instr > y->instr) - (x->instr < y->instr);
}

/* The columns that both tables share: flops, bytes and intensity. */
static void numbers(weir_string *s, double flops, double bytes)
{
    weir_string_add(s, "%15.0f %15.0f %9.2f", flops, bytes, weir_format_ratio(flops, bytes));
}

static void instructions(const weir_graph *g, weir_string *s)
{
    const weir_plan *const p = g->plan;

    weir_string_add(s, "%5s %-8s %15s %15s %9s %15s  %-22s %s\n", "#", "phase", "flops", "bytes",
                    "flop/byte", "workspace", "kernel", "operation");
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *ins = &p->instr[i];
        weir_string_add(s, "%5u %-8s ", i, weir_phase_name[ins->phase]);
        numbers(s, weir_call_flops(&ins->call), weir_call_bytes(&ins->call));
        weir_string_add(s, " %15zu  %-22s ", ins->kernel->work, ins->kernel->impl);
        weir_format_node(s, g, i, NULL);
        weir_string_add(s, "\n");
    }
}

static void by_operation(const weir_plan *p, const weir_op_sums *sums, double flops, double bytes,
                         weir_string *s)
{
    weir_string_add(s, "\n%5s %8s %15s %15s %9s %7s %7s  %-22s %s\n", "count", "", "flops", "bytes",
                    "flop/byte", "flops %", "bytes %", "kernel", "operation");
    for (uint32_t i = 0; i < sums->n; i++) {
        const weir_op_sum *o = &sums->at[i];
        weir_string_add(s, "%5u %8s ", o->count, "");
        numbers(s, o->flops, o->bytes);
        weir_string_add(s, " %7.2f %7.2f  %-22s ", 100 * weir_format_ratio(o->flops, flops),
                        100 * weir_format_ratio(o->bytes, bytes), p->instr[o->instr].kernel->impl);
        weir_format_op(s, &p->instr[o->instr].call, "+");
        weir_string_add(s, "\n");
    }
}

void weir_format_cost(const weir_graph *g, weir_string *s)
{
    const weir_plan *p = g->plan;
    double           flops = 0, bytes = 0;
    weir_op_sums     sums = {0};

    if (!weir_op_sums_of(p, by_flops, &sums))
        s->failed = true;
    for (uint32_t i = 0; i < sums.n; i++) {
        flops += sums.at[i].flops;
        bytes += sums.at[i].bytes;
    }
    weir_string_add(s, "# cost of one run: %.6g GFLOP, %.6g MB read and written, %.2f flop/byte\n",
                    flops / 1e9, bytes / 1e6, weir_format_ratio(flops, bytes));
    weir_string_add(s, "# by the definitions of the operations; every operand counts once\n");
    instructions(g, s);
    by_operation(p, &sums, flops, bytes, s);
    weir_vec_free(&sums);
}
