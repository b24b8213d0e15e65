/* stop.c - a graph with a stop, run in two halves: the bits of the whole step, within budgets, by
 * every policy; other graphs in between; failures of either half. */
#include "graph/fixture.h"
#include "graph/runtime/execute.h"
#include "graph/train.h"

enum { STEPS = 3, BATCH = 16 };

/* ---- training whose loss is computed between the halves ---- */

typedef struct halves {
    train        t;
    weir_tensor *logits, *dy;
    weir_graph  *g;
} halves;

static weir_status record(halves *h)
{
    const weir_pair *pairs;
    size_t           n;

    h->logits = weir_keep(train_logits(&h->t));
    WEIR_TRY(weir_graph_stop(h->g));
    WEIR_TRY(weir_backward_from(h->logits, h->dy, &pairs, &n));
    return weir_optim_update(h->t.o, pairs, n);
}

static weir_status halves_open(halves *h, train_net net, const weir_plan_options *how)
{
    *h = (halves){0};
    WEIR_TRY(train_open(&h->t, net, BATCH, 0, NULL));
    h->dy = weir_input(h->t.d, weir_2d(WEIR_F32, BATCH, 10));
    h->g = weir_graph_begin(h->t.d);
    const weir_status status = record(h);
    return status == WEIR_OK ? weir_graph_end(h->g, how) : status;
}

static void halves_close(halves *h)
{
    weir_graph_free(h->g);
    weir_release(h->dy);
    train_close(&h->t);
}

/* The loss of the logits, and its gradient for the second half, computed with the graph off. */
static weir_status loss_between(halves *h)
{
    float        gradient[BATCH * 10], value;
    weir_tensor *dx;

    WEIR_TRY(weir_scope_begin(h->t.d));
    weir_tensor *const loss = weir_cross_entropy(h->logits, h->t.y);
    WEIR_TRY(weir_vjp_from(1, &loss, NULL, 1, &h->logits, &dx));
    WEIR_TRY(weir_read(loss, &value, sizeof value));
    WEIR_TRY(weir_read(dx, gradient, sizeof gradient));
    WEIR_TRY(weir_write(h->dy, gradient, sizeof gradient));
    h->t.fingerprint = weir_hash_bytes(h->t.fingerprint, &value, sizeof value);
    return weir_scope_end(h->t.d);
}

static void new_data(halves *h, int number)
{
    float   x[BATCH * 64];
    int32_t y[BATCH];

    if (!CHECK(weir_tensor_bytes(h->t.x) <= sizeof x))
        return;
    check_random = 1000 + (uint64_t)number;
    check_floats(x, weir_tensor_bytes(h->t.x) / sizeof *x, -1, 1);
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)check_int(0, 9);
    CHECK_OK(weir_write(h->t.x, x, weir_tensor_bytes(h->t.x)));
    CHECK_OK(weir_write(h->t.y, y, sizeof y));
}

static weir_status halves_step(halves *h, int number)
{
    new_data(h, number);
    WEIR_TRY(weir_graph_run_to_stop(h->g));
    WEIR_TRY(loss_between(h));
    return weir_graph_run_rest(h->g);
}

static weir_status both_halves(weir_graph *g)
{
    WEIR_TRY(weir_graph_run_to_stop(g));
    return weir_graph_run_rest(g);
}

static bool planned_is_measured(weir_graph *g)
{
    weir_graph_stats s = {0};
    size_t           together = 0, apart = 0;

    return CHECK_OK(weir_graph_measure(g, &together)) &&
           CHECK_OK(weir_plan_measure(g, both_halves, &apart)) &&
           CHECK_OK(weir_graph_stats_of(g, &s)) &&
           CHECK(together == s.arena_bytes && apart == s.arena_bytes) &&
           CHECK(!s.budget_bytes || s.planned_peak_bytes <= s.budget_bytes);
}

static uint64_t bits_of_the_whole(train_net net)
{
    return train_run(net, BATCH, 0, STEPS, &(weir_step_options){.graph = true});
}

/* Trains in halves; ERR_BUDGET if no plan fits. */
static weir_status train_in_halves(train_net net, const weir_plan_options *how, uint64_t bits)
{
    halves      h;
    weir_status status = halves_open(&h, net, how);

    for (int i = 0; i < STEPS && status == WEIR_OK; i++)
        status = halves_step(&h, i);
    if (status == WEIR_OK) {
        CHECK(train_bits(&h.t) == bits);
        planned_is_measured(h.g);
    }
    halves_close(&h);
    return status;
}

