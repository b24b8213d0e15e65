/* bench.c - weir bench graph: a model trained graph off and on, interleaved in one process.
 *
 * Two cases with equal seeds, each on its own device, take two warm-up steps (allocation, planning,
 * momentum). Timed steps follow in rounds, some with the graph off and some with it on; the order
 * alternates from round to round, so that other load on the machine affects both cases equally. The
 * paired ratio is the median over the rounds of (time on / time off); the ratio of the minima is
 * printed beside it. A last step measures memory:
 *
 *   on   live blocks outside the arena + the highest arena byte whose canary changed
 *        + what the process held through malloc or mmap above its level before a step (interpose.c)
 *   off  the most bytes of live blocks during a step
 *
 * Both cases have then taken the same number of steps and are compared bit for bit. */
#include "tool/tool.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

/* LIBRARY_HEAP: bytes that libraries may allocate for themselves during a call (oneDNN's argument
 * lists). */
enum { OFF, ON, CASES, WARM_UP = 2, LIBRARY_HEAP = 1024 };

static const char *const case_name[CASES] = {"off", "on"};

typedef struct bench_case {
    tool_bench_case  training;
    double          *step_ms, *round_ms; /* [steps]; [rounds]: mean of the round's steps */
    int64_t          done;               /* timed steps so far */
    uint64_t         core_allocations;   /* this and the next three: sums over the timed steps */
    uint64_t         heap_calls, heap_bytes, faults;
    int64_t          heap_over; /* most the heap held above its level before a step */
    weir_graph_stats stats;     /* graph off: only budget and recomputed are set */
    size_t           persistent, measured_peak, pool;
    weir_comm_stats  wire;      /* of the last step */
    double           median, min;
    float            loss;
} bench_case;

typedef struct bench {
    const tool_options *o;
    int64_t             rounds;
    bench_case          of[CASES];
    double              ratio_paired, ratio_min; /* time on / off */
    bool                identical;
} bench;

static uint64_t minor_faults(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (uint64_t)r.ru_minflt;
}

static uint64_t core_allocations(const bench_case *c)
{
    weir_memory m;
    weir_device_memory(c->training.dev, &m);
    return m.core_allocations;
}

/* The counters are read outside the timed interval, because reading them takes system calls. */
static weir_status timed_step(bench_case *c)
{
    tool_heap      before, after;
    const uint64_t faults = minor_faults(), core = core_allocations(c);
    tool_heap_mark(&before);

    const double begin = tool_clock_ms(c->training.dev);
    WEIR_TRY(weir_step_run(c->training.step));
    c->step_ms[c->done++] = tool_clock_ms(c->training.dev) - begin;

    tool_heap_read(&after);
    c->core_allocations += core_allocations(c) - core;
    c->faults += minor_faults() - faults;
    c->heap_calls += after.calls - before.calls;
    c->heap_bytes += after.bytes - before.bytes;
    if (after.live_peak - before.live > c->heap_over)
        c->heap_over = after.live_peak - before.live;
    return WEIR_OK;
}

/* Runs the steps of one case that belong to round r. */
static weir_status run_round(const bench *b, bench_case *c, int64_t r)
{
    const int64_t n = b->o->steps * (r + 1) / b->rounds - b->o->steps * r / b->rounds;
    double        sum = 0;
    for (int64_t i = 0; i < n; i++) {
        WEIR_TRY(timed_step(c));
        sum += c->step_ms[c->done - 1];
    }
    c->round_ms[r] = sum / (double)n;
    return WEIR_OK;
}

/* The first steps allocate, plan and create momentum buffers, unlike later ones. The case with the
 * graph on goes first, so that its planning time includes the creation of every library primitive;
 * the other case finds them in the library's cache. */
static weir_status warm_up(bench *b)
{
    for (int i = 0; i < WARM_UP; i++)
        for (int k = CASES; k-- > 0;)
            WEIR_TRY(weir_step_run(b->of[k].training.step));
    return WEIR_OK;
}

/* Sets the budget of graph off, a share of its measured peak without one. Each case takes one more
 * step. */
