/* policies.c - every policy by name: valid schedules for random steps, what its paper claims on
 * chains, failures, and training within budgets with the same bits. */
#include <math.h>

#include "core/mem.h"
#include "graph/policy/keep.h"
#include "graph/policy/policy.h"
#include "lab.h"
#include "problems.h"
#include "train.h"

/* `asked`: does what it is asked for, whatever the room. */
static const struct { const char *name; bool asked; } all[] = {
    {"recycle", false},
    {"checkpoint:manual", true},
    {"checkpoint:sequential=3", true},
    {"checkpoint:sequential", false},
    {"checkpoint", false},
    {"checkpoint:memory", false},
    {"checkpoint:speed", false},
    {"sublinear", false},
    {"dtr", false},
    {"dtr:eq", false},
    {"dtr:local", false},
    {"dtr:lru", false},
    {"dtr:size", false},
    {"dtr:msps", false},
    {"dtr_lookahead", false}};

/* Plans with policy `name`; s is to be freed. */
static weir_status plan_with(const char *name, const weir_problem *p, size_t room,
                             weir_schedule *s)
{
    const weir_policy *policy;
    weir_policy_job    job = {.p = p, .room = room, .moves = 300};
    weir_status        status = weir_policy_find(name, &policy, &job.variant);

    if (status == WEIR_OK)
        status = policy->plan(&job);
    *s = job.s;
    weir_mem_free(job.gap);
    return status;
}

static bool same_events(const weir_schedule *a, const weir_schedule *b)
{
    bool same = a->events.n == b->events.n && a->peak == b->peak;

    for (uint32_t e = 0; same && e < a->events.n; e++)
        same = a->events.at[e].what == b->events.at[e].what &&
               a->events.at[e].again == b->events.at[e].again;
    return same;
}

CASE(random_steps_at_many_budgets)
{
    for (int round = 0; round < 60; round++) {
        weir_problem  p;
        weir_schedule plain, s, same;
        make_problem_with(&p, 6 + below(MOST_TASKS - 6), round % 3 ? 0 : 1 + below(3));
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        for (size_t i = 0; i < LAB_COUNT(all); i++)
            for (size_t tenth = 0; tenth <= 10; tenth += 2) {
                const size_t room = plain.peak * tenth / 10;
                CHECK_OK(plan_with(all[i].name, &p, room, &s));
                if (!CHECK(s.valid))
                    printf("    %s, round %d, %zu/10\n", all[i].name, round, tenth);
                else
                    replay(&p, &s, s.peak);
                CHECK_OK(plan_with(all[i].name, &p, room, &same));
                CHECK(same_events(&s, &same));
                if (!all[i].asked && !CHECK(s.peak <= plain.peak && (tenth < 10 || s.again == 0)))
                    printf("    %s, round %d, %zu/10: peak %zu of %zu, again %g\n", all[i].name,
                           round, tenth, s.peak, plain.peak, s.again);
                weir_schedule_free(&s);
                weir_schedule_free(&same);
            }
        weir_schedule_free(&plain);
        weir_problem_free(&p);
    }
}

/* ---- chains ---- */

enum { UNIT = 64 };

/* n layers of one second and one unit each; the gradient of layer i reads the gradient behind it
 * and the layer's input. */
static void make_chain(weir_problem *p, uint32_t n)
{
    *p = (weir_problem){0};
    for (uint32_t i = 0; i < 2 * n; i++) {
        uint32_t in[2], nin = 0;
        CHECK(weir_problem_piece(p, UNIT, 0, i + 1 == 2 * n));
        if (i > 0)
            in[nin++] = i - 1;
        if (i >= n && 2 * n - 1 - i > 0)
            in[nin++] = 2 * n - 1 - i - 1;
        const weir_task_def def = {.time = 1, .until = 2 * n, .nin = nin, .in = in, .nout = 1,
                                   .out = &i, .phase = i < n ? WEIR_FORWARD : WEIR_BACKWARD};
        CHECK(weir_problem_task(p, &def));
    }
    CHECK(weir_problem_end(p));
}

