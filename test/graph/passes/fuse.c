/* fuse.c - element-wise chains as one instruction: what is joined, where it must stop. */
#include "graph/fixture.h"

enum { N = 1000 };

static const weir_plan_options apart = {.disable = "fuse"};

/* Records `body` fused and not; outputs must have the same bits. Returns the fused instructions. */
static uint32_t fused(int (*body)(weir_device *d, weir_tensor *const *in, weir_tensor **out),
                      uint32_t *largest)
{
    static double want[8][N], got[N];   /* holds outputs of any type */
    uint32_t      instructions = 0;

    for (int i = 0; i < 2; i++) {
        weir_device *d = fixture_open();
        float        v[N];
        check_random = 3;
        check_floats(v, N, -1, 1);
        weir_tensor *in[] = {fixture_input(d, N, v), fixture_state(d, N, v)}, *out[8];
        weir_graph  *g = weir_graph_begin(d);
        const int    n = body(d, in, out);
        for (int k = 0; k < n; k++)
            weir_keep(out[k]);
        fixture_finish(g, i == 0 ? &apart : NULL);
        for (int k = 0; k < n; k++) {
            CHECK_OK(weir_read(out[k], i ? got : want[k], weir_tensor_bytes(out[k])));
            if (i)
                CHECK_BITS(got, want[k], weir_tensor_bytes(out[k]));
        }
        instructions = g->plan->n;
        for (uint32_t k = 0; k < g->plan->n && i && largest; k++) {
            const weir_call *c = &g->plan->instr[k].call;
            if (c->op == WEIR_OP_FUSED) {
                const weir_ew_program *p = c->attr;
                *largest = p->nstep > *largest ? (uint32_t)p->nstep : *largest;
                CHECK(c->nin <= WEIR_EW_MAX_IN && c->nout <= WEIR_EW_MAX_OUT);
            }
        }
        weir_graph_free(g);
        weir_release(in[0]);
        weir_release(in[1]);
        weir_device_close(d);
    }
    return instructions;
}

static int chain(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_affine(in[0], 2, 1);
    out[0] = weir_mul(weir_tanh(weir_relu(weir_sub(h, in[1]))), h);
    return 1;
}

CASE(a_chain_is_one_instruction)
{
    uint32_t largest = 0;
    CHECK(fused(chain, &largest) == 1);
    CHECK(largest == 5);
}

static int long_chain(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = in[0];
    for (int i = 0; i < 3 * WEIR_EW_MAX_STEPS; i++)
        h = weir_tanh(weir_affine(h, 1.01, 0.01 * i));
    out[0] = h;
    return 1;
}

CASE(groups_have_a_largest_size)
{
    uint32_t largest = 0;
    const uint32_t n = fused(long_chain, &largest);
    CHECK(largest == WEIR_EW_MAX_STEPS);
    CHECK(n == 6);
}

static int many_inputs(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *all[40], *h = in[0];
    for (int i = 0; i < 40; i++)        /* reductions: not element-wise, so inputs from outside */
        all[i] = weir_sum(weir_broadcast_to(weir_affine(in[i % 2], 1, 0.1 * i),
                                            weir_2d(WEIR_F32, 2, N)), 1, false);
    for (int i = 0; i < 40; i++)
        h = i % 3 ? weir_add(h, all[i]) : weir_tanh(weir_mul(all[i], h));
    (void)d;
    out[0] = h;
    return 1;
}

CASE(groups_have_most_inputs)
{
    uint32_t largest = 0;
    fused(many_inputs, &largest);
    CHECK(largest >= WEIR_EW_MAX_IN - 2);
}

static int many_outputs(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = in[0];
    for (int i = 0; i < 8; i++)
        out[i] = h = weir_tanh(weir_affine(h, 1.5, 0.1));
    return 8;
}

CASE(groups_have_most_outputs)
{
    CHECK(fused(many_outputs, NULL) >= 2);
}

