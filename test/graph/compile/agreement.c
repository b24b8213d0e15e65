/* agreement.c - ranks that record other graphs, or run them otherwise, learn it before their sums
 * are wrong: what differs is named on all of them. */
#include "device/collective.h"
#include "graph/fixture.h"
#include "ranks.h"

enum { N = 12 };

typedef weir_tensor *(*step_fn)(rank *r, weir_tensor *x);

/* What all ranks record, and what the last one records instead. */
typedef struct steps {
    step_fn           usual, other;
    weir_plan_options plan, other_plan;
} steps;

static weir_tensor *sum_of(rank *r, weir_tensor *x)
{
    return weir_all_reduce(r->c, weir_relu(x));
}

static weir_tensor *other_call(rank *r, weir_tensor *x)
{
    return weir_all_reduce(r->c, weir_tanh(x));
}

static weir_tensor *more_calls(rank *r, weir_tensor *x)
{
    return weir_all_reduce(r->c, weir_all_reduce(r->c, weir_relu(x)));
}

static weir_tensor *scaled(rank *r, weir_tensor *x)
{
    return weir_all_reduce(r->c, weir_affine(x, 2, 0));
}

static weir_tensor *scaled_more(rank *r, weir_tensor *x)
{
    return weir_all_reduce(r->c, weir_affine(x, 3, 0));
}

static weir_tensor *failing(rank *r, weir_tensor *x)
{
    weir_tensor *const y = weir_all_reduce(r->c, weir_relu(x));

    CHECK(weir_keep(weir_reshape(x, 1, (int64_t[]){5})) == NULL);
    return y;
}

static void record_body(rank *r)
{
    const steps *const s = r->job;
    const bool         last = r->rank == r->world - 1;
    float              v[N] = {0};

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = fixture_param(r->d, N, v);
    weir_graph *const  g = weir_graph_begin(r->d);
    weir_tensor *const y = weir_retain(weir_keep((last ? s->other : s->usual)(r, x)));
    rank_note(r, weir_graph_end(g, last ? &s->other_plan : &s->plan));
    if (r->status == WEIR_OK) {
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(y) == 0);
    }
    weir_release(y);
    weir_graph_free(g);
    weir_release(x);
}

/* Of 2 and of 3 ranks the last one records otherwise. */
static void check_refused(const steps *s, const char *agree, weir_status status, const char *text)
{
    for (int world = 2; world <= 3; world++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 600, .agree = agree}};
        steps         copy = *s;

        ranks_run(all, world, &o, record_body, &copy);
        for (int i = 0; i < world; i++) {
            CHECK_STATUS(all[i].status, status);
            CHECK_TEXT(all[i].error, text);
        }
    }
}

CASE(another_call_is_named)
{
    check_refused(&(steps){.usual = sum_of, .other = other_call}, NULL, WEIR_ERR_COMM,
                  "call 0 is relu: f32(12) -> f32(12) on rank 0, and tanh");
    check_refused(&(steps){.usual = sum_of, .other = more_calls}, NULL, WEIR_ERR_COMM,
                  "which rank 0 has not, is all_reduce");
    check_refused(&(steps){.usual = more_calls, .other = sum_of}, "collectives", WEIR_ERR_COMM,
                  "rank 0 has 2 calls");
}

CASE(another_attribute_is_named)
{
    const steps s = {.usual = scaled, .other = scaled_more};

    check_refused(&s, NULL, WEIR_ERR_COMM, "call 0, affine: f32(12) -> f32(12), has other "
                  "attributes");
    check_refused(&s, "collectives", WEIR_OK, "");
}

CASE(a_failed_recording_fails_on_all_ranks)
{
    check_refused(&(steps){.usual = sum_of, .other = failing}, NULL, WEIR_ERR_SHAPE, "reshape");
}

