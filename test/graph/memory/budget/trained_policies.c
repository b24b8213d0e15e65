/* trained_policies.c - training by every policy within budgets: the same bits, and planned =
 * measured. */
#include "graph/fixture.h"
#include "graph/ir/graph.h"
#include "graph/memory/policies.h"
#include "graph/train.h"

enum { STEPS = 20 };

static uint32_t copies_of(const weir_graph *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->nodes.n; i++)
        n += g->nodes.at[i].op == WEIR_OP_SPILL_OUT;
    return n;
}

/* Trains with the policy: planned = measured <= budget, the same bits; ERR_BUDGET if it finds no
 * plan. */
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
        CHECK(measured == s.arena_bytes &&
              (s.recomputed > 0 || copies_of(weir_step_graph(t.step)) > 0));
    }
    train_close(&t);
    return status;
}

/* Finds the smallest budget, in steps of 4 %, that each policy meets; all policies that plan for a
 * budget meet one. */
CASE(training_keeps_the_bits)
{
    const uint64_t bits = train_run(TRAIN_DIGITS, 16, 0, STEPS,
                                    &(weir_step_options){.graph = false});

    policy_case  policies[MOST_POLICIES];
    const size_t n = policy_cases(policies);

    for (size_t i = 0; i < n; i++) {
        weir_status status = WEIR_ERR_BUDGET;
        int         percent = 64;
        for (; percent < 100 && status == WEIR_ERR_BUDGET; percent += 4) {
            char budget[16];
            snprintf(budget, sizeof budget, "%d%%", percent);
            status = train_with(policies[i].name, budget, bits);
        }
        if (policies[i].idle)
            CHECK_STATUS(status, WEIR_ERR_BUDGET);
        else if (!CHECK_OK(status))
            printf("    %s\n", policies[i].name);
    }
}

/* ---- regions ---- */

enum { WIDTH = 4096, PARTS = 4, SINES = 4 };

/* A step of PARTS regions of SINES sines each; *dw receives an element of the gradient. */
static weir_status run_regions(const char *budget, weir_graph_stats *s, float *dw)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, WIDTH, NULL), *x = w, *grad;
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

/* A budget that the regions meet changes nothing; a smaller one fails and names that budget. */
CASE(regions_go_the_same_way_within_a_budget)
{
    weir_graph_stats s, within;
    float            want, dw = 0;
    char             budget[32];

    CHECK_OK(run_regions(NULL, &s, &want));
    CHECK(s.recomputed == PARTS * (SINES - 1));
    snprintf(budget, sizeof budget, "%zu", s.planned_peak_bytes);
    CHECK_OK(run_regions(budget, &within, &dw));
    CHECK(within.planned_peak_bytes == s.planned_peak_bytes && within.recomputed == s.recomputed);
    CHECK(within.unbudgeted_peak_bytes > s.planned_peak_bytes);
    CHECK_BITS(&dw, &want, sizeof dw);
    snprintf(budget, sizeof budget, "%zu", s.planned_peak_bytes - 1);
    CHECK_STATUS(run_regions(budget, &within, &dw), WEIR_ERR_BUDGET);
    char smallest[64];
    snprintf(smallest, sizeof smallest, "the smallest that works is %zu ", s.planned_peak_bytes);
    CHECK_TEXT(weir_error(), smallest);
}
