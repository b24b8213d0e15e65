/* budget.c - training within a byte budget: planned = measured <= budget, with the same bits. */
#include "graph/fixture.h"
#include "graph/random.h"
#include "graph/train.h"

#include <stdlib.h>

#include "fake_files.h"

enum { STEPS = 4 };

static const struct { train_net net; int64_t batch, side; } nets[] = {
    {TRAIN_MLP, 64, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 8, 0}, {TRAIN_RESNET18, 2, 16},
    {TRAIN_POOLED, 4, 0}};

/* Returns the number that follows `before` in the last error message. */
static unsigned long long number_after(const char *before)
{
    const char *at = strstr(weir_error(), before);
    return CHECK(at != NULL) ? strtoull(at + strlen(before), NULL, 10) : 0;
}

/* Trains once within the budget and checks what the plan promises and what the run takes. */
static weir_status run_with(size_t i, const char *budget, uint64_t bits, size_t *planned)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = budget}};
    train                   t;
    weir_graph_stats        s = {0};
    size_t                  measured = 0;
    weir_status             status = WEIR_OK;

    if (!CHECK_OK(train_open(&t, nets[i].net, nets[i].batch, nets[i].side, &how)))
        return WEIR_ERR_NOMEM;
    for (int k = 0; k < STEPS && status == WEIR_OK; k++)
        status = train_step(&t, k);
    if (status == WEIR_OK) {
        CHECK(train_bits(&t) == bits);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.planned_peak_bytes <= s.budget_bytes);
        CHECK(s.planned_peak_bytes == s.persistent_bytes + s.arena_bytes);
        CHECK(s.recomputed == 0 || s.extra_ms > 0);     /* the step may also wait for copies */
        CHECK_OK(weir_graph_measure(weir_step_graph(t.step), &measured));
        if (!CHECK(measured == s.arena_bytes))
            printf("    %s %s: measured %zu, planned %zu\n", train_name[nets[i].net], budget,
                   measured, s.arena_bytes);
        *planned = s.planned_peak_bytes;
    }
    train_close(&t);
    return status;
}

/* Budgets from the whole peak down to where no plan fits, in steps of at most 8 % with
 * WEIR_TEST_FULL=1; the smallest budget that the error names works. */
CASE(every_budget_keeps_the_bits)
{
    for (size_t i = 0; i < ARRAY_LENGTH(nets); i++) {
        const uint64_t bits = train_run(nets[i].net, nets[i].batch, nets[i].side, STEPS,
                                        &(weir_step_options){.graph = false});
        size_t         planned = 0, smallest = 0;
        const int      step = (nets[i].net == TRAIN_RESNET18 ? 20 : 8) * (check_full() ? 1 : 2);
        for (int percent = 100; percent > 0 && smallest == 0; percent -= step) {
            char budget[32];
            snprintf(budget, sizeof budget, "%d%%", percent);
            const weir_status status = run_with(i, budget, bits, &planned);
            if (status == WEIR_ERR_BUDGET)
                smallest = (size_t)number_after("the smallest that works is ");
            else if (!CHECK_OK(status))
                break;
        }
        if (!CHECK(smallest > 0))
            continue;
        char text[32];
        snprintf(text, sizeof text, "%zu", smallest);
        CHECK_OK(run_with(i, text, bits, &planned));
        CHECK(planned <= smallest);
    }
}

/* The same for policies other than the default: bits, peak and budget hold. */
CASE(other_policies_keep_the_bits)
{
    static const struct {
        const char *policy, *budget;
    } ways[] = {{"mincut", "97%"}, {"mincut", "92%"}, {"mincut:ratio=0.8", "98%"}};

    const uint64_t bits = train_run(TRAIN_DIGITS, 16, 0, STEPS, &(weir_step_options){0});
    for (size_t i = 0; i < ARRAY_LENGTH(ways); i++) {
        const weir_step_options how = {
            .graph = true, .plan = {.budget = ways[i].budget, .policy = ways[i].policy}};
        weir_graph_stats s;
        train            t;
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        for (int k = 0; k < STEPS; k++)
            CHECK_OK(train_step(&t, k));
        CHECK(train_bits(&t) == bits);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.recomputed > 0 && s.planned_peak_bytes <= s.budget_bytes);
        train_close(&t);
    }
}

