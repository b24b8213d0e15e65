/* custom_op.c - operations of a program's own: values, gradients against differences, layouts, how
 * often and in what order they run, failures. Graph off and on. */
#include "graph/fixture.h"

/* The ctx of a callback: counters, and switches that the test sets. */
typedef struct tally {
    int    forward, backward;
    double scale;
    bool   fail;
    char   order[16];
    int    norder;
} tally;

static int64_t count(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++)
        n *= d->dim[i];
    return n;
}

/* ---- y = scale x1 x2^2 + position: two inputs, row-major order shows ---- */

static weir_status product(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    tally *const       t = ctx;
    const float *const a = x[0].data, *const b = x[1].data;
    float *const       out = y[0].data;

    t->forward++;
    if (t->fail)
        return weir_fail(WEIR_ERR_IO, "product: no more products today");
    for (int64_t i = 0; i < count(&y[0].desc); i++)
        out[i] = (float)t->scale * a[i] * b[i] * b[i] + (float)i;
    return WEIR_OK;
}

static weir_status product_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                                const weir_host_in *dy, const weir_host_out *dx)
{
    tally *const       t = ctx;
    const float *const a = x[0].data, *const b = x[1].data, *const g = dy[0].data;
    float *const       da = dx[0].data, *const db = dx[1].data;

    t->backward++;
    CHECK(y[0].data == NULL && count(&y[0].desc) == count(&dx[0].desc));
    for (int64_t i = 0; i < count(&dy[0].desc); i++) {
        if (da)
            da[i] = (float)t->scale * g[i] * b[i] * b[i];
        if (db)
            db[i] = (float)t->scale * g[i] * 2 * a[i] * b[i];
    }
    return WEIR_OK;
}

static const weir_callback_def product_def = {
    .name = "product", .forward = product, .backward = product_back, .backward_without_y = true};

static weir_tensor *call_product(tally *t, weir_tensor *a, weir_tensor *b)
{
    weir_tensor    *y = NULL;
    const weir_desc d = weir_tensor_desc(a);
    CHECK_OK(weir_callback(&product_def, t, 2, (weir_tensor *[]){a, b}, 1, &d, &y));
    return y;
}

enum { MAX = 2 * 3 * 2 * 2 };

typedef struct answer {
    float y[MAX], da[MAX], db[MAX];
} answer;

