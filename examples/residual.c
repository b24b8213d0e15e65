/* residual.c - a layer of the program's own in a row of others: summary, training, weights.
 *
 * The network tells whether the larger of two numbers comes second. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

enum { BATCH = 64, STEPS = 300 };

/* x + scale * relu(fc(x)) */
typedef struct residual {
    weir_layer  *fc;
    weir_tensor *scale;
} residual;

static weir_tensor *residual_apply(void *ctx, weir_tensor *x)
{
    const residual *r = ctx;
    return weir_add(x, weir_mul(r->scale, weir_relu(weir_apply(r->fc, x))));
}

static weir_layer *residual_new(weir_model *m, int64_t width)
{
    static const weir_layer_def def = {"residual", residual_apply, free};
    residual                   *r = calloc(1, sizeof *r);
    weir_layer                 *l = r ? weir_layer_new(m, NULL, &def, r) : NULL;

    if (!l) {
        free(r);
        return NULL;
    }
    r->fc = weir_layer_add(l, "fc", weir_linear_new(m, NULL, width, width, true));
    r->scale = weir_layer_add_param(l, "scale", weir_1d(WEIR_F32, width));
    return !r->scale || weir_write_fill(r->scale, 0.5) == WEIR_OK ? l : NULL;
}

typedef struct job {
    weir_layer  *net;
    weir_optim  *adam;
    weir_tensor *x, *y;
} job;

static weir_status train_step(void *ctx)
{
    job         *j = ctx;
    weir_tensor *loss = weir_keep(weir_cross_entropy(weir_apply(j->net, j->x), j->y));
    return weir_minimize(j->adam, loss);
}

/* Before each step: new numbers. */
static weir_status feed(void *ctx, const weir_step_event *event)
{
    const job      *j = ctx;
    static uint64_t state = 1;
    float           x[BATCH][2];
    int32_t         y[BATCH];

    (void)event;
    for (int i = 0; i < BATCH; i++) {
        for (int k = 0; k < 2; k++)
            x[i][k] = (float)(weir_splitmix64(&state) >> 40) * 0x1p-24f;
        y[i] = x[i][0] < x[i][1];
    }
    WEIR_TRY(weir_write(j->x, x, sizeof x));
    return weir_write(j->y, y, sizeof y);
}

/* After each step: the loss, which is the one value that the step keeps. */
static weir_status tell(void *ctx, const weir_step_event *event)
{
    float loss;

    (void)ctx;
    WEIR_TRY(weir_read(event->kept[0], &loss, sizeof loss));
    if (event->step % 20 == 0)
        printf("step %3lld  loss %.4f\n", (long long)event->step, (double)loss);
    *event->stop = loss < 0.02f;
    return WEIR_OK;
}

static weir_status run(weir_model *m, weir_step *step, job *j)
{
    char *const text = weir_layer_summary(j->net, weir_2d(WEIR_F32, BATCH, 2), NULL);

    if (!text)
        return weir_error_status();
    printf("%s", text);
    weir_text_free(text);
    WEIR_TRY(weir_step_loop(step, STEPS + 1, &(weir_step_loop_options){feed, tell, j, 0}, NULL));
    return weir_model_save(m, "residual.safetensors", NULL);
}

int main(void)
{
    weir_device *dev = weir_device_open("cpu", &(weir_device_options){.seed = 1});
    weir_model  *m = weir_model_new(dev);
    job          j = {.adam = weir_adam_new(dev, 0.01, NULL),
                      .x = weir_input(dev, weir_2d(WEIR_F32, BATCH, 2)),
                      .y = weir_input(dev, weir_1d(WEIR_I32, BATCH))};
    weir_layer  *rows[4] = {weir_linear_new(m, NULL, 2, 16, true), weir_relu_new(m),
                            residual_new(m, 16), weir_linear_new(m, NULL, 16, 2, true)};
    weir_step   *step = weir_step_new(dev, train_step, &j, &(weir_step_options){.graph = true});

    j.net = weir_sequential_new(m, "net", 4, rows);
    const weir_status s = run(m, step, &j);
    if (s != WEIR_OK)
        fprintf(stderr, "residual: %s\n", weir_error());
    weir_step_free(step);
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.adam);
    weir_model_free(m);
    weir_device_close(dev);
    return s != WEIR_OK;
}
