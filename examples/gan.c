/* gan.c - two losses at once: a generator learns to draw numbers as a bell curve has them, while a
 * critic learns to tell its numbers from the real ones (Goodfellow et al. 2014).
 *
 * Each loss has parameters of its own, but reads those of the other network too. So both gradients
 * are taken first and all parameters are updated afterwards. In the other order the second gradient
 * would have to read parameters that the first update has changed, which is an error. */
#include <stdio.h>

#include "training.h"
#include "weir.h"

enum { BATCH = 128, NOISE = 4, WIDTH = 32, MOST_PARAMS = 16 };

static const double real_mean = 3, real_stddev = 0.5;

typedef struct job {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *generator, *critic;
    size_t       ngenerator;                /* the model's parameters up to here are the former's */
    weir_optim  *adam;
    weir_tensor *critic_loss, *loss;        /* of the latest step; the generator's */
    weir_tensor *mean, *spread;             /* of the numbers drawn in it */
    bool         wrong;
    weir_step   *step;
} job;

/* How far the critic is from calling all rows real (1) or drawn (0). */
static weir_tensor *verdict(const job *j, weir_tensor *numbers, double label)
{
    weir_tensor *logits = weir_apply(j->critic, numbers);
    weir_tensor *wanted = weir_fill(j->dev, weir_2d(WEIR_F32, BATCH, 1), label);
    return weir_bce_logits_loss(logits, wanted);
}

/* Gradients of the loss for the parameters from `first` to before `end` into pairs. */
static weir_status gradients(const job *j, weir_tensor *loss, size_t first, size_t end,
                             weir_pair *pairs)
{
    weir_tensor *param[MOST_PARAMS] = {NULL}, *grad[MOST_PARAMS];

    for (size_t i = first; i < end; i++)
        param[i - first] = weir_model_param(j->model, i);
    WEIR_TRY(weir_gradients(loss, end - first, param, grad));
    for (size_t i = first; i < end; i++)
        pairs[i] = (weir_pair){param[i - first], grad[i - first]};
    return WEIR_OK;
}

/* --wrong: updates too early, to show the error. */
static weir_status update_between(const job *j, size_t n, weir_pair *pairs)
{
    WEIR_TRY(gradients(j, j->critic_loss, j->ngenerator, n, pairs));
    WEIR_TRY(weir_optim_update(j->adam, pairs + j->ngenerator, n - j->ngenerator));
    return gradients(j, j->loss, 0, j->ngenerator, pairs);
}

static weir_status train_step(void *ctx)
{
    job         *j = ctx;
    const size_t n = weir_model_param_count(j->model);
    weir_pair    pairs[MOST_PARAMS];
    weir_tensor *noise = weir_normal(j->dev, weir_2d(WEIR_F32, BATCH, NOISE), 0, 1);
    weir_tensor *real = weir_normal(j->dev, weir_2d(WEIR_F32, BATCH, 1), real_mean, real_stddev);
    weir_tensor *drawn = weir_apply(j->generator, noise);

    /* The critic's loss does not lead back to the generator. */
    j->critic_loss = weir_keep(weir_add(verdict(j, real, 1), verdict(j, weir_detach(drawn), 0)));
    j->loss = weir_keep(verdict(j, drawn, 1));
    j->mean = weir_keep(weir_mean(drawn, 0, false));
    j->spread = weir_keep(weir_sqrt(weir_var(drawn, 0, 0, false)));
    if (j->wrong)
        return update_between(j, n, pairs);
    WEIR_TRY(gradients(j, j->critic_loss, j->ngenerator, n, pairs));
    WEIR_TRY(gradients(j, j->loss, 0, j->ngenerator, pairs));
    return weir_optim_update(j->adam, pairs, n);
}

/* What was not made is NULL, and NULL flows: the first step reports the first mistake. */
static void job_open(job *j, const training *t)
{
    const weir_step_options how = training_steps(t);
    weir_device *const      dev = training_device(t);

    j->dev = dev;
    j->model = weir_model_new(dev);
    j->generator = weir_mlp_new(j->model, 3, (const int64_t[]){NOISE, WIDTH, 1});
    j->ngenerator = weir_model_param_count(j->model);
    j->critic = weir_mlp_new(j->model, 3, (const int64_t[]){1, WIDTH, 1});
    j->adam = weir_adam_new(dev, 0.003, &(weir_adam_options){.beta1 = 0.5});
    j->step = weir_step_new(dev, train_step, j, &how);
}

static void job_close(job *j)
{
    weir_step_free(j->step);
    weir_optim_free(j->adam);
    weir_model_free(j->model);
    weir_device_close(j->dev);
}

/* Mean and spread of the numbers that one step draws move about those of the curve, so they are
 * averaged over the last quarter of the steps. */
static weir_status train(const job *j, int steps)
{
    const int last = steps - steps / 4 - 1;
    float     loss[2], at[2];
    double    sum[2] = {0, 0};

    for (int i = 0; i < steps; i++) {
        WEIR_TRY(weir_step_run(j->step));
        WEIR_TRY(weir_read(j->critic_loss, &loss[0], sizeof loss[0]));
        WEIR_TRY(weir_read(j->loss, &loss[1], sizeof loss[1]));
        WEIR_TRY(weir_read(j->mean, &at[0], sizeof at[0]));
        WEIR_TRY(weir_read(j->spread, &at[1], sizeof at[1]));
        for (int k = 0; k < 2 && i >= last; k++)
            sum[k] += (double)at[k] / (steps - last);
        if (i % 100 == 0 || i + 1 == steps)
            printf("step %4d  loss %.4f of the critic, loss %.4f of the generator; draws %.2f "
                   "+- %.2f\n", i, (double)loss[0], (double)loss[1], (double)at[0], (double)at[1]);
    }
    printf("draws %.2f +- %.2f over the last quarter, wanted %.2f +- %.2f\n", sum[0], sum[1],
           real_mean, real_stddev);
    return WEIR_OK;
}

int main(int argc, char **argv)
{
    job      j = {0};
    training t = {.job = "two networks learn from each other", .most = 2000, .fewest = 200};
    int      status = 0;

    const show_option own[] = {
        {"wrong", SHOW_FLAG, &j.wrong, "update the critic between the two gradients: an error"},
    };
    if (!training_options(&t, argc, argv, own, sizeof own / sizeof own[0], &status))
        return status;
    job_open(&j, &t);
    const weir_status trained = train(&j, t.steps);
    const weir_status s = training_end(&t, trained, j.model, j.adam, j.loss);
    job_close(&j);
    return s != WEIR_OK;
}