/* Plans one of the random programs and returns the status. */
static weir_status plan_random(uint64_t seed, const weir_plan_options *o)
{
    random_program p;
    check_random = seed;
    random_open(&p);
    weir_graph *const g = weir_graph_begin(p.d);
    random_body(&p, 40);
    const weir_status status = weir_graph_end(g, o);
    weir_graph_free(g);
    random_close(&p);
    return status;
}

/* The smallest budget that an error names works: it is what the policy needs if asked for zero
 * bytes, not what it found on its way to a larger budget. */
CASE(the_smallest_that_is_named_works)
{
    static const char *const policy[] = {"mincut", "autotm", "delta", "dtr", "checkpoint"};
    static const char *const place[] = {"area", "start-best", "size"};
    static const char *const share[] = {"90%", "75%", "60%", "45%"};
    for (uint64_t seed = 153; seed < 156; seed++)       /* each found a smaller plan on its way */
        for (size_t i = 0; i < ARRAY_LENGTH(policy) * ARRAY_LENGTH(place) * ARRAY_LENGTH(share);
             i++) {
            char              text[32];
            weir_plan_options o = {.policy = policy[i % ARRAY_LENGTH(policy)],
                                   .placement =
                                       place[i / ARRAY_LENGTH(policy) % ARRAY_LENGTH(place)],
                                   .budget = share[i / ARRAY_LENGTH(policy) / ARRAY_LENGTH(place)]};
            if (plan_random(seed, &o) != WEIR_ERR_BUDGET)
                continue;
            snprintf(text, sizeof text, "%lld",
                     (long long)number_after("the smallest that works is "));
            o.budget = text;
            check_that(plan_random(seed, &o) == WEIR_OK, __FILE__, __LINE__, "seed %d, %s, %s: %s",
                       (int)seed, o.policy, o.placement, weir_error());
        }
}

/* So does the budget named if no plan can fit, in which case only that plan is searched. */
CASE(the_smallest_works_where_nothing_can_fit)
{
    static const char *const policy[] = {"auto", "auto:recompute", "auto:swap", "mincut", "dtr"};
    for (uint64_t seed = 153; seed < 157; seed++)
        for (size_t i = 0; i < ARRAY_LENGTH(policy); i++) {
            char              text[32];
            weir_plan_options o = {.policy = policy[i], .budget = "1"};
            CHECK_STATUS(plan_random(seed, &o), WEIR_ERR_BUDGET);
            snprintf(text, sizeof text, "%lld",
                     (long long)number_after("the smallest that works is "));
            o.budget = text;
            check_that(plan_random(seed, &o) == WEIR_OK, __FILE__, __LINE__, "seed %d, %s: %s",
                       (int)seed, o.policy, weir_error());
        }
}

/* A step whose results are not kept has nothing to run; its parameters still count. */
CASE(a_step_without_calls_has_a_budget)
{
    static const char *const policy[] = {"auto", "recycle", "checkpoint:speed", "dtr", "vdnn"};
    for (size_t i = 0; i < ARRAY_LENGTH(policy); i++) {
        weir_device *const d = fixture_open_unguarded();
        weir_tensor *const p = fixture_param(d, 1000, NULL);
        for (int fits = 0; fits < 2; fits++) {
            weir_graph *const g = weir_graph_begin(d);
            CHECK(weir_relu(p) != NULL);
            const weir_plan_options o = {.budget = fits ? "4032" : "4031", .policy = policy[i]};
            CHECK_STATUS(weir_graph_end(g, &o), fits ? WEIR_OK : WEIR_ERR_BUDGET);
            if (fits)
                CHECK_OK(weir_graph_run(g));
            else
                CHECK_TEXT(weir_error(), "the smallest that works is 4032");
            weir_graph_free(g);
        }
        weir_release(p);
        weir_device_close(d);
    }
}

