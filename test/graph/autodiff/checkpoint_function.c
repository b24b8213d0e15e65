/* checkpoint_function.c - checkpoints: the bits of plain training in less memory, graph off and on;
 * nested, with mistakes, and with each allocation failing in turn. */
#include <stdlib.h>

#include "core/hash.h"
#include "graph/fixture.h"

/* ---- networks as chains of blocks ---- */

typedef enum net { MLP, DIGITS, RESIDUAL, NETS } net;
typedef enum way { PLAIN, EACH, SEQUENTIAL, NESTED, REGION, WAYS } way;

static const char *const net_name[NETS] = {"mlp", "digits", "residual"};
static const char *const way_name[WAYS] = {"plain", "each", "sequential", "nested",
                                             "region"};

enum { MOST = 12, BATCH = 8, SIDE = 8 };

typedef struct block {
    int          kind;
    weir_layer  *a, *b, *c, *d;
    weir_tensor *table;     /* a parameter that all blocks read */
} block;

typedef struct training {
    net          kind;
    way          how;
    int          n;
    block        block[MOST];
    weir_device *d;
    weir_model  *m;
    weir_layer  *head;
    weir_optim  *o;
    weir_tensor *x, *y, *loss, *table;
    weir_step   *step;
    uint64_t     bits;
} training;

enum { BLOCK_DENSE, BLOCK_CONV, BLOCK_RESIDUAL };

static weir_tensor *block_apply(const block *b, weir_tensor *x)
{
    if (b->kind == BLOCK_DENSE)
        return weir_tanh(weir_add(weir_apply(b->a, weir_relu(weir_mul(x, b->table))), x));
    weir_tensor *h = weir_relu(weir_apply(b->b, weir_apply(b->a, x)));
    if (b->kind == BLOCK_CONV)
        return weir_dropout(weir_mul(h, b->table), 0.3);
    return weir_relu(weir_add(weir_apply(b->d, weir_apply(b->c, h)), x));
}

static weir_status block_fn(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    out[0] = block_apply(ctx, in[0]);
    return out[0] ? WEIR_OK : weir_error_status();
}

/* Two blocks, the second one a checkpoint within. */
static weir_status nested_fn(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    block       *b = ctx;
    weir_tensor *h = block_apply(b, in[0]);
    return h ? weir_checkpoint(block_fn, b + 1, 1, &h, 1, out) : weir_error_status();
}

static weir_tensor *chain(training *t, weir_tensor *x)
{
    if (t->how == SEQUENTIAL) {
        weir_checkpoint_fn fn[MOST];
        void              *ctx[MOST];
        weir_tensor       *y;
        for (int i = 0; i < t->n; i++) {
            fn[i] = block_fn;
            ctx[i] = &t->block[i];
        }
        return weir_checkpoint_sequential(t->n, fn, ctx, 3, x, &y) == WEIR_OK ? y : NULL;
    }
    for (int i = 0; i < t->n && x; i += 1 + (t->how == NESTED)) {
        weir_tensor *y = NULL;
        if (t->how == PLAIN)
            y = block_apply(&t->block[i], x);
        else if (t->how == REGION)
            y = weir_region_begin(t->d) == WEIR_OK ? block_apply(&t->block[i], x) : NULL;
        else if (weir_checkpoint(t->how == NESTED ? nested_fn : block_fn, &t->block[i], 1, &x, 1,
                                 &y) != WEIR_OK)
            return NULL;
        if (t->how == REGION && weir_region_end(t->d) != WEIR_OK)
            return NULL;
        x = y;
    }
    return x;
}

static weir_status record(void *ctx)
{
    training    *t = ctx;
    weir_tensor *x = t->kind == MLP ? t->x : weir_concat(2, (weir_tensor *[]){t->x, t->x}, 1);
    weir_tensor *h = chain(t, x);

    if (t->kind != MLP)
        h = weir_flatten(h);
    t->loss = weir_keep(weir_cross_entropy(weir_apply(t->head, h), t->y));
    return t->loss ? weir_minimize(t->o, t->loss) : weir_error_status();
}

