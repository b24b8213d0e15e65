/* index.c - slices and indices beyond the op table: slices are views that can be written; indices
 * out of range; joins of many inputs; the distribution of bernoulli. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/mem.h"
#include "weir.h"

static weir_device *open(int threads)
{
    weir_device *const d =
        weir_device_open(check_device(), &(weir_device_options){.threads = threads, .seed = 3});
    CHECK(d != NULL);
    return d;
}

static weir_tensor *floats(weir_device *d, weir_desc desc, const float *v, bool param)
{
    weir_tensor *const t = param ? weir_param(d, desc, "t") : weir_input(d, desc);
    if (CHECK(t))
        CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

static weir_tensor *numbers(weir_device *d, int64_t n, const int32_t *v)
{
    weir_tensor *const t = weir_input(d, weir_1d(WEIR_I32, n));
    if (CHECK(t))
        CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

/* y holds the n values, NaN where a value is NaN. */
static void is(const weir_tensor *y, int n, const float *want)
{
    float *const got = calloc((size_t)n, sizeof *got);

    if (CHECK(y) && CHECK_OK(weir_read(y, got, (size_t)n * sizeof *got)))
        for (int i = 0; i < n; i++)
            check_that((isnan(want[i]) && isnan(got[i])) || got[i] == want[i], __FILE__, __LINE__,
                       "element %d is %g, not %g", i, (double)got[i], (double)want[i]);
    free(got);
}

CASE(a_slice_is_a_view_of_what_is_written_later)
{
    weir_device *const d = open(1);
    weir_tensor *const x = floats(d, weir_2d(WEIR_F32, 2, 3), (float[]){0, 1, 2, 3, 4, 5}, false);
    weir_tensor *const y =
        weir_slice(x, NULL, NULL, (const int64_t[]){1, 2});
    weir_tensor *const row = weir_narrow(x, 0, 1, 1);

    is(y, 4, (float[]){0, 2, 3, 5});
    CHECK_OK(weir_write(x, (float[]){6, 7, 8, 9, 10, 11}, 24));
    is(y, 4, (float[]){6, 8, 9, 11});
    is(row, 3, (float[]){9, 10, 11});
    CHECK_OK(weir_write(y, (float[]){-1, -2, -3, -4}, 16));
    CHECK_OK(weir_write(row, (float[]){1, 2, 3}, 12));
    is(x, 6, (float[]){-1, 7, -2, 1, 2, 3});
    weir_release(x);
    weir_device_close(d);
}

CASE(an_image_is_written_through_a_view_of_one_channel)
{
    weir_device *const d = open(1);
    float              v[2 * 3 * 4];
    for (int i = 0; i < 24; i++)
        v[i] = (float)i;
    weir_tensor *const x = floats(d, weir_4d(WEIR_F32, 1, 2, 3, 4), v, false);
    weir_tensor *const y = weir_narrow(x, 1, 1, 1);

    is(y, 12, v + 12);
    for (int i = 12; i < 24; i++)
        v[i] = (float)-i;
    CHECK_OK(weir_write(y, v + 12, 12 * sizeof *v));
    is(x, 24, v);
    weir_release(x);
    weir_device_close(d);
}

