/* collective.c - recorded collectives: values, gradients, plans, mistakes, failures. */
#include "graph/fixture.h"
#include "ranks.h"

enum { N = 12 };

static weir_tensor *param_of(rank *r, int64_t n)
{
    float v[2 * N];

    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i + 1) * (float)(r->rank + 1);
    return fixture_param(r->d, n, v);
}

static void value_body(rank *r)
{
    const size_t bytes = N * sizeof(float), world = (size_t)r->world;
    float        y[RANKS_MOST * N];

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N);
    const float        all = (float)(r->world * (r->world + 1) / 2);
    CHECK_OK(weir_scope_begin(r->d));
    CHECK_OK(weir_read(weir_all_reduce(r->c, x), y, bytes));
    for (int i = 0; i < N; i++)
        CHECK(y[i] == all * (float)(i + 1));
    CHECK_OK(weir_read(weir_broadcast_from(r->c, x, 1), y, bytes));
    for (int i = 0; i < N; i++)
        CHECK(y[i] == 2 * (float)(i + 1));
    CHECK_OK(weir_read(weir_all_gather(r->c, x), y, world * bytes));
    for (int k = 0; k < r->world * N; k++)
        CHECK(y[k] == (float)(k / N + 1) * (float)(k % N + 1));
    const int64_t part = N / r->world;
    CHECK_OK(weir_read(weir_reduce_scatter(r->c, x), y, bytes / world));
    for (int i = 0; i < part; i++)
        CHECK(y[i] == all * (float)(r->rank * part + i + 1));
    CHECK_OK(weir_scope_end(r->d));
    weir_release(x);
}

CASE(values_with_the_graph_off)
{
    rank all[RANKS_MOST];

    for (int world = 2; world <= 4; world++)
        ranks_run(all, world, NULL, value_body, NULL);
}

/* ---- gradients ---- */

/* The loss of rank r is the sum of w_r y: y's gradient is w_r, one number a rank. */
static weir_tensor *weighted(rank *r, weir_tensor *y)
{
    return weir_sum(weir_affine(y, r->rank + 1, 0), 0, false);
}

typedef weir_tensor *(*collective_fn)(weir_comm *c, weir_tensor *x);

static weir_tensor *from_one(weir_comm *c, weir_tensor *x)
{
    return weir_broadcast_from(c, x, 1);
}

/* Of 2 ranks with weights 1 and 2: the gradient of x at this rank, if it is one number. */
typedef struct slope {
    collective_fn fn;
    float         want[2];
    float         last[2];      /* of the second half of x; 0: the same */
} slope;

static void slope_body(rank *r)
{
    const slope *const s = r->job;
    const weir_pair   *pairs;
    size_t             n;
    float              dx[N];

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N);
    for (int graph = 0; graph < 2; graph++) {
        CHECK_OK(weir_scope_begin(r->d));
        weir_graph *const g = graph ? weir_graph_begin(r->d) : NULL;
        CHECK_OK(weir_backward(weighted(r, s->fn(r->c, x)), &pairs, &n));
        CHECK_OR_RETURN(n == 1);
        weir_tensor *const made = weir_retain(weir_keep(pairs[0].grad));
        if (g)
            fixture_finish(g, NULL);
        CHECK_OK(weir_read(made, dx, sizeof dx));
        for (int i = 0; i < N; i++)
            CHECK_NEAR(dx[i], i < N / 2 || s->last[0] == 0 ? s->want[r->rank] : s->last[r->rank],
                       0);
        weir_release(made);
        weir_graph_free(g);
        CHECK_OK(weir_scope_end(r->d));
    }
    weir_release(x);
}

CASE(gradients_of_collectives)
{
    slope all[] = {
        {weir_all_reduce, {3, 3}, {0}},
        {weir_all_gather, {3, 3}, {0}},
        {weir_reduce_scatter, {1, 1}, {2, 2}},
        {from_one, {0, 3}, {0}},
    };
    rank          ranks[RANKS_MOST];
    ranks_options o = {.comm = {.agree = "collectives"}};       /* weights differ */

    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        ranks_run(ranks, 2, &o, slope_body, &all[i]);
}

