/* grad.c - gradients through the tape: sums over uses, targets in the middle, what a backward
 * consumes, and mistakes. Graph off and on. */
#include "graph/fixture.h"

typedef void (*body)(weir_device *d, weir_tensor *x, weir_tensor *w);

static weir_tensor *kept[8];
static float        want[8];
static int          nkept;

/* Stores a result and the expected value of its first element. */
static void expect(weir_tensor *t, float value)
{
    if (CHECK(t != NULL) && CHECK(weir_keep(t) != NULL)) {
        kept[nkept] = t;
        want[nkept++] = value;
    }
}

/* x = (1, 2), w = (3, 4), both trainable. */
static void both_ways(body run)
{
    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_param(d, 2, (float[]){1, 2}),
                    *w = fixture_param(d, 2, (float[]){3, 4});
        weir_graph *g = on ? weir_graph_begin(d) : NULL;
        nkept = 0;
        run(d, x, w);
        if (g)
            fixture_finish(g, NULL);
        for (int i = 0; i < nkept; i++)
            CHECK_NEAR(fixture_value(kept[i]), want[i], 1e-6);
        weir_graph_free(g);
        weir_release(x);
        weir_release(w);
        weir_device_close(d);
    }
}

static void many_uses(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    weir_tensor *h = weir_mul(x, w), *grads[3];
    weir_tensor *loss = weir_sum(weir_add(weir_mul(h, h), weir_add(h, x)), 0, false);
    (void)d;
    CHECK_OK(weir_gradients(loss, 3, (weir_tensor *[]){x, w, h}, grads));
    expect(grads[0], (2 * 3 + 1) * 3 + 1);
    expect(grads[1], (2 * 3 + 1) * 1);
    expect(grads[2], 2 * 3 + 1);
}

CASE(gradients_of_many_uses_add_up)
{
    both_ways(many_uses);
}

static void pairs_of_all(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    const weir_pair *pairs;
    size_t           n;

    weir_tensor *loss = weir_sum(weir_mul(x, weir_square(w)), 0, false);
    (void)d;
    CHECK_OK(weir_backward(loss, &pairs, &n));
    CHECK_OR_RETURN(n == 2);
    for (size_t i = 0; i < n; i++)
        expect(pairs[i].grad, pairs[i].param == x ? 9 : 6);
    CHECK(!weir_tensor_needs_grad(pairs[0].grad));
}

CASE(pairs)
{
    both_ways(pairs_of_all);
}

static void frozen_and_detached(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    const weir_pair *pairs;
    size_t           n;
    weir_tensor     *grad[2];

    (void)d;
    weir_tensor *loss = weir_sum(weir_mul(weir_detach(x), w), 0, false);
    CHECK_OK(weir_gradients(loss, 2, (weir_tensor *[]){x, w}, grad));
    CHECK(grad[0] == NULL);
    expect(grad[1], 1);
    CHECK_OK(weir_tensor_set_needs_grad(w, false));
    CHECK_OK(weir_backward(weir_sum(weir_mul(x, w), 0, false), &pairs, &n));
    CHECK(n == 1 && pairs[0].param == x);
    CHECK_STATUS(weir_backward(weir_sum(w, 0, false), &pairs, &n), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "no trainable tensor");
    CHECK(pairs == NULL && n == 0);
}

CASE(where_no_gradient_flows)
{
    both_ways(frozen_and_detached);
}

static void consumed(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    const weir_pair *pairs;
    size_t           n;

    (void)d;
    weir_tensor *loss = weir_sum(weir_mul(weir_exp(x), w), 0, false);
    CHECK_OK(weir_backward(loss, &pairs, &n));
    CHECK_STATUS(weir_backward(loss, &pairs, &n), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "earlier backward");
    CHECK_STATUS(weir_backward(weir_mul(x, w), &pairs, &n), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "scalar");
    CHECK_STATUS(weir_backward(loss, NULL, &n), WEIR_ERR_INVALID);
}

CASE(a_backward_consumes_the_tape)
{
    both_ways(consumed);
}

/* The vector-Jacobian product of one call, with a given gradient. */
static void products(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    weir_tensor *dx[2], *dy = weir_fill(d, weir_1d(WEIR_F32, 2), 10);
    size_t       n = 2;

    weir_tensor *y = weir_mul(x, w);
    CHECK_OK(weir_vjp(y, dy, &n, dx));
    CHECK(n == 2);
    expect(dx[0], 30);
    expect(dx[1], 10);
    n = 1;
    CHECK_STATUS(weir_vjp(y, dy, &n, dx), WEIR_ERR_INVALID);
    n = 2;
    CHECK_STATUS(weir_vjp(y, weir_fill(d, weir_scalar(WEIR_F32), 1), &n, dx), WEIR_ERR_SHAPE);
    CHECK_STATUS(weir_vjp(x, dy, &n, dx), WEIR_ERR_INVALID);
}