/* The intermediate value is also read by a reduction, so it must be stored. */
static int needed_outside(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_affine(in[0], 2, 1), *k = weir_relu(h);
    out[0] = weir_affine(k, 3, 0);
    out[1] = weir_sum(h, 0, false);
    out[2] = weir_sum(k, 0, false);
    return 3;
}

CASE(values_needed_outside_are_written)
{
    CHECK(fused(needed_outside, NULL) == 3);
}

/* a -> sum -> c, and a -> c: joining a and c would need the sum of a before a is made. */
static int around(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *a = weir_exp(in[0]), *s = weir_sum(a, 0, false);
    weir_tensor *b = weir_exp(in[1]), *t = weir_amax(weir_mul(b, s), 0, false);
    out[0] = weir_div(a, s);
    out[1] = weir_add(weir_div(b, t), out[0]);
    return 2;
}

CASE(no_cycles)
{
    CHECK(fused(around, NULL) >= 4);
}

/* The first half reads the state before the update, the second after it. */
static int update_between(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *a = weir_mul(in[0], in[1]), *early = weir_affine(in[1], 1, 0.5);
    CHECK_OK(weir_increment(in[1], 1));
    out[0] = weir_add(a, in[1]);
    out[1] = weir_sub(weir_mul(early, out[0]), in[1]);
    return 2;
}

CASE(updates_stay_between)
{
    CHECK(fused(update_between, NULL) >= 3);
}

static int broadcasts(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *row = weir_reshape(in[0], 2, (int64_t[]){1, N});
    weir_tensor *s = weir_exp(weir_mean(in[1], 0, false));
    weir_tensor *h = weir_add(weir_mul(row, s), weir_fill(d, weir_2d(WEIR_F32, 1, 1), 2));
    out[0] = weir_relu(weir_sub(h, weir_reshape(in[1], 2, (int64_t[]){1, N})));
    weir_tensor *square = weir_reshape(weir_tanh(in[0]), 2, (int64_t[]){N / 10, 10});
    weir_tensor *turned = weir_transpose(square, NULL);
    out[1] = weir_add(weir_affine(turned, 2, 0), weir_neg(turned));
    out[2] = weir_mul(weir_affine(square, 2, 0), weir_neg(square));
    return 3;
}

CASE(broadcasts_and_views)
{
    fused(broadcasts, NULL);
}

static int drawing(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *u = weir_uniform(d, weir_1d(WEIR_F32, N), -1, 1);
    weir_tensor *h = weir_dropout(weir_mul(weir_relu(in[0]), u), 0.3);
    out[0] = weir_add(weir_dropout(h, 0.5), weir_normal(d, weir_1d(WEIR_F32, N), 0, 1));
    return 1;
}

CASE(random_calls_draw_the_same)
{
    CHECK(fused(drawing, NULL) == 1);
}

static int types(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *wide = weir_cast(weir_affine(in[0], 2, 1), WEIR_F64);
    out[0] = weir_cast(weir_tanh(weir_square(wide)), WEIR_F32);
    weir_tensor *i = weir_cast(weir_affine(in[0], 100, 0), WEIR_I32);
    out[1] = weir_mul(weir_add(i, i), i);
    return 2;
}

CASE(types_are_not_mixed)
{
    fused(types, NULL);
}

/* ---- casts ---- */

/* A half is widened, a result rounded: the steps between them are one group. */
static int between_halves(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_cast(in[0], WEIR_BF16), *wide = weir_cast(h, WEIR_F32);
    out[0] = weir_cast(weir_tanh(weir_affine(wide, 3, 0.1)), WEIR_F16);
    return 1;
}

CASE(casts_are_edges_of_a_group)
{
    uint32_t largest = 0;
    CHECK(fused(between_halves, &largest) == 2);
    CHECK(largest == 2);
}

