/* edge.c - what the op table's values never hit: zeros, ties, NaN, rates inside a graph. */
#include <math.h>

#include "check.h"
#include "core/mem.h"
#include "weir.h"

static weir_tensor *param_of(weir_device *d, weir_desc desc, const double *v)
{
    weir_tensor *const t = weir_param(d, desc, "x");

    if (CHECK(t))
        CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

/* The gradient of sum(y) for x, read into g. */
static void gradient(weir_tensor *y, weir_tensor *x, double *g)
{
    weir_tensor *dx = NULL;

    CHECK_OK(weir_gradients(weir_sum(y, 0, false), 1, &x, &dx));
    if (CHECK(dx))
        CHECK_OK(weir_read(dx, g, weir_tensor_bytes(dx)));
}

static void same(const double *got, const double *want, int n)
{
    for (int i = 0; i < n; i++)
        check_that(got[i] == want[i], __FILE__, __LINE__, "element %d is %g, not %g", i, got[i],
                   want[i]);
}

/* Rows without, with one and with two zeros. */
CASE(product_with_zeros)
{
    static const double v[] = {2, 3, 4, 2, 0, 4, 0, 3, 0};
    static const double want[] = {12, 8, 6, 0, 8, 0, 0, 0, 0}, value[] = {24, 0, 0};
    double              got[9], y[3];

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = param_of(d, weir_2d(WEIR_F64, 3, 3), v);
    weir_tensor *const p = weir_prod(x, 1u << 1, false);
    CHECK_OK(weir_read(p, y, sizeof y));
    same(y, value, 3);
    gradient(p, x, got);
    same(got, want, 9);
    weir_release(x);
    weir_device_close(d);
}

CASE(running_product_with_zeros)
{
    static const double v[] = {2, 3, 4, 2, 0, 4, 0, 3, 0};
    static const double want[] = {16, 10, 6, 1, 10, 0, 4, 0, 0};
    static const double value[] = {2, 6, 24, 2, 0, 0, 0, 0, 0};
    double              got[9], y[9];

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = param_of(d, weir_2d(WEIR_F64, 3, 3), v);
    weir_tensor *const p = weir_cumprod(x, 1, false);
    CHECK_OK(weir_read(p, y, sizeof y));
    same(y, value, 9);
    gradient(p, x, got);
    same(got, want, 9);
    weir_release(x);
    weir_device_close(d);
}

CASE(norm_at_zero)
{
    static const double v[] = {0, 0, 3, -4}, none[2] = {0};
    static const double want1[] = {0, 0, 1, -1}, want2[] = {0, 0, 3.0 / 5, -4.0 / 5};
    double              got[4], y[2];

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = param_of(d, weir_2d(WEIR_F64, 2, 2), v);
    gradient(weir_norm(x, 1, 1u << 1, false), x, got);
    same(got, want1, 4);
    gradient(weir_norm(x, 2, 1u << 1, false), x, got);
    same(got, want2, 4);
    CHECK_OK(weir_read(weir_norm(x, 2, 1u << 1, false), y, sizeof y));
    same(y, none, 1);
    weir_release(x);
    weir_device_close(d);
}

/* Squares of f32 values may be too large or too small for f32; the norm is not. */
CASE(norm_of_large_numbers)
{
    static const float v[] = {3e30f, 4e30f};
    float              y = 0;

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 2));
    CHECK_OK(weir_write(x, v, sizeof v));
    CHECK_OK(weir_read(weir_norm(x, 2, 0, false), &y, sizeof y));
    CHECK(fabsf(y - 5e30f) < 1e24f);
    weir_release(x);
    weir_device_close(d);
}

/* The first of equals; NaN is both largest and smallest. */
CASE(first_place)
{
    static const double v[] = {1, 5, 5, 1, 2, 0, 0, 2, 7, (double)NAN, 9, (double)NAN};
    static const int64_t most[] = {1, 0, 1}, least[] = {0, 1, 1};
    int64_t              got[3];

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = param_of(d, weir_2d(WEIR_F64, 3, 4), v);
    CHECK_OK(weir_read(weir_argmax(x, -1, true), got, sizeof got));
    CHECK_BITS(got, most, sizeof got);
    CHECK_OK(weir_read(weir_argmin(x, 1, false), got, sizeof got));
    CHECK_BITS(got, least, sizeof got);
    weir_release(x);
    weir_device_close(d);
}

