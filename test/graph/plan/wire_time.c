/* wire_time.c - the predicted time of collectives: against a small graph computed by hand, and what
 * a simulated run of a training step takes. */
#include "core/text.h"
#include "graph/fixture.h"
#include "graph/summed.h"
#include "ranks.h"

/* The plan's prediction, and the run that follows it. */
static void check_small(const summed *s, double wire_ms, double exposed_ms, double step_ms)
{
    weir_graph_stats stats;
    weir_comm_stats  ran;

    CHECK_OK(weir_graph_stats_of(s->g, &stats));
    CHECK(stats.collectives == 1);
    CHECK_NEAR(stats.wire_predicted_ms, wire_ms, 1e-9);
    CHECK_NEAR(stats.exposed_predicted_ms, exposed_ms, 1e-9);
    const double begin = weir_device_clock(s->d);
    CHECK_OK(weir_graph_run(s->g));
    CHECK_NEAR(1e3 * (weir_device_clock(s->d) - begin), step_ms, 1e-9);
    CHECK_OK(weir_comm_stats_of(s->c, &ran));
    CHECK(ran.collectives == 1 && ran.bytes == SUMMED_COUNT * 4);
    CHECK_NEAR(ran.wire_ms, wire_ms, 1e-9);
    CHECK_NEAR(ran.waited_ms, exposed_ms, 1e-9);
}

CASE(a_sum_beside_three_products)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL))
        check_small(&s, SUMMED_MS, SUMMED_MS - 3, 2 + SUMMED_MS);
    summed_close(&s);
}

CASE(a_sum_that_is_waited_for_at_once)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, "overlap"))
        check_small(&s, SUMMED_MS, SUMMED_MS, 5 + SUMMED_MS);
    summed_close(&s);
}

/* A fast wire is hidden behind the products. */
CASE(a_sum_that_is_hidden)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4,node=2,wire=1e12,alpha=1e-4,inner=1e12", NULL))
        check_small(&s, 2 * (0.2 + 1600 / 1e9 + 4 * 1600 / 1e9), 0, 5);
    summed_close(&s);
}

CASE(texts_name_each_collective)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        char *const text = weir_graph_text(s.g, WEIR_TEXT_EXPLAIN);
        CHECK_TEXT(text, "collectives: 1, predicted to take 16.8032 ms on the wire, for 13.8032 ms "
                         "of which computing waits");
        CHECK_TEXT(text, "6400      16.8032      13.8032  all_reduce_start");
        weir_text_free(text);
    }
    summed_close(&s);
}

/* The sum begins after exp, and what needs it after the wait. A simulated clock measures no waits.
 */
CASE(times_of_instructions_have_the_waits_in_them)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        const weir_plan *const p = s.g->plan;
        double                 at[16];
        CHECK_OR_RETURN(p->n < ARRAY_LENGTH(at));
        CHECK_NEAR(p->wire.at[0].begin, 1e-3, 1e-12);
        weir_plan_estimated_times(p, at);
        CHECK_NEAR(at[p->wire.at[0].wait], 4e-3, 1e-12);
        CHECK_NEAR(at[p->n], (2 + SUMMED_MS) / 1e3, 1e-12);
        weir_device_set_verbosity(s.d, 1);
        weir_device_set_skip(s.d, 0);
        CHECK_OK(weir_graph_run(s.g));
        CHECK(p->profiled == 1 && !weir_plan_waits_known(p));
    }
    summed_close(&s);
}

/* Products that took 2, 4 and 6 ms in two profiled runs hide 12 ms of the sum. */
CASE(measured_products_hide_more)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        weir_plan *const p = s.g->plan;
        double           at[16], product_ms = 0;
        weir_graph_stats stats;
        CHECK_OR_RETURN(p->n < ARRAY_LENGTH(at));
        p->profiled = 2;
        for (uint32_t i = 0; i < p->n; i++)
            p->instr[i].seconds =
                2e-3 * (p->instr[i].call.op == WEIR_OP_MATMUL ? product_ms += 2 : 1);
        CHECK_OK(weir_plan_take_times(p, p));
        CHECK_OK(weir_plan_predict_wire(s.g->plan));
        CHECK_OK(weir_graph_stats_of(s.g, &stats));
        CHECK_NEAR(stats.wire_predicted_ms, SUMMED_MS, 1e-9);
        CHECK_NEAR(stats.exposed_predicted_ms, SUMMED_MS - 12, 1e-9);
        weir_plan_estimated_times(p, at);
        CHECK_NEAR(at[p->wire.at[0].wait], 13e-3, 1e-12);
    }
    summed_close(&s);
}