static bool make_block(training *t, block *b)
{
    const weir_conv2d_options same = {.pad = {1, 1}};

    b->kind = t->kind == MLP ? BLOCK_DENSE : t->kind == DIGITS ? BLOCK_CONV : BLOCK_RESIDUAL;
    b->table = t->table;
    if (t->kind == MLP) {
        b->a = weir_linear_new(t->m, "fc", 64, 64, true);
        return b->a != NULL;
    }
    b->a = weir_conv2d_new(t->m, "a", 4, 4, 3, &same, false);
    b->b = weir_batch_norm_new(t->m, "b", 4);
    b->c = weir_conv2d_new(t->m, "c", 4, 4, 3, &same, false);
    b->d = weir_batch_norm_new(t->m, "d", 4);
    return b->a && b->b && b->c && b->d;
}

static void training_close(training *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->o);
    weir_model_free(t->m);
    weir_release(t->table);
    weir_release(t->x);
    weir_release(t->y);
    weir_device_close(t->d);
}

static weir_status training_open(training *t, net kind, way how, int n, bool graph)
{
    *t = (training){.kind = kind, .how = how, .n = n};
    t->d = weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = 5});
    t->m = weir_model_new(t->d);
    t->table = t->m ? weir_param(t->d, weir_1d(WEIR_F32, 1), "table") : NULL;
    if (t->table && weir_write_fill(t->table, 1.1) == WEIR_OK) {
        bool ok = true;
        for (int i = 0; i < n && ok; i++)
            ok = make_block(t, &t->block[i]);
        t->head = weir_linear_new(t->m, "head", kind == MLP ? 64 : 4 * SIDE * SIDE, 10, true);
        t->o = weir_adam_new(t->d, 0.01, NULL);
        t->x = weir_input(t->d, kind == MLP ? weir_2d(WEIR_F32, BATCH, 64)
                                            : weir_4d(WEIR_F32, BATCH, 2, SIDE, SIDE));
        t->y = weir_input(t->d, weir_1d(WEIR_I32, BATCH));
        if (ok && t->head && t->o && t->x && t->y)
            t->step = weir_step_new(t->d, record, t, &(weir_step_options){.graph = graph});
    }
    if (t->step)
        return WEIR_OK;
    training_close(t);
    return weir_error_status();
}

static void mix(training *t, const weir_tensor *x)
{
    static float v[64 * 1024];

    if (CHECK(weir_tensor_bytes(x) <= sizeof v) && CHECK_OK(weir_read(x, v, weir_tensor_bytes(x))))
        t->bits = weir_hash_bytes(t->bits, v, weir_tensor_bytes(x));
}

static weir_status training_step(training *t, int number)
{
    float   x[BATCH * 2 * SIDE * SIDE], loss;
    int32_t y[BATCH];

    check_random = 1000 + (uint64_t)number;
    check_floats(x, weir_tensor_bytes(t->x) / sizeof *x, -1, 1);
    for (int i = 0; i < BATCH; i++)
        y[i] = (int32_t)check_int(0, 9);
    WEIR_TRY(weir_write(t->x, x, weir_tensor_bytes(t->x)));
    WEIR_TRY(weir_write(t->y, y, sizeof y));
    WEIR_TRY(weir_step_run(t->step));
    WEIR_TRY(weir_read(t->loss, &loss, sizeof loss));
    t->bits = weir_hash_bytes(t->bits, &loss, sizeof loss);
    return WEIR_OK;
}

