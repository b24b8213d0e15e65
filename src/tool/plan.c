/* plan.c - weir plan: a memory plan for a step described in a JSON file; the judge of any such
 * plan. */
#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void report(const tool_options *o, const weir_stepfile_plan_stats *s, double seconds)
{
    fprintf(stderr, "%s: %zu tensors, %zu operations, %.3f ms a step\n", o->file, s->tensors,
            s->operations, s->step_ms);
    fprintf(stderr, "  without a budget %15zu bytes\n", s->whole_bytes);
    if (o->budget)
        fprintf(stderr, "  budget           %15zu bytes (%.1f %%)\n", s->budget_bytes,
                100 * (double)s->budget_bytes / ((double)s->whole_bytes + 1e-9));
    fprintf(stderr, "  planned peak     %15zu bytes (live %zu, resident %zu)\n",
            s->peak_bytes, s->live_bytes, s->resident_bytes);
    fprintf(stderr, "  offsets by       %15s\n", s->placement ? s->placement : "none");
    fprintf(stderr, "  extra time       %15.3f %%     (%zu operations run again)\n",
            100 * s->extra_ms / (s->step_ms + 1e-30), s->recomputed);
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
    fprintf(stderr, "  planned in       %15.3f s\n", seconds);
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
        else
            code = tool_write(o, table ? o->out : path, text);
        weir_text_free(text);
    }
    return code;
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

static int list_policies(const tool_options *o)
{
    char *const names = weir_policy_names();
    if (!names)
        return tool_failed(o);
    fputs(names, stdout);
    weir_text_free(names);
    return TOOL_DONE;
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
    const bool told = o->explain && strcmp(o->explain, "-") == 0;
    int        code = TOOL_DONE;
    if (explain)
        code = tool_write(o, told ? NULL : o->explain, explain);
    if (picture && code == TOOL_DONE)
        code = tool_write(o, o->picture, picture);
    if (code == TOOL_DONE && (o->out || !(explain || picture)))
        code = tool_write(o, o->out, text);
    weir_text_free(explain);
    weir_text_free(picture);
    weir_text_free(text);
    return code;
}

/* One line of JSON; times in microseconds. */
static int check(const tool_options *o, const weir_stepfile *stepfile,
                 const weir_stepfile_options *how)
{
    weir_stepfile_check_stats v;

    if (weir_stepfile_check(stepfile, o->file, how, &v) != WEIR_OK)
        return tool_failed(o);
    const double more = v.base_ms > 0 ? 100 * (v.time_ms / v.base_ms - 1) : 0;
    printf("{\"ok\": true, \"time_us\": %.17g, \"compute_us\": %.17g, \"base_us\": %.17g, "
           "\"overhead_pct\": %.17g, \"stall_us\": %.17g, \"codec_us\": %.17g, "
           "\"recomputed_ops\": %zu, \"peak_addr\": %zu, \"peak_live_bytes\": %zu, "
           "\"swapped_out_bytes\": %zu, \"swapped_in_bytes\": %zu, \"host_peak_bytes\": %zu}\n",
           v.time_ms * 1e3, v.compute_ms * 1e3, v.base_ms * 1e3, more, v.stall_ms * 1e3,
           v.compress_ms * 1e3, v.recomputed, v.peak_bytes, v.live_bytes, v.out_bytes, v.in_bytes,
           v.host_bytes);
    return TOOL_DONE;
}

int tool_plan(const tool_options *o)
{
    weir_stepfile_options how = {.budget = o->budget,
                                 .policy = o->policy,
                                 .placement = o->placement,
                                 .alignment = (size_t)o->align,
                                 .moves = (uint64_t)o->moves};

    if (strcmp(o->policy, "help") == 0)
        return list_policies(o);
    if (!o->file)
        return tool_say(o, TOOL_USAGE, o->check ? "needs two files: weir plan --check GRAPH.json "
                        "PLAN.json" : "needs a file: weir plan GRAPH.json --budget 75%%");
    if (o->link && !read_link(o->link, &how.link_out, &how.link_in))
        return tool_say(o, TOOL_USAGE, "--link: '%s' is no speed such as 12GB/s or 12,25", o->link);
    weir_stepfile *const stepfile = weir_stepfile_read(o->check ? o->check : o->file);
    if (!stepfile)
        return tool_failed(o);
    const int code = o->check   ? check(o, stepfile, &how)
                     : o->curve ? plan_sweep(o, stepfile, how)
                                : plan_once(o, stepfile, how);
    weir_stepfile_free(stepfile);
    return code;
}
