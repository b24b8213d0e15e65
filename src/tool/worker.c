/* worker.c - weir bench worker: trains on command, so that a comparison can alternate between
 * programs that stay alive.
 *
 * Lines of text both ways; bench/pytorch.py answers the same:
 *   (start)   -> ready VERSION BATCH
 *   run K     -> ms T1 T2 ... TK          milliseconds of each of K steps
 *   memory    -> memory PERSISTENT STEP   bytes; STEP is the step peak beyond the persistent ones
 *   quit, or the end of stdin: leaves. Anything else -> error SENTENCE. */
#include "tool/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP = 2, MOST_STEPS = 1000000 };

/* Answers only when all K steps are done: writing between them would be timed with the rest. */
static int run(tool_trial *t, const tool_options *o, long steps)
{
    double *const ms = malloc((size_t)steps * sizeof *ms);
    if (!ms)
        return tool_failed(o);
    weir_status s = WEIR_OK;
    for (long i = 0; i < steps && s == WEIR_OK; i++) {
        const double begin = tool_clock_ms(t->dev);
        s = weir_step_run(t->step);
        ms[i] = tool_clock_ms(t->dev) - begin;
    }
    if (s == WEIR_OK) {
        fputs("ms", stdout);
        for (long i = 0; i < steps; i++)
            printf(" %.6f", ms[i]);
        putchar('\n');
    }
    free(ms);
    return s == WEIR_OK ? TOOL_DONE : tool_failed(o);
}

static int memory(tool_trial *t, const tool_options *o)
{
    weir_memory m;
    size_t      arena = 0;

    if (tool_trial_measure(t, &m, &arena) != WEIR_OK)
        return tool_failed(o);
    printf("memory %zu %zu\n", m.persistent, m.live_peak - m.persistent + arena);
    return TOOL_DONE;
}

/* Answers line by line until stdin ends; a failed step ends it too. */
static int serve(tool_trial *t, const tool_options *o)
{
    char line[128];
    int  code = TOOL_DONE;

    printf("ready %s %lld\n", weir_version(), (long long)t->batch);
    fflush(stdout);
    while (code == TOOL_DONE && fgets(line, sizeof line, stdin)) {
        char      *end = NULL;
        const long steps = strncmp(line, "run ", 4) == 0 ? strtol(line + 4, &end, 10) : 0;
        if (strcmp(line, "quit\n") == 0)
            break;
        if (strcmp(line, "memory\n") == 0)
            code = memory(t, o);
        else if (end && *end == '\n' && steps >= 1 && steps <= MOST_STEPS)
            code = run(t, o, steps);
        else
            printf("error: send 'run K' with K from 1 to %d, 'memory' or 'quit'\n", MOST_STEPS);
        fflush(stdout);
    }
    return code;
}

int tool_bench_worker(const tool_options *o)
{
    tool_trial t;
    if (tool_trial_open(&t, o, strcmp(o->graph, "on") == 0) != WEIR_OK)
        return tool_failed(o);
    int code = TOOL_DONE;
    for (int i = 0; i < WARM_UP && code == TOOL_DONE; i++)
        if (weir_step_run(t.step) != WEIR_OK)
            code = tool_failed(o);
    if (code == TOOL_DONE)
        code = serve(&t, o);
    tool_trial_close(&t);
    return code;
}