/* One value in three types, each of them kept. */
static int three_types(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    out[0] = weir_tanh(weir_sub(in[0], weir_square(in[1])));
    out[1] = weir_cast(out[0], WEIR_BF16);
    out[2] = weir_cast(out[0], WEIR_F16);
    out[3] = weir_neg(out[0]);
    return 4;
}

CASE(a_value_is_written_in_many_types)
{
    CHECK(fused(three_types, NULL) == 1);
}

/* A value that was rounded to half and widened again differs from the original. */
static int rounded_between(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_cast(weir_affine(in[0], 5, 1), WEIR_BF16);
    out[0] = weir_tanh(weir_mul(weir_cast(h, WEIR_F32), in[1]));
    out[1] = weir_cast(weir_cast(weir_exp(in[0]), WEIR_F16), WEIR_F32);
    return 2;
}

CASE(values_are_rounded_inside)
{
    CHECK(fused(rounded_between, NULL) == 3);
}

/* Steps in half round one by one. */
static int halves_beside(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_cast(weir_affine(in[0], 2, 1), WEIR_BF16);
    weir_tensor *k = weir_tanh(weir_affine(h, 1.3, 0.2));
    out[0] = weir_relu(k);
    out[1] = weir_add(weir_cast(k, WEIR_F32), in[1]);
    return 2;
}

CASE(steps_of_halves_are_steps_of_a_group)
{
    CHECK(fused(halves_beside, NULL) == 1);
}

/* A step either rounds its result or not: what is read both ways is rounded outside. */
static int read_both_ways(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *x = weir_affine(in[0], 3, 0.1);
    weir_tensor *h = weir_relu(weir_cast(x, WEIR_F16));
    out[0] = weir_mul(weir_cast(h, WEIR_F32), x);
    out[1] = weir_cast(weir_cast(x, WEIR_BF16), WEIR_F64);
    return 2;
}

CASE(a_step_rounds_for_all_or_for_none)
{
    CHECK(fused(read_both_ways, NULL) == 4);
}

/* Views of what is widened are views of the half: repeated rows, turned ones, a part. */
static int widened_views(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    const weir_desc square = weir_2d(WEIR_F32, 10, 10);
    weir_tensor *h = weir_copy(weir_cast(in[0], WEIR_F16)), *wide = weir_cast(h, WEIR_F32);
    weir_tensor *x = weir_reshape(in[1], 2, (int64_t[]){N / 10, 10});
    weir_tensor *table = weir_reshape(wide, 2, (int64_t[]){N / 10, 10});
    weir_tensor *row = weir_slice(table, (int64_t[]){5, 0}, (int64_t[]){6, 10}, NULL);
    weir_tensor *part = weir_slice(table, (int64_t[]){20, 0}, (int64_t[]){30, 10}, NULL);
    out[0] = weir_tanh(weir_mul(weir_affine(x, 2, 0), row));
    out[1] = weir_add(weir_affine(weir_transpose(part, NULL), 2, 0),
                      weir_broadcast_to(row, square));
    out[2] = weir_neg(weir_square(table));
    return 3;
}

CASE(views_of_what_is_widened)
{
    CHECK(fused(widened_views, NULL) <= 5);
}

/* The sum needs the value in f32; the half is kept, so that steps may read it all the same. */
static int read_by_others(weir_device *d, weir_tensor *const *in, weir_tensor **out)
{
    (void)d;
    weir_tensor *h = weir_cast(in[0], WEIR_BF16), *wide = weir_cast(h, WEIR_F32);
    weir_tensor *s = weir_sum(wide, 0, true);
    out[0] = h;
    out[1] = weir_tanh(weir_sub(wide, s));
    return 2;
}

CASE(a_cast_stays_for_those_who_need_it)
{
    CHECK(fused(read_by_others, NULL) == 4);
}

