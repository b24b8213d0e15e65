/* leaf.c - gradients of tensors that are no parameters: requested explicitly, or collected once the
 * tensor is trainable; hollow handles that name a value without holding it. Graph off and on. */
#include "graph/fixture.h"

/* x (2) the kind of tensor under test, w (2) a param. */
typedef struct bench {
    weir_device *d;
    weir_graph  *g;
    weir_tensor *x, *w;
} bench;

static void bench_open(bench *b, bool on)
{
    b->d = fixture_open();
    b->x = fixture_input(b->d, 2, (float[]){1, 2});
    b->w = fixture_param(b->d, 2, (float[]){3, 4});
    b->g = on ? weir_graph_begin(b->d) : NULL;
}

static void bench_close(bench *b)
{
    weir_graph_free(b->g);
    weir_release(b->x);
    weir_release(b->w);
    weir_device_close(b->d);
}

CASE(a_watched_input_has_a_gradient)
{
    for (int on = 0; on < 2; on++) {
        bench        b;
        weir_tensor *grads[2];
        bench_open(&b, on);
        CHECK(!weir_tensor_needs_grad(b.x));
        CHECK_OK(weir_tensor_set_needs_grad(b.x, true));
        CHECK(weir_tensor_needs_grad(b.x));
        weir_tensor *y = weir_add(weir_mul(b.x, b.w), weir_square(b.x));
        CHECK_OK(weir_gradients(weir_sum(y, 0, false), 2, (weir_tensor *[]){b.x, b.w}, grads));
        CHECK_OR_RETURN(grads[0] && grads[1]);
        weir_keep(grads[0]);
        weir_keep(grads[1]);
        if (b.g)
            fixture_finish(b.g, NULL);
        CHECK(fixture_value(grads[0]) == 3 + 2 && fixture_value(grads[1]) == 1);
        bench_close(&b);
    }
}

/* States, inputs, and a result computed without a tape, which is read through a view as well. */
CASE(any_float_tensor_can_be_watched)
{
    weir_device *d = fixture_open();
    weir_tensor *s = fixture_state(d, 2, (float[]){1, 2}),
                *w = fixture_param(d, 2, (float[]){3, 4});
    weir_tensor *r = weir_affine(s, 10, 0), *grads[3];

    CHECK_OK(weir_tensor_set_needs_grad(s, true));
    CHECK_OK(weir_tensor_set_needs_grad(r, true));
    weir_tensor *view = weir_reshape(r, 2, (int64_t[]){1, 2});
    weir_tensor *y = weir_mul(weir_mul(s, view), w);
    CHECK_OK(weir_gradients(weir_sum(y, 0, false), 3, (weir_tensor *[]){s, r, w}, grads));
    CHECK(fixture_value(grads[0]) == 30 && fixture_value(grads[1]) == 3 &&
          fixture_value(grads[2]) == 10);
    CHECK_OK(weir_tensor_set_needs_grad(s, false));
    CHECK(!weir_tensor_needs_grad(weir_relu(s)));
    weir_release(s);
    weir_release(w);
    weir_device_close(d);
}

/* weir_backward returns no pair for a watched tensor and records nothing that leads only to one. */
CASE(watching_costs_weir_backward_nothing)
{
    weir_device     *d = fixture_open();
    weir_tensor     *x = weir_input(d, weir_2d(WEIR_F32, 4, 3));
    weir_tensor     *w = weir_param(d, weir_2d(WEIR_F32, 3, 2), "w");
    const weir_pair *pairs;
    size_t           n;

    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_write_fill(w, 1));
    CHECK_OK(weir_tensor_set_needs_grad(x, true));
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_backward(weir_sum(weir_matmul(weir_exp(x), w), 0, false), &pairs, &n));
    CHECK(n == 1 && pairs[0].param == w);
    weir_tensor *grad = weir_keep(pairs[0].grad);
    CHECK(fixture_finish(g, OPTIONS_AS_RECORDED));
    CHECK(fixture_count(g, WEIR_OP_MATMUL) == 2);           /* the product and the gradient of w */
    CHECK_NEAR(fixture_value(grad), 4 * exp(1), 1e-6);
    weir_graph_free(g);

    CHECK_STATUS(weir_backward(weir_sum(x, 0, false), &pairs, &n), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "the loss depends on no trainable tensor");
    CHECK(pairs == NULL && n == 0);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}

