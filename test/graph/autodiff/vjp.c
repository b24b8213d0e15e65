/* vjp.c - products over the calls between given values: where the walk stops, what it adds up, what
 * it consumes, and hollow handles as names of values. Graph off and on. */
#include "graph/fixture.h"

typedef struct bench {
    weir_device *d;
    weir_graph  *g;
    weir_tensor *x, *w;         /* params (1, 2) and (3, 4) */
    weir_tensor *kept[8];
    float        want[8];
    int          n;
} bench;

/* Stores a result and the expected value of its first element. */
static void expect(bench *b, weir_tensor *t, float value)
{
    if (CHECK(t != NULL) && CHECK(weir_keep(t) != NULL)) {
        b->kept[b->n] = weir_retain(t);
        b->want[b->n++] = value;
    }
}

static void both_ways(void (*run)(bench *b))
{
    for (int on = 0; on < 2; on++) {
        bench b = {.d = fixture_open()};
        b.x = fixture_param(b.d, 2, (float[]){1, 2});
        b.w = fixture_param(b.d, 2, (float[]){3, 4});
        b.g = on ? weir_graph_begin(b.d) : NULL;
        run(&b);
        CHECK(b.n > 0);
        if (b.g)
            fixture_finish(b.g, NULL);
        for (int i = 0; i < b.n; i++) {
            CHECK_NEAR(fixture_value(b.kept[i]), b.want[i], 1e-6);
            weir_release(b.kept[i]);
        }
        weir_graph_free(b.g);
        weir_release(b.x);
        weir_release(b.w);
        weir_device_close(b.d);
    }
}

/* y = x + relu(x) with both operands independent: each gets dy, and relu is not consumed. */
static void independent(bench *b)
{
    weir_tensor *r = weir_relu(b->x), *y = weir_add(b->x, r), *dx[2], *grad;
    weir_tensor *dy = weir_fill(b->d, weir_1d(WEIR_F32, 2), 10);

    CHECK_OK(weir_vjp_from(1, &y, &dy, 2, (weir_tensor *[]){b->x, r}, dx));
    expect(b, dx[0], 10);
    expect(b, dx[1], 10);
    CHECK(!weir_tensor_needs_grad(dx[0]));
    CHECK_OK(weir_gradients_from(r, dy, 1, &b->x, &grad));
    expect(b, grad, 10);
}

CASE(the_walk_stops_at_x)
{
    both_ways(independent);
}

/* Calls that lead to no x are left for another walk; those that lead to one are consumed. */
static void between(bench *b)
{
    weir_tensor *h = weir_exp(b->w), *p = weir_square(b->x), *y = weir_mul(p, h), *dx, *grad;
    weir_tensor *dy = weir_fill(b->d, weir_1d(WEIR_F32, 2), 1);

    CHECK_OK(weir_vjp_from(1, &y, &dy, 1, &b->x, &dx));
    expect(b, dx, 2 * expf(3));
    CHECK_OK(weir_gradients_from(h, dy, 1, &b->w, &grad));
    expect(b, grad, expf(3));
    CHECK_STATUS(weir_gradients_from(p, dy, 1, &b->x, &grad), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "earlier backward");
}

CASE(calls_between_are_consumed)
{
    both_ways(between);
}

/* Several y, one without a gradient, one twice; y that is an x; x twice; x that nothing reaches. */
static void several(bench *b)
{
    weir_tensor *h = weir_mul(b->x, b->w), *s = weir_square(h), *dx[5];
    weir_tensor *ten = weir_fill(b->d, weir_1d(WEIR_F32, 2), 10);
    weir_tensor *one = weir_fill(b->d, weir_1d(WEIR_F32, 2), 1);
    weir_tensor *far = weir_tanh(b->x);

    CHECK_OK(weir_vjp_from(4, (weir_tensor *[]){s, h, far, s},
                           (weir_tensor *[]){ten, one, NULL, one}, 5,
                           (weir_tensor *[]){b->w, h, b->w, far, h}, dx));
    CHECK(dx[0] == NULL && dx[2] == NULL && dx[3] == NULL && dx[4] == NULL);
    expect(b, dx[1], 11 * 2 * 3 + 1);
    h = weir_mul(b->x, b->w);
    CHECK_OK(weir_vjp_from(2, (weir_tensor *[]){h, weir_exp(b->w)}, (weir_tensor *[]){ten, one}, 3,
                           (weir_tensor *[]){b->w, b->w, b->x}, dx));
    CHECK(dx[1] == NULL);
    expect(b, dx[0], 10 + expf(3));
    expect(b, dx[2], 30);
}