static weir_status limit_off(bench *b)
{
    bench_case *const off = &b->of[OFF];
    weir_memory       m;
    size_t            arena;

    WEIR_TRY(tool_bench_case_measure(&off->training, &m, &arena));
    WEIR_TRY(weir_step_run(b->of[ON].training.step));
    off->stats.unbudgeted_peak_bytes = m.live_peak;
    return tool_bench_case_limit(&off->training, b->o->off_budget, b->o->off_policy, m.live_peak,
                                 &off->stats.budget_bytes);
}

static weir_status count_wire(const bench_case *c, weir_comm_stats *stats)
{
    *stats = (weir_comm_stats){0};
    return c->training.comm ? weir_comm_stats_of(c->training.comm, stats) : WEIR_OK;
}

/* Measures one more step of a case. */
static weir_status measure(bench_case *c)
{
    const weir_graph *const g = weir_step_graph(c->training.step);
    weir_memory             before, m;
    weir_comm_stats         sofar;
    size_t                  arena = 0;

    if (g)
        WEIR_TRY(weir_graph_stats_of(g, &c->stats));
    weir_device_memory(c->training.dev, &before);
    WEIR_TRY(count_wire(c, &sofar));
    WEIR_TRY(tool_bench_case_measure(&c->training, &m, &arena));
    WEIR_TRY(count_wire(c, &c->wire));
    c->wire.wire_ms -= sofar.wire_ms;
    c->wire.waited_ms -= sofar.waited_ms;
    if (!g)
        c->stats.recomputed = (size_t)(m.recomputed - before.recomputed);
    c->persistent = m.persistent;
    c->pool = m.pool;
    c->measured_peak = m.live_peak + arena;
    return tool_bench_case_loss(&c->training, &c->loss);
}

/* Both cases take steps + WARM_UP + 1 steps, so their bits must agree at the end. */
static weir_status run_all(bench *b)
{
    WEIR_TRY(warm_up(b));
    if (b->o->off_budget)
        WEIR_TRY(limit_off(b));
    for (int64_t r = 0; r < b->rounds; r++)
        for (int64_t k = 0; k < CASES; k++)
            WEIR_TRY(run_round(b, &b->of[(k + r) % CASES], r));
    for (int k = 0; k < CASES; k++)
        WEIR_TRY(measure(&b->of[k]));
    return tool_bench_case_equal(&b->of[OFF].training, &b->of[ON].training, &b->identical);
}

/* Computes medians, minima and ratios; sorts the times of the steps. */
static weir_status summarise(bench *b)
{
    double *const ratio = malloc((size_t)b->rounds * sizeof *ratio);
    if (!ratio)
        return WEIR_ERR_NOMEM;
    for (int64_t r = 0; r < b->rounds; r++)
        ratio[r] = b->of[ON].round_ms[r] / b->of[OFF].round_ms[r];
    b->ratio_paired = tool_median(ratio, b->rounds);
    free(ratio);
    for (int k = 0; k < CASES; k++) {
        b->of[k].median = tool_median(b->of[k].step_ms, b->of[k].done);
        b->of[k].min = b->of[k].step_ms[0];
    }
    b->ratio_min = b->of[ON].min / b->of[OFF].min;
    return WEIR_OK;
}

/* The mean per step, rounded up, so that only a sum of 0 gives 0. */
static uint64_t per_step(const bench_case *c, uint64_t sum)
{
    const uint64_t n = (uint64_t)c->done;
    return (sum + n - 1) / n;
}

/* ---- the JSON rows ---- */

