/* collectives.c - sums of ranks beside the computing of a step: same bits as one after the other,
 * planned = measured <= budget, a check that refuses plans which touch what is under way, and
 * failures between start and wait. */
#include "core/hash.h"
#include "graph/fixture.h"
#include "ranks.h"

enum { ROWS = 32, WIDTH = 64, LAYERS = 5, STEPS = 3, N = 12 };

/* ---- training ---- */

typedef struct way {
    bool        off;            /* with the graph off */
    const char *disable, *budget;
    size_t      bucket;
    bool        starts;         /* a plan must start a collective early */
    uint64_t    bits[RANKS_MOST];
} way;

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

static bool open_one(trained *t, rank *r, size_t bucket)
{
    const int64_t widths[LAYERS + 1] = {WIDTH, WIDTH, WIDTH, WIDTH, WIDTH, 10};

    t->m = weir_model_new(r->d);
    t->net = weir_mlp_new(t->m, LAYERS + 1, widths);
    t->o = weir_adam_new(r->d, 0.01, NULL);
    t->x = weir_input(r->d, weir_2d(WEIR_F32, ROWS, WIDTH));
    t->y = weir_input(r->d, weir_1d(WEIR_I32, ROWS));
    const weir_parallel_options p = {.model = t->m, .bucket = bucket};
    return CHECK_OK(weir_data_parallel(t->o, r->c, &p));
}

static void close_one(trained *t)
{
    weir_optim_free(t->o);
    weir_model_free(t->m);
    weir_release(t->x);
    weir_release(t->y);
}

static void write_batch(const trained *t, uint64_t state)
{
    float   x[ROWS * WIDTH];
    int32_t y[ROWS];

    for (int i = 0; i < ROWS * WIDTH; i++)
        x[i] = (float)(weir_splitmix64(&state) >> 40) * 0x1p-24f;
    for (int i = 0; i < ROWS; i++)
        y[i] = (int32_t)(weir_splitmix64(&state) % 10);
    CHECK_OK(weir_write(t->x, x, sizeof x));
    CHECK_OK(weir_write(t->y, y, sizeof y));
}

static uint64_t bits_of(const trained *t)
{
    uint64_t h = 7;
    float    v[WIDTH * WIDTH];

    for (size_t i = 0; i < weir_model_param_count(t->m); i++) {
        weir_tensor *const one = weir_model_param(t->m, i);
        if (CHECK_OK(weir_read(one, v, weir_tensor_bytes(one))))
            h = weir_hash_bytes(h, v, weir_tensor_bytes(one));
    }
    return h;
}

/* Instructions between starts and their waits that are neither. */
static uint32_t between(const weir_graph *g)
{
    uint32_t under_way = 0, n = 0;

    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_op op = g->plan->instr[i].call.op;
        under_way += op == WEIR_OP_ALL_REDUCE_START;
        under_way -= op == WEIR_OP_ALL_REDUCE_WAIT;
        n += under_way > 0 && op != WEIR_OP_ALL_REDUCE_START && op != WEIR_OP_ALL_REDUCE_WAIT;
    }
    CHECK(under_way == 0);
    return n;
}

static void check_plan(const way *w, weir_graph *g)
{
    const uint32_t   starts = fixture_count(g, WEIR_OP_ALL_REDUCE_START);
    weir_graph_stats stats;
    size_t           measured = 0;

    CHECK(starts == fixture_count(g, WEIR_OP_ALL_REDUCE_WAIT));
    CHECK(!w->disable || starts == 0);
    CHECK(starts == 0 || between(g) > 0);
    CHECK(!w->starts || starts > 0);
    CHECK_OK(weir_plan_check_collectives(g->plan));
    CHECK_OK(weir_graph_measure(g, &measured));
    CHECK_OK(weir_graph_stats_of(g, &stats));
    CHECK(measured == stats.arena_bytes);
    CHECK(!w->budget || stats.planned_peak_bytes <= stats.budget_bytes);
}

static void train_body(rank *r)
{
    way *const              w = r->job;
    const weir_step_options how = {.graph = !w->off,
                                   .plan = {.budget = w->budget, .disable = w->disable}};
    trained                 t;

    CHECK_OR_RETURN(r->c != NULL);
    if (open_one(&t, r, w->bucket)) {
        weir_step *const step = weir_step_new(r->d, record, &t, &how);
        for (int s = 0; s < STEPS; s++) {
            write_batch(&t, (uint64_t)(s * r->world + r->rank));
            CHECK_OK(weir_step_run(step));
        }
        w->bits[r->rank] = bits_of(&t);
        if (!w->off)
            check_plan(w, weir_step_graph(step));
        weir_step_free(step);
    }
    close_one(&t);
}

static uint64_t bits(way w, int world)
{
    rank all[RANKS_MOST];

    ranks_run(all, world, NULL, train_body, &w);
    for (int i = 1; i < world; i++)
        CHECK(w.bits[i] == w.bits[0]);
    return w.bits[0];
}

