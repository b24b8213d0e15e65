/* card_work.h - small programs on a card: opening, planning, captured runs, offloading, libraries.
 *
 * Each returns numbers or the first failure. Programs that change no state may try each step again
 * after a failure (bench.again), as a user may once a fault of the card has passed. */
#ifndef WEIR_TEST_DEVICE_CUDA_CARD_WORK_H
#define WEIR_TEST_DEVICE_CUDA_CARD_WORK_H

#include "check.h"
#include "weir.h"

enum { ROWS = 8, WIDTH = 24, CLASSES = 3, STEPS = 4, IMAGES = 2, CHANNELS = 4, SIDE = 6 };

/* Everything created so far; freed in every case. */
typedef struct bench {
    bool         again;         /* a failed step is tried once more */
    weir_status  failed;        /* of the first failure */
    char         said[400];     /* its sentence */
    weir_device *d;
    weir_model  *net;
    weir_optim  *sgd;
    weir_tensor *x, *y, *w, *bias;
    weir_graph  *step;
} bench;

/* A use of the card: returns losses or a failure. */
typedef weir_status (*work_fn)(bench *b, float out[STEPS]);

static inline weir_status noted(bench *b, weir_status s)
{
    if (s != WEIR_OK && b->failed == WEIR_OK) {
        b->failed = s;
        snprintf(b->said, sizeof b->said, "%s", weir_error());
    }
    return s;
}

/* Takes one step of a program that may be taken twice. */
#define STEP(b, call)                                                                              \
    do {                                                                                           \
        weir_status s_ = noted((b), (call));                                                       \
        if (s_ != WEIR_OK && (b)->again)                                                           \
            s_ = noted((b), (call));                                                               \
        if (s_ != WEIR_OK)                                                                         \
            return s_;                                                                             \
    } while (0)

/* ---- parts ---- */

static inline weir_status card_of(bench *b)
{
    return b->d || (b->d = weir_device_open("cuda", NULL)) ? WEIR_OK : weir_error_status();
}

static inline weir_status input_of(bench *b, weir_desc desc, weir_tensor **t)
{
    return *t || (*t = weir_input(b->d, desc)) ? WEIR_OK : weir_error_status();
}

static inline weir_status write_floats(weir_tensor *t, size_t n)
{
    float at[WIDTH * WIDTH];

    for (size_t i = 0; i < n; i++)
        at[i] = (float)(i * 37 % 101) / 101;
    return weir_write(t, at, n * sizeof *at);
}

/* Integers of -2 to 2: their sums are exact, so the bits depend on no order and no library. */
static inline weir_status write_integers(weir_tensor *t, size_t n)
{
    float at[IMAGES * CHANNELS * SIDE * SIDE];

    for (size_t i = 0; i < n; i++)
        at[i] = (float)(i * 7 % 5) - 2;
    return weir_write(t, at, n * sizeof *at);
}

static inline weir_status write_classes(weir_tensor *t)
{
    int32_t y[ROWS];

    for (int i = 0; i < ROWS; i++)
        y[i] = i % CLASSES;
    return weir_write(t, y, sizeof y);
}

/* The card, a batch and its classes. */
static inline weir_status open_bench(bench *b)
{
    STEP(b, card_of(b));
    STEP(b, input_of(b, weir_2d(WEIR_F32, ROWS, WIDTH), &b->x));
    STEP(b, input_of(b, weir_1d(WEIR_I32, ROWS), &b->y));
    STEP(b, write_floats(b->x, ROWS * WIDTH));
    STEP(b, write_classes(b->y));
    return WEIR_OK;
}

/* Begins to record in the place of what was recorded before. */
static inline weir_status record_of(bench *b)
{
    weir_graph_free(b->step);
    return (b->step = weir_graph_begin(b->d)) ? WEIR_OK : weir_error_status();
}

static inline weir_status run_and_read(bench *b, weir_tensor *t, int from, float out[STEPS])
{
    for (int i = from; i < STEPS; i++) {
        STEP(b, weir_graph_run(b->step));
        STEP(b, weir_read(t, &out[i], sizeof out[i]));
    }
    return WEIR_OK;
}

