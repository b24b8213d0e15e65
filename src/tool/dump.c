/* dump.c - weir dump: a model's training step as graph, plan, costs, pictures, profile or trace. */
#include "tool/tool.h"

#include <string.h>

/* Profile and trace need runs; the first ones, which are slower, are skipped. */
enum { SKIPPED = 2, RUNS = 4 };

static weir_status run(weir_graph *g, int times)
{
    for (int i = 0; i < times; i++)
        WEIR_TRY(weir_graph_run(g));
    return WEIR_OK;
}

/* Times and bytes of each operation over RUNS runs; the device skips and counts them. */
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

static const char *name_of(const tool_options *o)
{
    return o->onnx ? o->onnx : o->model;
}

/* The step file, named after the model and its sizes. */
static char *stepfile(const tool_options *o, int64_t batch, const weir_graph *g)
{
    const char size = o->length ? 't' : o->depth ? 'l' : o->image ? 'i' : '\0';
    char       name[64];

    const int n = batch ? snprintf(name, sizeof name, "%s_b%lld", o->model, (long long)batch)
                        : snprintf(name, sizeof name, "%.60s", name_of(o));
    if (size && n > 0 && (size_t)n < sizeof name)
        snprintf(name + n, sizeof name - (size_t)n, "_%c%lld", size,
                 (long long)(o->length + o->depth + o->image));
    return weir_graph_stepfile(g, name,
                               *o->times == 'm'   ? WEIR_TIMES_MEASURED
                               : *o->times == 'e' ? WEIR_TIMES_ESTIMATED
                                                  : WEIR_TIMES_ROOFLINE);
}

/* NULL after a failure, whose sentence is weir_error. */
static char *text_of(const tool_options *o, weir_device *d, int64_t batch, weir_graph *g)
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
        {"html", WEIR_TEXT_HTML},
    };
    if (strcmp(what, "profile") == 0)
        return profile(g, d);
    if (strcmp(what, "trace") == 0)
        return trace(g, d);
    if (strcmp(what, "outline") == 0)
        return stepfile(o, batch, g);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (strcmp(texts[i].name, what) == 0)
            return weir_graph_text(g, texts[i].text);
    return NULL;
}

static int write_json(const tool_options *o, int64_t batch, const weir_graph *g)
{
    weir_graph_stats s;
    tool_json        j;

    if (weir_graph_stats_of(g, &s) != WEIR_OK)
        return tool_failed(o);
    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "model", name_of(o));
    tool_json_count(&j, "batch", (uint64_t)batch);
    tool_json_count(&j, "nodes", s.nodes);
    tool_json_count(&j, "instructions", s.instructions);
    tool_json_count(&j, "persistent_bytes", s.persistent_bytes);
    tool_json_count(&j, "arena_bytes", s.arena_bytes);
    tool_json_count(&j, "planned_peak_bytes", s.planned_peak_bytes);
    tool_json_count(&j, "lower_bound_bytes", s.lower_bound_bytes);
    tool_json_count(&j, "workspace_bytes", s.workspace_bytes);
    tool_json_count(&j, "guard_bytes", s.guard_bytes);
    tool_json_count(&j, "streams", s.streams);
    tool_json_count(&j, "budget_bytes", s.budget_bytes);
    tool_json_count(&j, "unbudgeted_peak_bytes", s.unbudgeted_peak_bytes);
    tool_json_count(&j, "recomputed", s.recomputed);
    tool_json_count(&j, "lossy", s.lossy);
    tool_json_number(&j, "extra_ms", s.extra_ms);
    tool_json_number(&j, "predicted_ms", s.predicted_ms);
    tool_json_number(&j, "measured_ms", s.measured_ms);
    tool_json_count(&j, "collectives", s.collectives);
    tool_json_number(&j, "wire_predicted_ms", s.wire_predicted_ms);
    tool_json_number(&j, "exposed_predicted_ms", s.exposed_predicted_ms);
    tool_json_count(&j, "replanned", s.replanned);
    tool_json_text(&j, "cache", tool_cache_text(s.cache));
    tool_json_number(&j, "record_ms", s.record_ms);
    tool_json_number(&j, "plan_ms", s.plan_ms);
    tool_json_number(&j, "flops", s.flops);
    tool_json_number(&j, "bytes", s.bytes);
    tool_json_count(&j, "runs", s.runs);
    tool_json_count(&j, "dropouts", s.dropouts);
    tool_json_count(&j, "batch_statistics", s.batch_statistics);
    return tool_json_end(&j);
}

static int write(const tool_options *o, weir_device *d, int64_t batch, weir_graph *g)
{
    char *const text = text_of(o, d, batch, g);
    int         code = text ? TOOL_DONE : tool_failed(o);

    if (text && (o->out || !tool_quiet(o)))
        code = tool_write(o, o->out, text);
    if (text && o->json && code == TOOL_DONE)
        code = write_json(o, batch, g);
    weir_text_free(text);
    return code;
}

static int dump_onnx(const tool_options *o)
{
    tool_onnx               t;
    const weir_plan_options how = tool_plan_options(o);
    int                     code = tool_onnx_open(&t, o, o->onnx, &how);

    if (code == TOOL_DONE)
        code = write(o, t.d, 0, t.graph);
    tool_onnx_close(&t);
    return code;
}

/* Records and plans the step; runs it only if the text needs runs. */
int tool_dump(const tool_options *o)
{
    tool_bench_case t;

    if (o->onnx)
        return dump_onnx(o);
    if (tool_bench_case_open(&t, o, true) != WEIR_OK)
        return tool_failed(o);
    weir_graph *const       g = weir_graph_begin(t.dev);
    const weir_plan_options how = tool_plan_options(o);
    const bool planned = g && tool_bench_case_record(&t) == WEIR_OK &&
                         weir_graph_end(g, &how) == WEIR_OK;
    const int  code = planned ? write(o, t.dev, t.batch, g) : tool_failed(o);
    weir_graph_free(g);
    tool_bench_case_close(&t);
    return code;
}
