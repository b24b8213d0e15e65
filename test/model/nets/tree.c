/* tree.c - the tree-LSTM against the formulas of its paper in double, tree by tree; mistakes; and
 * the ResNets for small images. */
#include "check.h"
#include "weir.h"

enum { VOCAB = 7, WIDTH = 3, CLASSES = 2, MOST = 4 };

static weir_device *open_seeded(uint64_t seed)
{
    return weir_device_open(check_device(), &(weir_device_options){.threads = 1, .seed = seed});
}

/* Outputs and cells of a subtree, of one sample. */
typedef struct state {
    double h[WIDTH], c[WIDTH];
} state;

/* Parameters in the order of the model: token, leaf, node, out, with biases but for the first. */
typedef struct weights {
    float token[VOCAB][WIDTH];
    float leaf[3 * WIDTH][WIDTH], leaf_bias[3 * WIDTH];
    float node[5 * WIDTH][2 * WIDTH], node_bias[5 * WIDTH];
    float out[CLASSES][WIDTH], out_bias[CLASSES];
} weights;

static void read_weights(const weir_model *m, weights *w)
{
    void *const  to[] = {w->token, w->leaf,      w->leaf_bias, w->node,
                         w->node_bias, w->out, w->out_bias};
    const size_t bytes[] = {sizeof w->token, sizeof w->leaf, sizeof w->leaf_bias, sizeof w->node,
                            sizeof w->node_bias, sizeof w->out, sizeof w->out_bias};
    CHECK_OR_RETURN(weir_model_param_count(m) == 7);
    for (size_t i = 0; i < 7; i++)
        CHECK_OK(weir_read(weir_model_param(m, i), to[i], bytes[i]));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double row(const float *w, double bias, const double *a, const double *b)
{
    for (int k = 0; k < WIDTH; k++)
        bias += (double)w[k] * a[k] + (b ? (double)w[WIDTH + k] * b[k] : 0);
    return bias;
}

static state leaf(const weights *w, int token)
{
    state  s;
    double x[WIDTH], gate[3 * WIDTH];
    for (int k = 0; k < WIDTH; k++)
        x[k] = (double)w->token[token][k];
    for (int g = 0; g < 3 * WIDTH; g++)
        gate[g] = row(w->leaf[g], (double)w->leaf_bias[g], x, NULL);
    for (int k = 0; k < WIDTH; k++) {
        s.c[k] = sigmoid(gate[k]) * tanh(gate[2 * WIDTH + k]);
        s.h[k] = sigmoid(gate[WIDTH + k]) * tanh(s.c[k]);
    }
    return s;
}

static state join(const weights *w, state a, state b)
{
    state  s;
    double gate[5 * WIDTH];
    for (int g = 0; g < 5 * WIDTH; g++)
        gate[g] = row(w->node[g], (double)w->node_bias[g], a.h, b.h);
    for (int k = 0; k < WIDTH; k++) {
        s.c[k] = sigmoid(gate[k]) * tanh(gate[2 * WIDTH + k]) +
                 sigmoid(gate[3 * WIDTH + k]) * a.c[k] + sigmoid(gate[4 * WIDTH + k]) * b.c[k];
        s.h[k] = sigmoid(gate[WIDTH + k]) * tanh(s.c[k]);
    }
    return s;
}

/* The state at the root of a tree of this shape over `leaves` leaves. */
static state tree(const weights *w, weir_tree shape, int leaves, const int32_t *token)
{
    state s[MOST];
    for (int i = 0; i < leaves; i++)
        s[i] = leaf(w, token[i]);
    if (leaves == 1)
        return s[0];
    const state pair = join(w, s[0], s[1]);
    if (leaves == 4 && shape == WEIR_TREE_BALANCED)
        return join(w, pair, join(w, s[2], s[3]));
    const state three = leaves > 2 ? join(w, pair, s[2]) : pair;
    return leaves > 3 ? join(w, three, s[3]) : three;
}

static void check_tree(weir_tree shape, int leaves)
{
    static const int32_t token[2][MOST] = {{0, 3, 6, 1}, {5, 5, 2, 4}};
    weir_device *const   d = open_seeded(4);
    weir_model *const    m = weir_model_new(d);
    weir_layer *const    net = weir_tree_lstm_new(m, VOCAB, WIDTH, CLASSES, leaves, shape);
    weir_tensor *const   x = weir_input(d, weir_2d(WEIR_I32, 2, leaves));
    int32_t              in[2 * MOST];
    float                out[2][CLASSES];
    weights              w;
    read_weights(m, &w);
    for (int i = 0; i < 2 * leaves; i++)
        in[i] = token[i / leaves][i % leaves];
    CHECK_OK(weir_write(x, in, 2 * (size_t)leaves * sizeof *in));
    CHECK_OK(weir_scope_begin(d));
    if (CHECK_OK(weir_read(weir_apply(net, x), out, sizeof out)))
        for (int i = 0; i < 2; i++) {
            const state s = tree(&w, shape, leaves, token[i]);
            for (int k = 0; k < CLASSES; k++)
                CHECK(fabs(row(w.out[k], (double)w.out_bias[k], s.h, NULL) -
                           (double)out[i][k]) < 1e-5);
        }
    CHECK_OK(weir_scope_end(d));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

CASE(trees_are_the_formulas)
{
    for (int leaves = 1; leaves <= MOST; leaves++) {
        check_tree(WEIR_TREE_BALANCED, leaves);
        check_tree(WEIR_TREE_CHAIN, leaves);
    }
    check_tree(WEIR_TREE_RANDOM, 1);    /* of more leaves any tree is right; of two there is one */
    check_tree(WEIR_TREE_RANDOM, 2);
}

/* Logits of a random tree of many leaves. */
static float random_tree(uint64_t seed)
{
    weir_device *const d = open_seeded(seed);
    weir_model *const  m = weir_model_new(d);
    weir_layer *const  net = weir_tree_lstm_new(m, VOCAB, WIDTH, 1, 50, WEIR_TREE_RANDOM);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_I32, 1, 50));
    int32_t            in[50];
    float              out = NAN;
    for (int i = 0; i < 50; i++)
        in[i] = i % VOCAB;
    CHECK_OK(weir_write(x, in, sizeof in));
    CHECK_OK(weir_read(weir_apply(net, x), &out, sizeof out));
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
    return out;
}

