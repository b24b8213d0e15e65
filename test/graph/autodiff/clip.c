/* clip.c - clipping by value and by norm: the numbers, the bits with the graph off and on, odd
 * gradients, mistakes. */
#include "graph/fixture.h"

enum { A = 3, B = 2 };

typedef struct clipped {
    float value[A + B], norm[A + B], whole;
} clipped;

static const float slope_a[A] = {3, -4, 0.5f}, slope_b[B] = {12, -0.25f};

static void read_pair(const weir_pair *pairs, const weir_tensor *a, float *out)
{
    const int first = pairs[0].param == a ? 0 : 1;
    CHECK(pairs[first].param == a && pairs[!first].param != a);
    CHECK_OK(weir_read(pairs[first].grad, out, A * sizeof *out));
    CHECK_OK(weir_read(pairs[!first].grad, out + A, B * sizeof *out));
}

/* loss = slope_a a + slope_b b, so the gradients are the slopes. */
static void run(bool on, const weir_plan_options *how, const float *sa, const float *sb,
                double limit, clipped *c)
{
    weir_device     *d = fixture_open();
    weir_tensor     *a = fixture_param(d, A, NULL), *b = fixture_param(d, B, NULL);
    weir_tensor     *ga = fixture_input(d, A, sa), *gb = fixture_input(d, B, sb), *norm;
    weir_graph      *g = on ? weir_graph_begin(d) : NULL;
    const weir_pair *pairs;
    weir_pair        value[2], scaled[2];
    double           whole = 0;
    size_t           n;

    weir_tensor *loss = weir_add(weir_sum(weir_mul(a, ga), 0, false),
                                 weir_sum(weir_mul(b, gb), 0, false));
    CHECK_OK(weir_backward(loss, &pairs, &n));
    CHECK_OR_RETURN(n == 2);
    CHECK_OK(weir_clip_value(pairs, n, limit, value));
    memcpy(scaled, pairs, sizeof scaled);
    CHECK_OK(weir_clip_norm(scaled, n, limit, scaled, &norm));
    for (int i = 0; i < 2; i++) {
        weir_keep(value[i].grad);
        weir_keep(scaled[i].grad);
        CHECK(!weir_tensor_needs_grad(scaled[i].grad));
    }
    weir_keep(norm);
    if (g)
        fixture_finish(g, how);
    read_pair(value, a, c->value);
    read_pair(scaled, a, c->norm);
    CHECK_OK(weir_read(norm, &whole, sizeof whole));
    c->whole = (float)whole;
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_release(ga);
    weir_release(gb);
    weir_device_close(d);
}

static void expect(double limit)
{
    clipped off, on, plain;
    double  sum = 0;
    float   g[A + B];

    run(false, NULL, slope_a, slope_b, limit, &off);
    run(true, NULL, slope_a, slope_b, limit, &on);
    run(true, OPTIONS_AS_RECORDED, slope_a, slope_b, limit, &plain);
    CHECK_BITS(&off, &on, sizeof off);
    CHECK_BITS(&off, &plain, sizeof off);
    memcpy(g, slope_a, sizeof slope_a);
    memcpy(g + A, slope_b, sizeof slope_b);
    for (int i = 0; i < A + B; i++)
        sum += (double)g[i] * (double)g[i];
    const double factor = fmin(1, limit / (sqrt(sum) + 1e-6));
    CHECK_NEAR(off.whole, sqrt(sum), 1e-6);
    for (int i = 0; i < A + B; i++) {
        CHECK_NEAR(off.value[i], fmax(-limit, fmin(limit, (double)g[i])), 1e-7);
        CHECK_NEAR(off.norm[i], (double)g[i] * factor, 1e-6);
    }
}

CASE(numbers)
{
    expect(1);
    expect(0.01);
    expect(5);
    expect(100);        /* nothing to clip: the gradients themselves */
}