CASE(halves_have_the_bits_of_the_whole)
{
    static const weir_plan_options how[] = {
        {.level = 0}, {.level = WEIR_LEVEL_RECORDED}, {.disable = "fuse"}, {.disable = "order"},
        {.disable = "inplace,cse"}, {.budget = "90%"}, {.budget = "75%"},
        {.budget = "75%", .shared_budget = true}, {.budget = "80%", .measure = true}};
    const uint64_t mlp = bits_of_the_whole(TRAIN_MLP), digits = bits_of_the_whole(TRAIN_DIGITS);

    for (size_t i = 0; i < ARRAY_LENGTH(how); i++) {
        CHECK_OK(train_in_halves(TRAIN_DIGITS, &how[i], digits));
        if (!how[i].budget)
            CHECK_OK(train_in_halves(TRAIN_MLP, &how[i], mlp));
    }
}

/* By policies that recompute, offload or do both, within the smallest budget, in steps of 8 %, that
 * each meets. */
CASE(policies_keep_the_bits)
{
    static const char *const policy[] = {"checkpoint:memory", "vdnn:all", "capuchin", "dtr",
                                         "delta", "auto"};
    const uint64_t bits = bits_of_the_whole(TRAIN_DIGITS);

    for (size_t i = 0; i < ARRAY_LENGTH(policy); i++) {
        weir_status status = WEIR_ERR_BUDGET;
        for (int percent = 76; percent < 100 && status == WEIR_ERR_BUDGET; percent += 8) {
            char budget[16];
            snprintf(budget, sizeof budget, "%d%%", percent);
            const weir_plan_options how = {.budget = budget, .policy = policy[i]};
            status = train_in_halves(TRAIN_DIGITS, &how, bits);
        }
        if (!CHECK_OK(status))
            printf("    %s\n", policy[i]);
    }
}

/* Guard zones are checked across the stop; the list is the same. */
CASE(guard_zones)
{
    weir_device *d = fixture_open_with(1);
    weir_tensor *x = fixture_param(d, 8, (float[]){1, 2, 3, 4, 5, 6, 7, 8});
    weir_tensor *dy = fixture_input(d, 8, (float[]){1, 1, 1, 1, 1, 1, 1, 2}), *dx;
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_keep(weir_square(weir_sin(x)));

    CHECK_OK(weir_graph_stop(g));
    CHECK_OK(weir_gradients_from(y, dy, 1, &x, &dx));
    weir_keep(dx);
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(both_halves(g));
    CHECK_NEAR(fixture_value(y), sin(1) * sin(1), 1e-6);
    CHECK_NEAR(fixture_value(dx), 2 * sin(1) * cos(1), 1e-6);
    weir_graph_free(g);
    weir_release(x);
    weir_release(dy);
    weir_device_close(d);
}

/* ---- a small graph: y = sum over the rows of dropout(sin(x w)), w' = w + dw ---- */

enum { WIDE = 4096 };

typedef struct small {
    weir_device *d;
    weir_tensor *x, *w, *dy, *y, *dw, *index, *shift;
    weir_graph  *g;
} small;

/* Both halves read x and index, whose value must be 0, the first alone shift. */
static void small_record(small *s, const weir_plan_options *how)
{
    s->g = weir_graph_begin(s->d);
    weir_tensor *const table =
        weir_reshape(weir_sin(weir_mul(s->x, s->w)), 2, (int64_t[]){1, WIDE});
    weir_tensor *const row = weir_gather(table, s->index);
    s->y = weir_keep(weir_dropout(weir_exp(weir_sin(weir_add(row, s->shift))), 0.5));
    CHECK_OK(weir_graph_stop(s->g));
    CHECK_OK(weir_gradients_from(s->y, s->dy, 1, &s->w, &s->dw));
    weir_keep(s->dw);
    CHECK_OK(weir_graph_end(s->g, how));
}

static void small_open(small *s, const weir_plan_options *how)
{
    float v[WIDE];

    *s = (small){.d = fixture_open_unguarded()};
    check_floats(v, WIDE, 0, 1);
    s->x = fixture_input(s->d, WIDE, v);
    s->w = fixture_param(s->d, WIDE, v);
    s->index = weir_input(s->d, weir_1d(WEIR_I32, 1));
    CHECK_OK(weir_write_fill(s->index, 0));
    s->shift = fixture_input(s->d, 1, (float[]){0.5f});
    s->dy = weir_input(s->d, weir_2d(WEIR_F32, 1, WIDE));
    small_record(s, how);
}

