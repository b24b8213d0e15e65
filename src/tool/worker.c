/* worker.c - weir bench worker: trains on command, so that a comparison can alternate between
 * running programs.
 *
 * Commands on stdin, answers on stdout, a line each; bench/pytorch.py speaks the same:
 *   (start)   -> ready VERSION BATCH
 *   run K     -> ms T1 T2 ... TK          milliseconds of each of K steps
 *   memory    -> memory PERSISTENT STEP   bytes; STEP is the step peak without the persistent ones
 *   bits      -> bits HASH                of parameters, all states and the loss
 *   plan      -> plan PEAK BUDGET WHOLE AGAIN EXTRA PLANNING   graph on only: bytes, bytes, bytes
 *                                         without a budget, calls, ms more as planned, ms
 *   peak      -> peak MEASURED LIBRARIES  measured bytes of the step and persistent ones; the
 *                                         most that malloc held in addition during the last run
 *   flops     -> flops N                  operations of a step, by the cost formulas; graph on only
 *   growth    -> growth PRIVATE RESIDENT  bytes of the process (process.c) since the device was
 *                                         opened: private ones now, and the most resident ones
 *                                         after the two warm-up steps, which plan; - - where
 *                                         they are unknown
 *   quit, or the end of stdin: ends. Anything else -> error SENTENCE. */
#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2, MOST_STEPS = 1000000 };

typedef struct worker {
    const tool_options *o;
    tool_bench_case     t;
    int64_t             heap_over; /* the most the heap held above its level before a step */
    tool_process        begin;     /* before the device was opened */
    bool                marked;    /* the resident peak began after the warm-up */
} worker;

/* Answers after all K steps: output between them would be timed. */
static int run(worker *w, long steps)
{
    double *const ms = malloc((size_t)steps * sizeof *ms);
    if (!ms)
        return tool_failed(w->o);
    weir_status s = WEIR_OK;
    for (long i = 0; i < steps && s == WEIR_OK; i++) {
        tool_heap before, after;
        tool_heap_mark(&before);
        const double begin = tool_clock_ms(w->t.dev);
        s = tool_bench_case_step(&w->t);
        ms[i] = tool_clock_ms(w->t.dev) - begin;
        tool_heap_read(&after);
        if (after.live_peak - before.live > w->heap_over)
            w->heap_over = after.live_peak - before.live;
    }
    if (s == WEIR_OK) {
        fputs("ms", stdout);
        for (long i = 0; i < steps; i++)
            printf(" %.6f", ms[i]);
        putchar('\n');
    }
    free(ms);
    return s == WEIR_OK ? TOOL_DONE : tool_failed(w->o);
}

/* "memory" or "peak" */
static int measure(worker *w, bool peak)
{
    weir_memory m;
    size_t      arena = 0;

    if (tool_bench_case_measure(&w->t, &m, &arena) != WEIR_OK)
        return tool_failed(w->o);
    if (peak)
        printf("peak %zu %lld\n", m.live_peak + arena, (long long)w->heap_over);
    else
        printf("memory %zu %zu\n", m.persistent, m.live_peak - m.persistent + arena);
    return TOOL_DONE;
}

static int tell_growth(const worker *w)
{
    tool_process now;

    if (w->marked && tool_process_read(&now))
        printf("growth %lld %lld\n", (long long)(now.private_bytes - w->begin.private_bytes),
               (long long)(now.resident_peak - w->begin.resident));
    else
        puts("growth - -");
    return TOOL_DONE;
}

static int tell_bits(const worker *w)
{
    uint64_t bits;

    if (tool_bench_case_bits(&w->t, &bits) != WEIR_OK)
        return tool_failed(w->o);
    printf("bits %016llx\n", (unsigned long long)bits);
    return TOOL_DONE;
}

/* With micro-batches two graphs share one arena: the higher peak counts. */
static int tell_plan(const worker *w)
{
    weir_graph_stats s, apply = {0};

    if (weir_graph_stats_of(weir_step_graph(w->t.step), &s) != WEIR_OK ||
        (w->t.apply && weir_graph_stats_of(weir_step_graph(w->t.apply), &apply) != WEIR_OK))
        return tool_failed(w->o);
    if (apply.planned_peak_bytes > s.planned_peak_bytes)
        s.planned_peak_bytes = apply.planned_peak_bytes;
    printf("plan %zu %zu %zu %zu %.6f %.3f\n", s.planned_peak_bytes, s.budget_bytes,
           s.unbudgeted_peak_bytes, s.recomputed, s.extra_ms, s.plan_ms);
    return TOOL_DONE;
}

static int tell_flops(const worker *w)
{
    weir_graph_stats s;

    if (weir_graph_stats_of(weir_step_graph(w->t.step), &s) != WEIR_OK)
        return tool_failed(w->o);
    printf("flops %.0f\n", s.flops);
    return TOOL_DONE;
}

/* Answers line by line until stdin ends or a step fails. */
static int serve(worker *w)
{
    char line[128];
    int  code = TOOL_DONE;

    printf("ready %s %lld\n", weir_version(), (long long)w->t.batch);
    fflush(stdout);
    while (code == TOOL_DONE && fgets(line, sizeof line, stdin)) {
        char      *end = NULL;
        const long steps = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, &end, 10) : 0;
        if (strcmp(line, "quit\n") == 0)
            break;
        if (strcmp(line, "memory\n") == 0 || strcmp(line, "peak\n") == 0)
            code = measure(w, *line == 'p');
        else if (strcmp(line, "bits\n") == 0)
            code = tell_bits(w);
        else if (strcmp(line, "plan\n") == 0)
            code = tell_plan(w);
        else if (strcmp(line, "flops\n") == 0)
            code = tell_flops(w);
        else if (strcmp(line, "growth\n") == 0)
            code = tell_growth(w);
        else if (end && *end == '\n' && steps >= 1 && steps <= MOST_STEPS)
            code = run(w, steps);
        else
            printf("error: send 'run K' with K from 1 to %d, 'memory', 'peak', 'growth', 'plan', "
                   "'flops', 'bits' or 'quit'\n", MOST_STEPS);
        fflush(stdout);
    }
    return code;
}

int tool_bench_worker(const tool_options *o)
{
    worker w = {.o = o};
    (void)tool_process_read(&w.begin);
    if (tool_bench_case_open(&w.t, o, strcmp(o->graph, "on") == 0) != WEIR_OK)
        return tool_failed(o);
    int code = TOOL_DONE;
    for (int i = 0; i < WARM_UP && code == TOOL_DONE; i++)
        if (tool_bench_case_step(&w.t) != WEIR_OK)
            code = tool_failed(o);
    w.marked = tool_process_mark();
    if (code == TOOL_DONE)
        code = serve(&w);
    tool_bench_case_close(&w.t);
    return code;
}
