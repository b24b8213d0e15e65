/* evict_hazard.c - what could make a dropped value come back different: memory that is overwritten,
 * seeds that change, memory given away, states made of results, graphs, callbacks, closed devices.
 *
 * Values are dropped by a budget just above what is persistent, then the budget is lifted. */
#include "core/status.h"
#include "graph/fixture.h"

enum { N = 32 };        /* 128 bytes each */

typedef struct scene {
    weir_device *d;
    weir_tensor *x;     /* N times 2 */
} scene;

static void set(weir_device *d, size_t bytes)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", bytes);
    CHECK_OK(weir_device_set_budget(d, text));
}

static weir_memory memory_of(weir_device *d)
{
    weir_memory m;
    weir_device_memory(d, &m);
    return m;
}

static scene scene_open(void)
{
    scene s = {.d = fixture_open_unguarded()};
    s.x = weir_input(s.d, weir_1d(WEIR_F32, N));
    CHECK_OK(weir_write_fill(s.x, 2));
    set(s.d, 1000000);
    return s;
}

static void scene_close(scene *s)
{
    weir_release(s->x);
    weir_device_close(s->d);
}

/* Evicts all values that can be evicted, then allows `spare` bytes. Returns how many were
 * evicted. */
static uint64_t squeeze(const scene *s, size_t spare)
{
    const uint64_t before = memory_of(s->d).evicted;
    set(s->d, memory_of(s->d).persistent);
    const uint64_t gone = memory_of(s->d).evicted - before;
    set(s->d, memory_of(s->d).live + spare);
    return gone;
}

/* x -> h (nobody's) -> y. */
static weir_tensor *y_of(weir_tensor *x)
{
    CHECK_OK(weir_scope_begin(weir_tensor_device(x)));
    weir_tensor *const y = weir_escape(weir_affine(weir_exp(x), 3, 1));
    CHECK_OK(weir_scope_end(weir_tensor_device(x)));
    return y;
}

static float y_at(float x)
{
    scene        s = scene_open();
    weir_tensor *t = fixture_input(s.d, 1, &x);
    const float  y = fixture_value(y_of(t));
    weir_release(t);
    scene_close(&s);
    return y;
}

typedef weir_status (*overwriter)(const scene *s);

static weir_status by_write(const scene *s)
{
    float v[N] = {5};
    return weir_write(s->x, v, sizeof v);
}

static weir_status by_fill(const scene *s)
{
    return weir_write_fill(s->x, 5);
}

static weir_status by_draw(const scene *s)
{
    return weir_write_uniform(s->x, 4, 6);
}

static weir_status by_increment(const scene *s)
{
    return weir_increment(s->x, 3);
}

static weir_status by_assign(const scene *s)
{
    return weir_assign(s->x, weir_fill(s->d, weir_scalar(WEIR_F32), 5));
}

static weir_status by_pointer(const scene *s)
{
    void   *at;
    int64_t stride[WEIR_MAX_DIMS];
    WEIR_TRY(weir_tensor_memory(s->x, &at, stride));
    ((float *)at)[0] = 5;
    return WEIR_OK;
}

static weir_status by_graph(const scene *s)
{
    weir_graph *g = weir_graph_begin(s->d);
    weir_increment(s->x, 3);
    weir_status status = weir_graph_end(g, NULL);
    for (int i = 0; i < 2 && status == WEIR_OK; i++)
        status = weir_graph_run(g);
    weir_graph_free(g);
    return status;
}

static const overwriter overwriters[] = {by_write,  by_fill,    by_draw, by_increment,
                                         by_assign, by_pointer, by_graph};

/* Whether h is on the device or evicted, with or without room for a copy, with one reader or many,
 * y keeps its value, and nothing is left when y is released. */
CASE(overwritten_inputs)
{
    const float want = y_at(2);

    for (size_t i = 0; i < ARRAY_LENGTH(overwriters); i++)
        for (int gone = 0; gone < 2 && (check_on_cpu() || overwriters[i] != by_pointer); gone++)
            for (int several = 0; several < 2; several++) {
                scene        s = scene_open();
                weir_tensor *y[3];
                const size_t block = s.d->ops->align > 128 ? s.d->ops->align : 128;
                CHECK_OK(weir_scope_begin(s.d));
                for (int k = 0; k <= 2 * several; k++)
                    y[k] = y_of(s.x);
                if (gone)
                    CHECK(squeeze(&s, 3 * block) == (uint64_t)(1 + 2 * several));
                if (!CHECK_OK(overwriters[i](&s)))
                    printf("    overwriter %zu, gone %d, several %d\n", i, gone, several);
                CHECK(fixture_value(s.x) >= 4);
                set(s.d, 1000000);
                squeeze(&s, 1000);
                for (int k = 0; k <= 2 * several; k++)
                    CHECK(fixture_value(y[k]) == want);
                CHECK_OK(weir_device_set_budget(s.d, NULL));
                CHECK_OK(weir_scope_end(s.d));
                CHECK(memory_of(s.d).live == memory_of(s.d).persistent);
                scene_close(&s);
            }
}