/* An impossible budget on one rank: its sentence is that of all. */
CASE(a_failed_plan_fails_on_all_ranks)
{
    check_refused(&(steps){.usual = sum_of, .other = sum_of, .other_plan = {.budget = "64"}}, NULL,
                  WEIR_ERR_BUDGET, "budget of 64 bytes: the smallest that works is");
}

/* Other budgets, levels and policies change no bit. */
CASE(plans_may_differ)
{
    check_refused(&(steps){.usual = sum_of, .other = sum_of,
                           .other_plan = {.budget = "1MB", .policy = "checkpoint:memory"}}, NULL,
                  WEIR_OK, "");
    check_refused(&(steps){.usual = sum_of, .other = sum_of, .other_plan = {.disable = "fuse"}},
                  NULL, WEIR_OK, "");
}

/* ---- machines ---- */

static void threads_body(rank *r)
{
    const weir_device_options o = {.threads = 1 + r->rank};
    char                      spec[128];

    weir_device *const d = weir_device_open("cpu", &o);
    snprintf(spec, sizeof spec, "local:%s-threads,rank=%d,world=%d", r->name, r->rank, r->world);
    weir_comm *const c = weir_comm_open(spec, d, &r->options);
    if (CHECK(c != NULL)) {
        weir_graph *const g = weir_graph_begin(d);
        weir_tensor      *x = weir_input(d, weir_1d(WEIR_F32, 4));
        CHECK(weir_keep(weir_all_reduce(c, x)) != NULL);
        rank_note(r, weir_graph_end(g, NULL));
        weir_graph_free(g);
        weir_release(x);
    }
    weir_comm_close(c);
    weir_device_close(d);
}

CASE(another_number_of_threads_is_named)
{
    for (int loose = 0; loose < 2; loose++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.agree = loose ? "collectives" : "graphs"}};

        ranks_run(all, 2, &o, threads_body, NULL);
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(all[i].status, loose ? WEIR_OK : WEIR_ERR_COMM);
            CHECK_TEXT(all[i].error, loose ? "" : "rank 0 has '1 threads' where rank 1 has '2 thr");
        }
    }
}

/* ---- rounded values ---- */

/* A step whose plan within a budget keeps values in fewer bits. */
static weir_graph *record_rounded(rank *r, weir_tensor **param, weir_optim **o)
{
    weir_graph *const g = weir_graph_begin(r->d);
    weir_tensor      *x = *param;

    for (int i = 0; i < 12; i++)
        x = weir_sin(weir_affine(x, 1.25, 0));
    *o = weir_sgd_new(r->d, 0.1, NULL);
    CHECK_OK(weir_data_parallel(*o, r->c, NULL));
    CHECK_OK(weir_minimize(*o, weir_sum(x, 0, false)));
    return g;
}

static void rounded_body(rank *r)
{
    const bool  same = *(const bool *)r->job;
    weir_optim *o;

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *param = weir_param(r->d, weir_1d(WEIR_F32, 4096), "w");
    CHECK_OK(weir_write_fill(param, 0.5));
    weir_graph *const g = record_rounded(r, &param, &o);
    const weir_plan_options p = {.budget = "90%",
                                 .policy = same || r->rank == 0 ? "actnn:4" : "actnn:8"};
    rank_note(r, weir_graph_end(g, &p));
    if (r->status == WEIR_OK)
        CHECK(fixture_count(g, WEIR_OP_QUANTIZE) > 0);
    weir_graph_free(g);
    weir_optim_free(o);
    weir_release(param);
}

CASE(plans_that_round_values_must_be_equal)
{
    for (int same = 0; same < 2; same++) {
        rank all[RANKS_MOST];
        bool job = same != 0;

        ranks_run(all, 2, NULL, rounded_body, &job);
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(all[i].status, same ? WEIR_OK : WEIR_ERR_COMM);
            CHECK_TEXT(all[i].error, same ? "" : "round different values");
        }
    }
}

/* ---- runs ---- */

/* Two graphs of equal collectives; the last rank runs another sequence of them. */
static const char *sequence_of(const rank *r)
{
    const char *const *const both = r->job;

    return both[r->rank == r->world - 1];
}