/* "Memory cost O(sqrt n) at one extra forward pass." */
/* auto is no slower than any policy that plans for a budget and recomputes only, and the same each
 * time. */
CASE(auto_is_never_slower)
{
    for (int round = 0; round < 40; round++) {
        weir_problem  p;
        weir_schedule plain, own, same, s;
        make_problem_with(&p, 6 + below(MOST_TASKS - 6), round % 3 ? 0 : 1 + below(3));
        CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &plain));
        for (size_t percent = 35; percent < 100; percent += 20) {
            const size_t room = plain.peak * percent / 100;
            CHECK_OK(plan_with("auto", &p, room, &own));
            CHECK_OK(plan_with("auto", &p, room, &same));
            CHECK(same_events(&own, &same));
            weir_schedule_free(&same);
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                if (all[i].asked)
                    continue;
                CHECK_OK(plan_with(all[i].name, &p, room, &s));
                const bool fits = s.valid && s.peak <= room;
                if (fits && !CHECK(own.valid && own.peak <= room && own.time <= s.time))
                    printf("    round %d, %zu %%: %.9g s, %s %.9g s\n", round, percent, own.time,
                           all[i].name, s.time);
                weir_schedule_free(&s);
            }
            weir_schedule_free(&own);
        }
        weir_schedule_free(&plain);
        weir_problem_free(&p);
    }
}

CASE(checkpoints_take_the_square_root)
{
    for (uint32_t root = 4; root <= 32; root *= 2) {
        const uint32_t n = root * root;
        weir_problem   p;
        weir_schedule  s;
        make_chain(&p, n);
        CHECK_OK(plan_with("checkpoint:memory", &p, (2 * root + 2) * UNIT, &s));
        CHECK(s.valid && s.peak <= (2 * root + 2) * UNIT);
        CHECK(s.again <= n && s.again >= n - 3 * root);
        weir_schedule_free(&s);
        CHECK_OK(plan_with("checkpoint:memory", &p, SIZE_MAX, &s));
        CHECK(s.again == 0 && s.peak == (n + 1) * UNIT);
        weir_schedule_free(&s);
        weir_problem_free(&p);
    }
}

/* All segments but the last one run again, except for what they end with. */
CASE(segments_are_counted)
{
    enum { N = 60 };
    weir_problem p;

    make_chain(&p, N);
    for (uint32_t n = 1; n <= 12; n++) {
        weir_schedule s;
        char          name[32];
        if (N % n)
            continue;
        snprintf(name, sizeof name, "checkpoint:sequential=%u", n);
        CHECK_OK(plan_with(name, &p, 0, &s));
        CHECK(s.again == (n - 1) * (N / n - 1));
        weir_schedule_free(&s);
    }
    weir_problem_free(&p);
}

/* "DTR trains an n-layer linear network within a budget of the order of sqrt n with O(n)
 * operations": the runs per layer do not grow. */
CASE(dtr_takes_a_few_runs_per_layer)
{
    static const char *const names[] = {"dtr", "dtr:eq", "dtr_lookahead"};

    for (size_t i = 0; i < LAB_COUNT(names); i++)
        for (uint32_t root = 8; root <= 32; root *= 2) {
            const uint32_t n = root * root;
            weir_problem   p;
            weir_schedule  s;
            make_chain(&p, n);
            CHECK_OK(plan_with(names[i], &p, (2 * root + 2) * UNIT, &s));
            if (!CHECK(s.valid && s.peak <= (2 * root + 2) * UNIT && s.again <= 2 * n))
                printf("    %s, %u layers: peak %zu units, %g again\n", names[i], n,
                       s.peak / UNIT, s.again);
            weir_schedule_free(&s);
            weir_problem_free(&p);
        }
}

