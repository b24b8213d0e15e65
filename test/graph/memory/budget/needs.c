/* needs.c - tests of weir_graph_end_needs: the smallest plan that it names is one that can be had,
 * and nothing is below the floor. */
#include "graph/fixture.h"
#include "graph/train.h"

#include <stdlib.h>

static const struct { train_net net; int64_t batch, side; } nets[] = {
    {TRAIN_MLP, 64, 0}, {TRAIN_DIGITS, 16, 0}, {TRAIN_LENET, 8, 0}, {TRAIN_RESNET18, 2, 16},
    {TRAIN_POOLED, 4, 0}};

static const weir_step_options at_once = {0};

/* Records a step and ends it, by what it needs if there is a place for that. */
static weir_status end_step(size_t i, const weir_plan_options *how, weir_graph_needs *needs,
                            weir_graph_stats *stats)
{
    train       t;
    weir_status s = train_open(&t, nets[i].net, nets[i].batch, nets[i].side, &at_once);

    if (s != WEIR_OK)
        return s;
    weir_graph *const g = weir_graph_begin(t.d);
    s = g ? train_record(&t) : weir_error_status();
    if (s == WEIR_OK)
        s = needs ? weir_graph_end_needs(g, how, needs) : weir_graph_end(g, how);
    if (s == WEIR_OK && stats)
        s = weir_graph_stats_of(g, stats);
    weir_graph_free(g);
    train_close(&t);
    return s;
}

CASE(the_smallest_budget_works)
{
    static const char *const policies[] = {"auto", "auto:recompute", "checkpoint:memory",
                                           "dtr/actnn:4", "recycle"};

    for (size_t i = 0; i < ARRAY_LENGTH(nets); i++)
        for (size_t k = 0; k < ARRAY_LENGTH(policies); k++) {
            if (!check_full() && (i + k) % 2)
                continue;
            weir_plan_options how = {.policy = policies[k], .budget = "none of its business",
                                     .cache = "/nowhere", .measure = true, .profile_steps = 3};
            weir_graph_needs  n, again;
            weir_graph_stats  s;
            char              text[32];
            CHECK_OR_RETURN(end_step(i, &how, &n, NULL) == WEIR_OK);
            CHECK_OR_RETURN(end_step(i, &how, &again, NULL) == WEIR_OK);
            CHECK(n.least_bytes == again.least_bytes && n.floor_bytes == again.floor_bytes);
            CHECK(n.floor_bytes > 0 && n.floor_bytes <= n.least_bytes);
            CHECK(n.least_bytes <= n.whole_bytes);
            how = (weir_plan_options){.policy = policies[k], .budget = text};
            snprintf(text, sizeof text, "%zu", n.least_bytes);
            CHECK_OR_RETURN(end_step(i, &how, NULL, &s) == WEIR_OK);
            CHECK(s.unbudgeted_peak_bytes == n.whole_bytes);
            CHECK(s.planned_peak_bytes <= n.least_bytes);
            snprintf(text, sizeof text, "%zu", n.floor_bytes - 1);
            CHECK_STATUS(end_step(i, &how, NULL, &s), WEIR_ERR_BUDGET);
        }
}

CASE(the_graph_can_only_be_freed)
{
    weir_graph_needs n = {1, 1, 1};
    weir_graph_stats s;
    train            t;

    CHECK_OR_RETURN(train_open(&t, TRAIN_MLP, 4, 0, &at_once) == WEIR_OK);
    weir_graph *g = weir_graph_begin(t.d);
    CHECK_OK(train_record(&t));
    CHECK_OK(weir_graph_end_needs(g, NULL, &n));
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_graph_end_needs");
    CHECK_STATUS(weir_graph_stats_of(g, &s), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_end(g, NULL), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_end_needs(g, NULL, &n), WEIR_ERR_STATE);
    CHECK(n.whole_bytes == 0);              /* as after every failure */
    weir_graph_free(g);
    g = weir_graph_begin(t.d);
    CHECK_OK(train_record(&t));
    CHECK_STATUS(weir_graph_end_needs(g, &(weir_plan_options){.policy = "hope"}, &n),
                 WEIR_ERR_INVALID);
    weir_graph_free(g);
    CHECK_STATUS(weir_graph_end_needs(NULL, NULL, &n), WEIR_ERR_INVALID);
    g = weir_graph_begin(t.d);
    CHECK_STATUS(weir_graph_end_needs(g, NULL, NULL), WEIR_ERR_INVALID);
    CHECK_OK(weir_graph_end_needs(g, NULL, &n));        /* a step of nothing */
    CHECK(n.least_bytes == n.whole_bytes && n.floor_bytes == n.whole_bytes);
    weir_graph_free(g);
    CHECK_OK(train_step(&t, 0));                        /* the device works on */
    train_close(&t);
}

static bool stop(void *context, const weir_progress *p)
{
    (void)p;
    return --*(int *)context > 0;
}

CASE(it_can_be_cancelled)
{
    int              polls = 1;
    weir_graph_needs n = {1, 1, 1};
    train            t;

    CHECK_OR_RETURN(train_open(&t, TRAIN_DIGITS, 16, 0, &at_once) == WEIR_OK);
    CHECK_OK(weir_device_set_progress(t.d, stop, &polls));
    weir_graph *const g = weir_graph_begin(t.d);
    CHECK_OK(train_record(&t));
    CHECK_STATUS(weir_graph_end_needs(g, NULL, &n), WEIR_ERR_CANCELLED);
    CHECK(n.least_bytes == 0);
    weir_graph_free(g);
    train_close(&t);
}

/* Every allocation fails in turn, some of many points; then the device works as before. */
CASE(every_allocation_may_fail)
{
    enum { SAMPLES = 150 };
    weir_graph_needs want, n;

    CHECK_OR_RETURN(end_step(1, NULL, &want, NULL) == WEIR_OK);
    const uint64_t before = weir_mem_calls();
    CHECK_OR_RETURN(end_step(1, NULL, &n, NULL) == WEIR_OK);
    const int64_t points = (int64_t)(weir_mem_calls() - before);
    int           failed = 0;
    for (int64_t k = 0; k < SAMPLES; k++) {
        weir_mem_fail_nth(points * k / SAMPLES, k & 1);
        const weir_status s = end_step(1, NULL, &n, NULL);
        weir_mem_fail_nth(-1, false);
        failed += s != WEIR_OK;
        CHECK(s == WEIR_ERR_NOMEM || (s == WEIR_OK && n.least_bytes == want.least_bytes));
    }
    CHECK(failed > SAMPLES / 2);
    CHECK_OR_RETURN(end_step(1, NULL, &n, NULL) == WEIR_OK);
    CHECK(n.least_bytes == want.least_bytes);
}