CASE(sums_beside_computing_change_no_bit)
{
    static const size_t buckets[] = {1, 20000, 40000, 1 << 20};

    for (int world = 2; world <= 3; world++) {
        const uint64_t want = bits((way){.off = true}, world);
        for (size_t i = 0; i < ARRAY_LENGTH(buckets); i++) {
            CHECK(bits((way){.bucket = buckets[i], .starts = buckets[i] < 40000}, world) == want);
            CHECK(bits((way){.bucket = buckets[i], .disable = "overlap"}, world) == want);
        }
    }
}

/* Where the budget has no room, a collective is waited for at once. */
CASE(budgets_bound_what_is_under_way)
{
    static const char *const budgets[] = {"120%", "105%", "100%", "90%", "70%"};
    const uint64_t           want = bits((way){.bucket = 20000}, 2);

    for (size_t i = 0; i < ARRAY_LENGTH(budgets); i++)
        CHECK(bits((way){.bucket = 20000, .budget = budgets[i], .starts = i == 0}, 2) == want);
}

/* A program in a world of one: nothing is recorded, so nothing is started. */
CASE(one_rank_has_the_same_plan)
{
    weir_device *d = fixture_open();
    rank         r = {.d = d, .c = weir_comm_open("auto", d, NULL)};
    char        *text[2];
    trained      t;

    for (int i = 0; i < 2; i++) {
        if (!open_one(&t, &r, 20000))
            return;
        weir_graph *const g = weir_graph_begin(d);
        CHECK_OK(record(&t));
        CHECK_OK(weir_graph_end(g, i ? OPTIONS_WITHOUT("overlap") : NULL));
        char *const whole = weir_graph_text(g, WEIR_TEXT_PLAN);
        text[i] = weir_mem_strdup(strstr(whole, "# p parameter"));      /* below the passes */
        weir_text_free(whole);
        weir_graph_free(g);
        close_one(&t);
    }
    CHECK(strcmp(text[0], text[1]) == 0);
    weir_mem_free(text[0]);
    weir_mem_free(text[1]);
    weir_comm_close(r.c);
    weir_device_close(d);
}

/* ---- small graphs ---- */

/* A sum, and a callback that does not depend on it. */
typedef struct small {
    weir_tensor *x, *w, *y, *z;
    weir_graph  *g;
    bool         fails;         /* the callback, */
    weir_comm   *leaves;        /* ... or it leaves this communicator */
} small;

static weir_status pass_on(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const small *const s = ctx;

    weir_comm_leave(s->leaves);
    memcpy(y[0].data, x[0].data, N * sizeof(float));
    return s->fails ? weir_fail(WEIR_ERR_IO, "asked to fail") : WEIR_OK;
}

static const weir_callback_def passes_on = {.name = "mine", .forward = pass_on};

static bool small_open(small *s, rank *r, bool stop)
{
    const float     ones[N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const weir_desc n = weir_1d(WEIR_F32, N);
    weir_tensor    *z;

    *s = (small){.x = fixture_param(r->d, N, ones), .w = fixture_param(r->d, N, ones)};
    s->g = weir_graph_begin(r->d);
    weir_tensor *const sum = weir_all_reduce(r->c, weir_exp(s->x));
    if (stop)
        CHECK_OK(weir_graph_stop(s->g));
    weir_tensor *const w = weir_square(s->w);
    CHECK_OK(weir_callback(&passes_on, s, 1, &w, 1, &n, &z));
    s->z = weir_retain(weir_keep(weir_sqrt(z)));
    s->y = weir_retain(weir_keep(weir_add(weir_log(sum), s->z)));
    return CHECK_OK(weir_graph_end(s->g, NULL));
}

static void small_close(small *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_release(s->w);
    weir_release(s->y);
    weir_release(s->z);
}

static weir_instr *first(const weir_graph *g, weir_op op)
{
    for (uint32_t i = 0; i < g->plan->n; i++)
        if (g->plan->instr[i].call.op == op)
            return &g->plan->instr[i];
    return NULL;
}

static void check_refused(const weir_graph *g, const char *why)
{
    CHECK_STATUS(weir_plan_check_collectives(g->plan), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), why);
}