/* Losses, parameters, running statistics, moments, and where the random stream is. */
static void training_bits(training *t)
{
    mix(t, t->table);
    for (size_t i = 0; i < weir_model_param_count(t->m); i++)
        mix(t, weir_model_param(t->m, i));
    for (size_t i = 0; i < weir_model_state_count(t->m); i++)
        mix(t, weir_model_state(t->m, i));
    for (size_t i = 0; i < weir_optim_state_count(t->o); i++)
        mix(t, weir_optim_state(t->o, i));
    t->bits = weir_hash_u64(t->bits, t->d->rng);
}

/* Returns a fingerprint of all bits after `steps` steps; 0 after a failure, which is reported.
 * *peak: bytes above what is resident (graph on: the arena). */
static uint64_t train(net kind, way how, int n, int steps, bool graph, size_t *peak)
{
    training    t;
    weir_memory m;
    bool        ok = true;

    if (!CHECK_OK(training_open(&t, kind, how, n, graph)))
        return 0;
    for (int i = 0; i < steps && ok; i++) {
        if (i == steps - 1)
            weir_device_reset_peak(t.d);
        ok = CHECK_OK(training_step(&t, i));
    }
    if (ok)
        training_bits(&t);
    weir_device_memory(t.d, &m);
    *peak = m.live_peak;
    weir_graph_stats stats;
    if (ok && graph && CHECK_OK(weir_graph_stats_of(weir_step_graph(t.step), &stats))) {
        *peak = stats.arena_bytes;
        if (how != PLAIN) {
            size_t measured;
            CHECK_OK(weir_graph_measure(weir_step_graph(t.step), &measured));
            CHECK(measured == stats.arena_bytes);
        }
    }
    training_close(&t);
    return ok ? t.bits : 0;
}

CASE(bits_of_plain_training)
{
    for (net kind = MLP; kind < NETS; kind++)
        for (int graph = 0; graph < 2; graph++) {
            size_t         peak[WAYS];
            const uint64_t want = train(kind, PLAIN, 6, 20, graph, &peak[PLAIN]);
            CHECK(want != 0);
            for (way how = EACH; how < WAYS; how++) {
                if (how == REGION && !graph)
                    continue;
                CHECK(train(kind, how, 6, 20, graph, &peak[how]) == want);
                CHECK(peak[how] < peak[PLAIN]);
                printf("    %s, %s, graph %s: peak %zu, plain %zu\n", net_name[kind],
                       way_name[how], graph ? "on" : "off", peak[how], peak[PLAIN]);
            }
        }
}

/* A region left open ends with its graph; one inside another belongs to it. */
CASE(regions_and_their_ends)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 8, NULL);

    CHECK(weir_region_begin(NULL) != WEIR_OK && weir_region_end(NULL) != WEIR_OK);
    CHECK_STATUS(weir_region_end(d), WEIR_ERR_STATE);
    CHECK_STATUS(weir_region_begin(d), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "weir_checkpoint");
    for (int round = 0; round < 2; round++) {
        weir_graph *g = weir_graph_begin(d);
        CHECK_STATUS(weir_region_end(d), WEIR_ERR_STATE);
        CHECK_OK(weir_region_begin(d));
        CHECK_OK(weir_region_begin(d));
        weir_tensor *y = weir_keep(weir_exp(weir_sin(x)));
        CHECK_OK(weir_region_end(d));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
        CHECK(fixture_value(y) == 1);
        weir_graph_free(g);
    }
    weir_release(x);
    weir_device_close(d);
}

/* Recomputing dropped values may need more memory than they take: here four images at the end of
 * the backward pass. If the step fits the budget without the region, nothing is dropped. */