/* What is measured in one plan is used in another: of kernels that both have. */
CASE(another_plan_takes_the_times_of_its_kernels)
{
    summed s;

    if (summed_open(&s, SUMMED_MACHINE ",world=4," SUMMED_NETWORK, NULL)) {
        weir_plan *const p = s.g->plan;
        p->profiled = 1;
        for (uint32_t i = 0; i < p->n; i++)
            p->instr[i].seconds = 5e-3;
        weir_graph *const g = weir_graph_begin(s.d);
        weir_keep(weir_sqrt(weir_matmul(s.w, s.w)));
        if (CHECK_OK(weir_graph_end(g, NULL)) && CHECK(g->plan->n == 2)) {
            CHECK_OK(weir_plan_take_times(g->plan, p));
            CHECK_NEAR(g->plan->computing[0], 5e-3, 1e-12);
            CHECK_NEAR(g->plan->computing[1], 1e-3, 1e-12);
        }
        weir_graph_free(g);
    }
    summed_close(&s);
}

/* A large sum holds back nothing: the small ones behind it start meanwhile, and computing waits for
 * all of them at the end alone. */
CASE(small_sums_start_behind_a_large_one)
{
    enum { SUMS = 6, ROWS = 64 };
    weir_device *const d = weir_device_open(SUMMED_MACHINE ",world=4," SUMMED_NETWORK,
                                            &(weir_device_options){.threads = 1});
    weir_comm *const   c = weir_comm_open("auto", d, NULL);
    weir_tensor *const large = weir_input(d, weir_2d(WEIR_F32, ROWS * SUMMED_N, SUMMED_N));
    weir_tensor *const w = weir_input(d, weir_2d(WEIR_F32, SUMMED_N, SUMMED_N));
    weir_tensor       *z = w;
    weir_graph_stats   stats;

    weir_graph *const g = weir_graph_begin(d);
    weir_keep(weir_all_reduce(c, weir_exp(large)));
    for (int i = 1; i < SUMS; i++) {
        z = weir_matmul(z, w);
        weir_keep(weir_relu(weir_all_reduce(c, z)));
    }
    if (CHECK_OK(weir_graph_end(g, NULL))) {
        double last = 0;
        CHECK_OK(weir_graph_stats_of(g, &stats));
        CHECK(stats.collectives == SUMS);
        for (uint32_t i = 0; i < g->plan->wire.n; i++)
            last = g->plan->wire.at[i].start;
        CHECK(last > SUMS && g->plan->wire.at[0].wait > last);
    }
    weir_graph_free(g);
    weir_release(large);
    weir_release(w);
    weir_comm_close(c);
    weir_device_close(d);
}

/* One rank: no collective, the same plan, and no time. */
CASE(one_rank_waits_for_nothing)
{
    summed           s, plain;
    weir_graph_stats stats;

    if (summed_open(&s, SUMMED_MACHINE, NULL) &&
        summed_open(&plain, SUMMED_MACHINE ",wire=1,alpha=1", "overlap")) {
        CHECK_OK(weir_graph_stats_of(s.g, &stats));
        CHECK(stats.collectives == 0);
        CHECK(stats.wire_predicted_ms == 0 && stats.exposed_predicted_ms == 0);
        char *const text = weir_graph_text(s.g, WEIR_TEXT_PLAN);
        char *const same = weir_graph_text(plain.g, WEIR_TEXT_PLAN);
        CHECK(strcmp(strstr(text, "# p "), strstr(same, "# p ")) == 0);
        weir_text_free(text);
        weir_text_free(same);
        summed_close(&plain);
    }
    summed_close(&s);
}

/* ---- training ---- */

typedef struct trained {
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *o;
    weir_tensor *x, *y;
} trained;

static weir_status record(void *ctx)
{
    trained *const t = ctx;

    return weir_minimize(t->o, weir_cross_entropy(weir_apply(t->net, t->x), t->y));
}

