/* half.c - steps in f16 and bf16: fused chains, planned memory, failing allocations, clipping. */
#include "graph/fixture.h"

enum { ROWS = 96, INNER = 130, COLS = 70 };

/* A classifier's layer: y = softmax(relu(x w) v) with slopes of w and v, all in one half type. */
typedef struct step {
    weir_device *d;
    weir_tensor *x, *w, *v, *out[3];    /* loss in f32, slopes */
} step;

static bool open(step *s, weir_dtype type)
{
    *s = (step){.d = fixture_open()};
    s->x = weir_input(s->d, weir_2d(type, ROWS, INNER));
    s->w = weir_param(s->d, weir_2d(type, INNER, COLS), "w");
    s->v = weir_param(s->d, weir_2d(type, COLS, COLS), "v");
    return CHECK(s->x && s->w && s->v) && CHECK_OK(weir_write_uniform(s->x, -1, 1)) &&
           CHECK_OK(weir_write_normal(s->w, 0, 0.1)) && CHECK_OK(weir_write_normal(s->v, 0, 0.1));
}

static void close(step *s)
{
    weir_release(s->x);
    weir_release(s->w);
    weir_release(s->v);
    weir_device_close(s->d);
}

static weir_status make(step *s)
{
    weir_tensor *const hidden = weir_relu(weir_affine(weir_matmul(s->x, s->w), 2, 0.25));
    weir_tensor *const y = weir_softmax(weir_linear(hidden, s->v, NULL), 1);
    weir_tensor *const wrt[] = {s->w, s->v};

    s->out[0] = weir_sum(weir_cast(weir_square(y), WEIR_F32), 0, false);
    if (!s->out[0])
        return weir_error_status();
    WEIR_TRY(weir_gradients(s->out[0], 2, wrt, s->out + 1));
    for (int i = 0; i < 3; i++)
        weir_keep(s->out[i]);
    return WEIR_OK;
}

typedef struct result {
    float    loss;
    uint16_t dw[INNER * COLS], dv[COLS * COLS];
} result;

static void read_all(const step *s, result *r)
{
    memset(r, 0, sizeof *r);
    CHECK_OK(weir_read(s->out[0], &r->loss, sizeof r->loss));
    CHECK_OK(weir_read(s->out[1], r->dw, sizeof r->dw));
    CHECK_OK(weir_read(s->out[2], r->dv, sizeof r->dv));
}

static void check_step(weir_dtype type)
{
    static const char *const without[] = {NULL, "fuse", "inplace", "relu_sign_bits", "order"};
    static result            off, on;
    step                     s;
    size_t                   peak = 0;

    if (open(&s, type)) {
        CHECK_OK(weir_scope_begin(s.d));
        CHECK_OK(make(&s));
        read_all(&s, &off);
        CHECK(off.loss > 0);
        CHECK_OK(weir_scope_end(s.d));
        for (size_t i = 0; i < ARRAY_LENGTH(without); i++) {
            weir_graph *const g = weir_graph_begin(s.d);
            CHECK_OK(make(&s));
            if (fixture_finish(g, &(weir_plan_options){.disable = without[i]})) {
                read_all(&s, &on);
                CHECK_BITS(&off, &on, sizeof on);
                CHECK_OK(weir_graph_measure(g, &peak));
                CHECK(peak == g->plan->arena);
            }
            weir_graph_free(g);
        }
    }
    close(&s);
}

CASE(half_steps_make_the_same_bits_in_the_planned_memory)
{
    check_step(WEIR_F16);
    check_step(WEIR_BF16);
}

/* Values inside a group are rounded like those that are stored. */
CASE(chains_of_halves_are_fused)
{
    enum { N = 3000 };
    static uint16_t    off[N], on[N];
    weir_device *const d = fixture_open();
    weir_tensor *const x = weir_input(d, weir_1d(WEIR_BF16, N));

    CHECK_OK(weir_write_uniform(x, -3, 3));
    for (int graph = 0; graph < 2; graph++) {
        weir_graph *const  g = graph ? weir_graph_begin(d) : NULL;
        weir_tensor *const y = weir_keep(
            weir_tanh(weir_mul(weir_sigmoid(weir_affine(x, 1.3, 0.1)), weir_exp(x))));
        if (g && fixture_finish(g, NULL))
            CHECK(g->plan->n == 1 && fixture_count(g, WEIR_OP_FUSED) == 1);
        CHECK_OK(weir_read(y, graph ? on : off, sizeof on));
        weir_graph_free(g);
    }
    CHECK_BITS(off, on, sizeof on);
    weir_release(x);
    weir_device_close(d);
}

static weir_status whole_job(bool graph, int64_t n, bool *missed)
{
    step        s;
    weir_graph *g = NULL;
    weir_status status;

    if (!open(&s, WEIR_BF16))
        return WEIR_OK;
    weir_mem_fail_nth(n, false);
    status = weir_scope_begin(s.d);
    const bool scoped = status == WEIR_OK;
    if (scoped && graph && !(g = weir_graph_begin(s.d)))
        status = weir_error_status();
    if (status == WEIR_OK)
        status = make(&s);
    if (status == WEIR_OK && g)
        status = weir_graph_end(g, NULL);
    if (status == WEIR_OK && g)
        status = weir_graph_run(g);
    *missed = !weir_mem_failed();
    weir_mem_fail_nth(-1, false);
    weir_graph_free(g);
    if (scoped)
        CHECK_OK(weir_scope_end(s.d));
    close(&s);
    return status;
}

/* The n-th allocation fails, for every n until none is left: a status, and nothing leaks. What
 * libraries cache for the life of the process is made before. */
static void fail_everywhere(bool graph)
{
    bool missed = true;

    CHECK_OK(whole_job(graph, -1, &missed));
    const int64_t alive = weir_mem_alive();
    missed = false;
    for (int64_t n = 0; !missed && check_failures == 0; n++) {
        const weir_status status = whole_job(graph, n, &missed);
        CHECK(missed ? status == WEIR_OK : status == WEIR_OK || status == WEIR_ERR_NOMEM);
        CHECK(weir_mem_alive() == alive);
    }
}

CASE(every_allocation_of_a_half_step_may_fail)
{
    fail_everywhere(false);
    fail_everywhere(true);
}

/* 300^2 is beyond f16, and so is its sum: squares are taken in f32. */
CASE(norms_of_f16_gradients_do_not_overflow)
{
    weir_device *const d = fixture_open();
    weir_tensor *const p = weir_param(d, weir_1d(WEIR_F16, 2), "p");
    const weir_pair   *pairs;
    weir_pair          clipped[1];
    weir_tensor       *norm;
    size_t             n;
    double             whole = 0;
    float              slope[2];

    CHECK_OK(weir_write_fill(p, 1));
    CHECK_OK(weir_backward(weir_affine(weir_sum(p, 0, false), 300, 0), &pairs, &n));
    CHECK_OK(weir_clip_norm(pairs, n, 1, clipped, &norm));
    CHECK_OK(weir_read(norm, &whole, sizeof whole));
    CHECK_NEAR(whole, 300 * sqrt(2), 1e-4);
    CHECK_OK(weir_read(weir_cast(clipped[0].grad, WEIR_F32), slope, sizeof slope));
    CHECK_NEAR(slope[0], sqrt(0.5), 1e-3);
    weir_release(p);
    weir_device_close(d);
}
