/* fault.c - every allocation of a training step fails in turn: a status, no leak, no crash, and the
 * next call works as if nothing had happened.
 *
 * All points are tried when the suite runs with WEIR_TEST_FULL=1; otherwise a spread of them. */
#include <stdlib.h>

#include "graph/fixture.h"
#include "graph/train.h"

enum { BATCH = 2, STEPS = 2, SAMPLES = 120 };

typedef struct job {
    bool     graph;
    bool     sticky;
    uint64_t bits;          /* the result of a job without failures */
    int64_t  points;        /* allocations it makes */
} job;

/* Opens a device, makes a network and data, runs STEPS steps, and closes everything. */
static weir_status whole_job(const job *j, uint64_t *bits)
{
    const weir_step_options how = {.graph = j->graph};
    train       t;
    weir_status status = train_open(&t, TRAIN_DIGITS, BATCH, 0, &how);

    *bits = 0;
    if (status != WEIR_OK)
        return status;
    for (int i = 0; i < STEPS && status == WEIR_OK; i++)
        status = train_step(&t, i);
    weir_mem_fail_nth(-1, false);
    if (status == WEIR_OK)
        *bits = train_bits(&t);
    train_close(&t);
    return status;
}

static bool undisturbed(job *j)
{
    uint64_t bits;
    return CHECK_OK(whole_job(j, &bits)) && CHECK(bits == j->bits);
}

/* Counts the allocations of a job and keeps its result. */
static bool reference(job *j)
{
    uint64_t bits;

    if (!CHECK_OK(whole_job(j, &j->bits)))      /* libraries allocate their caches */
        return false;
    const uint64_t before = weir_mem_calls();
    if (!CHECK_OK(whole_job(j, &bits)) || !CHECK(bits == j->bits))
        return false;
    j->points = (int64_t)(weir_mem_calls() - before);
    return true;
}

static bool fail_at(job *j, int64_t n)
{
    const int64_t alive = weir_mem_alive();
    uint64_t      bits;

    weir_mem_fail_nth(n, j->sticky);
    const weir_status status = whole_job(j, &bits);
    weir_mem_fail_nth(-1, false);
    bool good = CHECK(status == WEIR_OK ? bits == j->bits : status == WEIR_ERR_NOMEM);
    good = CHECK(weir_mem_alive() == alive) && good;
    good = (status == WEIR_OK || check_text(weir_error(), "memory", __FILE__, __LINE__)) && good;
    if (!good)
        printf("    allocation %lld of %lld, %s, graph %s: %s: %s\n", (long long)n,
               (long long)j->points, j->sticky ? "and all later" : "once", j->graph ? "on" : "off",
               weir_status_text(status), weir_error());
    return good;
}

static void fail_at_points(job *j)
{
    if (!reference(j))
        return;
    const int64_t stride = check_full() || j->points < SAMPLES ? 1 : j->points / SAMPLES;
    int           bad = 0;

    for (int64_t n = 0; n < j->points && bad < 5; n += stride) {
        bad += !fail_at(j, n);
        if (n / stride % 16 == 0)
            bad += !undisturbed(j);
    }
    undisturbed(j);
}

CASE(graph_off_once)
{
    fail_at_points(&(job){.graph = false});
}

CASE(graph_off_from_then_on)
{
    fail_at_points(&(job){.graph = false, .sticky = true});
}

CASE(graph_on_once)
{
    fail_at_points(&(job){.graph = true});
}

CASE(graph_on_from_then_on)
{
    fail_at_points(&(job){.graph = true, .sticky = true});
}

/* ---- recording and planning, every allocation: the step is tried again on the same device ---- */

/* A failed first step leaves the device as it was: the next try succeeds, with the same bits. */
static bool rerun_at(int64_t n, bool sticky, uint64_t want, bool *over)
{
    const weir_step_options how = {.graph = true};
    train t;

    if (!CHECK_OK(train_open(&t, TRAIN_DIGITS, BATCH, 0, &how)))
        return false;
    weir_mem_fail_nth(n, sticky);
    weir_status status = train_step(&t, 0);
    *over = !weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    bool good = CHECK(status == WEIR_OK || status == WEIR_ERR_NOMEM);
    if (status != WEIR_OK)
        status = train_step(&t, 0);
    good = CHECK_OK(status) && CHECK(train_bits(&t) == want) && good;
    train_close(&t);
    if (!good)
        printf("    allocation %lld of the step, %s\n", (long long)n,
               sticky ? "and all later" : "once");
    return good;
}

static void retry(bool sticky)
{
    const uint64_t want = train_run(TRAIN_DIGITS, BATCH, 0, 1, NULL);
    const int64_t  stride = check_full() ? 1 : sticky ? 13 : 7;
    bool           over = false;
    int            bad = 0;

    for (int64_t n = 0; !over && bad < 5; n += stride)
        bad += !rerun_at(n, sticky, want, &over);
}

CASE(step_again_after_one_failure)
{
    retry(false);
}

CASE(step_again_after_a_shortage)
{
    retry(true);
}

/* ---- small steps with everything the passes do, every point ---- */

