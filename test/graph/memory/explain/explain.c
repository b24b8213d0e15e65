/* explain.c - texts about schedules: times match the schedule, sums match the peak; escaped names;
 * failing memory; recorded steps. */
#include "core/mem.h"
#include "graph/memory/problem/event_times.h"
#include "graph/memory/policies/policy.h"
#include "temp_folder.h"
#include "graph/train.h"

#include <stdlib.h>

/* ---- the clock ---- */

/* A forward and a backward pass of random sizes and times, with a link and compression. */
static void make_problem(weir_mem_problem *p, uint32_t n)
{
    *p = (weir_mem_problem){.link_out = 64.0 * (double)check_int(2, 30),
                            .link_in = 64.0 * (double)check_int(2, 30),
                            .pack_bandwidth = 5000,
                            .copy_interference = check_int(0, 1) ? 0.5 : 0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t     in[2], nin = 0;
        const size_t bytes = 64 * (size_t)check_int(1, 16);
        CHECK(weir_mem_problem_add_tensor(p, bytes, check_int(0, 1) ? bytes / 4 : 0, i + 1 == n));
        if (i > 0)
            in[nin++] = i - 1;
        if (i > n / 2)
            in[nin++] = n - 1 - i;
        const weir_mem_op_def def = {.time = (double)check_int(1, 9),
                                     .rerun_before = n,
                                     .nin = nin,
                                     .in = in,
                                     .nout = 1,
                                     .out = &i,
                                     .work = 64 * (size_t)check_int(0, 4)};
        CHECK(weir_mem_problem_add_op(p, &def));
    }
    CHECK(weir_mem_problem_end(p));
}

static void check_clock(const weir_schedule *s)
{
    weir_event_time *const m = weir_schedule_event_times(s);
    double                 end = 0, compute = 0;

    CHECK_OR_RETURN(m != NULL);
    for (uint32_t e = 0; e < s->events.n; e++) {
        const uint8_t kind = s->events.at[e].kind;
        end = m[e].end > end ? m[e].end : end;
        CHECK(fabs(m[e].end - m[e].begin - weir_event_seconds(s->p, &s->events.at[e])) < 1e-9);
        if (kind == WEIR_EVENT_OFFLOAD || kind == WEIR_EVENT_PREFETCH)
            continue;
        CHECK(m[e].begin >= compute && (m[e].wait == 0 || m[e].waits_for != WEIR_NO_TENSOR));
        compute = m[e].end;
    }
    if (!CHECK(fabs(end - s->time) < 1e-6 * s->time))
        printf("    %u events end at %g, planned %g\n", s->events.n, end, s->time);
    weir_mem_free(m);
}

CASE(clocks_end_when_the_schedule_does)
{
    static const char *const variants[] = {"", "swap", "recompute", "recompute+swap+pack"};
    int                      copies = 0, recomputed = 0;

    for (int round = 0; round < 60; round++) {
        weir_mem_problem p;
        make_problem(&p, (uint32_t)check_int(8, 40));
        weir_policy_job whole = {.p = &p, .limit = SIZE_MAX, .variant = ""};
        CHECK_OK(weir_policy_recycle(&whole));
        weir_policy_job job = {.p = &p, .variant = variants[round % 4], .moves = 200,
                               .limit = whole.s.peak * (size_t)check_int(50, 95) / 100};
        CHECK_OK(weir_policy_auto(&job));
        check_clock(&whole.s);
        if (job.s.valid)
            check_clock(&job.s);
        copies += job.s.copies > 0;
        recomputed += job.s.recomputed > 0;
        weir_schedule_free(&whole.s);
        weir_schedule_free(&job.s);
        weir_mem_free(job.decisions);
        weir_mem_problem_free(&p);
    }
    if (!CHECK(copies > 15 && recomputed > 5))
        printf("    %d with copies, %d with runs again\n", copies, recomputed);
}

/* ---- the table ---- */

