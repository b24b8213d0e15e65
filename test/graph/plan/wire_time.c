/* wire_time.c - the predicted time of collectives: against a small graph computed by hand, and what
 * a simulated run of a training step takes. */
#include "core/text.h"
#include "graph/fixture.h"
#include "ranks.h"

enum { N = 40, COUNT = N * N };

/* Each call takes 1 ms; 4 ranks on 2 nodes. */
#define MACHINE "sim:flops=1e24,memory=1e24,link=1e24,call=1e-3,copy=0"
#define NETWORK "node=2,wire=1e6,alpha=1e-3,inner=1e9"

/* Milliseconds of an all_reduce of 1600 f32, serial: parts of 1600 bytes. */
#define SUM_MS (2 * (2 + 1600 / 1e6 + 2 * 2 * 1600 / 1e3))

typedef struct small {
    weir_device *d;
    weir_comm   *c;
    weir_tensor *x, *w;
    weir_graph  *g;
} small;

/* exp, a sum of its result with three products beside it, and what needs both. */
static bool open_small(small *s, const char *device, const char *disable)
{
    const weir_desc n = weir_2d(WEIR_F32, N, N);

    *s = (small){.d = weir_device_open(device, &(weir_device_options){.threads = 1})};
    s->c = weir_comm_open("auto", s->d, NULL);
    s->x = weir_input(s->d, n);
    s->w = weir_input(s->d, n);
    CHECK_OK(weir_write_fill(s->x, 0));
    CHECK_OK(weir_write_fill(s->w, 0));
    s->g = weir_graph_begin(s->d);
    weir_tensor *const sum = weir_all_reduce(s->c, weir_exp(s->x));
    weir_tensor       *z = s->w;
    for (int i = 0; i < 3; i++)
        z = weir_matmul(z, s->w);
    weir_keep(weir_mul(sum, z));
    return CHECK_OK(weir_graph_end(s->g, &(weir_plan_options){.disable = disable}));
}

static void close_small(small *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_release(s->w);
    weir_comm_close(s->c);
    weir_device_close(s->d);
}

/* The plan's prediction, and the run that follows it. */
static void check_small(const small *s, double wire_ms, double exposed_ms, double step_ms)
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
    CHECK(ran.collectives == 1 && ran.bytes == COUNT * 4);
    CHECK_NEAR(ran.wire_ms, wire_ms, 1e-9);
    CHECK_NEAR(ran.waited_ms, exposed_ms, 1e-9);
}

CASE(a_sum_beside_three_products)
{
    small s;

    if (open_small(&s, MACHINE ",world=4," NETWORK, NULL))
        check_small(&s, SUM_MS, SUM_MS - 3, 2 + SUM_MS);
    close_small(&s);
}

CASE(a_sum_that_is_waited_for_at_once)
{
    small s;

    if (open_small(&s, MACHINE ",world=4," NETWORK, "overlap"))
        check_small(&s, SUM_MS, SUM_MS, 5 + SUM_MS);
    close_small(&s);
}

/* A fast wire is hidden behind the products. */
CASE(a_sum_that_is_hidden)
{
    small s;

    if (open_small(&s, MACHINE ",world=4,node=2,wire=1e12,alpha=1e-4,inner=1e12", NULL))
        check_small(&s, 2 * (0.2 + 1600 / 1e9 + 4 * 1600 / 1e9), 0, 5);
    close_small(&s);
}

CASE(texts_name_each_collective)
{
    small s;

    if (open_small(&s, MACHINE ",world=4," NETWORK, NULL)) {
        char *const text = weir_graph_text(s.g, WEIR_TEXT_EXPLAIN);
        CHECK_TEXT(text, "collectives: 1, predicted to take 16.8032 ms on the wire, for 13.8032 ms "
                         "of which computing waits");
        CHECK_TEXT(text, "6400      16.8032      13.8032  all_reduce_start");
        weir_text_free(text);
    }
    close_small(&s);
}

/* A large sum holds back nothing: the small ones behind it start meanwhile, and computing waits for
 * all of them at the end alone. */
CASE(small_sums_start_behind_a_large_one)
{
    enum { SUMS = 6, ROWS = 64 };
    weir_device *const d = weir_device_open(MACHINE ",world=4," NETWORK,
                                            &(weir_device_options){.threads = 1});
    weir_comm *const   c = weir_comm_open("auto", d, NULL);
    weir_tensor *const large = weir_input(d, weir_2d(WEIR_F32, ROWS * N, N));
    weir_tensor *const w = weir_input(d, weir_2d(WEIR_F32, N, N));
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
    small            s, plain;
    weir_graph_stats stats;

    if (open_small(&s, MACHINE, NULL) && open_small(&plain, MACHINE ",wire=1,alpha=1", "overlap")) {
        CHECK_OK(weir_graph_stats_of(s.g, &stats));
        CHECK(stats.collectives == 0);
        CHECK(stats.wire_predicted_ms == 0 && stats.exposed_predicted_ms == 0);
        char *const text = weir_graph_text(s.g, WEIR_TEXT_PLAN);
        char *const same = weir_graph_text(plain.g, WEIR_TEXT_PLAN);
        CHECK(strcmp(strstr(text, "# p "), strstr(same, "# p ")) == 0);
        weir_text_free(text);
        weir_text_free(same);
        close_small(&plain);
    }
    close_small(&s);
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
static void train_simulated(const char *budget, const char *order)
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
                                                        .policy = "checkpoint:memory"}))) {
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
    train_simulated(NULL, "serial");
    train_simulated(NULL, "tree");
    train_simulated("105%", "serial");
}

/* ---- real ranks ---- */

/* Nothing is known of a transport until it is measured. */
static void measured_body(rank *r)
{
    double           constant, per_byte;
    weir_graph_stats stats;

    CHECK_OR_RETURN(r->c != NULL);
    for (int measured = 0; measured < 2; measured++) {
        if (measured)
            CHECK_OK(weir_comm_measure(r->c, &constant, &per_byte));
        weir_tensor *const x = weir_input(r->d, weir_1d(WEIR_F32, COUNT));
        weir_graph *const  g = weir_graph_begin(r->d);
        weir_keep(weir_all_gather(r->c, weir_all_reduce(r->c, x)));
        if (CHECK_OK(weir_graph_end(g, NULL))) {
            CHECK_OK(weir_graph_stats_of(g, &stats));
            CHECK(stats.collectives == 2);
            const double want = measured ? constant + COUNT * 4 * per_byte +
                                               (constant + 2 * COUNT * 4 * per_byte) / 2
                                         : 0;
            CHECK_NEAR(stats.wire_predicted_ms, 1e3 * want, 1e-9);
            CHECK_NEAR(stats.exposed_predicted_ms, 1e3 * want, 1e-9);
            char *const text = weir_graph_text(g, WEIR_TEXT_EXPLAIN);
            CHECK_TEXT(text, measured ? "collectives: 2, predicted to take"
                                      : "collectives: 2; how long they take is not known");
            weir_text_free(text);
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