/* Without room for either the write fails, and both old values are unchanged. */
CASE(overwriting_without_room)
{
    const float  want = y_at(2);
    scene        s = scene_open();
    weir_tensor *y = y_of(s.x);

    CHECK(squeeze(&s, 64) == 1);
    CHECK_STATUS(by_write(&s), WEIR_ERR_BUDGET);
    CHECK_STATUS(by_increment(&s), WEIR_ERR_BUDGET);
    CHECK(fixture_value(s.x) == 2);
    set(s.d, 1000000);
    CHECK_OK(by_increment(&s));
    CHECK(fixture_value(s.x) == 5 && fixture_value(y) == want &&
          fixture_value(y_of(s.x)) == y_at(5));
    scene_close(&s);
}

/* Twice, with readers of each version. */
CASE(several_versions)
{
    scene        s = scene_open();
    weir_tensor *y[4];

    for (int i = 0; i < 4; i++) {
        y[i] = weir_add(y_of(s.x), i > 0 ? y[i - 1] : s.x);
        squeeze(&s, 2000);
        CHECK_OK(weir_increment(s.x, 1));
    }
    squeeze(&s, 2000);
    float sum = 2;
    for (int i = 0; i < 4; i++) {
        sum = y_at((float)(2 + i)) + sum;
        CHECK(fixture_value(y[i]) == sum);
    }
    scene_close(&s);
}

CASE(random_draws_come_back)
{
    scene        s = scene_open();
    weir_tensor *y = weir_dropout(weir_uniform(s.d, weir_1d(WEIR_F32, N), 1, 2), 0.5);
    float        before[N], after[N];

    CHECK_OK(weir_read(y, before, sizeof before));
    CHECK(squeeze(&s, 2000) == 2);
    CHECK_OK(weir_device_seed(s.d, 99));
    CHECK_OK(weir_read(y, after, sizeof after));
    CHECK_BITS(before, after, sizeof before);
    weir_tensor *z = weir_uniform(s.d, weir_1d(WEIR_F32, N), 1, 2);
    CHECK_OK(weir_device_seed(s.d, 99));
    CHECK(fixture_value(z) == fixture_value(weir_uniform(s.d, weir_1d(WEIR_F32, N), 1, 2)));
    scene_close(&s);
}

/* Views share an evicted block; strided views are read through a copy kernel. */
CASE(views_of_a_dropped_value)
{
    scene        s = scene_open();
    weir_tensor *r = weir_cumsum(s.x, 0, false);
    weir_tensor *t = weir_transpose(weir_reshape(r, 2, (int64_t[]){4, 8}), NULL);
    float        v[N];

    CHECK(squeeze(&s, 1000) == 1);
    CHECK_OK(weir_read(t, v, sizeof v));
    CHECK(v[0] == 2 && v[1] == 18 && v[4] == 4);
    squeeze(&s, 1000);
    CHECK(fixture_value(weir_sum(t, 0, false)) == 2 * N * (N + 1) / 2);
    scene_close(&s);
}

/* Memory whose address was handed out may change at any time, so values made from it are not
 * evicted. */
CASE(memory_given_away)
{
    if (!check_on_cpu())        /* elsewhere the host has no address */
        return;
    scene        s = scene_open();
    weir_tensor *y = weir_exp(s.x);
    void        *at;
    int64_t      stride[WEIR_MAX_DIMS];

    CHECK(squeeze(&s, 1000) == 1);
    CHECK_OK(weir_tensor_memory(y, &at, stride));
    ((float *)at)[0] = 7;
    weir_tensor *z = weir_affine(y, 2, 0);
    ((float *)at)[0] = 8;
    CHECK(squeeze(&s, 1000) == 0);
    CHECK(fixture_value(y) == 8 && fixture_value(z) == 14);
    scene_close(&s);
}

CASE(results_that_become_states)
{
    scene        s = scene_open();
    weir_tensor *y = weir_retain(weir_detach(weir_affine(s.x, 2, 0)));
    weir_tensor *z = weir_affine(y, 10, 0);

    CHECK(squeeze(&s, 1000) == 2);
    CHECK_OK(weir_tensor_make_state(y));
    CHECK_OK(weir_increment(y, 1));
    CHECK(fixture_value(y) == 5 && fixture_value(z) == 40);
    squeeze(&s, 1000);
    CHECK(fixture_value(y) == 5 && fixture_value(z) == 40);
    weir_release(y);
    scene_close(&s);
}