/* Certain answers: the loss neither overflows nor loses its small values, gradients stay finite. */
CASE(binary_cross_entropy_of_certainty)
{
    static const double v[] = {800, -800, 40}, t[] = {1, 1, 1};
    double              loss = 0, got[3];

    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const x = param_of(d, weir_1d(WEIR_F64, 3), v);
    weir_tensor *const target = weir_input(d, weir_1d(WEIR_F64, 3));
    CHECK_OK(weir_write(target, t, sizeof t));
    weir_tensor *const y = weir_bce_logits_loss(x, target);
    CHECK_OK(weir_read(y, &loss, sizeof loss));
    CHECK(fabs(loss - 800.0 / 3) < 1e-12);
    gradient(y, x, got);
    CHECK(got[0] == 0 && fabs(got[1] + 1.0 / 3) < 1e-15 && fabs(got[2]) < 1e-17);

    static const double p[] = {1, 0, 0.5};
    CHECK_OK(weir_write(x, p, sizeof p));
    weir_tensor *const z = weir_bce_loss(x, target);
    CHECK_OK(weir_read(z, &loss, sizeof loss));
    CHECK(fabs(loss - (100 + log(2)) / 3) < 1e-12);
    gradient(z, x, got);
    CHECK(isfinite(got[0]) && isfinite(got[1]) && isfinite(got[2]));
    weir_release(x);
    weir_release(target);
    weir_device_close(d);
}

/* ---- learning rates inside a planned graph ---- */

enum { RUNS = 10 };

static double formula(int kind, int n)
{
    static const double pi = 3.14159265358979323846;

    return kind == 0   ? 0.1 * pow(0.5, n / 3)
           : kind == 1 ? 0.1 * pow(0.9, n)
                       : 0.01 + 0.09 * (1 + cos(pi * fmin(n, 8) / 8)) / 2;
}

/* w -= lr with a gradient of 1: after n runs w is minus the sum of all rates so far. */
static void follows(int kind)
{
    weir_device *const d = weir_device_open(check_device(), NULL);
    weir_tensor *const lr = weir_state(d, weir_scalar(WEIR_F64), "lr");
    weir_tensor *const step = weir_state(d, weir_scalar(WEIR_F64), "step");
    weir_tensor *const w = weir_param(d, weir_scalar(WEIR_F64), "w");
    double             rate, value, sum = 0;

    CHECK_OK(weir_write_fill(lr, 0));
    CHECK_OK(weir_write_fill(step, 0));
    CHECK_OK(weir_write_fill(w, 0));
    weir_graph *const g = weir_graph_begin(d);
    CHECK_OK(weir_increment(step, 1));
    CHECK_OK(kind == 0   ? weir_lr_step(lr, step, 0.1, 0.5, 3)
             : kind == 1 ? weir_lr_exponential(lr, step, 0.1, 0.9)
                         : weir_lr_cosine(lr, step, 0.1, 0.01, 8));
    CHECK_OK(weir_sgd_update(w, weir_fill(d, weir_scalar(WEIR_F64), 1), NULL, lr, NULL));
    CHECK_OK(weir_graph_end(g, NULL));
    for (int n = 1; n <= RUNS; n++) {
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(lr, &rate, sizeof rate));
        CHECK_OK(weir_read(w, &value, sizeof value));
        sum += rate;
        check_that(fabs(rate - formula(kind, n)) < 1e-15, __FILE__, __LINE__,
                   "rate %d at run %d is %.17g, not %.17g", kind, n, rate, formula(kind, n));
        CHECK(fabs(value + sum) < 1e-14);
    }
    weir_graph_free(g);
    weir_release(lr);
    weir_release(step);
    weir_release(w);
    weir_device_close(d);
}

CASE(rates_follow_their_formulas)
{
    for (int kind = 0; kind < 3; kind++)
        follows(kind);
}

/* ---- memory that runs out: a status, and nothing left behind ---- */

