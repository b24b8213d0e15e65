/* autograd.c - gradients beyond single operations: several uses, intermediate results, frozen and
 * shared parameters, detached values, vector-Jacobian products, and what is refused. */
#include "check.h"
#include "weir.h"

enum { N = 5 };

/* A device, two parameters a and b and an input c of N numbers each, in f64. */
typedef struct world {
    weir_device *d;
    weir_tensor *a, *b, *c;
    double       va[N], vb[N], vc[N];
} world;

static void fill(weir_tensor *t, double *v, double lo, double hi)
{
    for (int i = 0; i < N; i++)
        v[i] = check_real(lo, hi);
    CHECK_OK(weir_write(t, v, N * sizeof *v));
}

static bool open(world *w)
{
    const weir_desc desc = weir_1d(WEIR_F64, N);

    *w = (world){.d = weir_device_open(check_device(), &(weir_device_options){.threads = 1})};
    w->a = weir_param(w->d, desc, "a");
    w->b = weir_param(w->d, desc, "b");
    w->c = weir_input(w->d, desc);
    if (!CHECK(w->d && w->a && w->b && w->c))
        return false;
    fill(w->a, w->va, 0.5, 2);
    fill(w->b, w->vb, -1, 1);
    fill(w->c, w->vc, -1, 1);
    return true;
}

static void close(world *w)
{
    weir_release(w->a);
    weir_release(w->b);
    weir_release(w->c);
    weir_device_close(w->d);
}

static weir_tensor *total(weir_tensor *t)
{
    return weir_sum(t, 0, false);
}

/* Reads N numbers; NaNs after a failure. */
static void numbers(const weir_tensor *t, double *v)
{
    for (int i = 0; i < N; i++)
        v[i] = (double)NAN;
    CHECK_OK(weir_read(t, v, N * sizeof *v));
}

#define CHECK_ALL(t, expr)                                                                         \
    do {                                                                                           \
        double got[N];                                                                             \
        numbers(t, got);                                                                           \
        for (int i = 0; i < N; i++)                                                                \
            CHECK_NEAR(got[i], expr, 1e-12);                                                       \
    } while (0)

static weir_tensor *gradient(weir_tensor *loss, weir_tensor *of)
{
    weir_tensor *g = NULL;
    CHECK_OK(weir_gradients(loss, 1, &of, &g));
    return g;
}

/* ---- accumulation ---- */

CASE(value_used_many_times)
{
    world w;
    if (open(&w)) {
        /* a a + a + exp(a) a + a, and its slope 2 a + 1 + exp(a) (1 + a) + 1. */
        weir_tensor *y = weir_add(weir_mul(w.a, w.a), w.a);
        y = weir_add(weir_add(y, weir_mul(weir_exp(w.a), w.a)), w.a);
        CHECK_ALL(gradient(total(y), w.a), 2 * w.va[i] + 2 + exp(w.va[i]) * (1 + w.va[i]));
    }
    close(&w);
}

/* The result e reaches the loss at once and by a longer way: its call must wait for both. */
CASE(paths_of_unequal_length)
{
    world w;
    if (open(&w)) {
        weir_tensor *const e = weir_exp(w.a);
        weir_tensor *const longer = weir_mul(weir_neg(weir_square(e)), w.b);
        CHECK_ALL(gradient(total(weir_add(e, longer)), w.a),
                  exp(w.va[i]) * (1 - 2 * exp(w.va[i]) * w.vb[i]));
    }
    close(&w);
}

CASE(one_tensor_as_both_inputs)
{
    world w;
    if (open(&w)) {
        CHECK_ALL(gradient(total(weir_sub(w.a, w.a)), w.a), 0 * w.va[i]);
        CHECK_ALL(gradient(total(weir_div(w.a, w.a)), w.a), 0 * w.va[i]);
        CHECK_ALL(gradient(total(weir_max(w.a, w.a)), w.a), 1 + 0 * w.va[i]);
        CHECK_ALL(gradient(total(weir_add(w.a, w.a)), w.a), 2 + 0 * w.va[i]);
    }
    close(&w);
}

