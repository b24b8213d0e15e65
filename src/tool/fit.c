/* fit.c - weir fit: the largest batch of a model whose training step fits in a memory. */
#include "tool/tool.h"

#include <string.h>

/* A batch that was planned. */
typedef struct attempt {
    int64_t          batch;
    weir_status      status;
    weir_graph_stats stats;     /* if it fits */
} attempt;

enum { MOST = 65536, ATTEMPTS = 40 };   /* doubling and halving take at most 33 attempts */

typedef struct fit {
    const tool_options *o;
    char                budget[24];     /* bytes, so that all attempts have the same */
    size_t              bytes;
    attempt             tried[ATTEMPTS];
    int                 n, printed;
    double              step_ms;        /* measured, of the largest batch */
    size_t              peak;           /* measured, too */
} fit;

static void print_attempt(const attempt *a)
{
    if (a->status == WEIR_OK)
        printf("%8lld %14.3f MB %10zu %12.3f ms  fits\n", (long long)a->batch,
               (double)a->stats.planned_peak_bytes / 1e6, a->stats.recomputed, a->stats.extra_ms);
    else
        printf("%8lld %17s %10s %15s  does not fit\n", (long long)a->batch, "", "", "");
}

/* Nothing is printed before a batch fits: a search without one ends with a sentence alone. */
static void print_attempts(fit *f)
{
    if (tool_quiet(f->o) || (f->tried[f->n - 1].status != WEIR_OK && f->printed == 0))
        return;
    if (f->printed == 0)
        printf("%s in %.3f MB\n\n   batch      planned peak  run again      extra time\n",
               f->o->model, (double)f->bytes / 1e6);
    for (; f->printed < f->n; f->printed++)
        print_attempt(&f->tried[f->printed]);
    fflush(stdout);
}

static weir_status open_case(const fit *f, tool_bench_case *t, int64_t batch, bool dry)
{
    tool_options o = *f->o;

    o.batch = batch;
    o.budget = f->budget;
    o.dry = dry;
    return tool_bench_case_open(t, &o, true);
}

/* Records and plans the step of this batch (a weir_batch_fn). */
static weir_status plan_batch(void *ctx, int64_t batch)
{
    fit *const        f = ctx;
    attempt *const    a = &f->tried[f->n];
    tool_bench_case   t;
    weir_plan_options how = tool_plan_options(f->o);

    *a = (attempt){.batch = batch};
    how.budget = f->budget;
    WEIR_TRY(open_case(f, &t, batch, true));
    weir_graph *const g = weir_graph_begin(t.dev);
    a->status = g ? tool_bench_case_record(&t) : weir_error_status();
    if (a->status == WEIR_OK)
        a->status = weir_graph_end(g, &how);
    if (a->status == WEIR_OK)
        a->status = weir_graph_stats_of(g, &a->stats);
    weir_graph_free(g);
    tool_bench_case_close(&t);
    if (a->status == WEIR_OK || a->status == WEIR_ERR_BUDGET || a->status == WEIR_ERR_NOMEM) {
        f->n++;
        print_attempts(f);
    }
    return a->status;
}

/* Trains with the batch that was found. */
static weir_status measure(fit *f, int64_t batch)
{
    tool_bench_case t;
    weir_memory     m = {0};
    size_t          arena = 0;

    WEIR_TRY(open_case(f, &t, batch, false));
    weir_status s = weir_step_run(t.step);
    s = s == WEIR_OK ? weir_step_run(t.step) : s;       /* the second run makes no more choices */
    const double begin = tool_clock_ms(t.dev);
    for (int64_t i = 0; i < f->o->steps && s == WEIR_OK; i++)
        s = weir_step_run(t.step);
    f->step_ms = (tool_clock_ms(t.dev) - begin) / (double)f->o->steps;
    s = s == WEIR_OK ? tool_bench_case_measure(&t, &m, &arena) : s;
    f->peak = m.live_peak + arena;
    tool_bench_case_close(&t);
    return s;
}