CASE(regions_keep_the_budget)
{
    weir_device *const d = fixture_open();
    const weir_desc    desc = weir_2d(WEIR_F32, 32, 32);
    weir_tensor *const x = weir_input(d, desc), *const w = weir_param(d, desc, "w"),
                *const u = weir_param(d, desc, "u");
    weir_graph_stats   s;

    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_write_fill(w, 1));
    CHECK_OK(weir_write_fill(u, 1));
    for (int budget = 0; budget < 2; budget++) {
        const weir_pair   *pairs;
        size_t             n, arena;
        weir_graph *const  g = weir_graph_begin(d);
        weir_tensor *const same[] = {x, x, x, x};
        CHECK_OK(weir_region_begin(d));
        weir_tensor *h = weir_sum(weir_cumsum(weir_stack(4, same, 0), 1, false), 1, false);
        h = weir_mul(h, w);
        CHECK_OK(weir_region_end(d));
        CHECK_OK(weir_backward(weir_mean(weir_matmul(h, u), 0, false), &pairs, &n));
        for (size_t i = 0; i < n; i++)
            CHECK(weir_keep(pairs[i].grad) != NULL);
        CHECK_OK(weir_graph_end(g, &(weir_plan_options){.budget = budget ? "100%" : NULL}));
        CHECK_OK(weir_graph_stats_of(g, &s));
        CHECK((s.recomputed > 0) == !budget);
        CHECK(!budget || s.planned_peak_bytes <= s.budget_bytes);
        CHECK_OK(weir_graph_measure(g, &arena));
        CHECK(arena == s.arena_bytes);
        weir_graph_free(g);
    }
    weir_release(x);
    weir_release(w);
    weir_release(u);
    weir_device_close(d);
}

/* ---- memory ---- */

enum { WIDTH = 4096, SINES = 16, PART = 4 };

static weir_status sines(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *x = in[0];

    for (int i = 0; i < *(const int *)ctx && x; i++)
        x = weir_sin(x);
    out[0] = x;
    return x ? WEIR_OK : weir_error_status();
}

/* The most tensors of WIDTH alive at once in a step of SINES sines, in checkpoints of `part` (0:
 * none). *dw gets an element of the gradient. */
static double sine_tensors(int part, bool graph, float *dw)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, WIDTH, NULL), *x = w, *grad;
    weir_graph  *g = graph ? weir_graph_begin(d) : NULL;
    int          n = part ? part : 1;
    weir_memory  m;
    double       bytes;

    CHECK_OK(weir_write_fill(w, 0.7));
    weir_device_memory(d, &m);
    const size_t before = m.live;
    weir_device_reset_peak(d);
    for (int i = 0; i < SINES; i += n) {
        weir_tensor *y = NULL;
        CHECK_OK(weir_scope_begin(d));
        CHECK_OK(part ? weir_checkpoint(sines, &n, 1, &x, 1, &y) : sines(&n, &x, &y));
        weir_retain(y);
        CHECK_OK(weir_scope_end(d));
        weir_release(i > 0 ? x : NULL);
        x = y;
    }
    weir_tensor *const loss = weir_sum(x, 0, false);
    weir_release(x);
    CHECK_OK(weir_gradients(loss, 1, &w, &grad));
    CHECK(weir_keep(grad) != NULL);
    if (graph) {
        weir_graph_stats stats;
        fixture_finish(g, OPTIONS_WITHOUT("fuse"));
        CHECK_OK(weir_graph_stats_of(g, &stats));
        bytes = (double)stats.lower_bound_bytes;
    } else {
        weir_device_memory(d, &m);
        bytes = (double)(m.live_peak - before);
    }
    float v[WIDTH];
    CHECK_OK(weir_read(grad, v, sizeof v));
    *dw = v[WIDTH - 1];
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
    return bytes / (WIDTH * sizeof(float));
}

/* Without checkpoints, the argument of every sine is kept. With them: the argument of each part,
 * and those within one part; besides, the gradients of one sine's result and argument, and the
 * factor between them. */
CASE(live_bytes_are_as_expected)
{
    for (int graph = 0; graph < 2; graph++) {
        float        want, dw;
        const double plain = sine_tensors(0, graph, &want), parts = sine_tensors(PART, graph, &dw);
        CHECK_BITS(&dw, &want, sizeof dw);
        printf("    graph %s: %d sines hold %.2f tensors at most, in parts of %d %.2f\n",
               graph ? "on" : "off", SINES, plain, PART, parts);
        CHECK(plain >= SINES - 1 && plain < SINES + 4);
        CHECK(parts >= SINES / PART - 1 + PART - 1 && parts < SINES / PART - 1 + PART + 4);
    }
}