/* Rank 0 computes h = 3 x, rank 1 sums h^2: dx = 18 x. */
static void pipeline_body(rank *r)
{
    const weir_pair *pairs;
    size_t           n;
    float            dx[N];

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = r->rank == 0 ? param_of(r, N)
                                        : weir_param(r->d, weir_scalar(WEIR_F32), "through");
    if (r->rank == 1)
        CHECK_OK(weir_write_fill(x, 0));
    for (int graph = 0; graph < 2; graph++) {
        CHECK_OK(weir_scope_begin(r->d));
        weir_graph *const g = graph ? weir_graph_begin(r->d) : NULL;
        weir_tensor      *loss;
        if (r->rank == 0)
            loss = weir_send_to(r->c, weir_affine(x, 3, 0), 1);
        else
            loss = weir_sum(weir_square(weir_recv_from(r->c, weir_1d(WEIR_F32, N), 0, x)), 0,
                            false);
        CHECK_OK(weir_backward(loss, &pairs, &n));
        CHECK_OR_RETURN(n == 1);
        weir_tensor *const made = weir_retain(weir_keep(pairs[0].grad));
        if (g)
            fixture_finish(g, NULL);
        CHECK_OK(weir_read(made, dx, weir_tensor_bytes(made)));
        for (int i = 0; i < (r->rank == 0 ? N : 1); i++)
            CHECK_NEAR(dx[i], r->rank == 0 ? 18 * (i + 1) : 0, 0);
        weir_release(made);
        weir_graph_free(g);
        CHECK_OK(weir_scope_end(r->d));
    }
    weir_release(x);
}

CASE(gradients_of_what_was_sent_come_back)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, pipeline_body, NULL);
}

/* ---- plans ---- */

/* Equal calls are two, results that nobody reads are computed, and all run in the order of calls:
 * otherwise the ranks would wait for one another. */
static void plan_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N);
    weir_graph *const  g = weir_graph_begin(r->d);
    weir_tensor *const a = weir_all_reduce(r->c, x), *const b = weir_all_reduce(r->c, x);
    weir_all_gather(r->c, x);
    weir_tensor *const y = weir_retain(weir_keep(weir_add(a, b)));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK(fixture_count(g, WEIR_OP_ALL_REDUCE) + fixture_count(g, WEIR_OP_ALL_REDUCE_START) == 2);
    CHECK(fixture_count(g, WEIR_OP_ALL_GATHER) == 1);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(y) == 6);
    }
    weir_release(y);
    weir_graph_free(g);
    weir_release(x);
}

CASE(plans_keep_every_call)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, plan_body, NULL);
}

static void leave_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N);
    weir_graph *const  g = weir_graph_begin(r->d);
    weir_tensor *const y = weir_retain(weir_keep(weir_all_reduce(r->c, x)));
    bool               equal;
    double             constant, per_byte;
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    weir_comm_leave(r->c);
    weir_comm_leave(r->c);
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_COMM);
    CHECK_TEXT(weir_error(), "has left its communicator");
    CHECK_STATUS(weir_comm_equal(r->c, "a", 1, &equal), WEIR_ERR_COMM);
    CHECK_STATUS(weir_comm_measure(r->c, &constant, &per_byte), WEIR_ERR_COMM);
    CHECK(weir_comm_world(r->c) == 2 && weir_comm_rank(r->c) == r->rank);
    weir_release(y);
    weir_graph_free(g);
    weir_release(x);
}

CASE(who_has_left_cannot_go_on)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, leave_body, NULL);
    weir_comm_leave(NULL);
}