/* The end of the chain has no reader and is not removed. */
CASE(groups_that_nobody_reads_have_a_result)
{
    for (int rounded = 0; rounded < 2; rounded++) {
        weir_device *d = fixture_open();
        weir_tensor *in = fixture_input(d, N, NULL);
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *unread = weir_tanh(weir_affine(in, 2, 1));
        CHECK(!rounded || weir_cast(unread, WEIR_BF16));
        weir_keep(weir_sum(in, 0, false));
        fixture_finish(g, OPTIONS_WITHOUT("dce"));
        CHECK(g->plan->n == 2 && fixture_count(g, WEIR_OP_FUSED) == 1);
        for (uint32_t i = 0; i < g->plan->n; i++)
            CHECK(g->plan->instr[i].call.nout == 1);
        weir_graph_free(g);
        weir_release(in);
        weir_device_close(d);
    }
}

/* ---- memory ---- */

/* Gradients of one weight from many products: y = sum of relu(x w) over and over. */
static size_t arena_of_a_shared_weight(const weir_plan_options *o)
{
    enum { SIDE = 64, TIMES = 8 };
    static float v[SIDE * SIDE];
    weir_device *d = fixture_open();
    check_random = 4;
    check_floats(v, SIDE * SIDE, -0.1, 0.1);
    weir_tensor *w = weir_param(d, weir_2d(WEIR_F32, SIDE, SIDE), "w");
    weir_tensor *lr = weir_state(d, weir_scalar(WEIR_F32), "lr");
    CHECK_OK(weir_write(w, v, sizeof v));
    CHECK_OK(weir_write_fill(lr, 0.1));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *h = weir_fill(d, weir_2d(WEIR_F32, 2, SIDE), 1);
    for (int i = 0; i < TIMES; i++)
        h = weir_tanh(weir_matmul(h, w));
    const weir_pair *pairs = NULL;
    size_t           n = 0;
    CHECK_OK(weir_backward(weir_sum(h, 0, false), &pairs, &n));
    if (CHECK(n == 1))
        CHECK_OK(weir_sgd_update(w, pairs[0].grad, NULL, lr, NULL));
    fixture_finish(g, o);
    const size_t arena = g->plan->arena;
    weir_graph_free(g);
    weir_release(w);
    weir_release(lr);
    weir_device_close(d);
    return arena;
}

/* Joined into one late sum, the adds would keep all eight gradients of w alive. */
CASE(sums_of_gradients_do_not_wait_for_each_other)
{
    CHECK(arena_of_a_shared_weight(NULL) <= arena_of_a_shared_weight(&apart));
}

/* A half computed from two values that end there: as one call it would hold three values, not
 * two. */
static size_t arena_of_a_rounded_sum(const weir_plan_options *o, uint32_t *casts)
{
    static float v[N];
    weir_device *d = fixture_open();
    weir_tensor *in = fixture_input(d, N, v);
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *a = weir_cumsum(in, 0, false), *b = weir_cumsum(in, 0, true);
    weir_keep(weir_sum(weir_cast(weir_add(a, b), WEIR_BF16), 0, false));
    fixture_finish(g, o);
    const size_t arena = g->plan->arena;
    *casts = fixture_count(g, WEIR_OP_CAST);
    weir_graph_free(g);
    weir_release(in);
    weir_device_close(d);
    return arena;
}

CASE(casts_stay_apart_where_a_group_would_hold_more)
{
    uint32_t casts[2];
    CHECK(arena_of_a_rounded_sum(NULL, &casts[0]) <= arena_of_a_rounded_sum(&apart, &casts[1]));
    CHECK(casts[0] == 1 && casts[1] == 1);
}

/* ---- other operations that read halves ---- */

/* A product and batch norm in mixed precision, stepped once by SGD. Writes the loss and a weight;
 * returns the casts in the plan. */
