/* fuse_weights.c - products and convolutions in mixed precision round their f32 weights themselves:
 * the casts are gone from the plan, the bits stay. */
#include <math.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "graph/fixture.h"

enum {
    BATCH = 3,
    CHANNELS = 32,
    SIDE = 6,
    OUTS = 24,
    PARAMS = 7,
    MOST = OUTS * CHANNELS * (SIDE + 1) * (SIDE + 1)    /* elements of a parameter */
};

static const weir_plan_options apart = {.disable = "fuse"};

/* Parameters of a net with all operations that have weights. */
typedef struct net {
    weir_tensor *param[PARAMS];
} net;

static weir_tensor *param(weir_device *d, weir_desc desc)
{
    static float v[MOST];
    weir_tensor *t = weir_param(d, desc, "p");
    const size_t count = weir_tensor_bytes(t) / sizeof *v;
    check_floats(v, count, -0.2, 0.2);
    CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

static net net_new(weir_device *d)
{
    return (net){{param(d, weir_4d(WEIR_F32, CHANNELS, CHANNELS, 3, 3)),
                  param(d, weir_1d(WEIR_F32, CHANNELS)),
                  param(d, weir_4d(WEIR_F32, CHANNELS, CHANNELS / 2, 1, 1)),
                  param(d, weir_4d(WEIR_F32, CHANNELS, CHANNELS, 2, 2)),
                  param(d, weir_2d(WEIR_F32, OUTS, CHANNELS * (SIDE + 1) * (SIDE + 1))),
                  param(d, weir_1d(WEIR_F32, OUTS)), param(d, weir_2d(WEIR_F32, OUTS, OUTS))}};
}

static weir_tensor *loss_of(const net *n, weir_tensor *x)
{
    weir_tensor *h = weir_conv2d(x, n->param[0], n->param[1],
                                 &(weir_conv2d_options){.pad = {1, 1}});
    h = weir_relu(weir_conv2d(weir_relu(h), n->param[2], NULL,
                              &(weir_conv2d_options){.groups = 2}));
    h = weir_conv_transpose2d(h, n->param[3], NULL, NULL);
    h = weir_linear(weir_reshape(h, 2, (int64_t[]){BATCH, -1}), n->param[4], n->param[5]);
    h = weir_cast(weir_matmul(weir_tanh(h), n->param[6]), WEIR_F32);
    return weir_sum(weir_mul(h, h), 0, false);
}

/* Casts of parameters in the plan. */
static uint32_t casts_of_params(const weir_graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->plan->n; i++) {
        const weir_instr *const t = &g->plan->instr[i];
        n += t->call.op == WEIR_OP_CAST &&
             g->storages.at[t->in[0].storage].kind == WEIR_KIND_PARAM;
    }
    return n;
}

/* Two steps of SGD in `half`; result: the loss, then the parameters. Returns the casts. */
static uint32_t train(const weir_plan_options *o, weir_dtype half, float *result)
{
    static float v[BATCH * CHANNELS * SIDE * SIDE];
    weir_device *d = fixture_open();
    check_random = 9;
    net          n = net_new(d);
    weir_tensor *x = weir_input(d, weir_4d(WEIR_F32, BATCH, CHANNELS, SIDE, SIDE));
    check_floats(v, sizeof v / sizeof *v, -1, 1);
    CHECK_OK(weir_write(x, v, sizeof v));
    weir_tensor *lr = weir_state(d, weir_scalar(WEIR_F32), "lr");
    CHECK_OK(weir_write_fill(lr, 0.01));
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_autocast_begin(d, half));
    weir_tensor *loss = loss_of(&n, x);
    CHECK_OK(weir_autocast_end(d));
    const weir_pair *pairs = NULL;
    size_t           count = 0;
    CHECK_OK(weir_backward(loss, &pairs, &count));
    CHECK(count == PARAMS);
    for (size_t i = 0; i < count; i++)
        CHECK_OK(weir_sgd_update(pairs[i].param, pairs[i].grad, NULL, lr, NULL));
    weir_keep(loss);
    if (fixture_finish(g, o))
        CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(loss, result++, sizeof *result));
    for (int i = 0; i < PARAMS; i++) {
        CHECK_OK(weir_read(n.param[i], result, weir_tensor_bytes(n.param[i])));
        result += weir_tensor_bytes(n.param[i]) / sizeof *result;
    }
    const uint32_t casts = casts_of_params(g);
    weir_graph_free(g);
    for (int i = 0; i < PARAMS; i++)
        weir_release(n.param[i]);
    weir_release(x);
    weir_release(lr);
    weir_device_close(d);
    return casts;
}

/* With the library that WEIR_GEMM and WEIR_CONV name; NULL: the fastest. */
static void check_bits_without_casts(const char *library)
{
    static float want[1 + 6 * MOST], got[1 + 6 * MOST];

    if (library) {
        setenv("WEIR_GEMM", library, 1);
        setenv("WEIR_CONV", library, 1);
    }
    for (weir_dtype half = WEIR_F16; half <= WEIR_BF16; half++) {
        CHECK(train(&apart, half, want) >= 5);
        CHECK(train(NULL, half, got) == 0);
        CHECK_BITS(got, want, sizeof got);
        CHECK(want[0] > 0 && isfinite(want[0]));
        train(OPTIONS_AS_RECORDED, half, want);
        CHECK_BITS(got, want, sizeof got);
    }
    unsetenv("WEIR_GEMM");
    unsetenv("WEIR_CONV");
}

CASE(weights_are_rounded_by_their_readers)
{
    if (!check_on_cpu())
        return;
    check_bits_without_casts(NULL);
    check_bits_without_casts("own");
}

/* The product must read the weight as it was before the update. */
static uint32_t cast_before_an_update(const weir_plan_options *o, float *result)
{
    enum { N = 40 };
    float        v[N * N];
    weir_device *d = fixture_open();
    check_random = 4;
    check_floats(v, N * N, -1, 1);
    weir_tensor *w = weir_param(d, weir_2d(WEIR_F32, N, N), "w");
    CHECK_OK(weir_write(w, v, sizeof v));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *half = weir_cast(w, WEIR_BF16), *x = weir_cast(weir_square(w), WEIR_BF16);
    CHECK_OK(weir_assign(w, weir_neg(w)));
    weir_tensor *y = weir_keep(weir_cast(weir_matmul(x, half), WEIR_F32));
    fixture_finish(g, o);
    CHECK_OK(weir_read(y, v, sizeof v));
    *result = v[N];
    const uint32_t casts = casts_of_params(g);
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
    return casts;
}

CASE(a_weight_that_changes_keeps_its_cast)
{
    float want = 0, got = 1;
    CHECK(cast_before_an_update(&apart, &want) == 1);
    CHECK(cast_before_an_update(NULL, &got) == 1);
    CHECK_BITS(&got, &want, sizeof got);
}

/* Rows of halves read the cast, too, so it stays. */
CASE(a_weight_that_others_read_rounded_keeps_its_cast)
{
    enum { N = 40 };
    weir_device *d = fixture_open();
    weir_tensor *w = weir_param(d, weir_2d(WEIR_F32, N, N), "w");
    CHECK_OK(weir_write_fill(w, 1));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *half = weir_cast(w, WEIR_BF16), *y = weir_matmul(weir_relu(half), half);
    weir_keep(y);
    if (fixture_finish(g, NULL))
        CHECK(casts_of_params(g) == 1);
    weir_graph_free(g);
    weir_release(w);
    weir_device_close(d);
}