/* Slices of slices, of transposed views, of a recorded value; each adds its offset. */
CASE(offsets_of_views_add_up)
{
    weir_device *const d = open(1);
    weir_tensor *const x = floats(d, weir_1d(WEIR_F32, 8), (float[]){0, 1, 2, 3, 4, 5, 6, 7},
                                  false);

    for (int graph = 0; graph < 2; graph++) {
        CHECK_OK(weir_scope_begin(d));
        weir_graph *const g = graph ? weir_graph_begin(d) : NULL;
        weir_tensor *const m = weir_reshape(weir_narrow(weir_neg(x), 0, 2, 6), 2,
                                            (const int64_t[]){3, 2});
        weir_tensor *const y = weir_neg(weir_narrow(weir_transpose(m, NULL), 1, 1, 2));
        weir_tensor *const z = weir_narrow(weir_narrow(x, 0, 3, 5), 0, 2, 2);
        weir_tensor *const sum = weir_add(weir_narrow(y, 0, 1, 1), weir_unsqueeze(z, 0));
        weir_keep(y);
        weir_keep(sum);
        if (g) {
            CHECK_OK(weir_graph_end(g, NULL));
            CHECK_OK(weir_graph_run(g));
        }
        is(y, 4, (float[]){4, 6, 5, 7});
        is(sum, 2, (float[]){10, 13});
        weir_graph_free(g);
        CHECK_OK(weir_scope_end(d));
    }
    weir_release(x);
    weir_device_close(d);
}

/* On the CPU the call or run itself fails; a card reports the error at the next call that waits for
 * it. */
static bool at_once(void)
{
    return strcmp(check_device(), "cpu") == 0;
}

/* Checks that y fails, now or when it is read, with this message. */
static void refused(const weir_tensor *y, const char *op, const char *range)
{
    char buffer[256];

    if (at_once())
        CHECK(y == NULL);
    if (y)
        CHECK_STATUS(weir_read(y, buffer, weir_tensor_bytes(y)), WEIR_ERR_INDEX);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INDEX);
    CHECK_TEXT(weir_error(), op);
    CHECK_TEXT(weir_error(), range);
}

static weir_tensor *wide(weir_device *d, int64_t n, const int64_t *v)
{
    weir_tensor *const t = weir_input(d, weir_1d(WEIR_I64, n));
    if (CHECK(t))
        CHECK_OK(weir_write(t, v, weir_tensor_bytes(t)));
    return t;
}

/* Too large, negative, and far outside: every op that follows indices, i32 and i64. */
CASE(indices_outside_are_refused)
{
    static const int64_t wrong[] = {3, -1, -100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
                                    1ll << 32};
    weir_device *const   d = open(2);
    weir_tensor *const x = floats(d, weir_2d(WEIR_F32, 3, 2), (float[]){0, 1, 2, 3, 4, 5}, true);
    weir_tensor *const u = floats(d, weir_2d(WEIR_F32, 4, 2), (float[8]){1, 1, 1, 1}, false);
    weir_tensor *const logits = floats(d, weir_2d(WEIR_F32, 4, 3), (float[12]){1, 2, 3}, true);

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const bool    narrow = wrong[i] >= INT32_MIN && wrong[i] <= INT32_MAX;
        char          text[64];
        const int64_t v[] = {0, 2, wrong[i], 1};
        const int32_t w[] = {0, 2, (int32_t)wrong[i], 1};
        snprintf(text, sizeof text, " %lld", (long long)wrong[i]);
        for (int k = 0; k < 1 + narrow; k++) {
            weir_tensor *const index = k == 0 ? wide(d, 4, v) : numbers(d, 4, w);
            refused(weir_gather(x, index), "gather: index", "outside 0..2");
            CHECK_TEXT(weir_error(), text);
            refused(weir_scatter_add(x, index, u), "scatter_add: index", "outside 0..2");
            refused(weir_one_hot(index, 3, WEIR_F32), "one_hot: index", "outside 0..2");
            if (wrong[i] != WEIR_IGNORED_CLASS)
                refused(weir_cross_entropy(logits, index), "cross_entropy: class", "outside 0..2");
            weir_release(index);
        }
    }
    CHECK(weir_gather(x, x) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "gather: the index must be i32 or i64");
    weir_release(logits);
    weir_release(u);
    weir_release(x);
    weir_device_close(d);
}

/* A recorded step: the run's error tells what happened and which updates were done; only the next
 * run, with a valid index, changes the parameter. */
