/* relu_sign_bits.c - what only a ReLU's gradient still reads is kept as bits: less memory, same
 * results. */
#include "graph/fixture.h"
#include "graph/train.h"

/* So large that no library's or fallback's workspace makes the peak. */
enum { BATCH = 16 };

static uint64_t bits_and_arena(const char *disable, size_t *arena, uint32_t *packs)
{
    const weir_step_options how = {.graph = true, .plan = {.disable = disable}};
    train    t;
    uint64_t bits = 0;

    if (!CHECK_OK(train_open(&t, TRAIN_POOLED, BATCH, 0, &how)))
        return 0;
    for (int i = 0; i < 3; i++)
        CHECK_OK(train_step(&t, i));
    bits = train_bits(&t);
    weir_graph *g = weir_step_graph(t.step);
    if (CHECK(g != NULL)) {
        *arena = g->plan->arena;
        *packs = fixture_count(g, WEIR_OP_SIGN_PACK);
        CHECK(fixture_count(g, WEIR_OP_SIGN_RELU_GRAD) == *packs);
    }
    train_close(&t);
    return bits;
}

CASE(large_relu_before_pooling)
{
    size_t         with = 0, without = 0;
    uint32_t       packs = 0, none = 1;
    const uint64_t a = bits_and_arena(NULL, &with, &packs);
    const uint64_t b = bits_and_arena("relu_sign_bits", &without, &none);

    CHECK(a == b && a != 0);
    CHECK(packs == 1 && none == 0);
    CHECK(with < without);
    none = 1;
    CHECK(a == bits_and_arena("mask,recast", &without, &none));     /* the names up to 0.1 */
    CHECK(none == 0 && with < without);
    CHECK(a == train_run(TRAIN_POOLED, BATCH, 0, 3, NULL));
}

enum { N = 1 << 18, M = 4 };

/* Functions of y = relu(...) whose gradients read more or less of it; c is dense and as large. */
static weir_tensor *value_is_needed(weir_tensor *y, weir_tensor *c)
{
    return weir_mul(weir_square(y), c);
}

static weir_tensor *sign_is_enough(weir_tensor *y, weir_tensor *c)
{
    return weir_mul(y, c);
}

/* The gradient of the outer ReLU finds the value as it was made, that of the inner one a view. */
static weir_tensor *through_a_view(weir_tensor *y, weir_tensor *c)
{
    return weir_mul(weir_transpose(weir_relu(weir_transpose(y, NULL)), NULL), c);
}

static void check_packs(weir_tensor *(*body)(weir_tensor *, weir_tensor *), int64_t n,
                        uint32_t want)
{
    float *grad[2] = {0};

    for (int i = 0; i < 2; i++) {
        weir_device *d = fixture_open();
        weir_tensor *x = weir_param(d, weir_2d(WEIR_F32, n / M, M), "x"), *dx;
        weir_tensor *c = weir_input(d, weir_tensor_desc(x));
        CHECK_OK(weir_write_normal(x, 0, 1));
        CHECK_OK(weir_write_normal(c, 0, 1));
        weir_graph  *g = weir_graph_begin(d);
        weir_tensor *loss = weir_sum(body(weir_relu(weir_affine(x, 1, 0.25)), c), 0, false);
        CHECK_OK(weir_gradients(loss, 1, &x, &dx));
        weir_keep(dx);
        CHECK(fixture_finish(g, i ? NULL : OPTIONS_AS_RECORDED));
        if (i)
            CHECK(fixture_count(g, WEIR_OP_SIGN_PACK) == want);
        grad[i] = weir_host_alloc((size_t)n * sizeof(float));
        CHECK_OK(weir_read(dx, grad[i], (size_t)n * sizeof(float)));
        weir_graph_free(g);
        weir_release(x);
        weir_release(c);
        weir_device_close(d);
    }
    CHECK_BITS(grad[0], grad[1], (size_t)n * sizeof(float));
    weir_host_free(grad[0]);
    weir_host_free(grad[1]);
}

CASE(only_where_the_sign_is_enough)
{
    check_packs(sign_is_enough, N, 1);
    check_packs(value_is_needed, N, 0);
    check_packs(through_a_view, N, 0);
}

CASE(only_large_values)
{
    check_packs(sign_is_enough, N - M, 0);
}