static void refuse_body(rank *r)
{
    small s;

    CHECK_OR_RETURN(r->c != NULL);
    if (small_open(&s, r, false)) {
        weir_instr *const start = first(s.g, WEIR_OP_ALL_REDUCE_START);
        weir_instr *const wait = first(s.g, WEIR_OP_ALL_REDUCE_WAIT);
        CHECK_OR_RETURN(start && wait && wait > start + 1);
        CHECK_OK(weir_plan_check_collectives(s.g->plan));
        for (weir_instr *ins = start + 1; ins < wait; ins++) {
            const weir_operand was = ins->in[0];        /* of the result: read too early */
            ins->in[0] = start->out[0];
            check_refused(s.g, "uses memory of the collective that instruction");
            ins->in[0] = was;
            weir_item *const it = &s.g->plan->items.at[start->work_item];
            const weir_item  at = *it;                  /* the window where it works */
            *it = s.g->plan->items.at[s.g->plan->item_of[start->in[0].storage]];
            it->offset = 0;
            it->bytes = SIZE_MAX;
            check_refused(s.g, "uses memory of the collective that instruction");
            *it = at;
        }
        const weir_instr kept = *wait;
        wait->call.op = WEIR_OP_ALL_REDUCE;
        check_refused(s.g, "nothing waits for the collective");
        *wait = kept;
        start->call.op = WEIR_OP_ALL_REDUCE;
        check_refused(s.g, "waits for a collective that nothing has started");
        start->call.op = WEIR_OP_ALL_REDUCE_START;
        CHECK_OK(weir_plan_check_collectives(s.g->plan));
    }
    small_close(&s);
}

CASE(a_plan_that_touches_what_is_under_way_is_refused)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, refuse_body, NULL);
}

/* Both ranks fail between start and wait; the next run has the right values. */
static void fail_body(rank *r)
{
    small          s;
    weir_nonfinite found;

    CHECK_OR_RETURN(r->c != NULL);
    if (small_open(&s, r, false)) {
        CHECK(fixture_count(s.g, WEIR_OP_ALL_REDUCE_START) == 1);
        for (int i = 0; i < 6; i++) {
            s.fails = i % 2 == 1;
            CHECK_STATUS(weir_graph_run(s.g), s.fails ? WEIR_ERR_IO : WEIR_OK);
            if (s.fails)
                CHECK_TEXT(weir_error(), "asked to fail");
            else
                CHECK_NEAR(fixture_value(s.y), 2 + log(2), 1e-5);
        }
        s.fails = false;
        CHECK_OK(weir_graph_find_nonfinite(s.g, false, &found));
    }
    small_close(&s);
}

CASE(a_call_fails_while_a_sum_is_under_way)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, fail_body, NULL);
}

static void leave_body(rank *r)
{
    small s;

    CHECK_OR_RETURN(r->c != NULL);
    if (small_open(&s, r, false)) {
        CHECK_OK(weir_graph_run(s.g));
        s.leaves = r->c;
        for (int i = 0; i < 2; i++) {
            CHECK_STATUS(weir_graph_run(s.g), WEIR_ERR_COMM);
            CHECK_TEXT(weir_error(), "has left its communicator");
        }
    }
    small_close(&s);
}

CASE(ranks_leave_while_a_sum_is_under_way)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, leave_body, NULL);
}

static void halves_body(rank *r)
{
    small s;

    CHECK_OR_RETURN(r->c != NULL);
    if (small_open(&s, r, true)) {
        for (int i = 0; i < 2; i++) {
            CHECK_OK(weir_graph_run_to_stop(s.g));
            CHECK_OK(weir_graph_run_rest(s.g));
            CHECK_NEAR(fixture_value(s.y), 2 + log(2), 1e-5);
        }
    }
    small_close(&s);
}

CASE(nothing_is_under_way_between_halves)
{
    rank all[RANKS_MOST];

    ranks_run(all, 2, NULL, halves_body, NULL);
}

/* ---- ranks that are late or dead ---- */

static void late_body(rank *r)
{
    trained t;

    CHECK_OR_RETURN(r->c != NULL);
    if (!open_one(&t, r, 20000))
        return;
    weir_step *const step = weir_step_new(r->d, record, &t, &(weir_step_options){.graph = true});
    weir_status      status = WEIR_OK;
    for (int s = 0; s < STEPS && status == WEIR_OK; s++) {
        write_batch(&t, (uint64_t)(s * r->world + r->rank));
        status = weir_step_run(step);
    }
    rank_note(r, status);
    CHECK_STATUS(status == WEIR_OK ? WEIR_ERR_COMM : weir_step_run(step), WEIR_ERR_COMM);
    weir_step_free(step);
    close_one(&t);
}

/* Some die before the first sum, some at the start of one, some when one is awaited. */
CASE(a_rank_dies_while_sums_are_under_way)
{
    static const char *const deaths[] = {",die=24", ",die=26", ",die=28", ",die=32", ",die=35"};
    int                      sums = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(deaths); i++) {
        rank          all[RANKS_MOST];
        ranks_options o = {.comm = {.timeout_s = 0.4}, .faults = {[1] = deaths[i]}};

        ranks_run(all, 3, &o, late_body, NULL);
        CHECK_STATUS(all[0].status, WEIR_ERR_COMM);
        CHECK_STATUS(all[2].status, WEIR_ERR_COMM);
        CHECK_TEXT(all[0].error, "rank 1 has not reached ");
        CHECK_TEXT(all[2].error, "rank 1 has not reached ");
        sums += strstr(all[0].error, "all_reduce") != NULL;
    }
    CHECK(sums >= 3);
}
