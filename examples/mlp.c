/* mlp.c - the first example: a 64-100-10 perceptron learns hand-written digits.
 *
 * train_step says what one step is. With --graph on it is called once, and what it wrote down is
 * planned and run again and again; with --graph off it is called at every step. The bits are the
 * same. */
#include <stdio.h>

#include "digits.h"
#include "show.h"
#include "snapshot.h"
#include "weir.h"

enum { BATCH = 64 };

typedef struct options {
    int         graph, steps, threads;
    bool        quick;
    const char *data, *dump;
} options;

typedef struct job {
    weir_model  *model;
    weir_layer  *mlp;
    weir_optim  *sgd;
    weir_tensor *x, *y;         /* (64,64), (64) */
    weir_tensor *loss;          /* of the latest step */
    weir_step   *step;
} job;

static weir_status train_step(void *ctx)
{
    job         *j = ctx;
    weir_tensor *logits = weir_apply(j->mlp, j->x);
    j->loss = weir_keep(weir_cross_entropy(logits, j->y));     /* read below */
    return weir_minimize(j->sgd, j->loss);                     /* gradients and updates */
}

/* What was not made is NULL, and NULL flows: the first step reports the first mistake. */
static void job_open(job *j, weir_device *dev, bool graph)
{
    j->model = weir_model_new(dev);
    j->mlp = weir_mlp_new(j->model, 3, (const int64_t[]){DIGITS_PIXELS, 100, DIGITS_CLASSES});
    j->sgd = weir_sgd_new(dev, 0.1, &(weir_sgd_options){.momentum = 0.9});
    j->x = weir_input(dev, weir_2d(WEIR_F32, BATCH, DIGITS_PIXELS));
    j->y = weir_input(dev, weir_1d(WEIR_I32, BATCH));
    j->step = weir_step_new(dev, train_step, j, &(weir_step_options){.graph = graph});
}

static void job_close(job *j)
{
    weir_step_free(j->step);
    weir_release(j->x);
    weir_release(j->y);
    weir_optim_free(j->sgd);
    weir_model_free(j->model);
}

static weir_status train(job *j, digits *data, int steps)
{
    for (int i = 0; i < steps; i++) {
        WEIR_TRY(digits_write_train(data, (size_t)i, j->x, j->y));
        WEIR_TRY(weir_step_run(j->step));
        if (i % 100 == 0 || i + 1 == steps) {
            float loss;
            WEIR_TRY(weir_read(j->loss, &loss, sizeof loss));
            printf("step %4d  loss %.4f\n", i, (double)loss);
        }
    }
    return WEIR_OK;
}

/* The whole test set at once, computed call by call: no graph, no gradients. */
static weir_status test(job *j, weir_device *dev, const digits *data)
{
    const int64_t n = (int64_t)data->test.n;
    weir_tensor  *x = weir_input(dev, weir_2d(WEIR_F32, n, DIGITS_PIXELS));
    weir_tensor  *y = weir_input(dev, weir_1d(WEIR_I32, n));
    int64_t       correct = 0;
    weir_status   s = weir_no_grad_begin(dev);

    if (s == WEIR_OK)
        s = digits_write_test(data, 0, x, y);
    if (s == WEIR_OK)
        s = weir_read(weir_count_correct(weir_apply(j->mlp, x), y), &correct, sizeof correct);
    weir_no_grad_end(dev);
    weir_release(x);
    weir_release(y);
    if (s == WEIR_OK)
        printf("test accuracy %.1f %% (%lld of %lld)\n", 100.0 * (double)correct / (double)n,
               (long long)correct, (long long)n);
    return s;
}

static weir_status run(const options *o, digits *data)
{
    weir_device *dev = weir_device_open(
        "cpu", &(weir_device_options){.threads = o->threads, .seed = 1});
    job      j = {0};
    snapshot end = {0};

    job_open(&j, dev, o->graph != 0);
    weir_status s = train(&j, data, o->steps);
    if (s == WEIR_OK)
        s = test(&j, dev, data);
    if (s == WEIR_OK && o->dump)
        s = snapshot_take(&end, j.model, j.sgd, j.loss);
    if (s != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    else if (o->dump && !snapshot_write(&end, o->dump))
        s = WEIR_ERR_IO;
    snapshot_free(&end);
    job_close(&j);
    weir_device_close(dev);
    return s;
}

int main(int argc, char **argv)
{
    options           o = {.graph = 1, .data = DIGITS_FILE};
    const show_option table[] = {
        {"graph", SHOW_SWITCH, &o.graph, "plan the step once, or compute call by call (on)"},
        {"steps", SHOW_NUMBER, &o.steps, "steps of training (500)"},
        {"quick", SHOW_FLAG, &o.quick, "50 steps"},
        {"threads", SHOW_NUMBER, &o.threads, "worker threads; 0: one per core (0)"},
        {"data", SHOW_TEXT, &o.data, "the file of digits (" DIGITS_FILE ")"},
        {"dump", SHOW_TEXT, &o.dump, "write all parameters, states and the loss to this file"},
    };
    int    status = 0;
    digits data;

    if (!show_options(argc, argv, "a small network learns digits", table,
                      sizeof table / sizeof table[0], &status))
        return status;
    if (o.steps == 0)
        o.steps = o.quick ? 50 : 500;
    if (!digits_load(argv[0], o.data, BATCH, &data))
        return 1;
    const weir_status s = run(&o, &data);
    digits_free(&data);
    return s != WEIR_OK;
}