/* Values and gradients of sum(w y), through `view` of both operands if it is not NULL. */
static void run_product(bool on, weir_desc desc, weir_tensor *(*view)(weir_tensor *), tally *t,
                        answer *out)
{
    weir_device *d = fixture_open();
    weir_tensor *a = weir_param(d, desc, "a"), *b = weir_param(d, desc, "b"), *grad[2];
    float        v[MAX], w[MAX];
    const size_t bytes = weir_tensor_bytes(a);

    memset(out, 0, sizeof *out);
    for (int i = 0; i < MAX; i++) {
        v[i] = (float)(i % 7) - 2.5f;
        w[i] = (float)(i % 5) + 0.5f;
    }
    CHECK_OK(weir_write(a, v, bytes));
    CHECK_OK(weir_write(b, w, bytes));
    weir_graph  *g = on ? weir_graph_begin(d) : NULL;
    weir_tensor *y = weir_keep(call_product(t, view ? view(a) : a, view ? view(b) : b));
    CHECK_OK(weir_gradients_from(y, view ? view(b) : b, 2, (weir_tensor *[]){a, b}, grad));
    weir_keep(grad[0]);
    weir_keep(grad[1]);
    if (g)
        fixture_finish(g, NULL);
    CHECK_OK(weir_read(y, out->y, bytes));
    CHECK_OK(weir_read(grad[0], out->da, bytes));
    CHECK_OK(weir_read(grad[1], out->db, bytes));
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

/* Images are channels-last inside; the callback sees rows. dy is b, hence the powers. */
static void check_product(weir_desc desc)
{
    answer off, on;
    tally  t = {.scale = 0.5};

    run_product(false, desc, NULL, &t, &off);
    CHECK(t.forward == 1 && t.backward == 1);
    run_product(true, desc, NULL, &t, &on);
    CHECK(t.forward == 2 && t.backward == 2);
    CHECK_BITS(&off, &on, sizeof off);
    for (int64_t i = 0; i < count(&desc); i++) {
        const float a = (float)(i % 7) - 2.5f, b = (float)(i % 5) + 0.5f;
        CHECK_NEAR(off.y[i], 0.5f * a * b * b + (float)i, 1e-6);
        CHECK_NEAR(off.da[i], 0.5f * b * b * b, 1e-6);
        CHECK_NEAR(off.db[i], a * b * b, 1e-6);
    }
}

CASE(values_and_gradients)
{
    check_product(weir_scalar(WEIR_F32));
    check_product(weir_1d(WEIR_F32, 5));
    check_product(weir_2d(WEIR_F32, 4, 3));
    check_product(weir_4d(WEIR_F32, 2, 3, 2, 2));
    check_product(weir_4d(WEIR_F32, 2, 3, 0, 2));
    check_product(weir_1d(WEIR_F32, 0));
}

static weir_tensor *reversed(weir_tensor *t)
{
    return weir_transpose(t, NULL);
}

CASE(views_arrive_row_major)
{
    for (int images = 0; images < 2; images++) {
        const weir_desc desc =
            images ? weir_4d(WEIR_F32, 2, 3, 2, 2) : weir_2d(WEIR_F32, 4, 3);
        answer off, on;
        tally  t = {.scale = 1};
        run_product(false, desc, reversed, &t, &off);
        run_product(true, desc, reversed, &t, &on);
        CHECK_BITS(&off, &on, sizeof off);
        const int64_t rows = desc.dim[0];
        const float   a = (float)(1 % 7) - 2.5f, b = (float)(1 % 5) + 0.5f;
        CHECK_NEAR(off.da[1], b * b * b, 1e-6);
        if (!images)        /* element (0,1) of the tensor is (1,0) of the view, number `rows` */
            CHECK_NEAR(off.y[rows], a * b * b + (float)rows, 1e-6);
    }
}

/* ---- f64, several results of several types, a result that no gradient reaches ---- */

/* y0 = sin(x0), y1 = sum of x0 x1, y2 = number of negative x0; x2 shifts nothing. */
static weir_status several(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const double *const a = x[0].data, *const b = x[1].data;
    double *const       sine = y[0].data, *const dot = y[1].data;

    (void)ctx;
    *dot = 0;
    for (int64_t i = 0; i < count(&x[0].desc); i++) {
        sine[i] = sin(a[i]);
        *dot += a[i] * b[i];
    }
    return WEIR_OK;
}

static weir_status several_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                                const weir_host_in *dy, const weir_host_out *dx)
{
    const double *const a = x[0].data, *const b = x[1].data, *const sine = y[0].data;
    const double *const dsine = dy[0].data, *const ddot = dy[1].data;
    double *const       da = dx[0].data, *const db = dx[1].data;

    (void)ctx;
    for (int64_t i = 0; i < count(&x[0].desc); i++) {
        const double cosine = copysign(sqrt(fmax(0, 1 - sine[i] * sine[i])), cos(a[i]));
        if (da)
            da[i] = dsine[i] * cosine + *ddot * b[i];
        if (db)
            db[i] = *ddot * a[i];
    }
    return WEIR_OK;
}

static const weir_callback_def several_def = {
    .name = "several", .forward = several, .backward = several_back};

enum { LONG = 7 };

/* sum(y0^2) + 3 y1, or one of the two terms. */
static weir_tensor *loss_of(weir_tensor *a, weir_tensor *b, int which)
{
    const weir_desc desc[2] = {weir_tensor_desc(a), weir_scalar(WEIR_F64)};
    weir_tensor    *y[2];

    if (!CHECK_OK(weir_callback(&several_def, NULL, 2, (weir_tensor *[]){a, b}, 2, desc, y)))
        return NULL;
    weir_tensor *first = weir_sum(weir_square(y[0]), 0, false), *second = weir_affine(y[1], 3, 0);
    return which == 0 ? first : which == 1 ? second : weir_add(first, second);
}