/* One object on one line; bench/README.md explains the fields. */
static void row_json(const bench *b, int k, FILE *to)
{
    const bench_case *const c = &b->of[k];
    char                    heap[32] = "null"; /* not counted in this build */
    if (tool_heap_counts())
        snprintf(heap, sizeof heap, "%llu", (unsigned long long)per_step(c, c->heap_bytes));

    fprintf(to,
            "  {\"model\": \"%s\", \"precision\": \"%s\", \"batch\": %lld, "
            "\"case\": \"%s\", ",
            b->o->model, b->o->precision, (long long)c->training.batch, case_name[k]);
    fprintf(to, "\"persistent_bytes\": %zu, \"planned_peak_bytes\": %zu, ", c->persistent,
            c->stats.planned_peak_bytes);
    fprintf(to, "\"measured_peak_bytes\": %zu, \"step_peak_bytes\": %zu, ", c->measured_peak,
            c->measured_peak - c->persistent);
    fprintf(to, "\"budget_bytes\": %zu, \"unbudgeted_peak_bytes\": %zu, \"again\": %zu, ",
            c->stats.budget_bytes, c->stats.unbudgeted_peak_bytes, c->stats.recomputed);
    fprintf(to, "\"lower_bound_bytes\": %zu, \"arena_bytes\": %zu, \"pool_bytes\": %zu, ",
            c->stats.lower_bound_bytes, c->stats.arena_bytes, c->pool);
    fprintf(to, "\"step_ms_median\": %.6g, \"step_ms_min\": %.6g, ", c->median, c->min);
    fprintf(to, "\"record_ms\": %.6g, \"plan_ms\": %.6g, ", c->stats.record_ms, c->stats.plan_ms);
    fprintf(to, "\"core_allocations_after_step_2\": %llu, \"library_malloc_bytes_per_step\": %s, ",
            (unsigned long long)c->core_allocations, heap);
    fprintf(to, "\"library_peak_bytes\": %lld, ", (long long)c->heap_over);
    fprintf(to, "\"minor_faults_per_step\": %.4g, \"bit_identical\": %s, ",
            (double)c->faults / (double)c->done,
            tool_simulated(b->o) ? "null" : b->identical ? "true" : "false");
    fprintf(to, "\"time_ratio_paired\": %.4f, \"time_ratio_min\": %.4f}",
            k == ON ? b->ratio_paired : 1.0, k == ON ? b->ratio_min : 1.0);
}

static int write_json(const bench *b)
{
    FILE *const to = tool_open(b->o, b->o->json);
    if (!to)
        return TOOL_FAILED;
    fputs("[\n", to);
    for (int k = 0; k < CASES; k++) {
        row_json(b, k, to);
        fputs(k + 1 < CASES ? ",\n" : "\n", to);
    }
    fputs("]\n", to);
    return tool_close(b->o, b->o->json, to);
}

/* ---- the table ---- */

static void line_bytes(const char *what, size_t off, size_t on)
{
    printf("  %-34s %14.3f %14.3f  MB\n", what, (double)off / 1e6, (double)on / 1e6);
}

static void line_ms(const char *what, double off, double on)
{
    printf("  %-34s %14.4g %14.4g  ms\n", what, off, on);
}

static void line_count(const char *what, uint64_t off, uint64_t on)
{
    printf("  %-34s %14llu %14llu\n", what, (unsigned long long)off, (unsigned long long)on);
}

static void print_head(const bench *b)
{
    const tool_bench_case *const t = &b->of[ON].training;
    printf("%s, batch %lld", b->o->model, (long long)t->batch);
    if (t->image)
        printf(", %lld px", (long long)t->image);
    if (tool_simulated(b->o))
        printf(", simulated on %s", b->o->device);
    if (weir_comm_world(t->comm) > 1)
        printf(", one of %d ranks", weir_comm_world(t->comm));
    printf(", %d thread%s: %lld step%s of each case in %lld round%s\n\n",
           weir_device_threads(t->dev), tool_plural((size_t)weir_device_threads(t->dev)),
           (long long)b->o->steps, tool_plural((size_t)b->o->steps), (long long)b->rounds,
           tool_plural((size_t)b->rounds));
    printf("  %-34s %14s %14s\n", "graph", case_name[OFF], case_name[ON]);
}