/* A repeated op draws the random numbers of its first run; running statistics are updated once. */
CASE(dropout_and_statistics_under_a_budget)
{
    for (int percent = 80; percent >= 60; percent -= 10) {
        char budget[16];
        snprintf(budget, sizeof budget, "%d%%", percent);
        const weir_step_options how = {.graph = true, .plan = {.budget = budget, .measure = true}};
        train                   a, b;
        CHECK_OR_RETURN(train_open(&a, TRAIN_DIGITS, 16, 0, &(weir_step_options){0}) == WEIR_OK);
        CHECK_OR_RETURN(train_open(&b, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        for (int k = 0; k < 20; k++) {
            CHECK_OK(train_step(&a, k));
            const weir_status s = train_step(&b, k);
            if (s == WEIR_ERR_BUDGET)
                break;
            CHECK_OK(s);
            CHECK(train_bits(&a) == train_bits(&b));
        }
        train_close(&a);
        train_close(&b);
    }
}

CASE(without_a_budget_nothing_runs_again)
{
    static const char *const plenty[] = {NULL, "100%", "1TB", "200 %"};

    for (size_t i = 0; i < ARRAY_LENGTH(plenty); i++) {
        const weir_step_options how = {.graph = true, .plan = {.budget = plenty[i]}};
        train                   t;
        weir_graph_stats        s;
        CHECK_OR_RETURN(train_open(&t, TRAIN_LENET, 4, 0, &how) == WEIR_OK);
        CHECK_OK(train_step(&t, 0));
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.recomputed == 0 && s.extra_ms == 0);
        CHECK(s.streams > 1 || s.unbudgeted_peak_bytes == s.planned_peak_bytes);
        CHECK((s.budget_bytes == 0) == (plenty[i] == NULL));
        train_close(&t);
    }
}

CASE(bytes_as_text)
{
    static const struct { const char *text; size_t bytes; } good[] = {
        {"0", 0}, {"4096", 4096}, {"512MB", 512000000}, {"0.5GiB", 536870912}, {"1 kB", 1000},
        {"1k", 1000}, {"1.5 KiB", 1536}, {"2tb", 2000000000000}, {"7B", 7}, {"1e6", 1000000}};
    static const char *const bad[] = {"", "MB", "-1", "nan", "inf", "1e30GB", "12 parsecs", "5MBs",
                                      "0x10", "99999999999999999999", "--3", "1,5GB"};
    size_t bytes;

    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        CHECK(CHECK_OK(weir_bytes(good[i].text, &bytes)) && bytes == good[i].bytes);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        CHECK_STATUS(weir_bytes(bad[i], &bytes), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_bytes(NULL, &bytes), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_bytes("1", NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_bytes("50%", &bytes), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_bytes("auto", &bytes), WEIR_ERR_INVALID);
}

CASE(wrong_budgets_and_policies)
{
    static const struct {
        weir_plan_options plan;
        weir_status       status;
        const char       *text;
    } wrong[] = {
        {{.budget = "lots"}, WEIR_ERR_INVALID, "lots"},
        {{.budget = "50%", .policy = "magic"}, WEIR_ERR_INVALID, "magic"},
        {{.policy = "magic"}, WEIR_ERR_INVALID, "unknown policy 'magic'"}, /* not needed */
        {{.placement = "best"}, WEIR_ERR_INVALID, "unknown placement 'best'"},
        {{.profile_steps = -1}, WEIR_ERR_INVALID, "profile_steps is -1 but must be 0 or more"},
        {{.budget = "100"}, WEIR_ERR_BUDGET, "the smallest that works is"}};

    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        train t;
        const weir_step_options how = {true, wrong[i].plan};
        CHECK_OR_RETURN(train_open(&t, TRAIN_MLP, 8, 0, &how) == WEIR_OK);
        CHECK_STATUS(train_step(&t, 0), wrong[i].status);
        CHECK(strstr(weir_error(), wrong[i].text) != NULL);
        train_close(&t);
    }
}

/* A step without temporaries needs its resident bytes: a smaller budget must fail. */
CASE(resident_bytes_count)
{
    for (int fits = 0; fits < 2; fits++) {
        weir_device *d = fixture_open_unguarded();
        weir_tensor *x = fixture_input(d, 64, NULL);
        weir_graph  *g = weir_graph_begin(d);
        weir_keep(weir_exp(x));
        CHECK_STATUS(weir_graph_end(g, &(weir_plan_options){.budget = fits ? "512" : "511"}),
                     fits ? WEIR_OK : WEIR_ERR_BUDGET);
        if (!fits)
            CHECK(number_after("the smallest that works is ") == 512);
        weir_graph_free(g);
        weir_release(x);
        weir_device_close(d);
    }
}

CASE(of_a_device)
{
    const weir_step_options how = {.graph = true};
    weir_graph_stats        s;
    train                   t;

    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
    CHECK_STATUS(weir_device_set_budget(t.d, "much"), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_device_set_budget(t.d, "1000000000000000000000000000000000"),
                 WEIR_ERR_INVALID);
    CHECK_STATUS(weir_device_set_budget(NULL, "1MB"), WEIR_ERR_INVALID);
    CHECK_OK(weir_device_set_budget(t.d, "96%"));
    CHECK_OK(train_step(&t, 0));
    CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
    CHECK(s.recomputed > 0 || !check_on_cpu());      /* on a GPU copies may cost less */
    CHECK(s.planned_peak_bytes <= s.budget_bytes);
    CHECK(s.budget_bytes == s.unbudgeted_peak_bytes * 96 / 100);
    train_close(&t);

    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
    CHECK_OK(weir_device_set_budget(t.d, "96%"));
    CHECK_OK(weir_device_set_budget(t.d, NULL));
    CHECK_OK(train_step(&t, 0));
    CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
    CHECK(s.recomputed == 0 && s.budget_bytes == 0);
    train_close(&t);
}

CASE(auto_is_what_is_free)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = "auto"}};
    char                    limit[24];
    const fake_file         group[] = {{"/proc/self/cgroup", "0::/\n"},
                                       {"/sys/fs/cgroup/memory.max", limit}, {0}};
    weir_env                e;
    weir_graph_stats        s;
    weir_memory             m;
    train                   t;

    /* A machine of which one control group leaves a little over the reserve, or plenty. */
    for (int tight = 0; tight < 2; tight++) {
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        snprintf(limit, sizeof limit, "%d\n", (64 << 20) + (tight ? 900000 : 1 << 30));
        fake_system(&e, group);
        weir_device_memory(t.d, &m);
        CHECK(m.grouped == check_on_cpu() && (!check_on_cpu() || m.total == m.unused));
        const weir_status status = train_step(&t, 0);
        weir_env_set(NULL);
        CHECK_OK(status);
        CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &s));
        CHECK(s.budget_bytes > 0 && s.planned_peak_bytes <= s.budget_bytes);
        CHECK(!check_on_cpu() || (s.budget_bytes < s.unbudgeted_peak_bytes) == tight);
        train_close(&t);
    }
    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
    CHECK_OK(weir_device_set_budget(t.d, "auto"));
    weir_device_memory(t.d, &m);
    CHECK(m.auto_budget > 0 && m.auto_budget < m.total);
    train_close(&t);
}

/* Each allocation of planning within a budget fails once: a status, no leak, and the next step
 * works. */
CASE(fails_at_every_point)
{
    const weir_step_options how = {.graph = true, .plan = {.budget = "96%", .measure = true}};

    for (int64_t nth = 0;; nth += 1 + nth / (check_full() ? 6 : 2)) {
        train t;
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &how) == WEIR_OK);
        weir_mem_fail_nth(nth, false);
        const weir_status status = train_step(&t, 0);
        const bool        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (status != WEIR_OK)
            CHECK(status == WEIR_ERR_NOMEM);
        CHECK_OK(train_step(&t, 1));
        train_close(&t);
        if (!failed)
            break;
    }
}