CASE(doubled_forty_times)
{
    world w;
    if (open(&w)) {
        weir_tensor *y = w.a;
        for (int i = 0; i < 40; i++)
            y = weir_add(y, y);
        CHECK_ALL(gradient(total(y), w.a), 1099511627776.0 + 0 * w.va[i]);
    }
    close(&w);
}

CASE(chain_of_ten_thousand)
{
    world w;
    if (open(&w)) {
        weir_tensor *y = w.a;
        for (int i = 0; i < 10000; i++)
            y = weir_affine(y, 1, 1);
        CHECK_ALL(gradient(total(y), w.a), 1 + 0 * w.va[i]);
    }
    close(&w);
}

/* ---- which gradients are requested ---- */

CASE(intermediate_results)
{
    world w;
    if (open(&w)) {
        weir_tensor *const square = weir_square(w.a), *const product = weir_mul(square, w.b);
        weir_tensor *const loss = total(weir_mul(product, w.c));
        weir_tensor       *g[6], *const wrt[] = {w.a, square, product, loss, w.b, square};
        CHECK_OK(weir_gradients(loss, 6, wrt, g));
        CHECK_ALL(g[0], 2 * w.va[i] * w.vb[i] * w.vc[i]);
        CHECK_ALL(g[1], w.vb[i] * w.vc[i]);
        CHECK_ALL(g[2], w.vc[i]);
        CHECK_ALL(g[4], w.va[i] * w.va[i] * w.vc[i]);
        CHECK_ALL(g[5], w.vb[i] * w.vc[i]);
        double one = 0;
        CHECK_OK(weir_read(g[3], &one, sizeof one));
        CHECK(one == 1);
    }
    close(&w);
}

CASE(intermediate_view)
{
    world w;
    if (open(&w)) {
        weir_tensor *const row = weir_reshape(weir_exp(w.a), 2, (int64_t[]){1, N});
        weir_tensor *const column = weir_transpose(row, NULL);
        const weir_desc    d = weir_2d(WEIR_F64, N, 3);
        weir_tensor *const loss = total(weir_broadcast_to(column, d));
        weir_tensor       *g[3], *const wrt[] = {row, column, w.a};
        CHECK_OK(weir_gradients(loss, 3, wrt, g));
        CHECK_ALL(g[0], 3 + 0 * w.va[i]);
        CHECK_ALL(g[1], 3 + 0 * w.va[i]);
        CHECK_ALL(g[2], 3 * exp(w.va[i]));
    }
    close(&w);
}

CASE(no_path_no_gradient)
{
    world w;
    if (open(&w)) {
        weir_tensor *const other = weir_square(w.b);
        weir_tensor       *g[4], *const wrt[] = {w.b, w.c, other, w.a};
        CHECK_OK(weir_gradients(total(weir_mul(w.a, w.c)), 4, wrt, g));
        CHECK(!g[0] && !g[1] && !g[2] && g[3]);
        CHECK_STATUS(weir_gradients(total(weir_mul(w.a, w.c)), 3, wrt, g), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), "the loss depends on none of the 3 tensors of wrt");
        CHECK(!g[0] && !g[1] && !g[2]);
    }
    close(&w);
}

CASE(pairs_of_backward)
{
    world w;
    if (open(&w)) {
        const weir_pair *pair = NULL;
        size_t           n = 0;
        CHECK_OK(weir_backward(total(weir_mul(weir_mul(w.a, w.b), w.c)), &pair, &n));
        CHECK(n == 2);
        for (size_t k = 0; k < n; k++) {
            CHECK(pair[k].param == w.a || pair[k].param == w.b);
            const double *const other = pair[k].param == w.a ? w.vb : w.va;
            CHECK_ALL(pair[k].grad, other[i] * w.vc[i]);
        }
    }
    close(&w);
}