static void print_table(const bench *b)
{
    const bench_case *const off = &b->of[OFF], *const on = &b->of[ON];

    print_head(b);
    line_bytes("parameters, state, inputs", off->persistent, on->persistent);
    line_bytes("step peak (beyond them)", off->measured_peak - off->persistent,
               on->measured_peak - on->persistent);
    line_bytes("measured peak", off->measured_peak, on->measured_peak);
    line_bytes("planned peak", 0, on->stats.planned_peak_bytes);
    if (on->stats.budget_bytes || off->stats.budget_bytes) {
        line_bytes("budget", off->stats.budget_bytes, on->stats.budget_bytes);
        line_bytes("peak without it", off->stats.unbudgeted_peak_bytes,
                   on->stats.unbudgeted_peak_bytes);
        line_count("instructions that run again", off->stats.recomputed, on->stats.recomputed);
    }
    line_bytes("arena", 0, on->stats.arena_bytes);
    line_bytes("lower bound of the arena", 0, on->stats.lower_bound_bytes);
    line_bytes("pool", off->pool, on->pool);
    line_ms("step, median", off->median, on->median);
    line_ms("step, minimum", off->min, on->min);
    if (weir_comm_world(on->training.comm) > 1) {
        line_ms("a collective is under way", off->wire.wire_ms, on->wire.wire_ms);
        line_ms("computing waits for it", off->wire.waited_ms, on->wire.waited_ms);
        line_ms("computing waits, predicted", 0, on->stats.exposed_predicted_ms);
    }
    line_ms("recording", 0, on->stats.record_ms);
    line_ms("planning", 0, on->stats.plan_ms);
    line_count("core allocations after step 2", off->core_allocations, on->core_allocations);
    if (tool_heap_counts()) {
        line_count("malloc in the process, bytes a step", per_step(off, off->heap_bytes),
                   per_step(on, on->heap_bytes));
        line_count("malloc in the process, calls a step", per_step(off, off->heap_calls),
                   per_step(on, on->heap_calls));
    }
    line_count("minor page faults a step", per_step(off, off->faults), per_step(on, on->faults));
    printf("  %-34s %14.6f %14.6f\n", "loss", (double)off->loss, (double)on->loss);
    printf("\non/off: time %.3f (paired median of %lld rounds), %.3f (minima); step peak %.3f\n",
           b->ratio_paired, (long long)b->rounds, b->ratio_min,
           (double)(on->measured_peak - on->persistent) /
               fmax(1, (double)(off->measured_peak - off->persistent)));
    const bool truth =
        on->stats.planned_peak_bytes == on->measured_peak && on->heap_over <= LIBRARY_HEAP;
    printf(
        "planned peak = measured peak: %s (libraries hold at most %lld bytes of their own during "
        "a call); bits identical: %s\n",
        truth ? "yes" : "no", (long long)on->heap_over,
        tool_simulated(b->o) ? "nothing was computed" : b->identical ? "yes" : "no");
}

/* ---- the command ---- */

/* Allocates everything that the loop needs, so that the tool's own requests are not counted. */
static weir_status open_all(bench *b)
{
    const size_t steps = (size_t)b->o->steps, rounds = (size_t)b->rounds;
    for (int k = 0; k < CASES; k++) {
        bench_case *const c = &b->of[k];
        c->step_ms = malloc(steps * sizeof *c->step_ms);
        c->round_ms = malloc(rounds * sizeof *c->round_ms);
        if (!c->step_ms || !c->round_ms)
            return WEIR_ERR_NOMEM;
        WEIR_TRY(tool_bench_case_open(&c->training, b->o, k == ON));
    }
    return WEIR_OK;
}

static void close_all(bench *b)
{
    for (int k = 0; k < CASES; k++) {
        tool_bench_case_close(&b->of[k].training);
        free(b->of[k].step_ms);
        free(b->of[k].round_ms);
    }
}

/* Different bits break a guarantee of the library: the command fails after its report. */
static int report(const bench *b)
{
    if (!tool_quiet(b->o))
        print_table(b);
    const int code = b->o->json ? write_json(b) : TOOL_DONE;
    if (code == TOOL_DONE && !b->identical)
        return tool_say(b->o, TOOL_FAILED, "graph off and graph on differ after %lld steps",
                        (long long)(b->o->steps + WARM_UP + 1));
    return code;
}

int tool_bench_graph(const tool_options *o)
{
    bench       b = {.o = o, .rounds = o->rounds < o->steps ? o->rounds : o->steps};
    weir_status s = open_all(&b);

    if (s == WEIR_OK)
        s = run_all(&b);
    if (s == WEIR_OK)
        s = summarise(&b);
    const int code = s == WEIR_OK ? report(&b) : tool_failed(o);
    close_all(&b);
    return code;
}
