/* charlm.c - a language model of characters: a small GPT or an LSTM learns a text, then writes.
 *
 * Training is one step, writing a second one on the same parameters: it reads the latest characters
 * and gives the logits of the next. Each is planned once with --graph on. */
#include <stdio.h>
#include <string.h>

#include "text.h"
#include "training.h"
#include "weir.h"

enum { SAMPLE = 200, EVERY = 20 };

typedef struct size {
    int64_t batch, context, width;
    int     layers;         /* of the GPT */
} size;

typedef struct options {
    training    training;
    const char *model, *data;
    size        size;
    text        text;
} options;

typedef struct job {
    weir_device *dev;
    weir_model  *model;
    weir_layer  *net;
    weir_optim  *adam;
    weir_tensor *x, *y;             /* (batch,context), (batch*context) */
    weir_tensor *latest;            /* (1,context) */
    weir_tensor *loss, *logits;     /* of the latest step; (context,vocab) */
    weir_step   *train, *write;
} job;

static weir_status train_step(void *ctx)
{
    job *j = ctx;
    j->loss = weir_keep(weir_cross_entropy(weir_apply(j->net, j->x), j->y));
    return weir_minimize(j->adam, j->loss);
}

static weir_status write_step(void *ctx)
{
    job *j = ctx;
    WEIR_TRY(weir_no_grad_begin(j->dev));
    j->logits = weir_keep(weir_apply(j->net, j->latest));
    WEIR_TRY(weir_no_grad_end(j->dev));
    return j->logits ? WEIR_OK : weir_error_status();
}

/* What was not made is NULL, and NULL flows: the first step reports the first mistake. */
static void job_open(job *j, const options *o)
{
    const weir_step_options how = training_steps(&o->training);
    const int64_t           vocab = o->text.vocab;

    j->dev = training_device(&o->training);
    j->model = weir_model_new(j->dev);
    j->net = strcmp(o->model, "lstm") == 0
                 ? weir_char_lstm_new(j->model, vocab, o->size.width, 1)
                 : weir_gpt_new(j->model, vocab, o->size.context, o->size.width, 4, o->size.layers);
    j->adam = weir_adamw_new(j->dev, 3e-3, &(weir_adam_options){.weight_decay = 0.01});
    j->x = weir_input(j->dev, weir_2d(WEIR_I32, o->size.batch, o->size.context));
    j->y = weir_input(j->dev, weir_1d(WEIR_I32, o->size.batch * o->size.context));
    j->latest = weir_input(j->dev, weir_2d(WEIR_I32, 1, o->size.context));
    j->train = weir_step_new(j->dev, train_step, j, &how);
    j->write = weir_step_new(j->dev, write_step, j, &how);
}

static void job_close(job *j)
{
    weir_step_free(j->write);
    weir_step_free(j->train);
    weir_release(j->x);
    weir_release(j->y);
    weir_release(j->latest);
    weir_optim_free(j->adam);
    weir_model_free(j->model);
    weir_device_close(j->dev);
}

static weir_status train(job *j, const options *o)
{
    const int steps = o->training.steps;

    for (int i = 1; i <= steps; i++) {
        float loss;
        WEIR_TRY(text_write_batch(&o->text, (uint64_t)i, j->x, j->y));
        WEIR_TRY(weir_step_run(j->train));
        WEIR_TRY(weir_read(j->loss, &loss, sizeof loss));
        show_progress(o->model, i, steps, (double)loss);
        if (i % EVERY == 0 || i == 1 || i == steps)
            printf("step %4d  loss %.4f\n", i, (double)loss);
    }
    return WEIR_OK;
}

static weir_status run(const options *o)
{
    job j = {0};

    job_open(&j, o);
    weir_status s = train(&j, o);
    if (s == WEIR_OK)
        s = text_continue(&o->text, SAMPLE, j.latest, j.write, &j.logits);
    s = training_end(&o->training, s, j.model, j.adam, j.loss);
    job_close(&j);
    return s;
}

int main(int argc, char **argv)
{
    options o = {.training = {.job = "a language model of characters learns a text and writes",
                              .quick_is = "a smaller model, ", .most = 300, .fewest = 60},
                 .model = "gpt"};
    int     status = 0;

    const show_option own[] = {
        {"model", SHOW_TEXT, &o.model, "gpt or lstm (gpt)"},
        {"data", SHOW_TEXT, &o.data, "the text to learn (the GPL, else a file of this program)"},
    };
    if (!training_options(&o.training, argc, argv, own, sizeof own / sizeof own[0], &status))
        return status;
    if (strcmp(o.model, "gpt") != 0 && strcmp(o.model, "lstm") != 0) {
        fprintf(stderr, "%s: --model %s: gpt or lstm\n", argv[0], o.model);
        return 2;
    }
    o.size = o.training.quick ? (size){8, 32, 32, 2} : (size){16, 64, 128, 4};
    if (!text_load(argv[0], o.data, (size_t)o.size.context, &o.text))
        return 1;
    const weir_status s = run(&o);
    text_free(&o.text);
    return s != WEIR_OK;
}
