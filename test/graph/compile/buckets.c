/* buckets.c - gradients that are summed in one message: which ones, that ranks agree on it, that
 * budgets bound it, and that no bit changes. */
#include "device/collective.h"
#include "graph/fixture.h"
#include "ranks.h"

enum { LAYERS = 6, WIDTH = 64, ROWS = 16, GRADIENTS = 2 * LAYERS };

/* How ranks train; `of_last` are the last rank's own options. */
typedef struct way {
    const weir_plan_options *options, *of_last;
    size_t      bucket;
    weir_dtype  wire;
    bool        measured;       /* the wire is */
    uint32_t    sums[RANKS_MOST], copies[RANKS_MOST];
    size_t      arena[RANKS_MOST];
    float       loss[RANKS_MOST];
} way;

typedef struct trained {
    weir_model  *m;
    weir_layer  *net;
    weir_optim  *o;
    weir_tensor *x, *y, *loss;
} trained;

static bool open_one(trained *t, rank *r, const way *w)
{
    const int64_t widths[LAYERS + 1] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, 16};

    t->m = weir_model_new(r->d);
    t->net = weir_mlp_new(t->m, LAYERS + 1, widths);
    t->o = weir_sgd_new(r->d, 0.1, &(weir_sgd_options){.momentum = 0.9});
    t->x = weir_input(r->d, weir_2d(WEIR_F32, ROWS, WIDTH));
    t->y = weir_input(r->d, weir_1d(WEIR_I32, ROWS));
    const weir_parallel_options p = {.model = t->m, .bucket = w->bucket, .wire = w->wire};
    CHECK_OK(weir_write_uniform(t->x, -1, 1));
    CHECK_OK(weir_write(t->y, (int32_t[ROWS]){1, 2, 3, 4, 5, 6, 7, 8}, ROWS * sizeof(int32_t)));
    return CHECK_OK(weir_data_parallel(t->o, r->c, &p));
}

static void close_one(trained *t)
{
    weir_release(t->loss);
    weir_optim_free(t->o);
    weir_model_free(t->m);
    weir_release(t->x);
    weir_release(t->y);
}

/* Inputs of concatenations that lie elsewhere than in the result. */
static uint32_t copies_of(const weir_graph *g)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *const ins = &g->plan->instr[i];
        for (int k = 0; k < ins->call.nin && ins->call.op == WEIR_OP_CONCAT; k++)
            n += g->plan->item_of[ins->in[k].storage] != g->plan->item_of[ins->out[0].storage];
    }
    return n;
}

static void train_body(rank *r)
{
    way *const                     w = r->job;
    const weir_plan_options *const own =
        w->of_last && r->rank == r->world - 1 ? w->of_last : w->options;
    trained t = {0};

    CHECK_OR_RETURN(r->c != NULL);
    if (w->measured) {
        double constant, per_byte;
        CHECK_OK(weir_comm_measure(r->c, &constant, &per_byte));
        r->c->constant_s = 1e-3;        /* the test is not to depend on what was measured */
        r->c->per_byte_s = 1e-9;
    }
    if (open_one(&t, r, w)) {
        weir_graph *const g = weir_graph_begin(r->d);
        t.loss = weir_retain(weir_keep(weir_cross_entropy(weir_apply(t.net, t.x), t.y)));
        CHECK_OK(weir_minimize(t.o, t.loss));
        if (CHECK_OK(weir_graph_end(g, own))) {
            for (int i = 0; i < 4; i++)
                CHECK_OK(weir_graph_run(g));
            w->sums[r->rank] = fixture_count(g, WEIR_OP_ALL_REDUCE) +
                               fixture_count(g, WEIR_OP_ALL_REDUCE_START);
            w->copies[r->rank] = r->d->guard ? 0 : copies_of(g);
            w->arena[r->rank] = g->plan->arena;
            w->loss[r->rank] = fixture_value(t.loss);
        }
        weir_graph_free(g);
    }
    close_one(&t);
}

/* The number of sums of a step. */
static uint32_t train(way *w, int world)
{
    rank all[RANKS_MOST];

    ranks_run(all, world, NULL, train_body, w);
    for (int i = 1; i < world; i++)
        CHECK(w->sums[i] == w->sums[0]);
    return w->sums[0];
}

CASE(small_gradients_share_a_message)
{
    way filled = {0}, none = {.options = OPTIONS_WITHOUT("buckets")};

    CHECK(train(&filled, 2) == 1);
    CHECK(train(&none, 2) == GRADIENTS);
    CHECK(none.loss[0] == filled.loss[0] && none.loss[1] == filled.loss[1]);
}

/* A layer of 64 has 16,384 + 256 bytes. */
CASE(buckets_of_a_given_size)
{
    way two = {.bucket = 34000}, each = {.bucket = 1};

    CHECK(train(&two, 2) == LAYERS / 2);
    CHECK(train(&each, 2) == GRADIENTS);
    CHECK(two.loss[0] == each.loss[0]);
}