/* ---- the sum of a product: with the graph off, and by a graph ---- */

static inline weir_tensor *product_sum(const bench *b)
{
    return weir_sum(weir_matmul_t(b->x, b->x, false, true), 0, false);
}

static inline weir_status product_now(bench *b, float *out)
{
    WEIR_TRY(weir_scope_begin(b->d));
    weir_tensor *const y = product_sum(b);
    const weir_status  s = y ? weir_read(y, out, sizeof *out) : weir_error_status();
    weir_scope_end(b->d);
    return s;
}

static inline weir_status product_graph(bench *b, weir_tensor **y)
{
    WEIR_TRY(record_of(b));
    if (!(*y = weir_keep(product_sum(b))))
        return weir_error_status();
    return weir_graph_end(b->step, NULL);
}

static inline weir_status products(bench *b, float out[STEPS])
{
    weir_tensor *y = NULL;

    WEIR_TRY(open_bench(b));
    STEP(b, product_now(b, &out[0]));
    STEP(b, product_graph(b, &y));
    return run_and_read(b, y, 1, out);
}

/* ---- a generated kernel, compiled in every process: there is no folder to keep it in ---- */

static inline weir_status generated_now(bench *b, float out[STEPS])
{
    WEIR_TRY(weir_scope_begin(b->d));
    weir_tensor *const y = weir_sum(weir_relu(b->x), 0, false);
    const weir_status  s = y ? weir_read(y, &out[0], sizeof out[0]) : weir_error_status();
    weir_scope_end(b->d);
    return s;
}

static inline weir_status compiling(bench *b, float out[STEPS])
{
    memset(out, 0, STEPS * sizeof *out);
    setenv("WEIR_CACHE_DIR", "/dev/null/kernels", 1);
    weir_status s = open_bench(b);
    for (int tries = b->again ? 2 : 1; s == WEIR_OK && tries > 0; tries--) {
        s = noted(b, generated_now(b, out));
        if (s == WEIR_OK)
            break;
        s = tries > 1 ? WEIR_OK : s;
    }
    unsetenv("WEIR_CACHE_DIR");
    return s;
}

/* ---- a convolution, random numbers, a product and their gradients ---- */

static inline weir_status gradient_graph(bench *b, weir_tensor **total)
{
    weir_tensor *grad[2] = {NULL};

    WEIR_TRY(record_of(b));
    weir_tensor *const y = weir_relu(weir_conv2d(b->x, b->w, b->bias, &(weir_conv2d_options){
                                                                          .pad = {1, 1}}));
    weir_tensor *const z = weir_flatten(weir_dropout(y, 0.5));
    weir_tensor *const loss = weir_sum(weir_matmul_t(z, z, false, true), 0, false);
    WEIR_TRY(weir_gradients(loss, 2, (weir_tensor *[]){b->w, b->bias}, grad));
    *total = weir_keep(weir_add(loss, weir_add(weir_sum(grad[0], 0, false),
                                               weir_sum(grad[1], 0, false))));
    return *total ? weir_graph_end(b->step, NULL) : weir_error_status();
}

static inline weir_status convolution(bench *b, float out[STEPS])
{
    weir_tensor *total = NULL;

    STEP(b, card_of(b));
    STEP(b, input_of(b, weir_4d(WEIR_F32, IMAGES, CHANNELS, SIDE, SIDE), &b->x));
    STEP(b, input_of(b, weir_4d(WEIR_F32, CHANNELS, CHANNELS, 3, 3), &b->w));
    STEP(b, input_of(b, weir_1d(WEIR_F32, CHANNELS), &b->bias));
    STEP(b, write_integers(b->x, IMAGES * CHANNELS * SIDE * SIDE));
    STEP(b, write_integers(b->w, CHANNELS * CHANNELS * 9));
    STEP(b, write_integers(b->bias, CHANNELS));
    STEP(b, weir_tensor_set_trainable(b->w, true));
    STEP(b, weir_tensor_set_trainable(b->bias, true));
    STEP(b, gradient_graph(b, &total));
    return run_and_read(b, total, 0, out);
}