static double value_at(weir_tensor *a, weir_tensor *b, int which)
{
    double v = NAN;
    CHECK_OK(weir_read(loss_of(a, b, which), &v, sizeof v));
    return v;
}

/* Central differences in f64. */
static void check_gradient(weir_tensor *a, weir_tensor *b, weir_tensor *of, const double *got,
                           int which)
{
    double v[LONG];

    CHECK_OK(weir_read(of, v, sizeof v));
    for (int i = 0; i < LONG; i++) {
        const double at = v[i], h = 1e-5;
        v[i] = at + h;
        CHECK_OK(weir_write(of, v, sizeof v));
        const double above = value_at(a, b, which);
        v[i] = at - h;
        CHECK_OK(weir_write(of, v, sizeof v));
        const double below = value_at(a, b, which);
        v[i] = at;
        CHECK_OK(weir_write(of, v, sizeof v));
        CHECK_NEAR(got[i], (above - below) / (2 * h), 1e-7);
    }
}

static void check_several(bool on, int which, bool both)
{
    weir_device *d = fixture_open();
    weir_tensor *a = weir_param(d, weir_1d(WEIR_F64, LONG), "a");
    weir_tensor *b = weir_param(d, weir_1d(WEIR_F64, LONG), "b"), *grad[2];
    double       da[LONG] = {0}, db[LONG] = {0};

    CHECK_OK(weir_write_uniform(a, -1, 1));
    CHECK_OK(weir_write_uniform(b, -1, 1));
    CHECK_OK(weir_tensor_set_needs_grad(b, both));
    weir_graph *g = on ? weir_graph_begin(d) : NULL;
    CHECK_OK(weir_gradients(loss_of(a, b, which), 2, (weir_tensor *[]){a, b}, grad));
    CHECK((grad[1] != NULL) == both);
    weir_keep(grad[0]);
    if (both)
        weir_keep(grad[1]);
    if (g)
        fixture_finish(g, NULL);
    CHECK_OK(weir_read(grad[0], da, sizeof da));
    check_gradient(a, b, a, da, which);
    if (both) {
        CHECK_OK(weir_read(grad[1], db, sizeof db));
        check_gradient(a, b, b, db, which);
    }
    weir_graph_free(g);
    weir_release(a);
    weir_release(b);
    weir_device_close(d);
}

CASE(gradients_against_differences)
{
    for (int which = 0; which < 3; which++)
        for (int on = 0; on < 2; on++)
            check_several(on, which, which != 0 || !on);
}

/* ---- no gradient, integers, nothing merged, the order kept ---- */

static weir_status negatives(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const float *const v = x[0].data;
    int64_t *const     n = y[0].data;
    tally *const       t = ctx;

    *n = 0;
    for (int64_t i = 0; i < count(&x[0].desc); i++)
        *n += v[i] < 0;
    *n += 100 * t->forward++;
    return WEIR_OK;
}

static const weir_callback_def negatives_def = {.name = "negatives", .forward = negatives};

static weir_tensor *call_negatives(tally *t, weir_tensor *x)
{
    const weir_desc desc = weir_scalar(WEIR_I64);
    weir_tensor    *y = NULL;
    CHECK_OK(weir_callback(&negatives_def, t, 1, &x, 1, &desc, &y));
    return y;
}

CASE(runs_at_each_run_and_is_never_merged)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_param(d, 3, (float[]){-1, 2, -3});
    tally        t = {0};
    int64_t      n[2];

    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *y[2] = {weir_keep(call_negatives(&t, x)), weir_keep(call_negatives(&t, x))};
    call_negatives(&t, x);                  /* its result is not used */
    CHECK(!weir_tensor_needs_grad(y[0]));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK(t.forward == 0 && fixture_count(g, WEIR_OP_CALLBACK) == 2);
    for (int run = 0; run < 3; run++) {
        CHECK_OK(weir_graph_run(g));
        for (int i = 0; i < 2; i++)
            CHECK_OK(weir_read(y[i], &n[i], sizeof n[i]));
        CHECK(n[0] == 2 + 200 * run && n[1] == 102 + 200 * run);
    }
    CHECK(t.forward == 6);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- a run that fails, and is repeated ---- */

enum { DRAWN = 64 };

