/* mixed_precision.c - the same step in f32, in bf16, and in f16 with a scaled loss. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

/* What training in one precision makes. */
typedef struct job {
    weir_device *dev;
    weir_model  *net;
    weir_optim  *sgd;
    weir_scaler *scaler;            /* NULL: the loss is not scaled */
    weir_tensor *x, *y;
    weir_graph  *step;
} job;

static weir_status train(job *j, weir_dtype half)
{
    weir_layer      *mlp = weir_mlp_new(j->net, 6, (int64_t[]){64, 64, 64, 64, 64, 10});
    weir_graph_stats stats;
    float            value, scale = 1;

    WEIR_TRY(weir_write_normal(j->x, 0, 1));
    WEIR_TRY(weir_write_fill(j->y, 3));
    WEIR_TRY(weir_model_set_precision(j->net, half));   /* WEIR_F32: as if not called */
    WEIR_TRY(weir_optim_set_scaler(j->sgd, j->scaler)); /* NULL: the loss is not scaled */

    j->step = weir_graph_begin(j->dev);
    weir_tensor *loss = weir_keep(weir_cross_entropy(weir_apply(mlp, j->x), j->y));
    WEIR_TRY(weir_minimize(j->sgd, loss));              /* unscales, checks, updates */
    WEIR_TRY(weir_graph_end(j->step, NULL));
    for (int i = 0; i < 5; i++)
        WEIR_TRY(weir_graph_run(j->step));
    WEIR_TRY(weir_read(loss, &value, sizeof value));
    if (j->scaler)
        WEIR_TRY(weir_read(weir_scaler_state(j->scaler, 0), &scale, sizeof scale));
    WEIR_TRY(weir_graph_stats_of(j->step, &stats));
    printf("%-4s  loss %.4f  step peak %7zu bytes  scale %.0f\n", weir_dtype_name(half),
           (double)value, stats.arena_bytes, (double)scale);
    return WEIR_OK;
}

static weir_status play(weir_dtype half)
{
    job j = {.dev = weir_device_open("cpu", &(weir_device_options){.seed = 2})};

    j.net = weir_model_new(j.dev);
    j.sgd = weir_sgd_new(j.dev, 0.05, &(weir_sgd_options){.momentum = 0.9});
    j.scaler = half == WEIR_F16 ? weir_scaler_new(j.dev, NULL) : NULL;
    j.x = weir_input(j.dev, weir_2d(WEIR_F32, 512, 64));
    j.y = weir_input(j.dev, weir_1d(WEIR_I32, 512));

    const weir_status s = train(&j, half);
    if (s != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    weir_graph_free(j.step);
    weir_release(j.x);
    weir_release(j.y);
    weir_optim_free(j.sgd);
    weir_scaler_free(j.scaler);                         /* after the optimiser that uses it */
    weir_model_free(j.net);
    weir_device_close(j.dev);
    return s;
}

int main(void)
{
    return play(WEIR_F32) == WEIR_OK && play(WEIR_BF16) == WEIR_OK && play(WEIR_F16) == WEIR_OK
               ? EXIT_SUCCESS : EXIT_FAILURE;
}