CASE(buckets_are_cut_for_the_earliest_end)
{
    way measured = {.measured = true}, filled = {0};

    const uint32_t sums = train(&measured, 3);
    CHECK(sums >= 1 && sums < GRADIENTS);
    CHECK(train(&filled, 3) == 1);
    CHECK(measured.loss[0] == filled.loss[0]);
}

CASE(gradients_are_computed_in_their_bucket)
{
    way w = {.bucket = 34000};

    (void)train(&w, 2);
    CHECK(!check_on_cpu() || w.copies[0] == 0);
}

CASE(halves_share_messages)
{
    way joined = {.wire = WEIR_BF16}, each = {.wire = WEIR_BF16, .bucket = 1};

    CHECK(train(&joined, 2) == 1);
    CHECK(train(&each, 2) == GRADIENTS);
    CHECK(joined.loss[0] == each.loss[0]);
}

/* One rank that leaves the pass out decides for all; so does one whose budget is small. */
CASE(ranks_choose_together)
{
    const weir_plan_options *const tight = &(weir_plan_options){.budget = "60%"};
    way other = {.of_last = OPTIONS_WITHOUT("buckets")}, small = {.of_last = tight}, free_way = {0};

    CHECK(train(&other, 3) == GRADIENTS);
    CHECK(train(&free_way, 3) == 1);
    CHECK(train(&small, 3) > 1);
    CHECK(small.loss[0] == free_way.loss[0] && other.loss[0] == free_way.loss[0]);
    CHECK(small.arena[2] < free_way.arena[2]);
}

/* ---- sums that depend on one another ---- */

static void chain_body(rank *r)
{
    const float        ones[4] = {1, 2, 3, 4};
    weir_tensor *const p = fixture_param(r->d, 4, ones);
    weir_tensor       *x[3], *sum[3];

    CHECK_OR_RETURN(r->c != NULL);
    weir_graph *const g = weir_graph_begin(r->d);
    x[0] = weir_square(p);
    x[1] = weir_exp(p);
    CHECK_OK(weir_all_reduce_coalesced(r->c, 2, x, 0, sum));
    x[2] = weir_sqrt(weir_add(sum[0], weir_log(sum[1])));       /* it needs both sums */
    CHECK_OK(weir_all_reduce_coalesced(r->c, 1, x + 2, 0, sum + 2));
    weir_tensor *const y = weir_retain(weir_keep(weir_sum(sum[2], 0, false)));
    if (CHECK_OK(weir_graph_end(g, NULL)) && CHECK_OK(weir_graph_run(g))) {
        double want = 0;
        for (int i = 0; i < 4; i++)
            want += 2 * sqrt(2 * (double)ones[i] * (double)ones[i] + log(2) + (double)ones[i]);
        CHECK_NEAR(fixture_value(y), want, 1e-4);
        CHECK(fixture_count(g, WEIR_OP_ALL_REDUCE) + fixture_count(g, WEIR_OP_ALL_REDUCE_START) ==
              2);
    }
    weir_graph_free(g);
    weir_release(y);
    weir_release(p);
}

CASE(a_sum_of_sums_begins_a_bucket)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, chain_body, NULL);
}

/* With the graph off: messages of limited size, and the values of single sums. */
static void at_once_body(rank *r)
{
    const float     two[2] = {1, 2}, four[4] = {3, 4, 5, 6};
    weir_tensor    *x[3], *sum[3];
    weir_comm_stats before, after;

    CHECK_OR_RETURN(r->c != NULL);
    x[0] = fixture_param(r->d, 2, two);
    x[1] = fixture_param(r->d, 4, four);
    x[2] = fixture_param(r->d, 2, two);
    for (int i = 0; i < 3; i++) {
        const size_t most[] = {0, 24, 1};
        CHECK_OK(weir_scope_begin(r->d));
        CHECK_OK(weir_comm_stats_of(r->c, &before));
        CHECK_OK(weir_all_reduce_coalesced(r->c, 3, x, most[i], sum));
        for (int k = 0; k < 3; k++) {
            float v[4];
            CHECK_OK(weir_read(sum[k], v, weir_tensor_bytes(sum[k])));
            for (int j = 0; j < (k == 1 ? 4 : 2); j++)
                CHECK(v[j] == 2 * (k == 1 ? four : two)[j]);
        }
        CHECK_OK(weir_comm_stats_of(r->c, &after));
        CHECK(after.collectives - before.collectives == (uint64_t)(1 + i));
        weir_scope_end(r->d);
    }
    CHECK_STATUS(weir_all_reduce_coalesced(r->c, 2, NULL, 0, sum), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "2 tensors, x or sum is NULL");
    CHECK_OK(weir_all_reduce_coalesced(r->c, 0, NULL, 0, NULL));
    for (int i = 0; i < 3; i++)
        weir_release(x[i]);
}

CASE(at_once_messages_have_a_size)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, at_once_body, NULL);
}
