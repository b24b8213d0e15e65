/* mlp.c - the first example: a 64-100-10 perceptron learns hand-written digits.
 *
 * train_step is one step. With --graph on it is called once, and the recorded step is planned and
 * run repeatedly; with --graph off it is called for every step. The results have the same bits. */
#include <stdio.h>

#include "digits.h"
#include "training.h"
#include "weir.h"

enum { BATCH = 64 };

typedef struct job {
    weir_device *dev;
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
static void job_open(job *j, const training *t)
{
    const weir_step_options how = training_steps(t);
    weir_device *const      dev = training_device(t);

    j->dev = dev;
    j->model = weir_model_new(dev);
    j->mlp = weir_mlp_new(j->model, 3, (const int64_t[]){DIGITS_PIXELS, 100, DIGITS_CLASSES});
    j->sgd = weir_sgd_new(dev, 0.1, &(weir_sgd_options){.momentum = 0.9});
    j->x = weir_input(dev, weir_2d(WEIR_F32, BATCH, DIGITS_PIXELS));
    j->y = weir_input(dev, weir_1d(WEIR_I32, BATCH));
    j->step = weir_step_new(dev, train_step, j, &how);
}

static void job_close(job *j)
{
    weir_step_free(j->step);
    weir_release(j->x);
    weir_release(j->y);
    weir_optim_free(j->sgd);
    weir_model_free(j->model);
    weir_device_close(j->dev);
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
static weir_status test(job *j, const digits *data)
{
    weir_device  *dev = j->dev;
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

static weir_status run(const training *t, digits *data)
{
    job j = {0};

    job_open(&j, t);
    weir_status s = train(&j, data, t->steps);
    if (s == WEIR_OK)
        s = test(&j, data);
    s = training_end(t, s, j.model, j.sgd, j.loss);
    job_close(&j);
    return s;
}

int main(int argc, char **argv)
{
    training    t = {.job = "a small network learns digits", .most = 500, .fewest = 50};
    const char *file = DIGITS_FILE;
    int         status = 0;
    digits      data;

    const show_option own[] = {
        {"data", SHOW_TEXT, &file, "the file of digits (" DIGITS_FILE ")"},
    };
    if (!training_options(&t, argc, argv, own, sizeof own / sizeof own[0], &status))
        return status;
    if (!digits_load(argv[0], file, BATCH, &data))
        return 1;
    const weir_status s = run(&t, &data);
    digits_free(&data);
    return s != WEIR_OK;
}