/* Some tasks of a gradient that wait for nothing may run early, some forward ones late. */
CASE(where_the_forward_pass_is_over)
{
    weir_problem p;

    make_chain(&p, 8);
    CHECK(weir_keep_turn(&p) == 8 && weir_keep_gap(&p, 3, 8) == 1 && weir_keep_gap(&p, 7, 8) == 0);
    p.tasks.at[2].phase = p.tasks.at[3].phase = WEIR_BACKWARD;
    p.tasks.at[13].phase = WEIR_FORWARD;
    CHECK(weir_keep_turn(&p) == 8);
    for (uint32_t i = 0; i < p.tasks.n; i++)
        p.tasks.at[i].phase = WEIR_BACKWARD;
    CHECK(weir_keep_turn(&p) == 0);
    weir_problem_free(&p);
}

/* Cheap work runs again, the results of convolutions do not. */
CASE(speed_keeps_what_is_dear)
{
    for (int round = 0; round < 20; round++) {
        weir_problem  p;
        weir_schedule s;
        make_problem(&p, MOST_TASKS);
        for (uint32_t i = 0; i < p.tasks.n; i++)
            p.tasks.at[i].until = p.tasks.n;
        CHECK_OK(plan_with("checkpoint:speed", &p, 0, &s));
        for (uint32_t e = 0; e < s.events.n; e++)
            CHECK(!s.events.at[e].again ||
                  p.tasks.at[s.events.at[e].what].kind == WEIR_WORK_OTHER);
        weir_schedule_free(&s);
        weir_problem_free(&p);
    }
}

/* ---- mistakes, failures ---- */

CASE(wrong_names)
{
    static const char *const wrong[] = {
        "nope", "", ":", "dtr:e", "dtr:eq2", "dtr:a very long name of a score",
        "checkpoint:fast", "checkpoint:sequential=",
        "checkpoint:sequential=0", "checkpoint:sequential=-1", "checkpoint:sequential=2x",
        "checkpoint:sequential=99999999999", "checkpoint:speed=2", "recycle:more", "sublinear:2",
        "dtr_lookahead:x", "dtr_look"};
    weir_problem p;

    make_chain(&p, 4);
    for (size_t i = 0; i < LAB_COUNT(wrong); i++) {
        weir_schedule s;
        if (!CHECK_STATUS(plan_with(wrong[i], &p, 0, &s), WEIR_ERR_INVALID))
            printf("    %s\n", wrong[i]);
        weir_schedule_free(&s);
    }
    weir_problem_free(&p);
}

CASE(fails_at_every_point)
{
    weir_problem  p;
    weir_schedule s;

    make_problem_with(&p, 24, 2);
    CHECK_OK(plan_with("recycle", &p, SIZE_MAX, &s));
    const size_t room = s.peak * 6 / 10;
    weir_schedule_free(&s);
    for (size_t i = 0; i < LAB_COUNT(all); i++)
        for (int64_t nth = 0;; nth++) {
            weir_mem_fail_nth(nth, false);
            const weir_status status = plan_with(all[i].name, &p, room, &s);
            const bool        failed = weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            weir_schedule_free(&s);
            if (!failed) {
                CHECK_OK(status);
                break;
            }
            CHECK_STATUS(status, WEIR_ERR_NOMEM);
        }
    weir_problem_free(&p);
}

/* ---- training ---- */

enum { STEPS = 20, NOTHING_TO_DO = 2 };     /* the first two: nothing is marked */

/* Trains with the policy: planned = measured <= budget, the same bits; ERR_BUDGET: it cannot. */
static weir_status train_with(const char *policy, const char *budget, uint64_t bits)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget, .policy = policy}};
    train                   t;
    weir_graph_stats        s;
    size_t                  measured = 0;
    weir_status             status = WEIR_OK;

    if (!CHECK_OK(train_open(&t, TRAIN_DIGITS, 16, 0, &how)))
        return WEIR_ERR_NOMEM;
    for (int k = 0; k < STEPS && status == WEIR_OK; k++)
        status = train_step(&t, k);
    if (status == WEIR_OK) {
        CHECK(train_bits(&t) == bits);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.planned_peak_bytes <= s.budget_bytes);
        CHECK_OK(weir_graph_measure(weir_step_graph(t.step), &measured));
        CHECK(measured == s.arena_bytes && s.again > 0);
    }
    train_close(&t);
    return status;
}