/* ---- passes ---- */

/* Equal calls are merged within a run, never across: the sines of the last part run twice. */
CASE(second_runs_are_not_merged)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, 3, (float[]){1, 2, 3}), *y, *grad;
    weir_graph  *g = weir_graph_begin(d);

    CHECK_OK(weir_checkpoint(sines, &(int){4}, 1, &w, 1, &y));
    CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &w, &grad));
    weir_keep(y);
    weir_keep(grad);
    CHECK_OK(weir_graph_end(g, OPTIONS_WITHOUT("fuse")));
    CHECK(fixture_count(g, WEIR_OP_SIN) == 4 + 3);      /* the last one is not recomputed */
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
}

/* ---- borders ---- */

static weir_status pass_through(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    weir_tensor *const y = weir_exp(in[0]);

    (void)ctx;
    out[0] = in[0];
    out[1] = out[2] = y;
    out[3] = weir_mul(y, in[1]);
    return out[3] ? WEIR_OK : weir_error_status();
}

/* A function that returns its inputs and one result twice; the same tensor is passed twice, and is
 * also used outside the function. */
static void borders(bool graph, bool plain, float grad[2])
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, 2, (float[]){0.3f, 0.7f}), *out[4], *dw;
    weir_graph  *g = graph ? weir_graph_begin(d) : NULL;
    weir_tensor *x = weir_sin(w), *const in[] = {x, x};

    CHECK_OK(plain ? pass_through(NULL, in, out) : weir_checkpoint(pass_through, NULL, 2, in, 4,
                                                                   out));
    weir_tensor *sum = weir_tanh(x);
    for (int i = 0; i < 4; i++)
        sum = weir_add(weir_mul(out[i], sum), weir_mul(out[3 - i], w));
    CHECK_OK(weir_gradients(weir_sum(sum, 0, false), 1, &w, &dw));
    CHECK(weir_keep(dw) != NULL);
    if (g)
        fixture_finish(g, NULL);
    CHECK_OK(weir_read(dw, grad, 2 * sizeof *grad));
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
}

CASE(values_across_the_border)
{
    float want[2], got[2];

    borders(false, true, want);
    for (int graph = 0; graph < 2; graph++) {
        borders(graph, false, got);
        CHECK_BITS(got, want, sizeof got);
    }
}

/* ---- mistakes ---- */

typedef struct wrong {
    int          fail_at, calls;    /* the call that goes wrong */
    int          how;
    weir_tensor *outside;
} wrong;

static weir_status wrong_fn(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    wrong *const w = ctx;

    out[0] = weir_sin(w->outside ? w->outside : in[0]);
    if (!out[0])
        return weir_error_status();
    if (++w->calls != w->fail_at)
        return WEIR_OK;
    if (w->how == 0)
        return weir_fail(WEIR_ERR_INVALID, "as ordered");
    out[0] = w->how == 1 ? NULL : w->how == 2 ? weir_sum(out[0], 0, false)
                                              : weir_dropout(out[0], 0.5);
    return WEIR_OK;
}