/* A run takes what its calls and the predicted waits take, under a budget too. */
static void train_simulated(const char *budget, const char *order, int profile_steps)
{
    weir_device *const d = weir_device_open("sim:p100,world=16,node=4,wire=3.1e9,alpha=20e-6",
                                            &(weir_device_options){.threads = 1});
    weir_comm *const   c = weir_comm_open("auto", d, &(weir_comm_options){.order = order});
    trained            t = {.m = weir_model_new(d), .o = weir_sgd_new(d, 0.1, NULL),
                            .x = weir_input(d, weir_2d(WEIR_F32, 64, 512)),
                            .y = weir_input(d, weir_1d(WEIR_I32, 64))};
    weir_graph_stats   stats;
    weir_comm_stats    before, after;

    t.net = weir_mlp_new(t.m, 6, (int64_t[]){512, 512, 512, 512, 512, 10});
    const weir_parallel_options p = {.model = t.m, .bucket = 1 << 20};
    CHECK_OK(weir_data_parallel(t.o, c, &p));
    CHECK_OK(weir_write_fill(t.x, 0));
    CHECK_OK(weir_write_fill(t.y, 0));
    weir_graph *const g = weir_graph_begin(d);
    CHECK_OK(record(&t));
    if (CHECK_OK(weir_graph_end(g, &(weir_plan_options){.budget = budget,
                                                        .policy = "checkpoint:memory",
                                                        .profile_steps = profile_steps}))) {
        for (int step = 0; step < profile_steps; step++)
            CHECK_OK(weir_graph_run(g));
        CHECK(g->to_measure == 0 && !g->plan->computing);
        const weir_rates rates = d->ops->rates(d);
        double           calls = 0;
        size_t           measured;
        for (uint32_t i = 0; i < g->plan->n; i++)
            calls += weir_rates_seconds(&rates, &g->plan->instr[i].call);
        CHECK_OK(weir_graph_stats_of(g, &stats));
        CHECK_OK(weir_comm_stats_of(c, &before));
        const double begin = weir_device_clock(d);
        CHECK_OK(weir_graph_measure(g, &measured));
        const double took = weir_device_clock(d) - begin;
        CHECK_OK(weir_comm_stats_of(c, &after));
        CHECK(stats.collectives > 2 && fixture_count(g, WEIR_OP_ALL_REDUCE_START) > 0);
        CHECK(stats.exposed_predicted_ms > 0);
        CHECK(stats.exposed_predicted_ms < stats.wire_predicted_ms);
        CHECK_NEAR(took, calls + stats.exposed_predicted_ms / 1e3, 1e-9);
        CHECK_NEAR(after.wire_ms - before.wire_ms, stats.wire_predicted_ms, 1e-6);
        CHECK_NEAR(after.waited_ms - before.waited_ms, stats.exposed_predicted_ms, 1e-6);
        CHECK(measured == stats.arena_bytes);
    }
    weir_graph_free(g);
    weir_release(t.x);
    weir_release(t.y);
    weir_optim_free(t.o);
    weir_model_free(t.m);
    weir_comm_close(c);
    weir_device_close(d);
}

CASE(a_simulated_step_takes_what_is_predicted)
{
    train_simulated(NULL, "serial", 0);
    train_simulated(NULL, "tree", 0);
    train_simulated("105%", "serial", 0);
}

CASE(measured_steps_of_a_simulated_machine_change_no_prediction)
{
    train_simulated(NULL, "serial", 3);
    train_simulated("105%", "serial", 2);
    train_simulated("6720000", "serial", 2);
}

/* ---- real ranks ---- */

/* Profiled runs tell how long a rank waited for each collective. */
static void check_measured(weir_device *d, weir_graph *g)
{
    double at[16], waited = 0;

    weir_device_set_verbosity(d, 1);
    weir_device_set_skip(d, 1);
    for (int run = 0; run < 3; run++)
        CHECK_OK(weir_graph_run(g));
    CHECK_OR_RETURN(weir_plan_waits_known(g->plan) && g->plan->n < ARRAY_LENGTH(at));
    weir_plan_profiled_times(g->plan, at);
    char *const text = weir_graph_text(g, WEIR_TEXT_EXPLAIN);
    CHECK_TEXT(text, "waits, ms measured, ms  collective");
    for (uint32_t k = 0; k < g->plan->wire.n; k++) {
        const weir_wire_span *const w = &g->plan->wire.at[k];
        char                        want[64];
        const double                one = weir_plan_profiled_wait(g->plan, w);
        CHECK_NEAR(at[w->wait + 1] - at[w->wait], one, 1e-12);
        snprintf(want, sizeof want, " %.4f  %s\n", one * 1e3,
                 g->plan->instr[w->start].call.def->name);
        CHECK_TEXT(text, want);
        waited += one;
    }
    CHECK(waited > 0 && waited <= at[g->plan->n]);
    weir_text_free(text);
    weir_device_set_verbosity(d, 0);
}