static const attempt *attempt_of(const fit *f, int64_t batch)
{
    for (int i = 0; i < f->n; i++)
        if (f->tried[i].batch == batch)
            return &f->tried[i];
    return NULL;
}

static int write_json(const fit *f, int64_t batch)
{
    const attempt *const best = attempt_of(f, batch);
    tool_json            j;

    if (!tool_json_begin(&j, f->o))
        return TOOL_FAILED;
    tool_json_text(&j, "model", f->o->model);
    tool_json_text(&j, "device", f->o->device);
    tool_json_count(&j, "memory_bytes", f->bytes);
    tool_json_count(&j, "batch", (uint64_t)batch);
    tool_json_count(&j, "planned_peak_bytes", best->stats.planned_peak_bytes);
    tool_json_count(&j, "measured_peak_bytes", f->peak);
    tool_json_count(&j, "unbudgeted_peak_bytes", best->stats.unbudgeted_peak_bytes);
    tool_json_count(&j, "recomputed", best->stats.recomputed);
    tool_json_number(&j, "extra_ms", best->stats.extra_ms);
    tool_json_number(&j, "step_ms", f->step_ms);
    tool_json_number(&j, "samples_per_second", (double)batch / f->step_ms * 1e3);
    tool_json_open(&j, "tried", '[');
    for (int i = 0; i < f->n; i++) {
        const attempt *const a = &f->tried[i];
        tool_json_open(&j, NULL, '{');
        tool_json_count(&j, "batch", (uint64_t)a->batch);
        tool_json_bool(&j, "fits", a->status == WEIR_OK);
        if (a->status == WEIR_OK)
            tool_json_count(&j, "planned_peak_bytes", a->stats.planned_peak_bytes);
        tool_json_close(&j, '}');
    }
    tool_json_close(&j, ']');
    return tool_json_end(&j);
}

static void print_result(const fit *f, int64_t batch)
{
    const attempt *const best = attempt_of(f, batch);
    const size_t         whole = best->stats.unbudgeted_peak_bytes;

    printf("\n%s: a batch of %lld fits in %.3f MB\n", f->o->model, (long long)batch,
           (double)f->bytes / 1e6);
    printf("  planned peak %.3f MB, measured %.3f MB", (double)best->stats.planned_peak_bytes / 1e6,
           (double)f->peak / 1e6);
    if (whole > best->stats.planned_peak_bytes)
        printf("; without a budget %.3f MB", (double)whole / 1e6);
    printf("\n  %.4g ms a step, %.4g samples a second%s\n", f->step_ms,
           (double)batch / f->step_ms * 1e3, tool_simulated(f->o) ? " (simulated)" : "");
    if (batch == MOST)
        printf("  larger batches were not tried\n");
}

/* The memory in bytes; "auto": what is free on the device now. */
static weir_status read_memory(fit *f)
{
    const weir_device_options options = {.threads = (int)f->o->threads, .seed = TOOL_SEED};
    weir_memory               m;

    if (strcmp(f->o->budget, "auto") != 0) {
        WEIR_TRY(weir_bytes(f->o->budget, &f->bytes));
    } else {
        weir_device *const d = weir_device_open(f->o->device, &options);
        if (!d)
            return weir_error_status();
        weir_device_memory(d, &m);
        f->bytes = m.auto_budget;
        weir_device_close(d);
    }
    snprintf(f->budget, sizeof f->budget, "%zu", f->bytes);
    return WEIR_OK;
}

int tool_fit(const tool_options *o)
{
    fit     f = {.o = o};
    int64_t batch = 0;

    if (read_memory(&f) != WEIR_OK)
        return tool_failed(o);
    if (weir_largest_batch(plan_batch, &f, o->batch, MOST, &batch) != WEIR_OK ||
        measure(&f, batch) != WEIR_OK)
        return tool_failed(o);
    if (!tool_quiet(o))
        print_result(&f, batch);
    return o->json ? write_json(&f, batch) : TOOL_DONE;
}