CASE(a_run_with_an_index_outside_fails_and_the_next_does_not)
{
    weir_device *const d = open(2);
    weir_tensor *const x = floats(d, weir_2d(WEIR_F32, 3, 2), (float[]){0, 1, 2, 3, 4, 5}, true);
    weir_tensor *const lr = floats(d, weir_scalar(WEIR_F32), (float[]){0.5f}, false);
    weir_tensor *const index = numbers(d, 2, (int32_t[]){0, 3});
    weir_tensor       *grad = NULL;
    weir_graph *const  g = weir_graph_begin(d);

    weir_tensor *const loss = weir_keep(weir_sum(weir_gather(x, index), 0, false));
    CHECK_OK(weir_gradients(loss, 1, &x, &grad));
    CHECK_OK(weir_sgd_update(x, grad, NULL, lr, NULL));
    CHECK_OK(weir_graph_end(g, NULL));
    if (at_once()) {
        CHECK_STATUS(weir_graph_run(g), WEIR_ERR_INDEX);
        CHECK_TEXT(weir_error(), "index 3 at position 1 is outside 0..2");
        CHECK_TEXT(weir_error(), "the run ended there, with 0 of 1 updates done");
        is(x, 6, (float[]){0, 1, 2, 3, 4, 5});
        CHECK_OK(weir_write(index, (int32_t[]){0, 2}, 8));
        CHECK_OK(weir_graph_run(g));
        is(x, 6, (float[]){-0.5f, 0.5f, 2, 3, 3.5f, 4.5f});
        is(loss, 1, (float[]){10});
    } else {
        float y;
        CHECK_OK(weir_graph_run(g));
        CHECK_STATUS(weir_read(loss, &y, sizeof y), WEIR_ERR_INDEX);
        CHECK_TEXT(weir_error(), "gather: index 3 is outside 0..2");
        CHECK_OK(weir_read(loss, &y, sizeof y));
        CHECK_OK(weir_graph_run(g));
        CHECK_STATUS(weir_device_sync(d), WEIR_ERR_INDEX);
        CHECK_OK(weir_device_sync(d));
    }
    weir_graph_free(g);
    weir_release(index);
    weir_release(lr);
    weir_release(x);
    weir_device_close(d);
}

/* Ignored rows count neither in the loss nor in the mean nor in the gradient, whatever they hold;
 * without any other there is no mean, and no gradient. */
CASE(ignored_classes_do_not_count)
{
    weir_device *const d = open(1);
    const float        v[] = {1, 2, NAN, INFINITY, 0, 3}, clean[] = {1, 2, 0, 3};
    weir_tensor *const x = floats(d, weir_2d(WEIR_F32, 3, 2), v, true);
    weir_tensor *const y = floats(d, weir_2d(WEIR_F32, 2, 2), clean, true);
    weir_tensor *const two = numbers(d, 2, (int32_t[]){0, 1});
    weir_tensor       *dx = NULL, *dy = NULL;
    float              want[4], loss[2];

    weir_tensor *const without = weir_cross_entropy(y, two);
    CHECK_OK(weir_gradients(without, 1, &y, &dy));
    CHECK_OK(weir_read(dy, want, sizeof want));
    CHECK_OK(weir_read(without, &loss[0], sizeof *loss));
    for (int k = 0; k < 3; k++) {
        const int64_t      ignored = k == 0 ? WEIR_IGNORED_CLASS : k == 1 ? 7 : -1;
        weir_tensor *const class = wide(d, 3, (int64_t[]){0, ignored, 1});
        weir_tensor *const with = k == 0 ? weir_cross_entropy(x, class)
                                         : weir_cross_entropy_ignore(x, class, ignored);
        CHECK_OK(weir_gradients(with, 1, &x, &dx));
        is(with, 1, loss);
        is(dx, 6, (float[]){want[0], want[1], 0, 0, want[2], want[3]});
        weir_release(class);
    }
    weir_tensor *const none = numbers(d, 3, (int32_t[]){1, 1, 1});
    weir_tensor *const all = weir_cross_entropy_ignore(x, none, 1);
    CHECK_OK(weir_gradients(all, 1, &x, &dx));
    is(all, 1, (float[]){NAN});
    is(dx, 6, (float[6]){0});
    weir_release(none);
    weir_release(two);
    weir_release(y);
    weir_release(x);
    weir_device_close(d);
}