CASE(frozen_parameter)
{
    world w;
    if (open(&w)) {
        const weir_pair *pair = NULL;
        size_t           n = 0;
        CHECK_OK(weir_tensor_set_needs_grad(w.b, false));
        CHECK(!weir_tensor_needs_grad(w.b));
        CHECK_OK(weir_backward(total(weir_mul(w.a, w.b)), &pair, &n));
        CHECK(n == 1 && pair[0].param == w.a);
        CHECK_OK(weir_tensor_set_needs_grad(w.b, true));
        CHECK_OK(weir_backward(total(weir_mul(w.a, w.b)), &pair, &n));
        CHECK(n == 2);
    }
    close(&w);
}

/* Two calls of linear with the same weights: loss = sum(x2), x2 = x1 w^T, x1 = x w^T. */
static weir_tensor *twice_linear(weir_tensor *x, weir_tensor *weights)
{
    return total(weir_linear(weir_linear(x, weights, NULL), weights, NULL));
}

static void check_shared(const weir_tensor *g, const double x[2], const double v[4])
{
    const double y[2] = {x[0] * v[0] + x[1] * v[1], x[0] * v[2] + x[1] * v[3]};
    const double back[2] = {v[0] + v[2], v[1] + v[3]};      /* of sum(x2) with respect to x1 */
    double       got[4] = {(double)NAN, (double)NAN, (double)NAN, (double)NAN};

    CHECK_OK(weir_read(g, got, sizeof got));
    for (int i = 0; i < 4; i++)
        CHECK_NEAR(got[i], y[i % 2] + back[i / 2] * x[i % 2], 1e-12);
}

CASE(parameter_shared_by_two_calls)
{
    const double       x[2] = {0.5, -1.5}, v[4] = {1, 2, -3, 0.25};
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const weights = weir_param(d, weir_2d(WEIR_F64, 2, 2), "w");
    weir_tensor *const in = weir_input(d, weir_2d(WEIR_F64, 1, 2));
    CHECK_OK(weir_write(weights, v, sizeof v));
    CHECK_OK(weir_write(in, x, sizeof x));
    check_shared(gradient(twice_linear(in, weights), weights), x, v);

    weir_graph *const        g = weir_graph_begin(d);
    const weir_tensor *const on = weir_keep(gradient(twice_linear(in, weights), weights));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    check_shared(on, x, v);
    weir_graph_free(g);
    weir_release(weights);
    weir_release(in);
    weir_device_close(d);
}

/* ---- where gradients stop ---- */

CASE(detached)
{
    world w;
    if (open(&w)) {
        weir_tensor *const still = weir_detach(weir_square(w.a));
        CHECK(!weir_tensor_needs_grad(still));
        CHECK_ALL(still, w.va[i] * w.va[i]);
        CHECK_ALL(gradient(total(weir_mul(w.a, still)), w.a), w.va[i] * w.va[i]);
        CHECK_ALL(gradient(total(weir_mul(w.a, weir_detach(w.a))), w.a), w.va[i]);
        weir_tensor *g = NULL;
        CHECK_STATUS(weir_gradients(total(still), 1, &w.a, &g), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), "depends on no trainable tensor");
    }
    close(&w);
}

CASE(no_grad_nests)
{
    world w;
    if (open(&w)) {
        CHECK_OK(weir_no_grad_begin(w.d));
        CHECK_OK(weir_no_grad_begin(w.d));
        CHECK_OK(weir_no_grad_end(w.d));
        weir_tensor *const still = weir_square(w.a);
        CHECK(!weir_tensor_needs_grad(still));
        CHECK_OK(weir_no_grad_end(w.d));
        CHECK(weir_tensor_needs_grad(weir_square(w.a)));
        CHECK_ALL(gradient(total(weir_mul(w.a, still)), w.a), w.va[i] * w.va[i]);
        CHECK_STATUS(weir_no_grad_end(w.d), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "weir_no_grad_begin");
    }
    close(&w);
}

/* ---- the vector-Jacobian product of one call ---- */