static weir_status small_step(weir_device *d, weir_tensor *x, weir_tensor *w, weir_tensor *lr,
                              weir_tensor **loss)
{
    weir_tensor *c = weir_affine(weir_fill(d, weir_1d(WEIR_F32, 3), 1), 2, 1), *grad;
    weir_tensor *h = weir_relu(weir_add(weir_mul(x, w), weir_mul(weir_copy(c), c)));

    h = weir_add(weir_exp(h), weir_exp(h));
    h = weir_mul(weir_dropout(h, 0.5), weir_transpose(h, NULL));
    *loss = weir_keep(weir_sum(h, 0, false));
    if (!*loss)
        return weir_error_status();
    WEIR_TRY(weir_gradients(*loss, 1, &w, &grad));
    return weir_sgd_update(w, grad, NULL, lr, NULL);
}

static weir_status small_graph(weir_device *d, weir_tensor *x, weir_tensor *w, weir_tensor *lr,
                               float *v)
{
    weir_tensor *loss;
    weir_graph  *g = weir_graph_begin(d);

    if (!g)
        return weir_error_status();
    weir_status status = small_step(d, x, w, lr, &loss);
    if (status == WEIR_OK)
        status = weir_graph_end(g, NULL);
    if (status == WEIR_OK)
        status = weir_graph_run(g);
    if (status == WEIR_OK)
        status = weir_read(loss, v, sizeof *v);
    weir_graph_free(g);
    return status;
}

CASE(passes_at_every_point)
{
    float want = 0;

    for (int sticky = 0; sticky < 2; sticky++) {
        bool failed = true;
        for (int64_t n = -1; failed || n == 0; n++) {
            weir_device *d = fixture_open();
            weir_tensor *x = fixture_input(d, 3, (float[]){1, 2, 3});
            weir_tensor *w = fixture_param(d, 3, (float[]){1, 1, 1});
            weir_tensor *lr = weir_input(d, weir_scalar(WEIR_F32));
            float        v = 0;
            CHECK_OK(weir_write_fill(lr, 0.5));
            weir_mem_fail_nth(n, sticky);
            weir_status status = small_graph(d, x, w, lr, &v);
            failed = weir_mem_failed();
            weir_mem_fail_nth(-1, false);
            CHECK(status == WEIR_OK || (failed && status == WEIR_ERR_NOMEM));
            if (status != WEIR_OK)
                CHECK_OK(small_graph(d, x, w, lr, &v));
            if (n < 0)
                want = v;
            CHECK(v == want);
            weir_release(x);
            weir_release(w);
            weir_release(lr);
            weir_device_close(d);
        }
    }
}

/* ---- what bindings call: hollow handles, products between values, memory, pauses ---- */

typedef struct binding {
    weir_device *d;
    weir_tensor *x, *w, *s;     /* a watched input, a param, a state that nothing has written */
    weir_graph  *g;             /* NULL: the graph is off */
} binding;

static weir_status products(const binding *b, weir_tensor *h)
{
    weir_tensor *dx[2], *const dy = weir_fill(b->d, weir_1d(WEIR_F32, 2), 2);

    if (!h || !dy)
        return weir_error_status();
    WEIR_TRY(weir_vjp_from(1, &h, &dy, 2, (weir_tensor *[]){b->x, b->w}, dx));
    return weir_assign(b->s, weir_einsum("i,j->i", dx[0], dx[1]));
}

static weir_status at_once(const binding *b)
{
    weir_tensor *const r = weir_detach(weir_copy(b->s));
    void              *at;
    int64_t            stride[WEIR_MAX_DIMS];

    if (!r)
        return weir_error_status();
    WEIR_TRY(weir_tensor_make_state(r));
    return weir_tensor_memory(r, &at, stride);
}

static weir_status binding_calls(const binding *b)
{
    weir_tensor *const h = weir_hollow(weir_mul(b->x, b->w));
    const weir_status  status = products(b, h);

    weir_release(h);
    WEIR_TRY(status);
    WEIR_TRY(weir_scope_clear(b->d));
    if (!b->g)
        return at_once(b);
    WEIR_TRY(weir_graph_pause(b->g));
    WEIR_TRY(weir_graph_resume(b->g));
    WEIR_TRY(weir_graph_end(b->g, NULL));
    WEIR_TRY(weir_graph_run(b->g));
    return at_once(b);
}

/* (2, 2) (3, 3) -> dx = dy w = (6, 6), dw = dy x = (4, 4): the sum of dw times dx is 48. */
static bool binding_at(int64_t n, bool on, bool *over)
{
    binding b = {.d = fixture_open()};
    b.x = fixture_input(b.d, 2, (float[]){2, 2});
    b.w = fixture_param(b.d, 2, (float[]){3, 3});
    b.s = weir_state(b.d, weir_1d(WEIR_F32, 2), "s");
    CHECK_OK(weir_tensor_set_needs_grad(b.x, true));
    weir_mem_fail_nth(n, false);
    b.g = on ? weir_graph_begin(b.d) : NULL;
    const weir_status status = on && !b.g ? weir_error_status() : binding_calls(&b);
    *over = !weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    const bool good =
        CHECK(status == WEIR_OK ? fixture_value(b.s) == 48 : !*over && status == WEIR_ERR_NOMEM);
    weir_graph_free(b.g);
    weir_release(b.x);
    weir_release(b.w);
    weir_release(b.s);
    weir_device_close(b.d);
    if (!good)
        printf("    allocation %lld, graph %s: %s\n", (long long)n, on ? "on" : "off",
               weir_error());
    return good;
}

CASE(what_bindings_call)
{
    for (int on = 0; on < 2; on++) {
        bool over = false;
        int  bad = 0;
        for (int64_t n = 0; !over && bad < 5 && n < 5000; n++)
            bad += !binding_at(n, on, &over);
        CHECK(over);
    }
}
