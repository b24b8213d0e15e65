/* plan.c - weir plan: a memory plan for a step described in a JSON file, or for an ONNX model; a
 * check of such a plan; a sweep over budgets. */
#include "tool/tool.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *name_of(const tool_options *o)
{
    return o->onnx ? o->onnx : o->file;
}

static void report(const tool_options *o, const weir_stepfile_plan_stats *s, double seconds)
{
    fprintf(stderr, "%s: %zu tensor%s, %zu operation%s, %.3f ms a step\n", name_of(o), s->tensors,
            tool_plural(s->tensors), s->operations, tool_plural(s->operations), s->step_ms);
    fprintf(stderr, "  without a budget %15zu bytes\n", s->whole_bytes);
    if (o->budget)
        fprintf(stderr, "  budget           %15zu bytes (%.1f %%)\n", s->budget_bytes,
                100 * (double)s->budget_bytes / ((double)s->whole_bytes + 1e-9));
    fprintf(stderr, "  planned peak     %15zu bytes (live %zu, resident %zu)\n",
            s->peak_bytes, s->live_bytes, s->resident_bytes);
    fprintf(stderr, "  offsets by       %15s\n", s->placement ? s->placement : "none");
    fprintf(stderr, "  extra time       %15.3f %%     (%zu operation%s run again)\n",
            100 * s->extra_ms / (s->step_ms + 1e-30), s->recomputed, tool_plural(s->recomputed));
    fprintf(stderr, "  no plan has less %15.3f %%     extra time, nor %zu bytes at any\n",
            100 * s->least_extra_ms / (s->step_ms + 1e-30), s->floor_bytes);
    if (s->proven_extra_ms > 0) {
        const double within = s->extra_ms - s->proven_extra_ms;
        fprintf(stderr, "  of recomputation %15.3f %%     at least: proved within %.3f %%\n",
                100 * s->proven_extra_ms / (s->step_ms + 1e-30),
                100 * (within > 0 ? within : 0) / (s->step_ms + s->proven_extra_ms));
    }
    if (s->out_bytes || s->in_bytes)
        fprintf(stderr, "  copied           %15zu bytes out, %zu in\n", s->out_bytes, s->in_bytes);
    if (s->cache != WEIR_CACHE_OFF)
        fprintf(stderr, "  cache            %15s\n", tool_cache_text(s->cache));
    fprintf(stderr, "  planned in       %15.3f s\n", seconds);
}

static int write_json(const tool_options *o, const weir_stepfile_plan_stats *s, double seconds)
{
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_text(&j, "file", name_of(o));
    tool_json_count(&j, "tensors", s->tensors);
    tool_json_count(&j, "operations", s->operations);
    tool_json_count(&j, "resident_bytes", s->resident_bytes);
    tool_json_count(&j, "whole_bytes", s->whole_bytes);
    tool_json_count(&j, "budget_bytes", s->budget_bytes);
    tool_json_count(&j, "live_bytes", s->live_bytes);
    tool_json_count(&j, "peak_bytes", s->peak_bytes);
    tool_json_text(&j, "placement", s->placement);
    tool_json_count(&j, "floor_bytes", s->floor_bytes);
    tool_json_count(&j, "recomputed", s->recomputed);
    tool_json_count(&j, "out_bytes", s->out_bytes);
    tool_json_count(&j, "in_bytes", s->in_bytes);
    tool_json_number(&j, "step_ms", s->step_ms);
    tool_json_number(&j, "extra_ms", s->extra_ms);
    tool_json_number(&j, "least_extra_ms", s->least_extra_ms);
    tool_json_number(&j, "proven_extra_ms", s->proven_extra_ms);
    tool_json_text(&j, "cache", tool_cache_text(s->cache));
    tool_json_number(&j, "seconds", seconds);
    return tool_json_end(&j);
}

/* ---- a sweep over budgets ---- */

/* The rows of a CSV text as an array of objects: the first column is a text, others are numbers. */
static void json_rows(tool_json *j, const char *csv)
{
    char        title[32], value[64];
    const char *line = csv + strcspn(csv, "\n") + 1;

    tool_json_open(j, "rows", '[');
    for (; *line; line += *line == '\n') {
        const char *head = csv;
        tool_json_open(j, NULL, '{');
        for (bool first = true; *line && *line != '\n'; first = false) {
            const int n = (int)strcspn(head, ",\n"), m = (int)strcspn(line, ",\n");
            snprintf(title, sizeof title, "%.*s", n, head);
            snprintf(value, sizeof value, "%.*s", m, line);
            if (first)
                tool_json_text(j, title, value);
            else
                tool_json_number(j, title, strtod(value, NULL));
            head += n + (head[n] == ',');
            line += m + (line[m] == ',');
        }
        tool_json_close(j, '}');
    }
    tool_json_close(j, ']');
}

