/* cnn.c - the main example: a convolutional network with batch norm and dropout learns hand-written
 * digits, once call by call (graph off) and once planned (graph on), from equal seeds; then a table
 * compares memory, speed and bits of the two. */
#include <stdio.h>

#include "compare.h"
#include "digits.h"
#include "show.h"
#include "weir.h"

/* WANT: the accuracy in per cent that the example promises. */
enum { BATCH = 64, TEST_BATCH = 60, WANT = 97, MAX_STEPS = 1000000 };

typedef struct options {
    int         graph, steps, threads;
    bool        quick;
    const char *data, *out, *dump;
    digits      digits;
} options;

typedef struct job {
    options     *options;
    const char  *label;
    weir_device *dev;
    weir_model  *model;
    weir_layer  *cnn;
    weir_optim  *sgd;
    weir_tensor *x, *y;             /* (64,1,8,8), (64) */
    weir_tensor *test_x, *test_y;   /* (60,1,8,8), (60) */
    weir_tensor *loss, *correct;    /* of the latest step */
    weir_step   *train, *test;      /* two steps, one set of parameters */
} job;

static weir_status train_step(void *ctx)
{
    job *j = ctx;
    weir_model_train(j->model, true);
    j->loss = weir_keep(weir_cross_entropy(weir_apply(j->cnn, j->x), j->y));
    return weir_minimize(j->sgd, j->loss);
}

static weir_status test_step(void *ctx)
{
    job *j = ctx;
    WEIR_TRY(weir_no_grad_begin(j->dev));
    weir_model_train(j->model, false);
    j->correct = weir_keep(weir_count_correct(weir_apply(j->cnn, j->test_x), j->test_y));
    WEIR_TRY(weir_no_grad_end(j->dev));
    return j->correct ? WEIR_OK : weir_error_status();
}

/* What was not made is NULL, and NULL flows: the first step reports the first mistake. */
static void job_open(job *j, bool graph)
{
    const weir_step_options how = {.graph = graph};

    j->dev = weir_device_open(
        "cpu", &(weir_device_options){.threads = j->options->threads, .seed = 1});
    j->model = weir_model_new(j->dev);
    j->cnn = weir_digits_cnn_new(j->model, DIGITS_CLASSES);
    j->sgd = weir_sgd_new(j->dev, 0.05, &(weir_sgd_options){.momentum = 0.9, .weight_decay = 1e-4});
    j->x = weir_input(j->dev, weir_4d(WEIR_F32, BATCH, 1, 8, 8));
    j->y = weir_input(j->dev, weir_1d(WEIR_I32, BATCH));
    j->train = weir_step_new(j->dev, train_step, j, &how);
    j->test = weir_step_new(j->dev, test_step, j, &how);
}

static void job_close(job *j)
{
    weir_step_free(j->test);
    weir_step_free(j->train);
    weir_tensor *const inputs[] = {j->x, j->y, j->test_x, j->test_y};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        weir_release(inputs[i]);
    weir_optim_free(j->sgd);
    weir_model_free(j->model);
    weir_device_close(j->dev);
}

static weir_status train(job *j, compare_case *c)
{
    static double ms[MAX_STEPS];
    const int     steps = j->options->steps;
    float         loss = 0;

    for (int i = 0; i < steps; i++) {
        const double begin = show_ms();
        WEIR_TRY(digits_write_train(&j->options->digits, (size_t)i, j->x, j->y));
        WEIR_TRY(weir_step_run(j->train));
        WEIR_TRY(weir_read(j->loss, &loss, sizeof loss));
        ms[i] = show_ms() - begin;
        show_progress(j->label, i + 1, steps, (double)loss);
        if (i == steps * 2 / 3)
            WEIR_TRY(weir_optim_set_lr(j->sgd, 0.005));     /* the plan stays: lr is a tensor */
    }
    c->ms = show_median(ms, (size_t)steps);
    printf("%-9s  loss %.6f after %d steps\n", j->label, (double)loss, steps);
    return WEIR_OK;
}

static weir_status test(job *j, compare_case *c)
{
    const digits *data = &j->options->digits;
    int64_t       total = 0, n = 0, correct;

    j->test_x = weir_input(j->dev, weir_4d(WEIR_F32, TEST_BATCH, 1, 8, 8));
    j->test_y = weir_input(j->dev, weir_1d(WEIR_I32, TEST_BATCH));
    for (; n + TEST_BATCH <= (int64_t)data->test.n; n += TEST_BATCH) {
        WEIR_TRY(digits_write_test(data, (size_t)n, j->test_x, j->test_y));
        WEIR_TRY(weir_step_run(j->test));
        WEIR_TRY(weir_read(j->correct, &correct, sizeof correct));
        total += correct;
    }
    c->accuracy = n ? 100.0 * (double)total / (double)n : 0;
    printf("%-9s  test accuracy %.2f %% (%lld of %lld)\n", j->label, c->accuracy, (long long)total,
           (long long)n);
    return WEIR_OK;
}

/* Measuring comes last, because for a planned step it is one more step. Testing needs less memory
 * than training, so the peak stays. */
static weir_status all(job *j, compare_case *c)
{
    const options *o = j->options;

    WEIR_TRY(train(j, c));
    WEIR_TRY(snapshot_take(&c->end, j->model, j->sgd, j->loss));
    WEIR_TRY(test(j, c));
    WEIR_TRY(compare_peak(j->dev, j->train, c));
    return o->quick ? WEIR_OK : compare_draw(j->train, o->out, "digits");
}

static weir_status run(void *ctx, bool graph, compare_case *c)
{
    job j = {.options = ctx, .label = graph ? "graph on" : "graph off"};

    job_open(&j, graph);
    const weir_status s = all(&j, c);
    job_close(&j);
    return s;
}

int main(int argc, char **argv)
{
    options           o = {.graph = COMPARE_BOTH, .data = DIGITS_FILE, .out = "build"};
    const show_option table[] = {
        {"graph", SHOW_SWITCH, &o.graph, "only this case (both, and a comparison)"},
        {"steps", SHOW_NUMBER, &o.steps, "steps of training (330: 15 times all samples)"},
        {"quick", SHOW_FLAG, &o.quick, "20 steps, no pictures, any accuracy will do"},
        {"threads", SHOW_NUMBER, &o.threads, "worker threads; 0: one per core (0)"},
        {"data", SHOW_TEXT, &o.data, "the file of digits (" DIGITS_FILE ")"},
        {"out", SHOW_TEXT, &o.out, "folder for the pictures of the plan (build)"},
        {"dump", SHOW_TEXT, &o.dump, "write all parameters, states and the loss to this file"},
    };
    int status = 0;

    if (!show_options(argc, argv, "learns digits with the graph off and on", table,
                      sizeof table / sizeof table[0], &status))
        return status;
    if (!digits_load(argv[0], o.data, BATCH, &o.digits))
        return 1;
    if (o.steps == 0)
        o.steps = o.quick ? 20 : 330;
    const bool good = compare(
        &(compare_options){o.graph, BATCH, o.quick ? 0 : WANT, o.dump}, run, &o);
    digits_free(&o.digits);
    return !good;
}