/* Fails at the call that *ctx names, counted down. */
static weir_status failing(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    memcpy(y[0].data, x[0].data, (size_t)count(&x[0].desc) * sizeof(float));
    return --*(int *)ctx == 0 ? WEIR_ERR_IO : WEIR_OK;
}

static const weir_callback_def failing_def = {.name = "failing", .forward = failing};

/* Three runs of a dropout and a callback that fails at its nth call; a failed run is repeated. */
static void drop_thrice(int nth, float out[3][DRAWN])
{
    weir_device    *d = fixture_open();
    weir_tensor    *x = fixture_tensor(d, weir_param, DRAWN, NULL), *y = NULL;
    const weir_desc desc = weir_1d(WEIR_F32, DRAWN);
    int             left = nth;

    CHECK_OK(weir_write_fill(x, 1));
    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *dropped = weir_dropout(x, 0.5);
    CHECK_OK(weir_callback(&failing_def, &left, 1, &dropped, 1, &desc, &y));
    weir_keep(y);
    CHECK_OK(weir_graph_end(g, NULL));
    for (int run = 0; run < 3; run++) {
        if (run + 1 == nth)
            CHECK_STATUS(weir_graph_run(g), WEIR_ERR_IO);
        CHECK_OK(weir_graph_run(g));
        CHECK_OK(weir_read(y, out[run], sizeof out[run]));
    }
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(a_repeated_run_draws_the_same_numbers)
{
    float want[3][DRAWN], out[3][DRAWN];

    drop_thrice(0, want);
    CHECK(memcmp(want[0], want[1], sizeof want[0]) != 0);
    for (int nth = 1; nth <= 3; nth++) {
        drop_thrice(nth, out);
        CHECK_BITS(out, want, sizeof want);
    }
}

/* ---- the order of callbacks that share a ctx ---- */

typedef struct mark {
    tally *t;
    char   letter;
} mark;

static weir_status note(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const mark *const m = ctx;
    m->t->order[m->t->norder++] = m->letter;
    memcpy(y[0].data, x[0].data, (size_t)count(&x[0].desc) * sizeof(float));
    return WEIR_OK;
}

static const weir_callback_def note_def = {.name = "note", .forward = note};

static weir_tensor *call_note(mark *m, weir_tensor *x)
{
    const weir_desc desc = weir_tensor_desc(x);
    weir_tensor    *y = NULL;
    CHECK_OK(weir_callback(&note_def, m, 1, &x, 1, &desc, &y));
    return y;
}

/* By size alone, the order pass would finish each sum before the next large value is made. */
CASE(order_is_kept)
{
    weir_device *d = fixture_open();
    weir_tensor *x = fixture_input(d, 5000, NULL);
    tally        t = {0};
    mark         m[4];

    weir_graph  *g = weir_graph_begin(d);
    weir_tensor *large[3], *total = NULL;
    for (int i = 0; i < 3; i++) {
        m[i] = (mark){&t, (char)('a' + i)};
        large[i] = call_note(&m[i], weir_affine(x, 1, i));
    }
    for (int i = 3; i-- > 0;) {
        weir_tensor *sum = weir_sum(large[i], 0, false);
        total = total ? weir_add(total, sum) : sum;
    }
    m[3] = (mark){&t, 'd'};
    weir_keep(call_note(&m[3], total));
    CHECK(fixture_finish(g, NULL));
    CHECK(strcmp(t.order, "abcd") == 0);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* The row-major copies of images are a part of the plan. */
CASE(planned_is_measured)
{
    weir_device *d = fixture_open();
    weir_tensor *x = weir_param(d, weir_4d(WEIR_F32, 3, 5, 7, 9), "x"), *grad;
    tally        t = {.scale = 1};

    CHECK_OK(weir_write_uniform(x, -1, 1));
    weir_graph *g = weir_graph_begin(d);
    CHECK_OK(weir_gradients_from(call_product(&t, weir_square(x), x), NULL, 1, &x, &grad));
    weir_keep(grad);
    CHECK_OK(weir_graph_end(g, NULL));
    weir_graph_stats stats;
    size_t           peak = 0;
    CHECK_OK(weir_graph_stats_of(g, &stats));
    CHECK(stats.workspace_bytes >= 4 * weir_tensor_bytes(x));
    CHECK_OK(weir_graph_measure(g, &peak));
    CHECK(peak == stats.arena_bytes);
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

/* ---- failures ---- */

static weir_status silent(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    (void)ctx, (void)x, (void)y;
    return WEIR_ERR_DEVICE;
}

CASE(failures_are_the_callers)
{
    static const weir_callback_def silent_def = {.name = "silent", .forward = silent};
    weir_device                   *d = fixture_open();
    weir_tensor                   *x = fixture_param(d, 2, (float[]){1, 2}), *y;
    const weir_desc                desc = weir_1d(WEIR_F32, 2);
    tally                          t = {.scale = 1, .fail = true};

    weir_tensor *in[2] = {x, x};
    CHECK_STATUS(weir_callback(&product_def, &t, 2, in, 1, &desc, &y), WEIR_ERR_IO);
    CHECK(y == NULL);
    CHECK_TEXT(weir_error(), "no more products");
    CHECK_STATUS(weir_callback(&silent_def, NULL, 1, in, 1, &desc, &y), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "callback 'silent': forward failed");

    weir_graph *g = weir_graph_begin(d);
    weir_keep(call_product(&t, x, x));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_IO);
    t.fail = false;
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(x);
    weir_device_close(d);
}

CASE(mistakes)
{
    weir_device    *d = fixture_open();
    weir_tensor    *x = fixture_param(d, 2, (float[]){1, 2}), *y[4];
    weir_tensor    *many[9] = {x, x, x, x, x, x, x, x, x};
    const weir_desc one = weir_1d(WEIR_F32, 2), bad = weir_1d(WEIR_F32, -1);
    const weir_desc four[5] = {one, one, one, one, one};
    tally           t = {.scale = 1};

    CHECK(weir_callback(NULL, &t, 1, &x, 1, &one, y) != WEIR_OK);
    CHECK(weir_callback(&(weir_callback_def){0}, &t, 1, &x, 1, &one, y) != WEIR_OK);
    CHECK_STATUS(weir_callback(&product_def, &t, 0, &x, 1, &one, y), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_callback(&product_def, &t, 5, many, 1, &one, y), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_callback(&several_def, &t, 3, many, 3, four, y), WEIR_ERR_INVALID);
    CHECK_TEXT(weir_error(), "at most 8");
    CHECK_STATUS(weir_callback(&note_def, &t, 9, many, 1, &one, y), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_callback(&note_def, &t, 1, many, 5, four, y), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_callback(&note_def, &t, 1, many, 1, &bad, y), WEIR_ERR_SHAPE);
    many[1] = NULL;
    CHECK(weir_callback(&product_def, &t, 2, many, 1, &one, y) != WEIR_OK);
    CHECK(t.forward == 0 && y[0] == NULL);
    weir_release(x);
    weir_device_close(d);
}

/* Every allocation fails in turn: a status, no leak, and the next call works. */
CASE(short_of_memory)
{
    bool failed = true;

    for (int64_t n = 0; failed; n++) {
        weir_device    *d = fixture_open();
        const weir_desc desc = weir_4d(WEIR_F32, 1, 2, 2, 2);
        weir_tensor    *x = weir_param(d, desc, "x"), *y = NULL, *grad = NULL;
        weir_tensor    *in[2] = {x, x};
        tally           t = {.scale = 1};
        CHECK_OK(weir_write_fill(x, 2));
        weir_mem_fail_nth(n, false);
        weir_status status = weir_callback(&product_def, &t, 2, in, 1, &desc, &y);
        if (status == WEIR_OK)
            status = weir_gradients_from(y, NULL, 1, &x, &grad);
        failed = weir_mem_failed();
        weir_mem_fail_nth(-1, false);
        if (!CHECK(status == WEIR_OK || (failed && status == WEIR_ERR_NOMEM)))
            printf("    allocation %lld: %s\n", (long long)n, weir_error());
        CHECK(call_product(&t, x, x) != NULL);
        weir_release(x);
        weir_device_close(d);
    }
}