CASE(trainable_is_what_weir_backward_collects)
{
    for (int on = 0; on < 2; on++) {
        bench            b;
        const weir_pair *pairs;
        size_t           n;
        weir_tensor     *grad;
        bench_open(&b, on);
        CHECK_OK(weir_tensor_set_trainable(b.x, true));
        CHECK_OK(weir_tensor_set_trainable(b.w, false));
        CHECK(weir_tensor_needs_grad(b.x) && weir_tensor_needs_grad(b.w));
        weir_tensor *loss = weir_sum(weir_mul(b.x, b.w), 0, false);
        CHECK_OK(weir_backward(loss, &pairs, &n));
        CHECK_OR_RETURN(n == 1 && pairs[0].param == b.x);
        grad = weir_keep(pairs[0].grad);
        if (b.g)
            fixture_finish(b.g, NULL);
        CHECK(fixture_value(grad) == 3);
        bench_close(&b);
    }
}

/* Switched between the call and the gradient: neither handle loses its elements. */
CASE(switched_while_taped)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2}),
                *w = fixture_param(d, 2, (float[]){3, 4});
    const weir_pair *pairs;
    size_t           n;

    CHECK_OK(weir_tensor_set_needs_grad(x, true));
    weir_tensor *y = weir_mul(x, w);
    CHECK_OK(weir_tensor_set_trainable(x, true));       /* for later calls */
    weir_tensor *z = weir_mul(y, weir_square(w));
    CHECK_OK(weir_backward(weir_sum(z, 0, false), &pairs, &n));
    CHECK(n == 1 && pairs[0].param == w && fixture_value(pairs[0].grad) == 27);
    y = weir_mul(x, w);
    CHECK_OK(weir_tensor_set_trainable(w, false));
    CHECK_OK(weir_backward(weir_sum(y, 0, false), &pairs, &n));
    CHECK(n == 1 && pairs[0].param == x && fixture_value(pairs[0].grad) == 3);
    CHECK(fixture_value(x) == 1 && fixture_value(w) == 3);
    weir_release(x);
    weir_release(w);
    weir_device_close(d);
}

/* Graph off: the tape does not keep a watched tensor's elements that no gradient reads. */
CASE(watched_results_die_with_their_handles)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 2, (float[]){1, 2});
    weir_memory  m;

    weir_tensor *r = weir_retain(weir_broadcast_to(x, weir_2d(WEIR_F32, 512, 2)));
    weir_tensor *big = weir_retain(weir_copy(r));
    CHECK_OK(weir_scope_clear(d));
    CHECK_OK(weir_tensor_set_needs_grad(big, true));
    weir_device_memory(d, &m);
    const size_t before = m.live;
    weir_tensor *loss = weir_sum(big, 0, false);
    weir_release(big);
    weir_device_memory(d, &m);
    CHECK(m.live <= before - 4096 + d->ops->align);
    CHECK(fixture_value(loss) == 512 * 3);
    weir_release(r);
    weir_release(x);
    weir_device_close(d);
}

CASE(what_cannot_be_watched)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, (float[]){1, 2});
    weir_tensor *i = weir_input(d, weir_1d(WEIR_I32, 3)), *y = weir_relu(x);

    CHECK_STATUS(weir_tensor_set_needs_grad(i, true), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "i32(3)");
    CHECK_STATUS(weir_tensor_set_trainable(i, true), WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_tensor_set_needs_grad(y, true), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "detach");
    CHECK_STATUS(weir_tensor_set_trainable(y, true), WEIR_ERR_INVALID);
    CHECK_OK(weir_tensor_set_needs_grad(weir_detach(y), true));
    CHECK_STATUS(weir_tensor_set_needs_grad(NULL, true), weir_error_status());
    weir_release(x);
    weir_release(i);
    weir_device_close(d);
}