static void sequence_body(rank *r)
{
    float       v[N] = {0};
    weir_graph *g[2];

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = fixture_param(r->d, N, v);
    for (int i = 0; i < 2; i++) {
        g[i] = weir_graph_begin(r->d);
        CHECK(weir_keep(i ? scaled(r, x) : sum_of(r, x)) != NULL);
        CHECK_OK(weir_graph_end(g[i], NULL));
    }
    weir_status status = WEIR_OK;
    for (const char *s = sequence_of(r); *s && status == WEIR_OK; s++) {
        CHECK_OK(weir_scope_begin(r->d));
        if (*s == '-')
            status = weir_read(weir_all_reduce(r->c, x), v, sizeof v);
        else
            status = weir_graph_run(g[*s - '1']);
        CHECK_OK(weir_scope_end(r->d));
    }
    rank_note(r, status);
    for (int i = 0; i < 2; i++)
        weir_graph_free(g[i]);
    weir_release(x);
}

static void check_diverges(const char *usual, const char *other, const char *a, const char *b)
{
    const char *const both[] = {usual, other};

    for (int world = 2; world <= 3; world++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 600}};

        ranks_run(all, world, &o, sequence_body, (void *)(uintptr_t)both);
        for (int i = 0; i < world; i++) {
            CHECK_STATUS(all[i].status, WEIR_ERR_COMM);
            CHECK_TEXT(all[i].error, a);
            CHECK_TEXT(all[i].error, b);
            CHECK_TEXT(all[i].error, "in the same runs of the same graphs");
        }
    }
}

CASE(ranks_that_run_another_graph_learn_it)
{
    check_diverges("11212", "11112", "in run 1 of graph 2", "in run 3 of graph 1");
}

CASE(ranks_that_are_at_another_run_learn_it)
{
    check_diverges("11122", "1122", "in run 3 of graph 1", "in run 1 of graph 2");
}

CASE(ranks_with_the_graph_off_learn_it)
{
    check_diverges("1111", "11-1", "in run 3 of graph 1", " outside of graphs");
}

/* A rank that stops running is named, with where it is. */
static pthread_barrier_t failed;

static void stop_body(rank *r)
{
    float v[N] = {0};

    CHECK_OR_RETURN(r->c != NULL);
    weir_tensor *const x = fixture_param(r->d, N, v);
    weir_graph *const  g = weir_graph_begin(r->d);
    CHECK(weir_keep(sum_of(r, x)) != NULL);
    CHECK_OK(weir_graph_end(g, NULL));
    weir_status status = WEIR_OK;
    for (int i = 0; i < (r->rank == 1 ? 3 : 5) && status == WEIR_OK; i++)
        status = weir_graph_run(g);
    rank_note(r, status);
    pthread_barrier_wait(&failed);
    weir_graph_free(g);
    weir_release(x);
}

CASE(a_rank_that_makes_fewer_steps_is_named)
{
    rank          all[RANKS_MOST];
    ranks_options o = {.comm = {.timeout_s = 0.6}};

    pthread_barrier_init(&failed, NULL, 3);
    ranks_run(all, 3, &o, stop_body, NULL);
    pthread_barrier_destroy(&failed);
    CHECK_STATUS(all[1].status, WEIR_OK);
    for (int i = 0; i < 3; i += 2) {
        CHECK_STATUS(all[i].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[i].error, "rank 1 has not reached all_reduce 6 (12 f32) in run 4 of "
                   "graph 1");
        CHECK_TEXT(all[i].error, "it answers, and runs no graph, after 5 collectives");
    }
}

/* ---- options, one rank ---- */

CASE(agree_is_an_option)
{
    weir_device *const d = fixture_open();

    CHECK(!weir_comm_open("auto", d, &(weir_comm_options){.agree = "plans"}));
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "graphs or collectives");
    weir_device_close(d);
}