static void small_close(small *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_release(s->w);
    weir_release(s->dy);
    weir_release(s->index);
    weir_release(s->shift);
    weir_device_close(s->d);
}

static uint64_t small_bits(const small *s)
{
    return train_hash(train_hash(1, s->y), s->dw);
}

/* The random numbers of both halves are those of one run; what is drawn or seeded in between has no
 * influence on them. */
CASE(random_numbers_of_one_run)
{
    small    s;
    uint64_t whole[2], apart[2];

    small_open(&s, NULL);
    CHECK_OK(weir_write_fill(s.dy, 1));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_graph_run(s.g));
        whole[i] = small_bits(&s);
    }
    CHECK(whole[0] != whole[1]);
    CHECK_OK(weir_device_seed(s.d, 7));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weir_graph_run_to_stop(s.g));
        CHECK_OK(weir_graph_run_rest(s.g));
        apart[i] = small_bits(&s);
    }
    CHECK(whole[0] == apart[0] && whole[1] == apart[1]);
    CHECK_OK(weir_device_seed(s.d, 7));
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK(weir_uniform(s.d, weir_1d(WEIR_F32, 9), 0, 1) != NULL);
    CHECK_OK(weir_device_seed(s.d, 9));
    CHECK_OK(weir_graph_run_rest(s.g));
    CHECK(small_bits(&s) == whole[0]);
    small_close(&s);
}

CASE(mistakes_of_order)
{
    small            s;
    size_t           bytes;
    weir_nonfinite   found;
    weir_graph_stats stats;

    small_open(&s, NULL);
    weir_error_clear();
    CHECK_STATUS(weir_graph_run_to_stop(NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_run_rest(NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_drop_rest(NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_stop(NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_graph_stop(s.g), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "no first half has run");
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);         /* dy was never written */
    CHECK_TEXT(weir_error(), "has never been written");
    CHECK_OK(weir_write_fill(s.dy, 1));
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "no first half has run");
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK_STATUS(weir_graph_run_to_stop(s.g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "still to run");
    CHECK_STATUS(weir_graph_run(s.g), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_measure(s.g, &bytes), WEIR_ERR_STATE);
    CHECK_STATUS(weir_graph_find_nonfinite(s.g, false, &found), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run_rest(s.g));
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK_OK(weir_graph_drop_rest(s.g));
    CHECK_OK(weir_graph_drop_rest(s.g));
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_run(s.g));
    CHECK_OK(weir_graph_stats_of(s.g, &stats));
    CHECK(stats.first_half > 0 && stats.first_half < stats.instructions);
    CHECK(weir_graph_recorded(s.g) == NULL);
    CHECK_TEXT(weir_error(), "has a stop");
    char *const text = weir_graph_text(s.g, WEIR_TEXT_PLAN);
    CHECK_TEXT(text ? text : "", "# stop: the second half begins at instruction ");
    weir_text_free(text);
    small_close(&s);
}

CASE(mistakes_of_recording)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2});
    weir_graph  *g = weir_graph_begin(d);

    weir_tensor *y = weir_keep(weir_square(x));
    CHECK_OK(weir_graph_pause(g));
    CHECK_STATUS(weir_graph_stop(g), WEIR_ERR_STATE);
    CHECK_OK(weir_graph_resume(g));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_run_to_stop(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "has no stop");
    weir_graph_free(g);

    g = weir_graph_begin(d);
    CHECK_OK(weir_graph_stop(g));       /* an empty first half */
    CHECK_STATUS(weir_graph_stop(g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "already");
    CHECK_STATUS(weir_graph_run_to_stop(g), WEIR_ERR_STATE);
    y = weir_keep(weir_dropout(weir_square(x), 0));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(both_halves(g));
    CHECK(fixture_value(y) == 1);
    weir_graph_free(g);

    g = weir_graph_begin(d);            /* an empty second half */
    y = weir_keep(weir_square(x));
    CHECK_OK(weir_graph_stop(g));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(both_halves(g));
    CHECK(fixture_value(y) == 1);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- between the halves ---- */

CASE(what_both_halves_read_must_not_change)
{
    small s;

    small_open(&s, NULL);
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK_OK(weir_write_fill(s.shift, 0));      /* the second half does not read it */
    CHECK_OK(weir_write_fill(s.dy, 1));         /* nor the first half this */
    CHECK_OK(weir_graph_run_rest(s.g));
    CHECK_OK(weir_graph_run_to_stop(s.g));
    CHECK_OK(weir_write_fill(s.x, 1));
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "changed by weir_write");
    CHECK_OK(weir_graph_drop_rest(s.g));
    CHECK_OK(both_halves(s.g));
    small_close(&s);
}