/* Rows are added in the memory of scatter_add's first input, which has no later reader; a slice of
 * a constant is a constant. */
CASE(updates_go_in_place_and_parts_of_constants_fold)
{
    static const int32_t where[] = {2, 0, 2};
    weir_device *const   d = open(1);
    weir_tensor *const   x = floats(d, weir_2d(WEIR_F32, 3, 1), (float[]){1, 2, 3}, false);
    weir_tensor *const   u = floats(d, weir_2d(WEIR_F32, 3, 1), (float[]){10, 20, 30}, false);
    weir_tensor *const   index = numbers(d, 3, where);

    for (int graph = 0; graph < 2; graph++) {
        CHECK_OK(weir_scope_begin(d));
        weir_graph *const  g = graph ? weir_graph_begin(d) : NULL;
        weir_tensor *const y = weir_scatter_add(weir_neg(x), index, u);
        weir_tensor *const two = weir_fill(d, weir_2d(WEIR_F32, 4, 5), 2);
        weir_tensor *const z = weir_add(y, weir_narrow(weir_narrow(two, 0, 1, 3), 1, 4, 1));
        weir_keep(z);
        if (g) {
            CHECK_OK(weir_graph_end(g, NULL));
            CHECK_OK(weir_graph_run(g));
        }
        is(z, 3, (float[]){21, 0, 39});
        weir_graph_free(g);
        CHECK_OK(weir_scope_end(d));
    }
    weir_release(index);
    weir_release(u);
    weir_release(x);
    weir_device_close(d);
}

/* Writing a view of a new tensor leaves its other elements 0; updates through views are refused. */
CASE(parts_of_new_tensors_are_written_alone)
{
    weir_device *const d = open(1);
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_F32, 4));

    weir_graph *const g = weir_graph_begin(d);
    CHECK_OK(weir_write(weir_narrow(x, 0, 1, 2), (float[]){5, 6}, 8));
    weir_graph_free(g);
    is(x, 4, (float[]){0, 5, 6, 0});
    CHECK(weir_increment(weir_narrow(x, 0, 0, 2), 1) != WEIR_OK);
    CHECK_TEXT(weir_error(), "view");
    CHECK(weir_write_fill(weir_narrow(x, 0, 0, 2), 1) != WEIR_OK);
    CHECK_TEXT(weir_error(), "view");
    is(x, 4, (float[]){0, 5, 6, 0});
    weir_release(x);
    weir_device_close(d);
}