/* A failure in either run of the function is returned by the call; the next call works. */
CASE(mistakes_in_the_function)
{
    static const char *const text[] = {"as ordered", "left result 0 of 1 empty", "called again",
                                       "different random numbers"};

    for (int graph = 0; graph < 2; graph++)
        for (int i = 0; i < 8; i++) {
            weir_device *d = fixture_open();
            weir_tensor *w = fixture_param(d, 2, (float[]){1, 2}), *y, *grad;
            weir_graph  *g = graph ? weir_graph_begin(d) : NULL;
            wrong        c = {.fail_at = 1 + i / 4, .how = i % 4};
            if (i > 1)         /* the second run must match the first */
                c.fail_at = 2;
            weir_status status = weir_checkpoint(wrong_fn, &c, 1, &w, 1, &y);
            if (i != 0 && i != 1) {
                CHECK_OK(status);
                status = weir_gradients(weir_sum(y, 0, false), 1, &w, &grad);
            }
            CHECK(status != WEIR_OK);
            CHECK_TEXT(weir_error(), text[i % 4]);
            c.calls = 10;
            CHECK_OK(weir_checkpoint(wrong_fn, &c, 1, &w, 1, &y));
            CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &w, &grad));
            CHECK(weir_keep(grad) != NULL);
            if (g)
                fixture_finish(g, NULL);
            CHECK_NEAR(fixture_value(grad), cosf(1), 1e-6);
            weir_graph_free(g);
            weir_release(w);
            weir_device_close(d);
        }
}

CASE(mistakes_of_the_call)
{
    weir_device *d = fixture_open();
    weir_tensor *w = fixture_param(d, 2, (float[]){1, 2}), *y, *dx;
    weir_tensor *x = weir_exp(w), *many[9] = {w, w, w, w, w, w, w, w, w};
    wrong        c = {.outside = x};
    size_t       n = 1;

    CHECK_STATUS(weir_checkpoint(NULL, NULL, 1, &w, 1, &y), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_checkpoint(sines, NULL, 9, many, 1, &y), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "9 inputs");
    CHECK_STATUS(weir_checkpoint(wrong_fn, &c, 1, &w, 1, &y), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "reads a result of exp");
    CHECK_STATUS(weir_checkpoint_sequential(2, (weir_checkpoint_fn[]){sines, sines}, NULL, 3, w,
                                            &y), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "3 segments");
    CHECK_OK(weir_checkpoint(sines, &(int){2}, 1, &x, 1, &y));
    CHECK_STATUS(weir_vjp(y, x, &n, &dx), WEIR_ERR_INVALID);
    CHECK_OK(weir_vjp_from(1, &y, &x, 1, &x, &dx));
    CHECK_NEAR(fixture_value(dx), expf(1) * cosf(sinf(expf(1))) * cosf(expf(1)), 1e-5);
    CHECK_STATUS(weir_vjp_from(1, &y, &x, 1, &x, &dx), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "gradient of checkpoint");
    weir_release(w);
    weir_device_close(d);
}

/* ---- short of memory ---- */

static weir_status job(bool graph, uint64_t *bits)
{
    training    t;
    weir_status status = training_open(&t, DIGITS, NESTED, 4, graph);

    *bits = 0;
    if (status != WEIR_OK)
        return status;
    status = training_step(&t, 0);
    weir_mem_fail_nth(-1, false);
    if (status == WEIR_OK) {
        training_bits(&t);
        *bits = t.bits;
    }
    training_close(&t);
    return status;
}

CASE(every_allocation_fails_in_turn)
{
    const bool full = check_full();

    for (int graph = 0; graph < 2; graph++) {
        uint64_t want, bits;
        CHECK_OK(job(graph, &want));
        const uint64_t before = weir_mem_calls();
        CHECK_OK(job(graph, &bits));
        const int64_t points = (int64_t)(weir_mem_calls() - before);
        const int64_t alive = weir_mem_alive();
        for (int64_t n = 0, bad = 0; n < points && bad < 5; n += full ? 1 : 1 + points / 200) {
            weir_mem_fail_nth(n, false);
            const weir_status status = job(graph, &bits);
            weir_mem_fail_nth(-1, false);
            if (!CHECK(status == WEIR_OK ? bits == want : status == WEIR_ERR_NOMEM)) {
                printf("    allocation %lld of %lld, graph %d: %s: %s\n", (long long)n,
                       (long long)points, graph, weir_status_text(status), weir_error());
                bad++;
            }
            bad += !CHECK(weir_mem_alive() == alive);
        }
    }
}