static uint32_t casts_of_batch_norm(const weir_plan_options *o, bool residual, float result[2])
{
    enum { ROWS = 64, CHANNELS = 8 };
    static float v[ROWS * CHANNELS];
    weir_device *d = fixture_open();
    check_random = 5;
    check_floats(v, ROWS * CHANNELS, -1, 1);
    const weir_desc c = weir_1d(WEIR_F32, CHANNELS);
    weir_tensor    *x = weir_input(d, weir_2d(WEIR_F32, ROWS, CHANNELS));
    weir_tensor    *w = weir_param(d, weir_2d(WEIR_F32, CHANNELS, CHANNELS), "w");
    weir_tensor    *scale = weir_param(d, c, "scale"), *bias = weir_param(d, c, "bias");
    weir_tensor    *mean = weir_state(d, c, "mean"), *var = weir_state(d, c, "var");
    weir_tensor    *lr = weir_state(d, weir_scalar(WEIR_F32), "lr");
    weir_tensor    *own[] = {x, w, scale, bias, mean, var, lr};
    CHECK_OK(weir_write(x, v, sizeof v));
    CHECK_OK(weir_write(w, v, CHANNELS * CHANNELS * sizeof *v));
    for (int i = 2; i < 7; i++)
        CHECK_OK(weir_write_fill(own[i], i == 6 ? 0.5 : 1));
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_autocast_begin(d, WEIR_BF16));
    weir_tensor *z = weir_matmul(x, w);
    weir_tensor *y = weir_batch_norm(z, scale, bias, mean, var, NULL);
    y = residual ? weir_relu(weir_add(y, z)) : y;
    weir_tensor *loss = weir_sum(weir_mul(y, y), 0, false);
    CHECK_OK(weir_autocast_end(d));
    const weir_pair *pairs = NULL;
    size_t           n = 0;
    CHECK_OK(weir_backward(loss, &pairs, &n));
    for (size_t i = 0; i < n; i++)
        CHECK_OK(weir_sgd_update(pairs[i].param, pairs[i].grad, NULL, lr, NULL));
    weir_keep(loss);
    fixture_finish(g, o);
    CHECK_OK(weir_read(loss, &result[0], sizeof(float)));
    float changed[CHANNELS * CHANNELS];
    CHECK_OK(weir_read(w, changed, sizeof changed));
    result[1] = changed[3];
    const uint32_t casts = fixture_count(g, WEIR_OP_CAST);
    weir_graph_free(g);
    for (int i = 0; i < 7; i++)
        weir_release(own[i]);
    weir_device_close(d);
    return casts;
}

CASE(batch_norm_and_updates_read_halves)
{
    float          want[2] = {0}, got[2] = {1};
    const uint32_t before = casts_of_batch_norm(&apart, false, want);
    const uint32_t after = casts_of_batch_norm(NULL, false, got);

    CHECK_BITS(got, want, sizeof got);
    CHECK(after + 3 <= before);
    casts_of_batch_norm(&apart, true, want);
    CHECK(casts_of_batch_norm(NULL, true, got) <= after);   /* none of the residual branch */
    CHECK_BITS(got, want, sizeof got);
}

/* Steps w by a gradient that is the cast of a transposed half; returns its second element. */
static float step_by_a_transposed_half(const weir_plan_options *o)
{
    enum { SIDE = 6 };
    float        v[SIDE * SIDE], stepped[SIDE * SIDE];
    weir_device *d = fixture_open();
    check_random = 6;
    check_floats(v, SIDE * SIDE, -1, 1);
    weir_tensor *x = weir_input(d, weir_2d(WEIR_F32, SIDE, SIDE));
    weir_tensor *w = weir_param(d, weir_2d(WEIR_F32, SIDE, SIDE), "w");
    weir_tensor *lr = weir_state(d, weir_scalar(WEIR_F32), "lr");
    CHECK_OK(weir_write(x, v, sizeof v));
    CHECK_OK(weir_write_fill(w, 1));
    CHECK_OK(weir_write_fill(lr, 0.5));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *half = weir_transpose(weir_cast(x, WEIR_BF16), (const int[]){1, 0});
    CHECK_OK(weir_sgd_update(w, weir_cast(half, WEIR_F32), NULL, lr, NULL));
    fixture_finish(g, o);
    CHECK_OK(weir_read(w, stepped, sizeof stepped));
    weir_graph_free(g);
    weir_release(x);
    weir_release(w);
    weir_release(lr);
    weir_device_close(d);
    return stepped[1];
}

