/* profile.c - tables of measured time by phase, by instruction and by operation.
 *
 * execute.c sums the seconds of each instruction over plan->profiled runs. */
#include "core/status.h"
#include "graph/ir/format.h"
#include "graph/plan/op_sums.h"
#include "graph/ir/session.h"

void weir_device_set_verbosity(weir_device *d, int level)
{
    WEIR_VISIT(d, "weir_device_set_verbosity", );
    weir_session *s = weir_session_of(d);
    if (s)
        s->verbosity = level < 0 ? 0 : level;
}

void weir_device_set_skip(weir_device *d, int runs)
{
    WEIR_VISIT(d, "weir_device_set_skip", );
    weir_session *s = weir_session_of(d);
    if (s)
        s->skip = runs < 0 ? 0 : runs;
}

/* ---- tables ---- */

static double total_seconds(const weir_plan *p)
{
    double sum = 0;

    for (uint32_t i = 0; i < p->n; i++)
        sum += p->instr[i].seconds;
    return sum;
}

static void phases(const weir_plan *p, weir_string *s)
{
    const double runs = (double)p->profiled, total = total_seconds(p);
    double       seconds[WEIR_PHASE_COUNT] = {0};

    for (uint32_t i = 0; i < p->n; i++)
        seconds[p->instr[i].phase] += p->instr[i].seconds;
    for (int k = 0; k < WEIR_PHASE_COUNT; k++)
        weir_string_add(s, "%-8s %12.4f ms %6.2f %%\n", weir_phase_name[k], seconds[k] * 1e3 / runs,
                        100 * weir_format_ratio(seconds[k], total));
    weir_string_add(s, "%-8s %12.4f ms per run\n", "total", total * 1e3 / runs);
}

/* The columns that both tables share. flops and bytes are per run, seconds over all timed runs. */
static void numbers(weir_string *s, const weir_plan *p, double flops, double bytes, double seconds,
                    double total)
{
    const double one = seconds / (double)p->profiled;

    weir_string_add(s, "%12.4f %7.2f %14.0f %9.2f %9.2f", one * 1e3,
                    100 * weir_format_ratio(seconds, total), bytes,
                    weir_format_ratio(bytes, one) / 1e9, weir_format_ratio(flops, one) / 1e9);
}

static void heading(weir_string *s, const char *first, const char *second)
{
    weir_string_add(s, "\n%5s %-8s %12s %7s %14s %9s %9s  %-22s %s\n", first, second, "ms per run",
                    "share %", "bytes", "GB/s", "GFLOP/s", "kernel", "operation");
}

static void operation(weir_string *s, const weir_instr *ins)
{
    weir_string_add(s, "  %-22s ", ins->kernel->impl);
    weir_format_op(s, &ins->call, "+");
    weir_string_add(s, "\n");
}

static void instructions(const weir_graph *g, weir_string *s)
{
    const weir_plan *const p = g->plan;
    const double           total = total_seconds(p);

    heading(s, "#", "phase");
    for (uint32_t i = 0; i < p->n; i++) {
        const weir_instr *ins = &p->instr[i];
        weir_string_add(s, "%5u %-8s ", i, weir_phase_name[ins->phase]);
        numbers(s, p, weir_call_flops(&ins->call), weir_call_bytes(&ins->call), ins->seconds,
                total);
        weir_string_add(s, "  %-22s ", ins->kernel->impl);
        weir_format_node(s, g, i, NULL);
        weir_string_add(s, "\n");
    }
}

static int by_time(const void *a, const void *b)
{
    const weir_op_sum *x = a, *y = b;

    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return (x->instr > y->instr) - (x->instr < y->instr);
}

static void by_operation(const weir_plan *p, weir_string *s)
{
    const double total = total_seconds(p);
    weir_op_sums sums = {0};

    if (!weir_op_sums_of(p, by_time, &sums))
        s->failed = true;
    heading(s, "count", "");
    for (uint32_t i = 0; i < sums.n; i++) {
        const weir_op_sum *o = &sums.at[i];
        weir_string_add(s, "%5u %-8s ", o->count, "");
        numbers(s, p, o->flops, o->bytes, o->seconds, total);
        operation(s, &p->instr[o->instr]);
    }
    weir_vec_free(&sums);
}

static void nothing(const weir_session *session, const weir_graph *g, weir_string *s)
{
    if (!g)
        weir_string_add(s, "no graph has run on this device, or the last one has been freed\n");
    else if (session->verbosity == 0)
        weir_string_add(s,
                        "the runs of this graph are not timed: weir_device_set_verbosity is 0\n");
    else
        weir_string_add(s,
                        "no run has been timed yet: %llu runs so far, the first %d of a graph are "
                        "not counted\n",
                        (unsigned long long)g->runs, session->skip);
}

char *weir_device_profile_text(weir_device *d)
{
    weir_string s = {0};

    WEIR_VISIT(d, "weir_device_profile_text", NULL);
    const weir_session *session = weir_session_of(d);
    if (!session)
        return NULL;
    const weir_graph *g = session->last_run;
    weir_string_add(&s, "# profile of the graph run last\n");
    if (!g || g->state != WEIR_GRAPH_PLANNED || g->plan->profiled == 0) {
        nothing(session, g, &s);
        return weir_string_take(&s);
    }
    weir_string_add(&s, "# mean of %llu timed runs, %llu runs in all; %u instructions\n",
                    (unsigned long long)g->plan->profiled, (unsigned long long)g->runs, g->plan->n);
    phases(g->plan, &s);
    if (session->verbosity > 1) {
        by_operation(g->plan, &s);
        instructions(g, &s);
    }
    return weir_string_take(&s);
}
