/* fit.c - weir fit: the largest batch of a model whose training step fits in a memory. */
#include "tool/tool.h"

#include <string.h>

/* A batch that was tried: by what it needs, or by a plan. */
typedef struct attempt {
    int64_t          batch;
    bool             planned, fits;
    weir_graph_needs needs;     /* if not planned; zero: too much to tell */
    weir_graph_stats stats;     /* if it was planned and fits */
} attempt;

/* A step that was recorded and planned. */
typedef struct planned {
    tool_bench_case t;
    weir_graph     *graph;
} planned;

enum { MOST = 65536, ATTEMPTS = 200 };

typedef struct fit {
    const tool_options *o;
    char                budget[24];     /* bytes, so that all attempts have the same */
    size_t              bytes;
    attempt             tried[ATTEMPTS];
    int                 n, printed;
    const attempt      *best;
    planned             kept, next;     /* of the best batch; of the one being planned */
    double              step_ms;        /* measured, of the largest batch */
    size_t              peak;           /* measured, too */
} fit;

static void print_attempt(const attempt *a, size_t memory)
{
    printf("%8lld", (long long)a->batch);
    if (a->planned && a->fits)
        printf(" %18s %14.3f MB %10zu %12.3f ms", "", (double)a->stats.planned_peak_bytes / 1e6,
               a->stats.recomputed, a->stats.extra_ms);
    else if (a->needs.least_bytes > 0)
        printf(" %15.3f MB", (double)a->needs.least_bytes / 1e6);
    printf("%s\n", a->planned && a->fits           ? "  fits"
                   : a->planned                    ? "  no plan fits"
                   : a->fits                       ? ""
                   : a->needs.floor_bytes > memory ? "  too large" : "  undecided");
}

/* Nothing is printed before a batch may fit: a search without one ends with a sentence alone. */
static void print_attempts(fit *f, const attempt *last)
{
    if (tool_quiet(f->o) || (!last->fits && f->printed == 0))
        return;
    if (f->printed == 0)
        printf("%s in %.3f MB\n\n   batch      smallest plan      planned peak  run again"
               "      extra time\n", f->o->model, (double)f->bytes / 1e6);
    for (; f->printed < f->n; f->printed++)
        print_attempt(&f->tried[f->printed], f->bytes);
    fflush(stdout);
}

static bool too_large(weir_status s)
{
    return s == WEIR_ERR_BUDGET || s == WEIR_ERR_NOMEM;
}

/* Notes an attempt and returns its status. */
static weir_status note(fit *f, attempt a, weir_status s)
{
    a.fits = a.fits && s == WEIR_OK;
    if (f->n == ATTEMPTS && (s == WEIR_OK || too_large(s)))
        return weir_fail(WEIR_ERR_STATE, "no end after %d batches", ATTEMPTS);
    if (s == WEIR_OK || too_large(s)) {
        f->tried[f->n++] = a;
        print_attempts(f, &f->tried[f->n - 1]);
    }
    return s;
}

static void close_planned(planned *p)
{
    weir_graph_free(p->graph);
    tool_bench_case_close(&p->t);
    *p = (planned){0};
}

/* Records the step of this batch; its data are not written. */
static weir_status record(const fit *f, planned *p, int64_t batch)
{
    tool_options o = *f->o;

    o.batch = batch;
    o.budget = f->budget;
    o.dry = true;
    WEIR_TRY(tool_bench_case_open(&p->t, &o, true));
    p->graph = weir_graph_begin(p->t.dev);
    return p->graph ? tool_bench_case_record(&p->t) : weir_error_status();
}

/* A weir_batch_needs_fn. */
static weir_status find_needs(void *ctx, int64_t batch, weir_graph_needs *needs)
{
    fit *const              f = ctx;
    const weir_plan_options how = tool_plan_options(f->o);
    planned                 p = {0};
    weir_status             s = record(f, &p, batch);

    if (s == WEIR_OK)
        s = weir_graph_end_needs(p.graph, &how, needs);
    close_planned(&p);
    return note(f, (attempt){.batch = batch, .needs = *needs,
                             .fits = needs->least_bytes <= f->bytes}, s);
}

/* A weir_batch_fn; keeps the plan. */
static weir_status plan_batch(void *ctx, int64_t batch)
{
    fit *const        f = ctx;
    attempt           a = {.batch = batch, .planned = true, .fits = true};
    weir_plan_options how = tool_plan_options(f->o);
    weir_status       s = record(f, &f->next, batch);

    how.budget = f->budget;
    if (s == WEIR_OK)
        s = weir_graph_end(f->next.graph, &how);
    if (s == WEIR_OK)
        s = weir_graph_stats_of(f->next.graph, &a.stats);
    if (s == WEIR_OK) {
        close_planned(&f->kept);
        f->kept = f->next;
        f->next = (planned){0};
    }
    close_planned(&f->next);
    s = note(f, a, s);
    f->best = s == WEIR_OK ? &f->tried[f->n - 1] : f->best;
    return s;
}

