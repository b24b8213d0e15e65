/* replan.c - planning again by measured times: another plan, the same bits, the same budget; any
 * failure keeps the old plan. */
#include "graph/memory/budget/replan.h"
#include "graph/fixture.h"
#include "graph/train.h"

enum { STEPS = 20, BATCH = 16 };

typedef struct clockwork {
    bool   dear[WEIR_OP_COUNT];     /* ops that take a second; others take 10 microseconds */
} clockwork;

static double tell(void *ctx, const weir_call *c, double seconds)
{
    const clockwork *w = ctx;
    (void)seconds;
    return w->dear[c->op] ? 1 : 1e-5;
}

/* Makes exactly those ops expensive that the plan runs twice. */
static void make_dear(clockwork *w, const weir_graph *g)
{
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i].recomputed)
            w->dear[g->nodes.at[i].op] = true;
}

static weir_step_options profiled_options(const char *budget, int profile_steps)
{
    return (weir_step_options){.graph = true,
                               .plan = {.budget = budget, .profile_steps = profile_steps}};
}

CASE(another_plan_with_the_same_bits)
{
    static const char *const budgets[] = {"90%", "80%", "70%"};
    size_t                   changed = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(budgets); i++) {
        const weir_step_options how = profiled_options(budgets[i], 3);
        clockwork               w = {0};
        train                   a, b;
        weir_graph_stats        s;
        size_t                  measured;
        CHECK_OR_RETURN(train_open(&a, TRAIN_DIGITS, BATCH, 0, &(weir_step_options){0}) == WEIR_OK);
        CHECK_OR_RETURN(train_open(&b, TRAIN_DIGITS, BATCH, 0, &how) == WEIR_OK);
        char *before = NULL;
        for (int k = 0; k < STEPS; k++) {
            CHECK_OK(train_step(&a, k));
            CHECK_OK(train_step(&b, k));
            CHECK(train_bits(&a) == train_bits(&b));
            weir_graph *const g = weir_step_graph(b.step);
            CHECK((g->replan != NULL) == (k < 2));
            CHECK_OK(weir_graph_stats_of(g, &s));
            CHECK(s.planned_peak_bytes <= s.budget_bytes && s.predicted_ms > 0);
            CHECK((s.measured_ms > 0) == (k >= 2));
            if (k == 0) {
                make_dear(&w, g);
                g->replan->clock = tell;
                g->replan->ctx = &w;
                before = weir_graph_text(g, WEIR_TEXT_PLAN);
            }
        }
        CHECK_OK(weir_graph_measure(weir_step_graph(b.step), &measured));
        CHECK(measured == s.arena_bytes);
        char *const after = weir_graph_text(weir_step_graph(b.step), WEIR_TEXT_PLAN);
        CHECK(before && after && (strcmp(before, after) != 0) == (s.replanned == 1));
        changed += s.replanned;
        weir_text_free(before);
        weir_text_free(after);
        train_close(&a);
        train_close(&b);
    }
    CHECK(changed > 0);
}

/* Real times, a single measured step, and a step that needs no plan. */
CASE(guided_by_real_times)
{
    for (int profile_steps = 1; profile_steps <= 2; profile_steps++) {
        const weir_step_options how =
            profiled_options(profile_steps == 1 ? "80%" : "100%", profile_steps);
        const uint64_t bits = train_run(TRAIN_DIGITS, BATCH, 0, 5, &(weir_step_options){0});
        CHECK(train_run(TRAIN_DIGITS, BATCH, 0, 5, &how) == bits);
    }
}

/* Each allocation of replanning fails once: the step continues under the old or the new plan. */
CASE(replan_failing_memory)
{
    const weir_step_options how = profiled_options("80%", 1);
    const uint64_t          bits = train_run(TRAIN_DIGITS, BATCH, 0, 3, &(weir_step_options){0});
    bool                    failed = true;

    for (int64_t n = 0; failed && n < 1000000; n += 1 + n / (check_full() ? 3 : 1)) {
        clockwork w = {0};
        train     t;
        const int64_t alive = weir_mem_alive();
        CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, BATCH, 0, &(weir_step_options){
            .graph = true, .plan = {.budget = "80%", .profile_steps = 2}}) == WEIR_OK);
        CHECK_OK(train_step(&t, 0));
        weir_graph *const g = weir_step_graph(t.step);
        make_dear(&w, g);
        if (CHECK(g->replan != NULL)) {
            g->replan->clock = tell;
            g->replan->ctx = &w;
        }
        weir_mem_fail_nth(n, n % 2);
        const weir_status status = train_step(&t, 1);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(g->replan == NULL || status != WEIR_OK);
        if (status == WEIR_OK && CHECK_OK(train_step(&t, 2)))
            CHECK(train_bits(&t) == bits);
        train_close(&t);
        CHECK(weir_mem_alive() == alive);
    }
    CHECK(!failed);
    CHECK(train_run(TRAIN_DIGITS, BATCH, 0, 3, &how) == bits);
}
