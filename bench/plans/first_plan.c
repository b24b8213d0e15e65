/* first_plan.c - how long the planner takes until it holds a first plan that fits the budget.
 *
 * `first_plan BUDGET LINK GRAPH...` plans each step that a file describes, within BUDGET ("75%")
 * and with a link of LINK GB/s (0: none), and prints a row: operations, the process's milliseconds
 * until the first plan and its extra time, then those of the answer. Times are CPU time, which
 * other processes do not advance. bench/outlines.py writes such files.
 * Build: `cmake --build build --target first_plan`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weir.h"

enum { EVENTS = 4096 };

/* All best plans in the order of their reports: only the answer says how many bytes fit. */
typedef struct events {
    double begin; /* ms of CPU time */
    size_t n;
    struct {
        size_t bytes;
        double ms, extra; /* after begin; that the plan adds to a step */
    } at[EVENTS];
} events;

static double cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static bool see(void *context, const weir_progress *p)
{
    events *const e = context;
    const bool    same = e->n > 0 && e->at[e->n - 1].bytes == p->best_bytes;

    if (p->best_bytes > 0 && !same && e->n < EVENTS) {
        e->at[e->n].bytes = p->best_bytes;
        e->at[e->n].ms = cpu_ms() - e->begin;
        e->at[e->n++].extra = p->best_extra_ms;
    }
    return true;
}

/* "resnet50_b32" of "graphs/resnet50_b32.json". */
static void print_name(const char *path)
{
    const char *const slash = strrchr(path, '/'), *const base = slash ? slash + 1 : path;
    printf("| %.*s |", (int)strcspn(base, "."), base);
}

/* False, with weir_error, if the step cannot be read or planned; that nothing fits is a row. */
static bool row(const char *path, const char *budget, double link)
{
    static events               e;
    weir_stepfile_plan_stats    stats = {0};
    const weir_stepfile_options how = {.budget = budget, .link_out = link, .link_in = link,
                                       .progress = see, .progress_context = &e};
    weir_stepfile *const        step = weir_stepfile_read(path);

    if (!step)
        return false;
    e = (events){.begin = cpu_ms()};
    char *const  plan = weir_stepfile_plan(step, &how, &stats);
    const double all = cpu_ms() - e.begin;
    const bool   planned = plan || weir_error_status() == WEIR_ERR_BUDGET;
    size_t       i = 0;
    weir_stepfile_free(step);
    if (!planned)
        return false;
    while (i < e.n && e.at[i].bytes > stats.budget_bytes)
        i++;
    print_name(path);
    if (plan && i < e.n)
        printf(" %zu | %s | %.1f | %.2f %% | %.0f | %.2f %% |\n", stats.operations, budget,
               e.at[i].ms, 100 * e.at[i].extra / stats.step_ms, all,
               100 * stats.extra_ms / stats.step_ms);
    else
        printf(" %zu | %s | - | - | %.0f | - |\n", stats.operations, budget, all);
    fflush(stdout);
    weir_text_free(plan);
    return true;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: first_plan BUDGET LINK GRAPH...\n");
        return 2;
    }
    printf("| graph | operations | budget | first plan, ms | its extra time | answer, ms | its "
           "extra time |\n|---|---:|---:|---:|---:|---:|---:|\n");
    for (int i = 3; i < argc; i++)
        if (!row(argv[i], argv[1], atof(argv[2]))) {
            fprintf(stderr, "%s\n", weir_error());
            return 1;
        }
    return 0;
}
