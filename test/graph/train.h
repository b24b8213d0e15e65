/* train.h - a network in training, graph off or on, and a fingerprint of everything it holds. */
#ifndef WEIR_TEST_GRAPH_TRAIN_H
#define WEIR_TEST_GRAPH_TRAIN_H

#include "check.h"
#include "core/hash.h"
#include "core/mem.h"
#include "weir.h"

/* POOLED: a convolution, ReLU and max-pooling on large images: what the mask pass is for. */
typedef enum train_net {
    TRAIN_MLP, TRAIN_DIGITS, TRAIN_LENET, TRAIN_RESNET18, TRAIN_POOLED, TRAIN_NETS
} train_net;

static const char *const train_name[TRAIN_NETS] = {"mlp", "digits cnn", "lenet", "resnet18",
                                                   "pooled"};

typedef struct train {
    train_net    net;
    weir_device *d;
    weir_model  *m;
    weir_layer  *layer, *head;
    weir_optim  *o;
    weir_tensor *x, *y, *loss;
    weir_step   *step;
    uint64_t     fingerprint;       /* of all losses so far */
} train;

/* Images of ResNet are side x side. */
static inline weir_desc train_desc(train_net net, int64_t batch, int64_t side)
{
    switch (net) {
    case TRAIN_DIGITS:   return weir_4d(WEIR_F32, batch, 1, 8, 8);
    case TRAIN_LENET:    return weir_4d(WEIR_F32, batch, 1, 28, 28);
    case TRAIN_RESNET18: return weir_4d(WEIR_F32, batch, 3, side, side);
    case TRAIN_POOLED:   return weir_4d(WEIR_F32, batch, 3, 64, 64);
    default:             return weir_2d(WEIR_F32, batch, 20);
    }
}

static inline weir_layer *train_layer(train *t)
{
    switch (t->net) {
    case TRAIN_DIGITS:   return weir_digits_cnn_new(t->m, 10);
    case TRAIN_LENET:    return weir_lenet_new(t->m, 10);
    case TRAIN_RESNET18: return weir_resnet_new(t->m, 18, 10, true);
    case TRAIN_POOLED:
        t->head = weir_linear_new(t->m, "head", 16 * 16 * 16, 10, true);
        return weir_conv2d_new(t->m, "conv", 3, 16, 3, &(weir_conv2d_options){.pad = {1, 1}}, true);
    default: return weir_mlp_new(t->m, 4, (const int64_t[]){20, 32, 16, 10});
    }
}

static inline weir_tensor *train_logits(train *t)
{
    weir_tensor *h = weir_apply(t->layer, t->x);
    if (t->net != TRAIN_POOLED)
        return h;
    h = weir_max_pool2d(weir_relu(h), &(weir_pool2d_options){.kernel = {4, 4}});
    return weir_apply(t->head, weir_flatten(h));
}

static inline weir_status train_record(void *ctx)
{
    train *t = ctx;
    t->loss = weir_keep(weir_cross_entropy(train_logits(t), t->y));
    return t->loss ? weir_minimize(t->o, t->loss) : weir_error_status();
}

static inline void train_close(train *t)
{
    weir_step_free(t->step);
    weir_optim_free(t->o);
    weir_model_free(t->m);
    weir_release(t->x);
    weir_release(t->y);
    weir_device_close(t->d);
}

/* Adam for the MLP, else SGD with momentum and weight decay. A failure leaves nothing behind. */
static inline weir_status train_open(train *t, train_net net, int64_t batch, int64_t side,
                                     const weir_step_options *how)
{
    *t = (train){.net = net};
    /* Large kernels on several threads crawl where other programs share the cores. */
    t->d = weir_device_open(check_device(), &(weir_device_options){
                                       .threads = net == TRAIN_RESNET18 ? 1 : 2, .seed = 5});
    t->m = weir_model_new(t->d);
    t->layer = t->m ? train_layer(t) : NULL;
    if (t->layer)
        t->o = net == TRAIN_MLP
                   ? weir_adam_new(t->d, 0.01, NULL)
                   : weir_sgd_new(t->d, 0.01, &(weir_sgd_options){.momentum = 0.9,
                                                                  .weight_decay = 1e-4});
    if (t->o)
        t->x = weir_input(t->d, train_desc(net, batch, side));
    if (t->x)
        t->y = weir_input(t->d, weir_1d(WEIR_I32, batch));
    if (t->y)
        t->step = weir_step_new(t->d, train_record, t, how);
    if (t->step)
        return WEIR_OK;
    train_close(t);
    return weir_error_status();
}

/* New data, one step; the loss goes into the fingerprint. */
static inline weir_status train_step(train *t, int number)
{
    float   x[16 * 3 * 64 * 64];
    int32_t y[64];
    float   loss;

    if (!CHECK(weir_tensor_bytes(t->x) <= sizeof x && weir_tensor_bytes(t->y) <= sizeof y))
        return WEIR_ERR_INVALID;
    check_random = 1000 + (uint64_t)number;
    check_floats(x, weir_tensor_bytes(t->x) / sizeof *x, -1, 1);
    for (int64_t i = 0; i < weir_tensor_desc(t->y).dim[0]; i++)
        y[i] = (int32_t)check_int(0, 9);
    WEIR_TRY(weir_write(t->x, x, weir_tensor_bytes(t->x)));
    WEIR_TRY(weir_write(t->y, y, weir_tensor_bytes(t->y)));
    WEIR_TRY(weir_step_run(t->step));
    WEIR_TRY(weir_read(t->loss, &loss, sizeof loss));
    t->fingerprint = weir_hash_bytes(t->fingerprint, &loss, sizeof loss);
    return WEIR_OK;
}

static inline uint64_t train_hash(uint64_t h, const weir_tensor *t)
{
    const size_t bytes = weir_tensor_bytes(t);
    void        *data = weir_host_alloc(bytes + 1);
    if (CHECK(data != NULL) && CHECK_OK(weir_read(t, data, bytes)))
        h = weir_hash_bytes(h, data, bytes);
    weir_host_free(data);
    return h;
}

/* Every bit of parameters, running statistics, optimiser state, and the losses. */
static inline uint64_t train_bits(const train *t)
{
    uint64_t h = t->fingerprint;
    for (size_t i = 0; i < weir_model_param_count(t->m); i++)
        h = train_hash(h, weir_model_param(t->m, i));
    for (size_t i = 0; i < weir_model_state_count(t->m); i++)
        h = train_hash(h, weir_model_state(t->m, i));
    for (size_t i = 0; i < weir_optim_state_count(t->o); i++)
        h = train_hash(h, weir_optim_state(t->o, i));
    return h;
}

/* `steps` steps of a fresh network; 0 after a failure, which is reported. */
static inline uint64_t train_run(train_net net, int64_t batch, int64_t side, int steps,
                                 const weir_step_options *how)
{
    train    t;
    uint64_t bits = 0;
    bool     ok = true;

    if (!CHECK_OK(train_open(&t, net, batch, side, how)))
        return 0;
    for (int i = 0; i < steps && ok; i++)
        ok = CHECK_OK(train_step(&t, i));
    if (ok)
        bits = train_bits(&t);
    train_close(&t);
    return bits;
}

#endif