/* The smallest budget in steps of 4 % that each can meet; all but those without a choice meet
 * one. */
CASE(training_keeps_the_bits)
{
    const uint64_t bits = train_run(TRAIN_DIGITS, 16, 0, STEPS,
                                    &(weir_step_options){.graph = false});

    for (size_t i = 0; i < LAB_COUNT(all); i++) {
        weir_status status = WEIR_ERR_BUDGET;
        int         percent = 64;
        for (; percent < 100 && status == WEIR_ERR_BUDGET; percent += 4) {
            char budget[16];
            snprintf(budget, sizeof budget, "%d%%", percent);
            status = train_with(all[i].name, budget, bits);
        }
        if (i < NOTHING_TO_DO)
            CHECK_STATUS(status, WEIR_ERR_BUDGET);
        else if (!CHECK_OK(status))
            printf("    %s\n", all[i].name);
    }
}

/* ---- regions ---- */

enum { WIDTH = 4096, PARTS = 4, SINES = 4 };

/* A step of PARTS regions of SINES sines each; *dw gets an element of the gradient. */
static weir_status run_regions(const char *budget, weir_graph_stats *s, float *dw)
{
    weir_device *d = lab_open();
    weir_tensor *w = lab_param(d, WIDTH, NULL), *x = w, *grad;
    weir_graph  *g = weir_graph_begin(d);
    float        v[WIDTH];

    CHECK_OK(weir_write_fill(w, 0.7));
    for (int i = 0; i < PARTS; i++) {
        CHECK_OK(weir_region_begin(d));
        for (int k = 0; k < SINES; k++)
            x = weir_sin(x);
        CHECK_OK(weir_region_end(d));
    }
    CHECK_OK(weir_gradients(weir_sum(x, 0, false), 1, &w, &grad));
    CHECK(weir_keep(grad) != NULL);
    weir_status status = weir_graph_end(g, &(weir_plan_options){
                                               .disable = "fuse,order", .budget = budget,
                                               .policy = "checkpoint:manual"});
    if (status == WEIR_OK && CHECK_OK(weir_graph_run(g)) &&
        CHECK_OK(weir_graph_stats_of(g, s)) && CHECK_OK(weir_read(grad, v, sizeof v)))
        *dw = v[WIDTH - 1];
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
    return status;
}

/* A budget that the regions meet changes nothing; a smaller one is refused, naming that one. */
CASE(regions_go_the_same_way_within_a_budget)
{
    weir_graph_stats s, within;
    float            want, dw = 0;
    char             budget[32];

    CHECK_OK(run_regions(NULL, &s, &want));
    CHECK(s.again == PARTS * (SINES - 1));
    snprintf(budget, sizeof budget, "%zu", s.planned_peak_bytes);
    CHECK_OK(run_regions(budget, &within, &dw));
    CHECK(within.planned_peak_bytes == s.planned_peak_bytes && within.again == s.again);
    CHECK(within.unbudgeted_peak_bytes > s.planned_peak_bytes);
    CHECK_BITS(&dw, &want, sizeof dw);
    snprintf(budget, sizeof budget, "%zu", s.planned_peak_bytes - 1);
    CHECK_STATUS(run_regions(budget, &within, &dw), WEIR_ERR_BUDGET);
    char smallest[64];
    snprintf(smallest, sizeof smallest, "the smallest that works is %zu ", s.planned_peak_bytes);
    CHECK_TEXT(weir_error(), smallest);
}