/* Nothing is known of a transport until it is measured. */
static void measured_body(rank *r)
{
    double           constant, per_byte;
    weir_graph_stats stats;

    CHECK_OR_RETURN(r->c != NULL);
    for (int measured = 0; measured < 2; measured++) {
        if (measured)
            CHECK_OK(weir_comm_measure(r->c, &constant, &per_byte));
        weir_tensor *const x = weir_input(r->d, weir_1d(WEIR_F32, SUMMED_COUNT));
        CHECK_OK(weir_write_fill(x, 1));
        weir_graph *const  g = weir_graph_begin(r->d);
        weir_keep(weir_all_gather(r->c, weir_all_reduce(r->c, x)));
        if (CHECK_OK(weir_graph_end(g, NULL))) {
            CHECK_OK(weir_graph_stats_of(g, &stats));
            CHECK(stats.collectives == 2);
            const double want = measured ? constant + SUMMED_COUNT * 4 * per_byte +
                                               (constant + 2 * SUMMED_COUNT * 4 * per_byte) / 2
                                         : 0;
            CHECK_NEAR(stats.wire_predicted_ms, 1e3 * want, 1e-9);
            CHECK_NEAR(stats.exposed_predicted_ms, 1e3 * want, 1e-9);
            char *text = weir_graph_text(g, WEIR_TEXT_EXPLAIN);
            CHECK_TEXT(text, measured ? "collectives: 2, predicted to take"
                                      : "collectives: 2; how long they take is not known");
            CHECK(strstr(text, "measured, ms") == NULL);
            weir_text_free(text);
            check_measured(r->d, g);
        }
        weir_graph_free(g);
        weir_release(x);
    }
}

CASE(a_transport_is_known_once_it_is_measured)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, measured_body, NULL);
}

/* The first of two steps only warms caches: its times are dropped. The products that hide a part of
 * the sum then take what they took in the second. */
static void profiled_body(rank *r)
{
    const weir_plan_options how = {.profile_steps = 2};
    const weir_desc         square = weir_2d(WEIR_F32, SUMMED_N, SUMMED_N);
    double                  constant, per_byte;
    weir_graph_stats        stats;

    CHECK_OR_RETURN(r->c != NULL);
    CHECK_OK(weir_comm_measure(r->c, &constant, &per_byte));
    weir_tensor *const x = weir_input(r->d, square), *const w = weir_input(r->d, square);
    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_write_fill(w, 1));
    weir_graph *const  g = weir_graph_begin(r->d);
    weir_tensor *const sum = weir_all_reduce(r->c, weir_exp(x));
    weir_keep(weir_mul(sum, weir_matmul(w, w)));
    if (CHECK_OK(weir_graph_end(g, &how))) {
        double hidden = 0;
        for (int step = 0; step < 3; step++) {
            CHECK(g->to_measure == (step < 2 ? 2 - step : 0));
            CHECK_OK(weir_graph_run(g));
            CHECK_OK(weir_graph_stats_of(g, &stats));
            CHECK((stats.measured_ms > 0) == (step > 0) && stats.replanned == 0);
            CHECK(g->plan->profiled == 0 && (g->plan->computing != NULL) == (step > 0));
        }
        const weir_wire_span *const s = &g->plan->wire.at[0];
        for (uint32_t i = s->start + 1; i < s->wait; i++)
            hidden += g->plan->computing[i];
        CHECK(g->plan->wire.n == 1 && hidden > 0);
        CHECK_NEAR(s->exposed, s->seconds > hidden ? s->seconds - hidden : 0, 1e-9);
        CHECK_NEAR(stats.exposed_predicted_ms, 1e3 * s->exposed, 1e-9);
    }
    weir_graph_free(g);
    weir_release(x);
    weir_release(w);
}

CASE(measured_steps_tell_what_hides_a_sum)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, profiled_body, NULL);
}