/* Trains with the batch that was found, by the plan that was made. */
static weir_status measure(fit *f)
{
    planned *const p = &f->kept;
    weir_memory    m;
    size_t         arena;

    WEIR_TRY(tool_bench_case_fill(&p->t, f->o));
    WEIR_TRY(weir_graph_run(p->graph));                 /* the next runs allocate nothing */
    weir_device_reset_peak(p->t.dev);
    WEIR_TRY(weir_graph_measure(p->graph, &arena));
    weir_device_memory(p->t.dev, &m);
    f->peak = m.live_peak + arena;
    const double begin = tool_clock_ms(p->t.dev);
    for (int64_t i = 0; i < f->o->steps; i++)
        WEIR_TRY(weir_graph_run(p->graph));
    f->step_ms = (tool_clock_ms(p->t.dev) - begin) / (double)f->o->steps;
    return WEIR_OK;
}

static int write_json(const fit *f, int64_t batch)
{
    const attempt *const best = f->best;
    tool_json            j;

    if (!tool_json_begin(&j, f->o))
        return TOOL_FAILED;
    tool_json_text(&j, "model", f->o->model);
    tool_json_text(&j, "device", f->o->device);
    tool_json_count(&j, "memory_bytes", f->bytes);
    tool_json_count(&j, "batch", (uint64_t)batch);
    tool_json_count(&j, "planned_peak_bytes", best->stats.planned_peak_bytes);
    if (f->o->steps > 0)
        tool_json_count(&j, "measured_peak_bytes", f->peak);
    tool_json_count(&j, "unbudgeted_peak_bytes", best->stats.unbudgeted_peak_bytes);
    tool_json_count(&j, "recomputed", best->stats.recomputed);
    tool_json_number(&j, "extra_ms", best->stats.extra_ms);
    if (f->o->steps > 0) {
        tool_json_number(&j, "step_ms", f->step_ms);
        tool_json_number(&j, "samples_per_second", (double)batch / f->step_ms * 1e3);
    }
    tool_json_open(&j, "tried", '[');
    for (int i = 0; i < f->n; i++) {
        const attempt *const a = &f->tried[i];
        tool_json_open(&j, NULL, '{');
        tool_json_count(&j, "batch", (uint64_t)a->batch);
        tool_json_bool(&j, "fits", a->fits);
        if (a->planned && a->fits)
            tool_json_count(&j, "planned_peak_bytes", a->stats.planned_peak_bytes);
        if (!a->planned && a->needs.least_bytes > 0)
            tool_json_count(&j, "least_bytes", a->needs.least_bytes);
        tool_json_close(&j, '}');
    }
    tool_json_close(&j, ']');
    return tool_json_end(&j);
}

static void print_batch(const fit *f, int64_t batch)
{
    const weir_graph_stats *const s = &f->best->stats;

    printf("\n%s: a batch of %lld fits in %.3f MB\n  planned peak %.3f MB", f->o->model,
           (long long)batch, (double)f->bytes / 1e6, (double)s->planned_peak_bytes / 1e6);
    if (s->unbudgeted_peak_bytes > s->planned_peak_bytes)
        printf("; without a budget %.3f MB", (double)s->unbudgeted_peak_bytes / 1e6);
    printf("%s\n", batch == MOST ? "\n  larger batches were not tried" : "");
    fflush(stdout);
}

static void print_speed(const fit *f, int64_t batch)
{
    printf("  measured peak %.3f MB; %.4g ms a step, %.4g samples a second%s\n",
           (double)f->peak / 1e6, f->step_ms, (double)batch / f->step_ms * 1e3,
           tool_simulated(f->o) ? " (simulated)" : "");
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

/* A weir_batch_fn: asks the program at the other end. */
static weir_status ask(void *ctx, int64_t batch)
{
    char line[32];

    (void)ctx;
    printf("%lld\n", (long long)batch);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return weir_fail(WEIR_ERR_CANCELLED, "no answer for a batch of %lld", (long long)batch);
    line[strcspn(line, "\n")] = '\0';
    if (strcmp(line, "fits") != 0 && strcmp(line, "no") != 0)
        return weir_fail(WEIR_ERR_INVALID, "the answer '%s' is neither 'fits' nor 'no'", line);
    return *line == 'f' ? WEIR_OK
                        : weir_fail(WEIR_ERR_BUDGET, "a batch of %lld does not fit",
                                    (long long)batch);
}

/* Searches for another program, which knows what fits. */
static int answer(const tool_options *o)
{
    const weir_batch_search s = {.fits = ask, .first = o->batch, .most = MOST,
                                 .within = (double)o->within / 100};
    int64_t                 batch;

    if (weir_largest_batch(&s, &batch) != WEIR_OK)
        return tool_failed(o);
    printf("largest %lld\n", (long long)batch);
    return TOOL_DONE;
}

int tool_fit(const tool_options *o)
{
    fit               f = {.o = o};
    weir_batch_search s = {.fits = plan_batch, .needs = find_needs, .ctx = &f,
                           .first = o->batch, .most = MOST};
    int64_t           batch = 0;
    int               code = TOOL_DONE;

    if (*o->ask == 'y')
        return answer(o);
    if (read_memory(&f) != WEIR_OK)
        return tool_failed(o);
    s.limit = f.bytes;
    weir_status status = weir_largest_batch(&s, &batch);
    if (status == WEIR_OK && !tool_quiet(o))
        print_batch(&f, batch);
    if (status == WEIR_OK && o->steps > 0)
        status = measure(&f);
    if (status != WEIR_OK)
        code = tool_failed(o);
    else if (o->steps > 0 && !tool_quiet(o))
        print_speed(&f, batch);
    if (code == TOOL_DONE && o->json)
        code = write_json(&f, batch);
    close_planned(&f.kept);
    return code;
}