static int write_sweep_json(const tool_options *o, const weir_sweep *c)
{
    char *const csv = weir_sweep_text(c, WEIR_SWEEP_CSV);
    tool_json   j;

    if (!csv)
        return tool_failed(o);
    int code = TOOL_FAILED;
    if (tool_json_begin(&j, o)) {
        tool_json_text(&j, "file", name_of(o));
        json_rows(&j, csv);
        code = tool_json_end(&j);
    }
    weir_text_free(csv);
    return code;
}

/* The table to stdout (or --out), the rest beside BASE. */
static int write_sweep(const tool_options *o, const weir_sweep *c)
{
    static const char *const suffix[] = {[WEIR_SWEEP_CSV] = "csv", [WEIR_SWEEP_SVG] = "svg"};
    char                     path[4096];
    int                      code = TOOL_DONE;

    for (int form = WEIR_SWEEP_TABLE; form <= WEIR_SWEEP_SVG && code == TOOL_DONE; form++) {
        const bool  table = form == WEIR_SWEEP_TABLE;
        char *const text = weir_sweep_text(c, (weir_sweep_format)form);
        const int   n = table ? 0 : snprintf(path, sizeof path, "%s.%s", o->curve, suffix[form]);
        if (!text)
            code = tool_failed(o);
        else if (n < 0 || (size_t)n >= sizeof path)
            code = tool_say(o, TOOL_USAGE, "--curve: the name is too long");
        else if (!table || o->out || !tool_quiet(o))
            code = tool_write(o, table ? o->out : path, text);
        weir_text_free(text);
    }
    return code == TOOL_DONE && o->json ? write_sweep_json(o, c) : code;
}

static int plan_sweep(const tool_options *o, const weir_stepfile *stepfile,
                      weir_stepfile_options how)
{
    if (strcmp(o->policy, "all") == 0)
        how.policy = NULL;
    weir_sweep *const c = weir_stepfile_sweep(stepfile, &how);
    const int         code = c ? write_sweep(o, c) : tool_failed(o);
    weir_sweep_free(c);
    return code;
}

/* "12", "12GB/s" or "12,25GB/s": gigabytes per second out and in. */
static bool read_link(const char *text, double *out, double *in)
{
    char *end;

    *out = *in = strtod(text, &end);
    if (end == text)
        return false;
    if (*end == ',') {
        const char *const second = end + 1;
        *in = strtod(second, &end);
        if (end == second)
            return false;
    }
    return *out > 0 && *in > 0 && (*end == 0 || strcasecmp(end, "GB/s") == 0);
}

/* One plan, and the texts about it. */
static int plan_once(const tool_options *o, const weir_stepfile *stepfile,
                     weir_stepfile_options how)
{
    weir_stepfile_plan_stats stats;
    char                    *explain = NULL, *picture = NULL;

    how.explain = o->explain ? &explain : NULL;
    how.picture = o->picture ? &picture : NULL;
    const double begin = tool_now_ms();
    char *const  text = weir_stepfile_plan(stepfile, &how, &stats);
    const double seconds = (tool_now_ms() - begin) / 1e3;
    if (!text)
        return tool_failed(o);
    report(o, &stats, seconds);
    int code = TOOL_DONE;
    if (explain)
        code = tool_write(o, o->explain, explain);
    if (picture && code == TOOL_DONE)
        code = tool_write(o, o->picture, picture);
    if (code == TOOL_DONE && (o->out || !(explain || picture || tool_quiet(o))))
        code = tool_write(o, o->out, text);
    if (code == TOOL_DONE && o->json)
        code = write_json(o, &stats, seconds);
    weir_text_free(explain);
    weir_text_free(picture);
    weir_text_free(text);
    return code;
}

/* ---- checking a plan ---- */

static double more_percent(const weir_stepfile_check_stats *v)
{
    return v->base_ms > 0 ? 100 * (v->time_ms / v->base_ms - 1) : 0;
}

static void print_check(const weir_stepfile_check_stats *v)
{
    puts("the plan is valid");
    printf("  time             %15.3f ms    (%.3f %% more than all operations once)\n", v->time_ms,
           more_percent(v));
    printf("  compute          %15.3f ms    (%zu operation%s run again)\n", v->compute_ms,
           v->recomputed, tool_plural(v->recomputed));
    printf("  waiting          %15.3f ms\n", v->stall_ms);
    printf("  compression      %15.3f ms\n", v->compress_ms);
    printf("  peak             %15zu bytes (live %zu)\n", v->peak_bytes, v->live_bytes);
    printf("  copied           %15zu bytes out, %zu in\n", v->out_bytes, v->in_bytes);
    printf("  host peak        %15zu bytes\n", v->host_bytes);
}