/* More than one call takes: joined in groups. */
CASE(many_are_joined_in_order)
{
    enum { MANY = 70 };
    weir_device *const d = open(1);
    weir_tensor       *part[MANY], *grad = NULL;
    float              want[MANY];

    for (int i = 0; i < MANY; i++)
        want[i] = (float)i;
    weir_tensor *const x = floats(d, weir_1d(WEIR_F32, MANY), want, true);
    CHECK_OK(weir_split(x, 0, MANY, NULL, part));
    is(weir_concat(MANY, part, 0), MANY, want);
    weir_tensor *const y = weir_stack(MANY, part, -1);
    CHECK(y && weir_tensor_desc(y).ndim == 2 && weir_tensor_desc(y).dim[1] == MANY);
    is(y, MANY, want);
    CHECK_OK(weir_gradients(weir_sum(weir_square(y), 0, false), 1, &x, &grad));
    for (int i = 0; i < MANY; i++)
        want[i] *= 2;
    is(grad, MANY, want);
    CHECK(weir_concat(0, part, 0) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    weir_release(x);
    weir_device_close(d);
}

CASE(bernoulli_is_one_as_often_as_asked)
{
    enum { COUNT = 20000 };
    weir_device *const d = open(2);
    float *const       v = malloc(COUNT * sizeof *v);

    for (int k = 0; k <= 10; k++) {
        const double p = k / 10.0;
        double       sum = 0;
        const weir_tensor *const y = weir_bernoulli(d, weir_1d(WEIR_F32, COUNT), p);
        if (!CHECK(y) || !CHECK_OK(weir_read(y, v, COUNT * sizeof *v)))
            break;
        for (int i = 0; i < COUNT; i++) {
            CHECK(v[i] == 0 || v[i] == 1);
            sum += (double)v[i];
        }
        CHECK_NEAR(sum / COUNT - p, 0, 5 * sqrt(p * (1 - p) / COUNT));
    }
    free(v);
    weir_device_close(d);
}

CASE(a_range_that_does_not_fit_is_refused)
{
    weir_device *const d = open(1);

    CHECK(weir_arange(d, WEIR_I32, 3, 0, 0x1p30) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "arange");
    CHECK(weir_arange(d, WEIR_I64, 3, (double)NAN, 1) == NULL);
    CHECK(weir_arange(d, WEIR_U8, 3, 254, 1) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_INVALID);
    CHECK(weir_arange(d, WEIR_BOOL, 3, 0, 1) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_DTYPE);
    weir_device_close(d);
}

/* Everything of this family once on a device of its own; false where memory ran short. */
static bool all_of_them(void)
{
    static const int64_t one[2] = {1, 1}, back[2] = {-1, 1};
    static const int32_t where[2] = {1, 0};
    weir_device *const   d = weir_device_open(check_device(), &(weir_device_options){.threads = 1});
    weir_tensor *const   x = d ? weir_param(d, weir_2d(WEIR_F32, 2, 3), "x") : NULL;
    weir_tensor *const   index = x ? weir_input(d, weir_1d(WEIR_I32, 2)) : NULL;
    weir_tensor         *part[10], *grad = NULL;
    bool                 ok = index && weir_write_fill(x, 2) == WEIR_OK &&
              weir_write(index, where, sizeof where) == WEIR_OK && weir_scope_begin(d) == WEIR_OK;

    if (ok) {
        for (int i = 0; i < 10; i++)
            part[i] = weir_slice(x, NULL, NULL, i % 2 ? one : back);
        weir_tensor *y = weir_concat(1, part, 0);
        for (int i = 1; i < 10 && !part[i]; i++)
            y = NULL;
        y = y ? weir_stack(10, part, 0) : NULL;
        y = y ? weir_reshape(y, 2, (const int64_t[]){20, 3}) : NULL;
        y = weir_pad(weir_repeat(y, 0, 2), one, one, WEIR_PAD_CONSTANT, 0);
        y = weir_scatter_add(weir_gather(y, index), index, weir_gather(y, index));
        y = weir_add(weir_sum(y, 0, false), weir_sum(weir_one_hot(index, 3, WEIR_F32), 0, false));
        ok = y && weir_gradients(y, 1, (weir_tensor *const[]){x}, &grad) == WEIR_OK &&
             weir_arange(d, WEIR_F32, 3, 0, 1) != NULL;
        CHECK_OK(weir_scope_end(d));
    }
    weir_release(index);
    weir_release(x);
    weir_device_close(d);
    return ok;
}

CASE(memory_that_runs_short_is_an_error_without_leaks)
{
    const int64_t alive = weir_mem_alive();
    bool          failed = true;

    for (int64_t n = 0; failed && n < 20000; n++) {
        weir_mem_fail_nth(n, true);
        const bool ok = all_of_them();
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        CHECK(ok == !failed);
        CHECK(weir_mem_alive() == alive);
    }
    CHECK(!failed);
}
