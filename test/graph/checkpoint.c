/* checkpoint.c - checkpoints: the bits of plain training in less memory, graph off and on; nested,
 * with mistakes, and with each allocation failing in turn. */
#include <stdlib.h>

#include "core/hash.h"
#include "lab.h"

/* ---- networks as chains of blocks ---- */

typedef enum net { MLP, DIGITS, RESIDUAL, NETS } net;
typedef enum way { PLAIN, EACH, SEQUENTIAL, NESTED, WAYS } way;

static const char *const net_name[NETS] = {"mlp", "digits", "residual"};
static const char *const way_name[WAYS] = {"plain", "each", "sequential", "nested"};

enum { MOST = 12, BATCH = 8, SIDE = 8 };

typedef struct block {
    int          kind;
    weir_layer  *a, *b, *c, *d;
    weir_tensor *table;     /* a parameter that all blocks read */
} block;

typedef struct trial {
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
} trial;

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

static weir_tensor *chain(trial *t, weir_tensor *x)
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
        else if (weir_checkpoint(t->how == NESTED ? nested_fn : block_fn, &t->block[i], 1, &x, 1,
                                 &y) != WEIR_OK)
            return NULL;
        x = y;
    }
    return x;
}

static weir_status record(void *ctx)
{
    trial       *t = ctx;
    weir_tensor *x = t->kind == MLP ? t->x : weir_concat(2, (weir_tensor *[]){t->x, t->x}, 1);
    weir_tensor *h = chain(t, x);

    if (t->kind != MLP)
        h = weir_flatten(h);
    t->loss = weir_keep(weir_cross_entropy(weir_apply(t->head, h), t->y));
    return t->loss ? weir_minimize(t->o, t->loss) : weir_error_status();
}

static void make_block(trial *t, block *b)
{
    const weir_conv2d_options same = {.pad = {1, 1}};

    b->kind = t->kind == MLP ? BLOCK_DENSE : t->kind == DIGITS ? BLOCK_CONV : BLOCK_RESIDUAL;
    b->table = t->table;
    if (t->kind == MLP) {
        b->a = weir_linear_new(t->m, "fc", 64, 64, true);
        return;
    }
    b->a = weir_conv2d_new(t->m, "a", 4, 4, 3, &same, false);
    b->b = weir_batch_norm_new(t->m, "b", 4);
    b->c = weir_conv2d_new(t->m, "c", 4, 4, 3, &same, false);
    b->d = weir_batch_norm_new(t->m, "d", 4);
}

static void trial_close(trial *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->o);
    weir_model_free(t->m);
    weir_release(t->table);
    weir_release(t->x);
    weir_release(t->y);
    weir_device_close(t->d);
}

static weir_status trial_open(trial *t, net kind, way how, int n, bool graph)
{
    *t = (trial){.kind = kind, .how = how, .n = n};
    t->d = weir_device_open("cpu", &(weir_device_options){.threads = 1, .seed = 5});
    t->m = weir_model_new(t->d);
    t->table = t->m ? weir_param(t->d, weir_1d(WEIR_F32, 1), "table") : NULL;
    if (t->table && weir_write_fill(t->table, 1.1) == WEIR_OK) {
        for (int i = 0; i < n; i++)
            make_block(t, &t->block[i]);
        t->head = weir_linear_new(t->m, "head", kind == MLP ? 64 : 4 * SIDE * SIDE, 10, true);
        t->o = weir_adam_new(t->d, 0.01, NULL);
        t->x = weir_input(t->d, kind == MLP ? weir_2d(WEIR_F32, BATCH, 64)
                                            : weir_4d(WEIR_F32, BATCH, 2, SIDE, SIDE));
        t->y = weir_input(t->d, weir_1d(WEIR_I32, BATCH));
        if (t->head && t->o && t->x && t->y)
            t->step = weir_step_new(t->d, record, t, &(weir_step_options){.graph = graph});
    }
    if (t->step)
        return WEIR_OK;
    trial_close(t);
    return weir_error_status();
}

static void mix(trial *t, const weir_tensor *x)
{
    static float v[64 * 1024];

    if (CHECK(weir_tensor_bytes(x) <= sizeof v) && CHECK_OK(weir_read(x, v, weir_tensor_bytes(x))))
        t->bits = weir_hash_bytes(t->bits, v, weir_tensor_bytes(x));
}

static weir_status trial_step(trial *t, int number)
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
static void trial_bits(trial *t)
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

/* The bits after `steps`; 0 after a failure, which is reported. *peak: bytes above what is resident
 * (graph on: the arena). */
static uint64_t train(net kind, way how, int n, int steps, bool graph, size_t *peak)
{
    trial       t;
    weir_memory m;
    bool        ok = true;

    if (!CHECK_OK(trial_open(&t, kind, how, n, graph)))
        return 0;
    for (int i = 0; i < steps && ok; i++) {
        if (i == steps - 1)
            weir_device_reset_peak(t.d);
        ok = CHECK_OK(trial_step(&t, i));
    }
    if (ok)
        trial_bits(&t);
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
    trial_close(&t);
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
                CHECK(train(kind, how, 6, 20, graph, &peak[how]) == want);
                if (!CHECK(peak[how] < peak[PLAIN]))
                    printf("    %s, %s, graph %d: peak %zu, plain %zu\n", net_name[kind],
                           way_name[how], graph, peak[how], peak[PLAIN]);
            }
        }
}