/* The same, with the engines timed. */
static inline weir_status autotuned(bench *b, float out[STEPS])
{
    setenv("WEIR_AUTOTUNE", "1", 1);
    const weir_status s = convolution(b, out);
    unsetenv("WEIR_AUTOTUNE");
    return s;
}

/* ---- networks ---- */

/* In recorded order: in the order of least peak one node makes it, and nothing else can leave. */
static const weir_plan_options narrow = {.budget = "98%", .policy = "capuchin:passive",
                                         .disable = "order"};

/* A chain of layers and a gradient of it, with values that leave the card meanwhile. */
static inline weir_status chain_graph(bench *b, weir_tensor **total)
{
    enum { LAYERS = 12 };
    weir_tensor *grad;

    WEIR_TRY(record_of(b));
    weir_tensor *h = b->x;
    for (int i = 0; i < LAYERS; i++)
        h = weir_tanh(weir_matmul_t(h, b->w, false, false));
    weir_tensor *const loss = weir_sum(h, 0, false);
    WEIR_TRY(weir_gradients(loss, 1, &b->w, &grad));
    *total = weir_keep(weir_add(loss, weir_sum(grad, 0, false)));
    return *total ? weir_graph_end(b->step, &narrow) : weir_error_status();
}

/* open_bench and chain_graph, with its weights. */
static inline weir_status offload_graph(bench *b, weir_tensor **total)
{
    WEIR_TRY(open_bench(b));
    STEP(b, input_of(b, weir_2d(WEIR_F32, WIDTH, WIDTH), &b->w));
    STEP(b, write_floats(b->w, WIDTH * WIDTH));
    STEP(b, weir_tensor_set_trainable(b->w, true));
    STEP(b, chain_graph(b, total));
    return WEIR_OK;
}

static inline weir_status offloading(bench *b, float out[STEPS])
{
    weir_tensor *total = NULL;

    WEIR_TRY(offload_graph(b, &total));
    return run_and_read(b, total, 0, out);
}

/* Training: a failed step may have changed parameters, so none is taken twice. */
static inline weir_status train(bench *b, const weir_plan_options *options, float out[STEPS])
{
    weir_layer *mlp;

    b->again = false;
    WEIR_TRY(open_bench(b));
    if (!(b->net = weir_model_new(b->d)) ||
        !(mlp = weir_mlp_new(b->net, 5, (int64_t[]){WIDTH, 64, 48, 32, CLASSES})) ||
        !(b->sgd = weir_sgd_new(b->d, 0.3, &(weir_sgd_options){.momentum = 0.9})) ||
        !(b->step = weir_graph_begin(b->d)))
        return noted(b, weir_error_status());
    weir_tensor *const loss = weir_keep(weir_cross_entropy(weir_apply(mlp, b->x), b->y));
    STEP(b, weir_minimize(b->sgd, loss));
    STEP(b, weir_graph_end(b->step, options));
    return run_and_read(b, loss, 0, out);
}

static inline weir_status training(bench *b, float out[STEPS])
{
    return train(b, NULL, out);
}

static inline weir_status swapping(bench *b, float out[STEPS])
{
    return train(b, &narrow, out);
}

/* The same, with all offloaded values in the file. */
static inline weir_status spilling(bench *b, float out[STEPS])
{
    setenv("WEIR_PINNED", "0", 1);
    const weir_status s = swapping(b, out);
    unsetenv("WEIR_PINNED");
    return s;
}

/* ---- running one ---- */

static inline void close_bench(bench *b)
{
    weir_graph_free(b->step);
    weir_optim_free(b->sgd);
    weir_model_free(b->net);
    weir_release(b->x);
    weir_release(b->y);
    weir_release(b->w);
    weir_release(b->bias);
    weir_device_close(b->d);
}

static inline weir_status use_card(work_fn work, bool again, bench *b, float out[STEPS])
{
    *b = (bench){.again = again};
    const weir_status s = work(b, out);

    close_bench(b);
    return s;
}

#endif