CASE(random_trees_are_the_same_each_time)
{
    const float a = random_tree(4), b = random_tree(4);
    CHECK(isfinite(a) && a == b && a != random_tree(5));
}

CASE(tree_mistakes)
{
    weir_device *const d = open_seeded(4);
    weir_model *const  m = weir_model_new(d);
    weir_tensor *const x = weir_input(d, weir_2d(WEIR_I32, 2, 6));
    CHECK(weir_tree_lstm_new(NULL, 9, 5, 2, 4, WEIR_TREE_CHAIN) == NULL);
    CHECK(weir_tree_lstm_new(m, 9, 0, 2, 4, WEIR_TREE_CHAIN) == NULL);
    CHECK_TEXT(weir_error(), "width is 0");
    CHECK(weir_tree_lstm_new(m, 9, 5, 2, 1 << 21, WEIR_TREE_CHAIN) == NULL);
    CHECK_TEXT(weir_error(), "2097152 leaves");
    CHECK(weir_tree_lstm_new(m, 9, 5, 2, 4, (weir_tree)3) == NULL);
    CHECK_TEXT(weir_error(), "shape 3");
    CHECK(weir_model_param_count(m) == 0);
    CHECK(weir_apply(weir_tree_lstm_new(m, 9, 5, 2, 4, WEIR_TREE_CHAIN), x) == NULL);
    CHECK_TEXT(weir_error(), "tokens (n,4)");
    weir_release(x);
    weir_model_free(m);
    weir_device_close(d);
}

/* He et al. 2016, table 6: 0.27 M parameters of 20 layers, 1.7 M of 110; here with 1x1 shortcuts
 * and their norms, 16 * 32 + 32 * 64 + 2 * (32 + 64) more. */
CASE(resnets_for_small_images)
{
    static const struct { int depth; int64_t count; } known[] = {{20, 269722}, {110, 1727962}};
    for (size_t i = 0; i < 2; i++) {
        weir_device *const d = open_seeded(4);
        weir_model *const  m = weir_model_new(d);
        int64_t            sum = 0;
        CHECK(weir_resnet_cifar_new(m, known[i].depth, 10) != NULL);
        for (size_t k = 0; k < weir_model_param_count(m); k++)
            sum += (int64_t)(weir_tensor_bytes(weir_model_param(m, k)) / sizeof(float));
        CHECK(sum == known[i].count + 16 * 32 + 32 * 64 + 2 * (32 + 64));
        CHECK(weir_resnet_cifar_new(m, 19, 10) == NULL);
        CHECK_TEXT(weir_error(), "unknown depth 19 (expected 6 k + 2");
        CHECK(weir_resnet_cifar_new(m, 2, 10) == NULL);
        weir_model_free(m);
        weir_device_close(d);
    }
}