CASE(vjp_of_one_call)
{
    world w;
    if (open(&w)) {
        weir_tensor *const y = weir_mul(weir_square(w.a), w.b);
        weir_tensor       *dx[3] = {NULL};
        size_t             n = 3;
        CHECK_OK(weir_vjp(y, w.c, &n, dx));
        CHECK(n == 2);
        CHECK_ALL(dx[0], w.vc[i] * w.vb[i]);
        CHECK_ALL(dx[1], w.vc[i] * w.va[i] * w.va[i]);
    }
    close(&w);
}

CASE(vjp_leaves_out_what_has_no_gradient)
{
    world w;
    if (open(&w)) {
        weir_tensor *dx[2] = {w.a, w.a};
        size_t       n = 2;
        CHECK_OK(weir_vjp(weir_mul(w.a, w.c), w.b, &n, dx));
        CHECK(n == 2 && dx[0] && !dx[1]);
    }
    close(&w);
}

CASE(vjp_in_a_graph)
{
    world w;
    if (open(&w)) {
        weir_graph *const g = weir_graph_begin(w.d);
        weir_tensor      *dx[1] = {NULL};
        size_t            n = 1;
        CHECK_OK(weir_vjp(weir_exp(w.a), w.c, &n, dx));
        weir_keep(dx[0]);
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
        CHECK_ALL(dx[0], w.vc[i] * exp(w.va[i]));
        weir_graph_free(g);
    }
    close(&w);
}

CASE(vjp_refuses)
{
    world w;
    if (open(&w)) {
        weir_tensor *const y = weir_mul(w.a, w.b);
        weir_tensor       *dx[2];
        size_t             n = 1;
        CHECK_STATUS(weir_vjp(y, w.c, &n, dx), WEIR_ERR_INVALID);
        CHECK_TEXT(weir_error(), "room for 1");
        n = 2;
        CHECK_STATUS(weir_vjp(y, total(w.c), &n, dx), WEIR_ERR_SHAPE);
        CHECK_TEXT(weir_error(), "f64(5)");
        CHECK_STATUS(weir_vjp(w.c, w.c, &n, dx), WEIR_ERR_INVALID);
        CHECK_OK(weir_vjp(y, w.c, &n, dx));
    }
    close(&w);
}

/* ---- what is refused ---- */

CASE(a_retained_backward_again)
{
    world w;
    if (open(&w)) {
        weir_tensor *const loss = total(weir_mul(weir_square(w.a), weir_exp(w.a)));
        weir_tensor       *g[3] = {NULL};
        CHECK_OK(weir_retain_begin(w.d));
        CHECK_OK(weir_gradients(loss, 1, &w.a, &g[0]));
        CHECK_OK(weir_gradients(loss, 1, &w.a, &g[1]));
        CHECK_OK(weir_retain_end(w.d));
        CHECK_OK(weir_gradients(loss, 1, &w.a, &g[2]));
        for (int k = 0; k < 3; k++)
            CHECK_ALL(g[k], (2 * w.va[i] + w.va[i] * w.va[i]) * exp(w.va[i]));
        CHECK_STATUS(weir_gradients(loss, 1, &w.a, &g[0]), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "weir_retain_begin");
        CHECK_STATUS(weir_retain_end(w.d), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "without a weir_retain_begin");
    }
    close(&w);
}

CASE(backward_twice)
{
    world w;
    if (open(&w)) {
        weir_tensor *const loss = total(weir_square(w.a));
        weir_tensor       *g = gradient(loss, w.a);
        CHECK(g != NULL);
        CHECK_STATUS(weir_gradients(loss, 1, &w.a, &g), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "earlier backward");
        CHECK_ALL(gradient(total(weir_square(w.a)), w.a), 2 * w.va[i]);
    }
    close(&w);
}

CASE(loss_that_is_none)
{
    world w;
    if (open(&w)) {
        weir_tensor *g = NULL;
        CHECK_STATUS(weir_gradients(weir_square(w.a), 1, &w.a, &g), WEIR_ERR_SHAPE);
        CHECK_TEXT(weir_error(), "f64(5)");
        CHECK_STATUS(weir_gradients(total(w.c), 1, &w.a, &g), WEIR_ERR_INVALID);
        CHECK_STATUS(weir_gradients(NULL, 1, &w.a, &g), WEIR_ERR_INVALID);
        CHECK_STATUS(weir_backward(total(w.a), NULL, NULL), WEIR_ERR_INVALID);
    }
    close(&w);
}

