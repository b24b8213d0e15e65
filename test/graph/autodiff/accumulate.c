/* accumulate.c - gradients of micro-batches added up in buffers, then one update: graph off and on,
 * one graph for everything and one each for adding and applying. */
#include "graph/fixture.h"

enum { N = 6, PARTS = 3, STEPS = 4 };

typedef struct job {
    weir_device *d;
    weir_tensor *x, *w, *b;
    weir_optim  *o;
} job;

/* Part p of the data, the same in every step. */
static void data_of(int p, float x[N])
{
    for (int i = 0; i < N; i++)
        x[i] = (float)((i * 7 + p * 5) % 11) / 4 - 1;
}

static void job_open(job *j, bool adam)
{
    *j = (job){.d = fixture_open()};
    j->x = fixture_input(j->d, N, NULL);
    j->w = fixture_param(j->d, N, (float[]){1, -2, 0.5f, 3, -1, 0.25f});
    j->b = fixture_param(j->d, 1, (float[]){0.5f});
    j->o = adam ? weir_adam_new(j->d, 0.05, NULL)
                : weir_sgd_new(j->d, 0.05, &(weir_sgd_options){.momentum = 0.5});
    CHECK(j->o != NULL);
}

static void job_close(job *j, float w[N + 1])
{
    CHECK_OK(weir_read(j->w, w, N * sizeof *w));
    CHECK_OK(weir_read(j->b, w + N, sizeof *w));
    weir_optim_free(j->o);
    weir_release(j->x);
    weir_release(j->w);
    weir_release(j->b);
    weir_device_close(j->d);
}

/* sum of (x w + b)^2: additive over parts, so the gradient of all is the sum of the parts'. */
static weir_tensor *loss_of(const job *j, weir_tensor *x)
{
    return weir_sum(weir_square(weir_add(weir_mul(x, j->w), j->b)), 0, false);
}

static weir_status add_part(void *ctx)
{
    const job *const j = ctx;
    return weir_optim_accumulate(j->o, loss_of(j, j->x));
}

static weir_status apply(void *ctx)
{
    const job *const j = ctx;
    return weir_optim_apply(j->o);
}

/* Runs one step PARTS times, then the other one once. */
static void train_parts(bool graph, bool adam, float w[N + 1])
{
    const weir_step_options how = {.graph = graph};
    job   j;
    float x[N];

    job_open(&j, adam);
    weir_step *add = weir_step_new(j.d, add_part, &j, &how);
    weir_step *use = weir_step_new(j.d, apply, &j, &how);
    for (int s = 0; s < STEPS; s++) {
        for (int p = 0; p < PARTS; p++) {
            data_of(p, x);
            CHECK_OK(weir_write(j.x, x, sizeof x));
            CHECK_OK(weir_step_run(add));
        }
        CHECK_OK(weir_step_run(use));
    }
    weir_step_free(add);
    weir_step_free(use);
    job_close(&j, w);
}

/* The same as one recording: all parts and the update. */
static void train_one_graph(const weir_plan_options *plan, bool adam, float w[N + 1])
{
    weir_tensor *part[PARTS];
    job          j;
    float        x[N];

    job_open(&j, adam);
    weir_graph *g = weir_graph_begin(j.d);
    for (int p = 0; p < PARTS; p++) {
        data_of(p, x);
        part[p] = fixture_input(j.d, N, x);
        CHECK_OK(weir_optim_accumulate(j.o, loss_of(&j, part[p])));
    }
    CHECK_OK(weir_optim_apply(j.o));
    CHECK_OK(weir_graph_end(g, plan));
    for (int s = 0; s < STEPS; s++)
        CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    for (int p = 0; p < PARTS; p++)
        weir_release(part[p]);
    job_close(&j, w);
}

/* One loss over all parts. */
static void train_whole(bool adam, float w[N + 1])
{
    job   j;
    float x[N];

    job_open(&j, adam);
    for (int s = 0; s < STEPS; s++) {
        weir_tensor *total = NULL;
        CHECK_OK(weir_scope_begin(j.d));
        for (int p = 0; p < PARTS; p++) {
            data_of(p, x);
            weir_tensor *part = fixture_input(j.d, N, x);
            total = total ? weir_add(total, loss_of(&j, part)) : loss_of(&j, part);
            weir_release(part);
        }
        CHECK_OK(weir_minimize(j.o, total));
        CHECK_OK(weir_scope_end(j.d));
    }
    job_close(&j, w);
}

CASE(parts_make_the_whole)
{
    float off[N + 1], on[N + 1], one[N + 1], recorded[N + 1], whole[N + 1];

    for (int adam = 0; adam < 2; adam++) {
        train_parts(false, adam, off);
        train_parts(true, adam, on);
        train_one_graph(NULL, adam, one);
        train_one_graph(OPTIONS_AS_RECORDED, adam, recorded);
        train_whole(adam, whole);
        CHECK_BITS(off, on, sizeof off);
        CHECK_BITS(off, one, sizeof off);
        CHECK_BITS(off, recorded, sizeof off);
        for (int i = 0; i <= N; i++)
            CHECK_NEAR(off[i], whole[i], 1e-5);
    }
}

/* A read between two additions sees only the first, even after the order pass. */
CASE(reads_keep_their_place)
{
    for (int on = 0; on < 2; on++) {
        weir_device *d = fixture_open();
        weir_tensor *buffer = fixture_state(d, 2, (float[]){1, 2});
        weir_tensor *g = fixture_input(d, 2, (float[]){10, 20});
        weir_graph  *graph = on ? weir_graph_begin(d) : NULL;
        weir_tensor *seen[4];
        seen[0] = weir_keep(weir_affine(buffer, 1, 0));
        CHECK_OK(weir_accumulate(buffer, g));
        seen[1] = weir_keep(weir_affine(buffer, 1, 0));
        CHECK_OK(weir_accumulate(buffer, weir_affine(g, 2, 0)));
        seen[2] = weir_keep(weir_affine(buffer, 1, 0));
        CHECK_OK(weir_reset(buffer, 7));
        seen[3] = weir_keep(weir_affine(buffer, 1, 0));
        CHECK_OK(weir_accumulate(buffer, g));
        if (graph)
            fixture_finish(graph, NULL);
        CHECK(fixture_value(seen[0]) == 1 && fixture_value(seen[1]) == 11);
        CHECK(fixture_value(seen[2]) == 31 && fixture_value(seen[3]) == 7);
        CHECK(fixture_value(buffer) == 17);
        weir_graph_free(graph);
        weir_release(buffer);
        weir_release(g);
        weir_device_close(d);
    }
}

CASE(mistakes)
{
    weir_device *d = fixture_open();
    weir_tensor *buffer = fixture_state(d, 2, NULL), *g = fixture_input(d, 3, NULL);
    weir_optim  *o = weir_sgd_new(d, 0.1, NULL);

    CHECK_STATUS(weir_accumulate(buffer, g), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "accumulate");
    CHECK_STATUS(weir_accumulate(weir_square(buffer), buffer), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_accumulate(buffer, buffer), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_reset(weir_square(buffer), 0), WEIR_ERR_INVALID);
    CHECK_STATUS(weir_optim_apply(o), WEIR_ERR_STATE);
    CHECK_TEXT(weir_error(), "nothing");
    CHECK(weir_optim_accumulate(o, NULL) != WEIR_OK);
    CHECK(weir_optim_apply(NULL) != WEIR_OK);
    weir_optim_free(o);
    weir_release(buffer);
    weir_release(g);
    weir_device_close(d);
}