/* A graph that takes about `bytes` bytes of the arena. */
static weir_graph *other_graph(weir_device *d, weir_tensor *x, const weir_plan_options *how,
                               weir_tensor **sum)
{
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y = weir_sin(x), *z = weir_sin(y);

    z = weir_mul(weir_add(y, z), weir_transpose(weir_exp(z), NULL));
    *sum = weir_keep(weir_sum(z, 0, false));
    CHECK_OK(weir_graph_end(g, how));
    return g;
}

/* Without a budget the other graph gets an arena of its own; afterwards there is one again. */
CASE(another_graph_takes_a_second_arena)
{
    small        s;
    weir_tensor *sum;
    weir_memory  alone, both, after;

    small_open(&s, NULL);
    weir_graph *const o = other_graph(s.d, s.x, NULL, &sum);
    CHECK_OK(weir_write_fill(s.dy, 1));
    CHECK_OK(weir_graph_run(o));
    const float expected = fixture_value(sum);
    CHECK_OK(weir_graph_run(s.g));
    const uint64_t bits = small_bits(&s);
    weir_device_memory(s.d, &alone);
    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_device_seed(s.d, 7));
        CHECK_OK(weir_graph_run_to_stop(s.g));
        CHECK_OK(weir_graph_run(o));
        CHECK(fixture_value(sum) == expected);
        weir_device_memory(s.d, &both);
        CHECK_OK(weir_graph_run_rest(s.g));
        CHECK(small_bits(&s) == bits);
        weir_device_memory(s.d, &after);
    }
    CHECK(both.arena > alone.arena && after.arena == alone.arena);
    weir_graph_free(o);
    small_close(&s);
}

/* Budgets that leave no second arena: the graph is refused, and works after the second half. */
CASE(another_graph_is_refused_within_a_budget)
{
    for (int whose = 0; whose < 2; whose++) {
        small        s;
        weir_tensor *sum;

        small_open(&s, whose == 0 ? &(weir_plan_options){.budget = "100%"} : NULL);
        weir_graph *const o =
            other_graph(s.d, s.x, whose == 1 ? &(weir_plan_options){.budget = "100%"} : NULL, &sum);
        CHECK_OK(weir_write_fill(s.dy, 1));
        CHECK_OK(weir_graph_run_to_stop(s.g));
        CHECK_STATUS(weir_graph_run(o), WEIR_ERR_BUDGET);
        CHECK_TEXT(weir_error(), "another graph waits between its halves");
        CHECK_OK(weir_graph_run_rest(s.g));
        CHECK_OK(weir_graph_run(o));
        CHECK(fixture_value(sum) > 0);
        weir_graph_free(o);
        small_close(&s);
    }
}

/* Within a shared budget the second graph is planned again to fit beside the first. */
CASE(a_shared_budget_plans_the_other_again)
{
    small            s;
    weir_tensor     *sum;
    weir_memory      m;
    weir_graph_stats stats;

    small_open(&s, &(weir_plan_options){.budget = "200KB", .shared_budget = true});
    weir_graph *const o =
        other_graph(s.d, s.x, &(weir_plan_options){.budget = "200KB", .shared_budget = true,
                                                   .disable = "fuse,inplace"}, &sum);
    CHECK_OK(weir_write_fill(s.dy, 1));
    CHECK_OK(weir_graph_run(o));
    const float expected = fixture_value(sum);
    CHECK_OK(weir_graph_run_to_stop(s.g));
    const weir_status status = weir_graph_run(o);
    if (CHECK(status == WEIR_OK || status == WEIR_ERR_BUDGET) && status == WEIR_OK) {
        CHECK(fixture_value(sum) == expected);
        weir_device_memory(s.d, &m);
        CHECK(m.persistent + m.arena <= 200000);
        CHECK_OK(weir_graph_stats_of(o, &stats));
    }
    CHECK_OK(weir_graph_run_rest(s.g));
    CHECK_OK(weir_graph_run(o));
    CHECK(fixture_value(sum) == expected);
    weir_graph_free(o);
    small_close(&s);
}