CASE(forward_off_backward_on)
{
    world w;
    if (open(&w)) {
        weir_tensor *const off = total(weir_square(w.a));
        weir_graph *const  g = weir_graph_begin(w.d);
        weir_tensor       *dx = NULL;
        CHECK_STATUS(weir_gradients(off, 1, &w.a, &dx), WEIR_ERR_STATE);
        CHECK_TEXT(weir_error(), "same recording");
        weir_keep(gradient(total(weir_square(w.a)), w.a));
        CHECK_OK(weir_graph_end(g, NULL));
        CHECK_OK(weir_graph_run(g));
        weir_graph_free(g);
    }
    close(&w);
}

/* ---- corners of single operations ---- */

/* Gradient of sum(f(x)) at three numbers. */
static void slopes(weir_tensor *(*f)(weir_tensor *), const double x[3], const double want[3])
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const p = weir_param(d, weir_1d(WEIR_F64, 3), "x");
    double             got[3] = {(double)NAN, (double)NAN, (double)NAN};

    CHECK_OK(weir_write(p, x, 3 * sizeof *x));
    CHECK_OK(weir_read(gradient(total(f(p)), p), got, sizeof got));
    for (int i = 0; i < 3; i++)
        CHECK_NEAR(got[i], want[i], 1e-15);
    weir_release(p);
    weir_device_close(d);
}

static weir_tensor *first_maximum(weir_tensor *x)
{
    return weir_amax(x, 0, true);
}

static weir_tensor *larger_than_zero(weir_tensor *x)
{
    return weir_max(x, weir_fill(weir_tensor_device(x), weir_scalar(WEIR_F64), 0));
}

static weir_tensor *smaller_than_zero(weir_tensor *x)
{
    return weir_min(x, weir_fill(weir_tensor_device(x), weir_scalar(WEIR_F64), 0));
}

CASE(slopes_at_kinks)
{
    const double x[3] = {-1, 0, 1}, twice[3] = {0, 7, 7};

    slopes(weir_relu, x, (double[]){0, 0, 1});
    slopes(weir_abs, x, (double[]){-1, 0, 1});
    slopes(weir_relu6, (double[]){0, 3, 6}, (double[]){0, 1, 0});
    slopes(weir_hardswish, (double[]){-3, 0, 3}, (double[]){0, 0.5, 1});
    slopes(larger_than_zero, x, (double[]){0, 0.5, 1});
    slopes(smaller_than_zero, x, (double[]){1, 0.5, 0});
    slopes(first_maximum, twice, (double[]){0, 1, 0});
}

CASE(gradient_through_a_cast)
{
    world w;
    if (open(&w)) {
        weir_tensor *const scale = weir_fill(w.d, weir_scalar(WEIR_F32), 0.25);
        weir_tensor *const half = weir_mul(weir_cast(w.a, WEIR_F32), scale);
        weir_tensor *const g = gradient(total(half), w.a);
        CHECK(weir_tensor_desc(g).dtype == WEIR_F64);
        CHECK_ALL(g, 0.25 + 0 * w.va[i]);
    }
    close(&w);
}

CASE(classes_out_of_range_are_never_correct)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const logits = weir_param(d, weir_2d(WEIR_F32, 2, 3), "logits");
    weir_tensor *const target = weir_input(d, weir_1d(WEIR_I32, 2));
    const int32_t      wrong[][2] = {{0, 3}, {-1, 2}, {INT32_MAX, INT32_MIN}};

    CHECK_OK(weir_write_fill(logits, 1));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int64_t correct = -1;
        CHECK_OK(weir_write(target, wrong[i], sizeof wrong[i]));
        CHECK_OK(weir_read(weir_count_correct(logits, target), &correct, sizeof correct));
        CHECK(correct == (i == 0));
    }
    weir_release(logits);
    weir_release(target);
    weir_device_close(d);
}
