/* dump.c - weir dump: a model's training step as graph, plan, costs, pictures, profile or trace. */
#include "tool/tool.h"

#include <stdio.h>
#include <string.h>

/* Profile and trace need runs; the first ones are not typical. */
enum { SKIPPED = 2, RUNS = 4 };

static weir_status run(weir_graph *g, int times)
{
    for (int i = 0; i < times; i++)
        WEIR_TRY(weir_graph_run(g));
    return WEIR_OK;
}

/* Per-operation times and bytes over RUNS runs; the device does the counting and the skipping. */
static char *profile(weir_graph *g, weir_device *d)
{
    weir_device_set_verbosity(d, 2);
    weir_device_set_skip(d, SKIPPED);
    return run(g, SKIPPED + RUNS) == WEIR_OK ? weir_device_profile_text(d) : NULL;
}

/* Chrome/Perfetto events of RUNS runs. */
static char *trace(weir_graph *g, weir_device *d)
{
    if (run(g, SKIPPED) != WEIR_OK || weir_device_trace_start(d) != WEIR_OK ||
        run(g, RUNS) != WEIR_OK)
        return NULL;
    return weir_device_trace_stop(d);
}

/* For other planners; named after the model and its sizes. */
static char *stepfile(const tool_options *o, const tool_bench_case *t, const weir_graph *g)
{
    const char size = o->length ? 't' : o->depth ? 'l' : o->image ? 'i' : '\0';
    char       name[64];

    const int n = snprintf(name, sizeof name, "%s_b%lld", o->model, (long long)t->batch);
    if (size && n > 0 && (size_t)n < sizeof name)
        snprintf(name + n, sizeof name - (size_t)n, "_%c%lld", size,
                 (long long)(o->length + o->depth + o->image));
    return weir_graph_stepfile(g, name,
                               *o->times == 'm'   ? WEIR_TIMES_MEASURED
                               : *o->times == 'e' ? WEIR_TIMES_ESTIMATED
                                                  : WEIR_TIMES_ROOFLINE);
}

/* NULL after a failure the library remembers. */
static char *text_of(const tool_options *o, const tool_bench_case *t, weir_graph *g)
{
    const char *const what = o->what;
    static const struct {
        const char *name;
        weir_text   text;
    } texts[] = {
        {"graph", WEIR_TEXT_GRAPH},
        {"plan", WEIR_TEXT_PLAN},
        {"cost", WEIR_TEXT_COST},
        {"dot", WEIR_TEXT_DOT},
        {"timeline", WEIR_TEXT_TIMELINE_SVG},
        {"addresses", WEIR_TEXT_ADDRESSES_SVG},
        {"json", WEIR_TEXT_JSON},
        {"explain", WEIR_TEXT_EXPLAIN},
    };
    if (strcmp(what, "profile") == 0)
        return profile(g, t->dev);
    if (strcmp(what, "trace") == 0)
        return trace(g, t->dev);
    if (strcmp(what, "outline") == 0)
        return stepfile(o, t, g);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].name, what) == 0)
            return weir_graph_text(g, texts[i].text);
    return NULL;
}

/* The step is recorded and planned; it runs only where the text needs runs. */
int tool_dump(const tool_options *o)
{
    tool_bench_case t;
    if (tool_bench_case_open(&t, o, true) != WEIR_OK)
        return tool_failed(o);

    weir_graph *const g = weir_graph_begin(t.dev);
    char             *text = NULL;
    const weir_plan_options how = {.disable = o->disable, .budget = o->budget, .policy = o->policy,
                                   .placement = o->placement,
                                   .measure = o->measure && *o->measure == 'y'};
    if (g && tool_bench_case_record(&t) == WEIR_OK && weir_graph_end(g, &how) == WEIR_OK)
        text = text_of(o, &t, g);
    const int code = text ? tool_write(o, o->out, text) : tool_failed(o);
    weir_text_free(text);
    weir_graph_free(g);
    tool_bench_case_close(&t);
    return code;
}