CASE(one_rank_records_nothing)
{
    weir_device *d = fixture_open();
    weir_comm   *c = weir_comm_open("auto", d, NULL);
    weir_tensor *x = fixture_param(d, 2, (float[]){1, 2});

    CHECK(weir_all_reduce(c, x) == x && weir_all_gather(c, x) == x);
    CHECK(weir_reduce_scatter(c, x) == x && weir_broadcast_from(c, x, 0) == x);
    CHECK_OK(weir_comm_share(c, x, 0));
    CHECK(!weir_send_to(c, x, 0) && weir_error_status() == WEIR_ERR_INVALID);
    weir_release(x);
    weir_comm_close(c);
    weir_device_close(d);
}

static void fail_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N);
    weir_graph *const  g = weir_graph_begin(r->d);
    weir_tensor *const y = weir_retain(weir_keep(weir_all_reduce(r->c, x)));
    CHECK_OK(weir_graph_end(g, NULL));
    weir_status status = weir_graph_run(g);
    CHECK_STATUS(status, WEIR_OK);
    status = weir_graph_run(g);
    rank_note(r, status);
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_COMM);
    weir_release(y);
    weir_graph_free(g);
    weir_release(x);
}

CASE(a_run_fails_when_a_rank_dies)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 0.4}, .faults = {[0] = ",die=4"}};

    ranks_run(all, 3, &o, fail_body, NULL);
    for (int i = 1; i < 3; i++) {
        CHECK_STATUS(all[i].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[i].error, "rank 0 has not reached all_reduce 4 (12 f32) in run 2");
    }
}

/* ---- parameters of all ranks ---- */

static void share_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = param_of(r, N), *const y = weir_state(r->d, weir_1d(WEIR_F32, 3), "y");
    CHECK_OK(weir_comm_share(r->c, x, 2));
    CHECK(fixture_value(x) == 3);
    CHECK_STATUS(weir_comm_share(r->c, x, 3), WEIR_ERR_INVALID);
    const weir_status status = weir_comm_share(r->c, y, 0);     /* rank 0 has never written it */
    CHECK_STATUS(status, r->rank == 0 ? WEIR_ERR_STATE : WEIR_ERR_COMM);
    weir_release(x);
    weir_release(y);
}

CASE(elements_are_shared)
{
    rank all[RANKS_MOST];

    ranks_run(all, 3, NULL, share_body, NULL);
}

/* ---- mistakes ---- */

static void mistake_body(rank *r)
{
    CHECK_OR_RETURN(r->c != NULL);
    weir_device *const other = fixture_open();
    weir_tensor *const x = param_of(r, 3), *const far = fixture_param(other, 3, NULL);
    weir_tensor *const b = weir_input(r->d, weir_1d(WEIR_BOOL, 4));
    weir_tensor *const s = weir_input(r->d, weir_scalar(WEIR_F32));

    CHECK_OK(weir_write_fill(b, 1));
    CHECK_OK(weir_write_fill(s, 1));
    CHECK(!weir_all_reduce(r->c, far) && weir_error_status() == WEIR_ERR_DEVICE);
    CHECK(!weir_all_reduce(r->c, b) && weir_error_status() == WEIR_ERR_DTYPE);
    CHECK(!weir_reduce_scatter(r->c, x) && weir_error_status() == WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "axis 0 of 3 elements is not divisible by 2 ranks");
    CHECK(!weir_all_gather(r->c, s) && weir_error_status() == WEIR_ERR_SHAPE);
    CHECK(!weir_broadcast_from(r->c, x, 2) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK(!weir_send_to(r->c, x, r->rank) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK(!weir_recv_from(r->c, weir_1d(WEIR_F32, 3), r->rank, NULL));
    CHECK(!weir_recv_from(r->c, weir_1d(WEIR_F32, 3), 1 - r->rank, x));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_SHAPE);
    CHECK(!weir_recv_from(r->c, weir_1d(WEIR_F32, -3), 1 - r->rank, NULL));
    weir_error_clear();
    CHECK(!weir_all_reduce(NULL, x) && weir_error_status() == WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "weir_all_reduce: communicator is NULL");
    weir_release(x);
    weir_release(far);
    weir_release(b);
    weir_release(s);
    weir_device_close(other);
}

CASE(mistakes_are_explained)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, mistake_body, NULL);
}