CASE(several_values)
{
    both_ways(several);
}

/* y0 = 2 x and y1 = 3 x, of one call. */
static weir_status twice_thrice(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++)
            ((float *)y[i].data)[k] = (float)(i + 2) * ((const float *)x[0].data)[k];
    return WEIR_OK;
}

static weir_status twice_thrice_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                                     const weir_host_in *dy, const weir_host_out *dx)
{
    (void)ctx;
    (void)x;
    (void)y;
    for (int k = 0; k < 2; k++) {
        const float a = dy[0].data ? ((const float *)dy[0].data)[k] : 0;
        const float b = dy[1].data ? ((const float *)dy[1].data)[k] : 0;
        ((float *)dx[0].data)[k] = 2 * a + 3 * b;
    }
    return WEIR_OK;
}

/* Two results of one call, of which one is an x: the gradient of the other alone goes on. */
static void two_results(bench *b)
{
    static const weir_callback_def both = {"both", twice_thrice, twice_thrice_back, true,
                                             true};
    const weir_desc                d[2] = {weir_1d(WEIR_F32, 2), weir_1d(WEIR_F32, 2)};
    weir_tensor *part[2], *dx[2], *dy = weir_fill(b->d, d[0], 5);

    CHECK_OK(weir_callback(&both, NULL, 1, &b->x, 2, d, part));
    weir_tensor *y = weir_mul(part[0], part[1]);
    CHECK_OK(weir_vjp_from(1, &y, &dy, 2, (weir_tensor *[]){part[0], b->x}, dx));
    expect(b, dx[0], 5 * 3);
    expect(b, dx[1], 5 * 2 * 3);
}

CASE(one_of_two_results)
{
    both_ways(two_results);
}

/* The gradient of a scalar starts as 1; integers have no gradient, as inputs or as results. */
static void scalars_and_integers(bench *b)
{
    weir_tensor *i = weir_argmax(b->x, 0, true), *picked = weir_gather(b->w, i);
    weir_tensor *y = weir_sum(picked, 0, false), *dx[2];
    weir_tensor *di = weir_fill(b->d, weir_1d(WEIR_I64, 1), 1);

    CHECK_OK(weir_vjp_from(1, &y, NULL, 2, (weir_tensor *[]){i, b->w}, dx));
    CHECK(dx[0] == NULL);
    expect(b, dx[1], 0);                /* element 1 was picked */
    CHECK_OK(weir_vjp_from(1, &i, &di, 1, &i, dx));
    CHECK(dx[0] == NULL);
}

CASE(scalars_start_with_one)
{
    both_ways(scalars_and_integers);
}

/* If no call between x and y is differentiable, x gets no gradient and there is no error; an x that
 * is y itself gets dy. */
static void nothing_flows(bench *b)
{
    weir_tensor *c = weir_fill(b->d, weir_1d(WEIR_F32, 2), 2), *y = weir_relu(c), *dx[2];

    CHECK_OK(weir_vjp_from(1, &y, &c, 1, &c, dx));
    CHECK(dx[0] == NULL);
    CHECK_OK(weir_vjp_from(1, &c, &y, 2, (weir_tensor *[]){b->x, c}, dx));
    CHECK(dx[0] == NULL);
    expect(b, dx[1], 2);
    CHECK_OK(weir_vjp_from(1, &y, &c, 0, NULL, NULL));
}

CASE(where_nothing_flows)
{
    both_ways(nothing_flows);
}