static weir_status all_kinds(weir_tensor *x, weir_tensor *c)
{
    weir_tensor *const normed = weir_layer_norm(weir_group_norm(x, 2, c, c, 0), c, c, 0);
    weir_tensor *const y = weir_softmax(weir_rms_norm(normed, c, 0), 1);
    weir_tensor *const l2 = weir_norm(x, 2, 1u << 1, false);
    weir_tensor *const z = weir_add(weir_var(y, 1u << 1, 1, false), l2);
    weir_tensor *const loss = weir_add(weir_mse_loss(y, x), weir_prod(z, 0, false));
    weir_tensor       *dx[1], *const more = weir_cosine_similarity(y, x, 0);

    return weir_gradients(weir_add(loss, weir_mean(more, 0, false)), 1, &x, dx);
}

static weir_status scoped(weir_device *d, weir_tensor *x, weir_tensor *c)
{
    WEIR_TRY(weir_scope_begin(d));
    const weir_status s = all_kinds(x, c);
    const weir_status end = weir_scope_end(d);
    return s != WEIR_OK ? s : end;
}

CASE(each_allocation_fails_once)
{
    static const double v[] = {1, 2, -3, 4, 0.5, -6, 7, 8}, scale[] = {1, 2, 3, 4};
    bool                failed = true;

    weir_device *const d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *const x = param_of(d, weir_2d(WEIR_F64, 2, 4), v);
    weir_tensor *const c = param_of(d, weir_1d(WEIR_F64, 4), scale);
    for (int64_t n = 0; failed && n < 5000; n++) {
        weir_mem_fail_nth(n, false);
        const weir_status s = scoped(d, x, c);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        /* The pool, short of memory, gives back what is free and tries again: then all is well. */
        CHECK(s == WEIR_OK || (failed && s == WEIR_ERR_NOMEM));
    }
    CHECK(!failed);
    weir_release(x);
    weir_release(c);
    weir_device_close(d);
}

/* Spaces and capital letters are accepted; an equation for two operands refuses one operand. */
CASE(einsum_of_another_spelling)
{
    weir_device *d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *a = weir_input(d, weir_2d(WEIR_F32, 2, 3));
    float        v[6], got[4], want[4];

    check_floats(v, 6, -1, 1);
    CHECK_OK(weir_write(a, v, sizeof v));
    CHECK_OK(weir_read(weir_einsum(" Ij, kj -> Ik ", a, a), got, sizeof got));
    CHECK_OK(weir_read(weir_matmul_t(a, a, false, true), want, sizeof want));
    CHECK_BITS(got, want, sizeof got);
    CHECK(weir_einsum("ij,jk->ik", a, NULL) == NULL);
    CHECK(weir_einsum(NULL, a, a) == NULL);
    weir_release(a);
    weir_device_close(d);
}

/* Lengths beyond the steps are all of them, below 0 none; beside a mask they are refused. */
CASE(lengths_out_of_range)
{
    weir_device *const     d = weir_device_open(check_device(), NULL);
    weir_tensor *const     x = weir_input(d, (weir_desc){WEIR_F32, 3, {3, 2, 1}});
    weir_tensor *const     n = weir_input(d, weir_1d(WEIR_I64, 2));
    weir_tensor *const     mask = weir_fill(d, weir_2d(WEIR_F32, 3, 2), 1);
    weir_tensor *const     one = weir_fill(d, weir_2d(WEIR_F32, 3, 1), 1);
    const weir_rnn_weights w = {one, one, NULL, NULL};
    float                  y[6];

    CHECK_OK(weir_write_fill(x, 1));
    CHECK_OK(weir_write(n, (int64_t[]){-5, 99}, 2 * sizeof(int64_t)));
    CHECK_OK(weir_read(weir_gru(x, &w, NULL, &(weir_rnn_options){.lengths = n}, NULL), y,
                       sizeof y));
    for (int i = 0; i < 6; i += 2)
        CHECK(y[i] == 0 && y[i + 1] != 0);
    CHECK(!weir_gru(x, &w, NULL, &(weir_rnn_options){.lengths = n, .mask = mask}, NULL));
    CHECK_TEXT(weir_error(), "mask and lengths are both given");
    weir_release(x);
    weir_release(n);
    weir_device_close(d);
}