/* Two graphs whose plans keep values in the offload store cannot be mixed. */
CASE(one_graph_at_a_time_in_the_offload_store)
{
    const weir_plan_options how = {.budget = "95%", .policy = "vdnn:all"};
    halves                  h[2];

    for (int i = 0; i < 2; i++)
        CHECK_OK(halves_open(&h[i], TRAIN_DIGITS, &how));
    CHECK(h[0].g->plan->offloads);
    halves_close(&h[1]);

    /* The same network once more on the device of the first. */
    h[1] = h[0];
    h[1].g = weir_graph_begin(h[0].t.d);
    CHECK_OK(record(&h[1]));
    CHECK_OK(weir_graph_end(h[1].g, &how));
    new_data(&h[0], 0);
    CHECK_OK(weir_write_fill(h[0].dy, 0.01));
    CHECK_OK(weir_graph_run_to_stop(h[0].g));
    CHECK_STATUS(weir_graph_run_to_stop(h[1].g), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "offload store");
    CHECK_OK(weir_graph_run_rest(h[0].g));
    CHECK_OK(both_halves(h[1].g));
    weir_graph_free(h[1].g);
    halves_close(&h[0]);
}

/* ---- failures ---- */

/* A failed first half leaves the arena to others and returns its random numbers. */
CASE(the_first_half_fails)
{
    small       s;
    weir_random before, after;

    small_open(&s, NULL);
    CHECK_OK(weir_write_fill(s.dy, 1));
    CHECK_OK(both_halves(s.g));
    const uint64_t bits = small_bits(&s);
    CHECK_OK(weir_device_seed(s.d, 7));
    before = weir_device_random(s.d);
    CHECK_OK(weir_write_fill(s.index, 3));
    CHECK_STATUS(weir_graph_run_to_stop(s.g), WEIR_ERR_INDEX);
    CHECK_STATUS(weir_graph_run_rest(s.g), WEIR_ERR_STATE);
    after = weir_device_random(s.d);
    CHECK(before.position == after.position);
    CHECK_OK(weir_write_fill(s.index, 0));
    CHECK_OK(both_halves(s.g));
    CHECK(small_bits(&s) == bits);
    small_close(&s);
}

static weir_status fail_if_asked(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    memcpy(y[0].data, x[0].data, 4);
    return *(const bool *)ctx ? weir_fail(WEIR_ERR_IO, "asked to fail") : WEIR_OK;
}

/* After a failed second half the first must run again; what was updated before stays so. */
CASE(the_second_half_fails)
{
    static const weir_callback_def def = {.name = "mine", .forward = fail_if_asked};
    const weir_desc one = weir_1d(WEIR_F32, 1);
    bool            fails = true;
    weir_device    *d = fixture_open();
    weir_tensor *x = fixture_input(d, 1, (float[]){3}), *count = fixture_state(d, 1, NULL), *z;
    weir_random     before, after;
    weir_graph     *g = weir_graph_begin(d);
    weir_tensor    *y = weir_dropout(weir_square(x), 0.5);

    CHECK_OK(weir_increment(count, 1));
    CHECK_OK(weir_graph_stop(g));
    CHECK_OK(weir_callback(&def, &fails, 1, &y, 1, &one, &z));
    z = weir_keep(weir_add(z, x));
    CHECK_OK(weir_graph_end(g, NULL));
    before = weir_device_random(d);
    CHECK_OK(weir_graph_run_to_stop(g));
    CHECK_STATUS(weir_graph_run_rest(g), WEIR_ERR_IO);
    after = weir_device_random(d);
    CHECK(before.position == after.position);
    CHECK_STATUS(weir_graph_run_rest(g), WEIR_ERR_STATE);
    fails = false;
    CHECK_OK(both_halves(g));
    CHECK(fixture_value(count) == 2 && (fixture_value(z) == 3 || fixture_value(z) == 21));
    weir_graph_free(g);
    weir_release(x);
    weir_release(count);
    weir_device_close(d);
}

/* Graph and device may be freed while the second half is still to run. */
CASE(freed_while_it_waits)
{
    for (int first = 0; first < 2; first++) {
        small        s;
        weir_tensor *sum;

        small_open(&s, NULL);
        weir_graph *const o = other_graph(s.d, s.x, NULL, &sum);
        CHECK_OK(weir_graph_run_to_stop(s.g));
        CHECK_OK(weir_graph_run(o));
        weir_graph_free(o);
        if (first == 0) {
            small_close(&s);
            continue;
        }
        weir_release(s.x);
        weir_release(s.w);
        weir_release(s.dy);
        weir_release(s.index);
        weir_release(s.shift);
        weir_device_close(s.d);
        weir_graph_free(s.g);
    }
}