CASE(vector_jacobian_product)
{
    both_ways(products);
}

/* From a result that is not a scalar, through several calls, with a given gradient. */
static void given_gradient(weir_device *d, weir_tensor *x, weir_tensor *w)
{
    const weir_pair *pairs;
    size_t           n;
    weir_tensor     *grads[3], *dy = weir_affine(w, 1, 1);

    weir_tensor *h = weir_mul(x, w);
    CHECK_OK(weir_gradients_from(weir_square(h), dy, 3, (weir_tensor *[]){x, w, h}, grads));
    expect(grads[0], 4 * 2 * 3 * 3);
    expect(grads[1], 4 * 2 * 3 * 1);
    expect(grads[2], 4 * 2 * 3);
    h = weir_mul(x, w);
    CHECK_OK(weir_backward_from(h, NULL, &pairs, &n));
    CHECK_OR_RETURN(n == 2);
    for (size_t i = 0; i < n; i++)
        expect(pairs[i].grad, pairs[i].param == x ? 3 : 1);
    h = weir_mul(x, w);
    CHECK_OK(weir_gradients_from(h, dy, 1, &h, grads));
    expect(grads[0], 4);
    CHECK_STATUS(weir_backward_from(h, weir_fill(d, weir_1d(WEIR_F32, 3), 1), &pairs, &n),
                 WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "weir_backward_from: dy is f32(3) but y is f32(2)");
    CHECK_STATUS(weir_backward_from(h, weir_fill(d, weir_1d(WEIR_F64, 2), 1), &pairs, &n),
                 WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_backward_from(dy = weir_detach(h), NULL, &pairs, &n), WEIR_ERR_INVALID);
}

CASE(from_a_given_gradient)
{
    const weir_pair *pairs;
    size_t           n;

    both_ways(given_gradient);
    CHECK_STATUS(weir_backward_from(NULL, NULL, &pairs, &n), weir_error_status());
}

/* Forward at once and backward recorded, or the reverse, is an error, never a wrong number. */
CASE(forward_and_backward_belong_together)
{
    weir_device     *d = fixture_open();
    weir_tensor     *x = fixture_param(d, 2, (float[]){1, 2});
    const weir_pair *pairs;
    size_t           n;

    weir_tensor *loss = weir_sum(weir_square(x), 0, false);
    weir_graph  *g = weir_graph_begin(d);
    CHECK_STATUS(weir_backward(loss, &pairs, &n), WEIR_ERR_STATE);
    weir_tensor *recorded = weir_keep(weir_sum(weir_square(x), 0, false));
    CHECK(fixture_finish(g, NULL));
    CHECK_STATUS(weir_backward(recorded, &pairs, &n), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "same recording");
    CHECK_OK(weir_backward(loss, &pairs, &n));
    CHECK(n == 1 && fixture_value(pairs[0].grad) == 2);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* A long chain is walked and freed without recursion. */
CASE(long_chains)
{
    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_tensor *x = fixture_param(d, 1, (float[]){1}), *h = x, *grad;
        weir_graph  *g = on ? weir_graph_begin(d) : NULL;
        for (int i = 0; i < 20000; i++)
            h = weir_affine(h, 1, 0.5);
        h = weir_retain(h);
        CHECK_OK(weir_gradients(weir_sum(h, 0, false), 1, &x, &grad));
        weir_keep(grad);
        if (g)
            fixture_finish(g, OPTIONS_WITHOUT("order"));
        CHECK(fixture_value(grad) == 1 && fixture_value(h) == 10001);
        weir_release(h);
        weir_graph_free(g);
        weir_release(x);
        weir_device_close(d);
    }
}

/* Graph off: when the last result is released, the tape and all that it kept are freed. */
CASE(tapes_die_with_their_results)
{
    weir_device  *d = fixture_open();
    weir_tensor  *x = fixture_param(d, 2, (float[]){1, 2});
    const int64_t before = weir_mem_alive();

    for (int i = 0; i < 3; i++) {
        CHECK_OK(weir_scope_begin(d));
        weir_tensor *h = weir_exp(x);
        for (int k = 0; k < 5; k++)
            h = weir_mul(h, weir_tanh(h));
        weir_retain(h);
        CHECK_OK(weir_scope_end(d));
        CHECK(fixture_value(h) > 0);
        weir_release(h);
    }
    const int64_t after = weir_mem_alive();
    CHECK_OK(weir_scope_begin(d));
    weir_mul(weir_exp(x), weir_tanh(x));
    CHECK_OK(weir_scope_end(d));
    CHECK(weir_mem_alive() == after && after >= before);
    weir_release(x);
    weir_device_close(d);
}