/* y, loss, wrt and x are given as hollow handles, after their own handles were released. */
static void hollow(bench *b)
{
    CHECK_OK(weir_scope_begin(b->d));
    weir_tensor *mid = weir_mul(b->x, b->w), *loss = weir_sum(weir_square(mid), 0, false);
    weir_tensor *hm = weir_hollow(mid), *hl = weir_hollow(loss), *hw = weir_hollow(b->w);
    const weir_desc d = weir_tensor_desc(hm);
    CHECK_OK(weir_scope_end(b->d));
    weir_tensor *grads[2], *dx[2];

    CHECK(d.ndim == 1 && d.dim[0] == 2 && weir_tensor_needs_grad(hm));
    CHECK_OK(weir_gradients(hl, 2, (weir_tensor *[]){hm, hw}, grads));
    expect(b, grads[0], 2 * 3);
    expect(b, grads[1], 2 * 3);
    weir_release(hl);
    weir_release(hm);
    weir_tensor *y = weir_mul(b->x, b->w);
    weir_tensor *dy = weir_fill(b->d, weir_1d(WEIR_F32, 2), 10), *hy = weir_hollow(y);
    CHECK_OK(weir_vjp_from(1, &hy, &dy, 2, (weir_tensor *[]){b->x, hw}, dx));
    expect(b, dx[0], 30);
    expect(b, dx[1], 10);

    float v[2];
    CHECK(weir_relu(hy) == NULL);
    CHECK_TEXT(weir_error(), "the elements of input 0 f32(2) are not kept");
    CHECK_STATUS(weir_read(hy, v, sizeof v), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "the elements of f32(2) are not kept");
    CHECK_STATUS(weir_write(hw, v, sizeof v), WEIR_ERR_STATE);
    CHECK(weir_keep(hy) == NULL);
    weir_release(hy);
    weir_release(hw);
}

CASE(hollow_handles)
{
    both_ways(hollow);
}

/* A hollow handle does not make its value an output of the graph. */
CASE(hollow_handles_keep_nothing)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 2, (float[]){1, 2});
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *h = weir_hollow(weir_exp(x));

    CHECK(fixture_finish(g, NULL));
    CHECK(g->plan->n == 0);
    CHECK(weir_hollow(NULL) == NULL);
    weir_graph_free(g);
    weir_release(h);
    weir_release(x);
    weir_device_close(d);
}

CASE(vjp_mistakes)
{
    weir_device *d = fixture_open(), *other = fixture_open();
    weir_tensor *x = fixture_param(d, 2, (float[]){1, 2}), *far = fixture_param(other, 2, NULL),
                *dx[1];
    weir_tensor *y = weir_square(x), *three = weir_fill(d, weir_1d(WEIR_F32, 3), 1);
    weir_tensor *wide = weir_fill(d, weir_1d(WEIR_F64, 2), 1);

    CHECK_STATUS(weir_vjp_from(1, &y, NULL, 1, &x, dx), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "y is f32(2), so it needs a dy");
    CHECK_STATUS(weir_vjp_from(2, (weir_tensor *[]){y, y}, NULL, 1, &x, dx), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "none of the 2 y has a dy");
    CHECK_STATUS(weir_vjp_from(0, NULL, NULL, 1, &x, dx), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_vjp_from(1, &y, &three, 1, &x, dx), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "weir_vjp_from: dy is f32(3) but y is f32(2)");
    CHECK_STATUS(weir_vjp_from(1, &y, &wide, 1, &x, dx), WEIR_ERR_DTYPE);
    CHECK_STATUS(weir_vjp_from(1, &y, &far, 1, &x, dx), WEIR_ERR_DEVICE);
    CHECK_STATUS(weir_vjp_from(2, (weir_tensor *[]){y, far}, (weir_tensor *[]){y, NULL}, 1, &x, dx),
                 WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "y 0 and 1");
    CHECK_STATUS(weir_vjp_from(1, &y, &y, 1, &x, NULL), WEIR_ERR_INVALID);
    CHECK_OK(weir_vjp_from(1, &y, &y, 1, &far, dx));    /* other device: no gradient */
    CHECK(dx[0] == NULL);
    CHECK_OK(weir_vjp_from(1, &y, &y, 1, &x, dx));
    CHECK(fixture_value(dx[0]) == 2);
    CHECK_STATUS(weir_vjp_from(1, &y, &y, 1, &x, dx), WEIR_ERR_STATE);
    CHECK_STATUS(weir_vjp_from(1, (weir_tensor *[]){NULL}, NULL, 1, &x, dx), weir_error_status());
    CHECK_STATUS(weir_vjp_from(1, &y, &y, 1, (weir_tensor *[]){NULL}, dx), weir_error_status());
    weir_release(x);
    weir_release(far);
    weir_device_close(d);
    weir_device_close(other);
}