/* Times in microseconds, as in step files. */
static int write_check(const tool_options *o, const weir_stepfile_check_stats *v)
{
    tool_json j;

    if (!tool_json_begin(&j, o))
        return TOOL_FAILED;
    tool_json_bool(&j, "ok", true);
    tool_json_number(&j, "time_us", v->time_ms * 1e3);
    tool_json_number(&j, "compute_us", v->compute_ms * 1e3);
    tool_json_number(&j, "base_us", v->base_ms * 1e3);
    tool_json_number(&j, "overhead_pct", more_percent(v));
    tool_json_number(&j, "stall_us", v->stall_ms * 1e3);
    tool_json_number(&j, "codec_us", v->compress_ms * 1e3);
    tool_json_count(&j, "recomputed_ops", v->recomputed);
    tool_json_count(&j, "peak_addr", v->peak_bytes);
    tool_json_count(&j, "peak_live_bytes", v->live_bytes);
    tool_json_count(&j, "swapped_out_bytes", v->out_bytes);
    tool_json_count(&j, "swapped_in_bytes", v->in_bytes);
    tool_json_count(&j, "host_peak_bytes", v->host_bytes);
    return tool_json_end(&j);
}

static int check(const tool_options *o, const weir_stepfile *stepfile,
                 const weir_stepfile_options *how)
{
    weir_stepfile_check_stats v;

    if (weir_stepfile_check(stepfile, o->file, how, &v) != WEIR_OK)
        return tool_failed(o);
    if (!tool_quiet(o))
        print_check(&v);
    return o->json ? write_check(o, &v) : TOOL_DONE;
}

/* ---- the step ---- */

/* The step file of a text, by way of a temporary file. NULL after a failure. */
static weir_stepfile *read_text(const tool_options *o, const char *text)
{
    char       path[] = "/tmp/weir-step-XXXXXX";
    const int  fd = mkstemp(path);
    FILE *const file = fd < 0 ? NULL : fdopen(fd, "w");

    if (!file) {
        tool_say(o, TOOL_FAILED, "cannot write %s", path);
        return NULL;
    }
    const bool           written = fputs(text, file) >= 0;
    const bool           closed = fclose(file) == 0;
    weir_stepfile *const step = written && closed ? weir_stepfile_read(path) : NULL;
    if (!written || !closed)
        tool_say(o, TOOL_FAILED, "cannot write %s", path);
    else if (!step)
        tool_failed(o);
    unlink(path);
    return step;
}

/* The inference of an ONNX model as a step. */
static int read_model(const tool_options *o, weir_stepfile **step)
{
    const weir_plan_options none = {.level = 0};
    tool_onnx               t;
    int                     code = tool_onnx_open(&t, o, o->onnx, &none);

    if (code == TOOL_DONE) {
        char *const text = weir_graph_stepfile(t.graph, o->onnx, WEIR_TIMES_ROOFLINE);
        *step = text ? read_text(o, text) : NULL;
        code = *step ? TOOL_DONE : text ? TOOL_FAILED : tool_failed(o);
        weir_text_free(text);
    }
    tool_onnx_close(&t);
    return code;
}

static int read_step(const tool_options *o, weir_stepfile **step)
{
    if (o->onnx)
        return read_model(o, step);
    *step = weir_stepfile_read(o->check ? o->check : o->file);
    return *step ? TOOL_DONE : tool_failed(o);
}

int tool_plan(const tool_options *o)
{
    weir_stepfile_options how = {.budget = o->budget,
                                 .policy = o->policy,
                                 .placement = o->placement,
                                 .alignment = (size_t)o->align,
                                 .moves = (uint64_t)o->moves,
                                 .memory = (double)o->memory,
                                 .cache = o->cache};

    if (o->onnx && (o->file || o->check))
        return tool_say(o, TOOL_USAGE, "--onnx takes the place of GRAPH.json: give one of them");
    if (!o->file && !o->onnx)
        return tool_say(o, TOOL_USAGE, o->check ? "needs two files: weir plan --check GRAPH.json "
                        "PLAN.json" : "needs a file: weir plan GRAPH.json --budget 75%%");
    if (o->link && !read_link(o->link, &how.link_out, &how.link_in))
        return tool_say(o, TOOL_USAGE, "--link must be a speed such as 12GB/s or 12,25, not '%s'",
                        o->link);
    weir_stepfile *stepfile = NULL;
    int            code = read_step(o, &stepfile);
    if (code != TOOL_DONE)
        return code;
    code = o->check   ? check(o, stepfile, &how)
           : o->curve ? plan_sweep(o, stepfile, how)
                      : plan_once(o, stepfile, how);
    weir_stepfile_free(stepfile);
    return code;
}