CASE(odd_gradients)
{
    clipped c;

    run(false, NULL, (float[]){NAN, INFINITY, -INFINITY}, slope_b, 2, &c);
    CHECK(isnan(c.value[0]) && c.value[1] == 2 && c.value[2] == -2 && c.value[3] == 2);
    CHECK(isnan(c.whole) && isnan(c.norm[0]) && isnan(c.norm[3]));
    run(false, NULL, (float[A]){0}, (float[B]){0}, 2, &c);
    CHECK(c.whole == 0 && c.norm[0] == 0 && c.value[4] == 0);
}

/* A step with clipped gradients moves the parameter by lr limit along the gradient. */
static weir_status clipped_step(weir_optim *o, weir_tensor *w, weir_tensor *slope)
{
    const weir_pair *pairs;
    weir_pair        scaled[1];
    size_t           n;

    WEIR_TRY(weir_backward(weir_sum(weir_mul(w, slope), 0, false), &pairs, &n));
    WEIR_TRY(weir_clip_norm(pairs, n, 1, scaled, NULL));
    return weir_optim_update(o, scaled, n);
}

CASE(clipped_update)
{
    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_tensor *w = fixture_param(d, 2, (float[]){10, 20});
        weir_tensor *slope = fixture_input(d, 2, (float[]){300, 400});
        weir_optim  *o = weir_sgd_new(d, 0.5, NULL);
        weir_graph  *g = on ? weir_graph_begin(d) : NULL;
        float        v[2] = {0};
        CHECK_OK(clipped_step(o, w, slope));
        if (g)
            fixture_finish(g, NULL);
        CHECK_OK(weir_read(w, v, sizeof v));
        CHECK_NEAR(v[0], 10 - 0.5 * 0.6, 1e-6);
        CHECK_NEAR(v[1], 20 - 0.5 * 0.8, 1e-6);
        CHECK(weir_optim_update(o, &(weir_pair){w, NULL}, 1) != WEIR_OK);
        weir_graph_free(g);
        weir_optim_free(o);
        weir_release(w);
        weir_release(slope);
        weir_device_close(d);
    }
}

/* f32 and f64 gradients together. */
CASE(mixed_types)
{
    weir_device *d = fixture_open();
    weir_tensor *a = fixture_input(d, 1, (float[]){3}), *norm;
    weir_tensor *b = weir_cast(fixture_value(a) == 3 ? weir_affine(a, 0, 4) : a, WEIR_F64);
    weir_pair    pairs[2] = {{a, a}, {b, b}};
    double       v = 0;

    CHECK_OK(weir_clip_norm(pairs, 2, 2.5, pairs, &norm));
    CHECK_NEAR(fixture_value(pairs[0].grad), 1.5, 1e-6);
    CHECK_OK(weir_read(pairs[1].grad, &v, sizeof v));
    CHECK_NEAR(v, 2, 1e-6);
    CHECK_OK(weir_read(norm, &v, sizeof v));
    CHECK(v == 5);
    weir_release(a);
    weir_device_close(d);
}

CASE(mistakes)
{
    weir_device *d = fixture_open(), *other = fixture_open();
    weir_tensor *a = fixture_input(d, 1, NULL), *b = fixture_input(other, 1, NULL), *norm = a;
    weir_pair    pairs[2] = {{a, a}, {b, b}}, none = {a, NULL};

    CHECK_STATUS(weir_clip_value(pairs, 1, 0, pairs), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "limit is 0");
    CHECK_STATUS(weir_clip_norm(pairs, 1, (double)NAN, pairs, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_clip_norm(pairs, 1, (double)INFINITY, pairs, NULL), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_clip_norm(pairs, 2, 1, pairs, NULL), WEIR_ERR_DEVICE);
    CHECK(weir_clip_value(&none, 1, 1, &none) != WEIR_OK);
    CHECK(weir_clip_value(NULL, 1, 1, &none) != WEIR_OK);
    CHECK(weir_clip_value(pairs, 1, 1, NULL) != WEIR_OK);
    CHECK_OK(weir_clip_norm(NULL, 0, 1, NULL, &norm));
    CHECK(norm == NULL);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
    weir_device_close(other);
}