/* An update's kernel expects a dense gradient, so other halves are widened before it. */
CASE(updates_read_dense_halves_only)
{
    CHECK(step_by_a_transposed_half(NULL) == step_by_a_transposed_half(&apart));
}

enum { PARTS = 5003, UPDATES = 7 };     /* PARTS: no multiple of what a kernel reads at once */

/* Records one update of w (t[0]) by t[1]; t[2] to t[4]: states, t[5]: step, t[6]: learning rate. */
static weir_status record_update(int which, weir_tensor *const *t)
{
    const weir_sgd_options     sgd = {.momentum = 0.5};
    const weir_rmsprop_options rmsprop = {.momentum = 0.5, .centered = true};

    switch (which) {
    case 0: return weir_sgd_update(t[0], t[1], NULL, t[6], NULL);
    case 1: return weir_sgd_update(t[0], t[1], t[2], t[6], &sgd);
    case 2: return weir_adam_update(t[0], t[1], t[2], t[3], t[5], t[6], NULL);
    case 3: return weir_adamw_update(t[0], t[1], t[2], t[3], t[5], t[6], NULL);
    case 4: return weir_adagrad_update(t[0], t[1], t[2], t[6], NULL);
    case 5: return weir_rmsprop_update(t[0], t[1], t[2], t[3], t[4], t[6], &rmsprop);
    default: return weir_accumulate(t[0], t[1]);
    }
}

/* Updates w by a gradient that was rounded to `half`. Writes w and its first state; returns the
 * casts in the plan. */
static uint32_t casts_of_update(int which, weir_dtype half, const weir_plan_options *o,
                                float (*result)[PARTS])
{
    weir_device    *d = fixture_open();
    const weir_desc c = weir_1d(WEIR_F32, PARTS);
    weir_tensor    *x = weir_input(d, c);
    weir_tensor    *t[] = {weir_param(d, c, "w"), NULL, weir_state(d, c, "a"),
                           weir_state(d, c, "b"), weir_state(d, c, "c"),
                           weir_state(d, weir_scalar(WEIR_F64), "step"),
                           weir_state(d, weir_scalar(WEIR_F32), "lr")};
    check_random = 8;
    check_floats(result[0], PARTS, -1, 1);
    CHECK_OK(weir_write(x, result[0], sizeof result[0]));
    for (int i = 0; i < 7; i++)
        if (i != 1)
            CHECK_OK(weir_write_fill(t[i], i == 6 ? 0.25 : 1));
    weir_graph *g = weir_graph_begin(d);
    t[1] = weir_cast(weir_cast(x, half), WEIR_F32);
    CHECK_OK(record_update(which, t));
    fixture_finish(g, o);
    CHECK_OK(weir_read(t[0], result[0], sizeof result[0]));
    CHECK_OK(weir_read(t[2], result[1], sizeof result[1]));
    const uint32_t casts = fixture_count(g, WEIR_OP_CAST);
    weir_graph_free(g);
    weir_release(x);
    for (int i = 0; i < 7; i++)
        if (i != 1)
            weir_release(t[i]);
    weir_device_close(d);
    return casts;
}

CASE(updates_read_halves)
{
    static float want[2][PARTS], got[2][PARTS];

    for (int which = 0; which < UPDATES; which++)
        for (weir_dtype half = WEIR_F16; half <= WEIR_BF16; half++) {
            CHECK(casts_of_update(which, half, &apart, want) == 2);
            CHECK(casts_of_update(which, half, NULL, got) == 1);
            CHECK_BITS(got, want, sizeof got);
            CHECK(got[0][PARTS - 1] != 1);
        }
}