/* Counts the lines of tensors; adds up the column of bytes at the peak, and reads its last line. */
static uint32_t read_table(const char *text, size_t *sum, size_t *live)
{
    const char *at = strstr(text, "decision, reason and cost\n");
    uint32_t    rows = 0;

    *sum = *live = 0;
    if (!CHECK(at != NULL))
        return 0;
    for (at = strchr(at, '\n') + 1; *at == ' ' || (*at >= '0' && *at <= '9'); rows++)
        at = strchr(at, '\n') + 1;
    at = strchr(at + 1, '\n') + 1;              /* headings of the sums */
    for (; *at; at = strchr(at, '\n') + 1) {
        char         cell[24] = "";
        const size_t column = 12 + 1 + 8 + 1 + 16 + 1;
        if (!CHECK(strcspn(at, "\n") >= column + 20))
            return rows;
        memcpy(cell, at + column, 20);
        if (strncmp(at, "live ", 5) == 0)
            *live = (size_t)strtoull(cell, NULL, 10);
        else
            *sum += (size_t)strtoull(cell, NULL, 10);
    }
    return rows;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

#ifdef WEIR_JANSSON
CASE(tables_of_described_steps)
{
    static const weir_stepfile_options ways[] = {
        {.budget = NULL}, {.budget = "75%"}, {.budget = "60%", .link_out = 0.1, .link_in = 0.1},
        {.budget = "80%", .policy = "mincut"}};
    weir_stepfile *const o = weir_stepfile_read(WEIR_TEST_DIR "/data/chain.json");

    for (size_t i = 0; o && i < sizeof ways / sizeof *ways; i++) {
        char                    *text = NULL, *svg = NULL;
        weir_stepfile_options    how = ways[i];
        weir_stepfile_plan_stats s;
        size_t                   sum, live;
        how.moves = 300;
        how.explain = &text;
        how.picture = &svg;
        char *const plan = weir_stepfile_plan(o, &how, &s);
        if (!CHECK(plan && text && svg))
            continue;
        const uint32_t rows = read_table(text, &sum, &live);
        CHECK(rows == (how.link_out > 0 ? s.tensors : 24) && sum == live && live <= s.live_bytes &&
              (how.link_out > 0 || live == s.live_bytes));
        CHECK((count(text, "recomputed") > 0) == (s.recomputed > 0));
        CHECK((count(text, " out by ") > 0) == (s.out_bytes > 0));
        CHECK(count(svg, "<title>recomputed: ") == s.recomputed && count(svg, "</svg>") == 1);
        CHECK((count(svg, "budget ") > 0) == (how.budget != NULL));
        weir_text_free(plan);
        weir_text_free(text);
        weir_text_free(svg);
    }
    CHECK(o != NULL);
    weir_stepfile_free(o);
}

CASE(names_in_plans_are_escaped)
{
    folder f;
    char  *text = NULL, *svg = NULL;
    CHECK_OR_RETURN(folder_make(&f));
    weir_stepfile *const o = weir_stepfile_read(file_text(
        &f, 0,
        "{\"name\": \"<a>\", \"tensors\": [{\"id\": 1, \"bytes\": 64, "
        "\"kind\": \"activation\", \"output\": true}], \"ops\": [{\"id\": 0, \"time_us\": 1,"
        "\"name\": \"<b>\\n&\", \"inputs\": [], \"outputs\": [1]}]}"));
    char *const          plan =
        weir_stepfile_plan(o, &(weir_stepfile_options){.explain = &text, .picture = &svg}, NULL);
    CHECK_TEXT(text ? text : weir_error(), "0 <b> &");
    CHECK_TEXT(svg ? svg : weir_error(), "&lt;b&gt; &amp;");
    weir_text_free(plan);
    weir_text_free(text);
    weir_text_free(svg);
    weir_stepfile_free(o);
    folder_remove(&f);
}

CASE(plans_fail_with_their_texts)
{
    weir_stepfile *const o = weir_stepfile_read(WEIR_TEST_DIR "/data/chain.json");

    CHECK_OR_RETURN(o != NULL);
    for (int64_t nth = 0;; nth += 1 + nth / 8) {
        char *text = NULL, *svg = NULL;
        weir_mem_fail_nth(nth, false);
        char *const plan = weir_stepfile_plan(o,
                                              &(weir_stepfile_options){.budget = "70%",
                                                                       .moves = 20,
                                                                       .link_out = 1,
                                                                       .link_in = 1,
                                                                       .explain = &text,
                                                                       .picture = &svg},
                                              NULL);
        const bool failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(plan ? text && svg : weir_error_status() == WEIR_ERR_NOMEM);
        if (plan) {
            weir_text_free(text);
            weir_text_free(svg);
        }
        weir_text_free(plan);
        if (!failed)
            break;
    }
    weir_stepfile_free(o);
}
#endif

CASE(policies_are_named)
{
    char *const names = weir_policy_names();
    CHECK_TEXT(names ? names : "", "auto recompute swap pack mask order\n");
    CHECK_TEXT(names ? names : "", "\nrecycle");
    weir_text_free(names);
}

/* ---- recorded steps ---- */

/* Returns the bytes that the head of the text says no plan can do without. */
static size_t floor_of(const char *text)
{
    const char *const found = strstr(text, "\n  floor ");
    size_t            bytes = SIZE_MAX;

    CHECK(found && sscanf(found, " floor %zu bytes", &bytes) == 1);
    return bytes;
}

CASE(recorded_steps_are_explained)
{
    static const struct { const char *budget, *policy, *says; } ways[] = {
        {NULL, NULL, "kept"}, {"150%", NULL, "kept"}, {"85%", "auto:recompute", "recomputed once"},
        {"85%", "auto:swap", "offloaded, out by"}, {"56%", NULL, "on the host; offloaded, out by"}};

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        const weir_step_options how = {
            .graph = true, .plan = {.budget = ways[i].budget, .policy = ways[i].policy}};
        weir_graph_stats s;
        size_t           sum, live;
        train            t;
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        CHECK_OK(train_step(&t, 0));
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        char *const text = weir_graph_text(weir_step_graph(t.step), WEIR_TEXT_EXPLAIN);
        char *const svg = weir_graph_text(weir_step_graph(t.step), WEIR_TEXT_TIMELINE_SVG);
        if (CHECK(text && svg)) {
            CHECK(read_table(text, &sum, &live) > 20 && sum == live);
            CHECK(live <= s.planned_peak_bytes && floor_of(text) <= s.planned_peak_bytes);
            CHECK_TEXT(text, ways[i].says);
            CHECK(count(svg, "<title>recomputed: ") == s.recomputed);
            CHECK((count(svg, ", ticket ") > 0) == (i >= 3));
        }
        weir_text_free(text);
        weir_text_free(svg);
        train_close(&t);
    }
}

/* Each allocation of the text fails once. */
CASE(explanations_fail_at_every_point)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = "85%"}};
    train                   t;

    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
    CHECK_OK(train_step(&t, 0));
    for (int64_t nth = 0;; nth += 1 + nth / 6) {
        weir_mem_fail_nth(nth, false);
        char *const text = weir_graph_text(weir_step_graph(t.step), WEIR_TEXT_EXPLAIN);
        const bool  failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(text || weir_error_status() == WEIR_ERR_NOMEM);
        weir_text_free(text);
        if (!failed)
            break;
    }
    train_close(&t);
}