/* A graph reads an evicted value, and writes an output from which values were computed. */
CASE(graphs_beside)
{
    scene        s = scene_open();
    weir_tensor *y = weir_affine(s.x, 2, 0);

    CHECK(squeeze(&s, 2000) == 1);
    weir_graph  *g = weir_graph_begin(s.d);
    weir_tensor *out = weir_retain(weir_keep(weir_add(y, s.x)));
    CHECK(fixture_finish(g, NULL));
    CHECK(squeeze(&s, 2000) == 0);
    weir_tensor *z = weir_affine(out, 10, 0);
    CHECK(squeeze(&s, 2000) == 1);
    CHECK_OK(weir_write_fill(s.x, 3));
    CHECK_OK(weir_graph_run(g));
    CHECK(fixture_value(y) == 4 && fixture_value(out) == 7 && fixture_value(z) == 60);
    weir_graph_free(g);
    weir_release(out);
    scene_close(&s);
}

static weir_status count_call(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    ++*(int *)ctx;
    memcpy(y[0].data, x[0].data, N * sizeof(float));
    return WEIR_OK;
}

CASE(callbacks_run_once)
{
    static const weir_callback_def count_def = {.name = "count", .forward = count_call};
    scene           s = scene_open();
    const weir_desc desc = weir_1d(WEIR_F32, N);
    int             calls = 0;
    weir_tensor    *h = weir_exp(s.x), *c, *y;

    CHECK_OK(weir_callback(&count_def, &calls, 1, &h, 1, &desc, &c));
    y = weir_add(c, h);
    CHECK(squeeze(&s, 1000) == 2);
    CHECK(fixture_value(y) == 2 * fixture_value(h) && calls == 1);
    scene_close(&s);
}

/* Gradients that need evicted values; a checkpoint's second run. */
static weir_status square_of_exp(void *ctx, weir_tensor *const *in, weir_tensor **out)
{
    (void)ctx;
    out[0] = weir_square(weir_dropout(weir_exp(in[0]), 0.5));
    return out[0] ? WEIR_OK : weir_error_status();
}

static float gradient(bool drop, bool checkpoint)
{
    scene        s = scene_open();
    weir_tensor *y = NULL, *dx = NULL;
    float        v[N], sum = 0;

    CHECK_OK(weir_tensor_set_needs_grad(s.x, true));
    CHECK_OK(checkpoint ? weir_checkpoint(square_of_exp, NULL, 1, &s.x, 1, &y)
                        : square_of_exp(NULL, &s.x, &y));
    weir_tensor *loss = weir_sum(weir_sqrt(y), 0, false);
    if (drop)
        CHECK(squeeze(&s, 5000) >= 3);
    CHECK_OK(weir_gradients(loss, 1, &s.x, &dx));
    if (drop)
        squeeze(&s, 5000);
    if (CHECK(dx != NULL) && CHECK_OK(weir_read(dx, v, sizeof v)))
        for (int i = 0; i < N; i++)
            sum += isnan(v[i]) ? 1 : v[i];
    scene_close(&s);
    return sum;
}

CASE(gradients_of_dropped_values)
{
    const float want = gradient(false, false);

    CHECK(gradient(true, false) == want);
    CHECK(gradient(false, true) == want && gradient(true, true) == want);
}

/* A chain of any length is freed, evicted and recomputed without recursion; a state that is updated
 * again and again does not keep all its versions. */
CASE(long_chains)
{
    scene        s = scene_open();
    weir_tensor *h = weir_retain(s.x);

    for (int i = 0; i < 30000; i++) {
        CHECK_OK(weir_scope_begin(s.d));
        weir_tensor *const next = weir_retain(weir_affine(h, 1, 1));
        CHECK_OK(weir_scope_end(s.d));
        weir_release(h);
        h = next;
    }
    CHECK(memory_of(s.d).live < 1000);
    squeeze(&s, 1000);
    CHECK(fixture_value(h) == 30002);
    CHECK_OK(weir_write_fill(s.x, 1));
    squeeze(&s, 1000);
    CHECK(fixture_value(h) == 30002);
    weir_release(h);
    scene_close(&s);
}

/* Retained handles outlive the device, evicted or not; lifting a budget keeps all values. */
CASE(the_end)
{
    for (int lifted = 0; lifted < 2; lifted++) {
        scene        s = scene_open();
        weir_tensor *y = weir_retain(y_of(s.x)), *z = weir_retain(weir_add(y, s.x));
        CHECK(squeeze(&s, 1000) == 2);
        if (lifted) {
            CHECK_OK(weir_device_set_budget(s.d, NULL));
            CHECK(fixture_value(weir_add(z, y)) == 2 * y_at(2) + 2);
            CHECK_OK(weir_device_set_budget(s.d, "50%"));
            CHECK(weir_fill(s.d, weir_1d(WEIR_F32, 1000), 1) != NULL);
        }
        weir_device_close(s.d);
        CHECK_STATUS(weir_read(z, &(float){0}, 4), WEIR_ERR_DEVICE);
        weir_release(y);
        weir_release(z);
        weir_release(s.x);
    }
}
