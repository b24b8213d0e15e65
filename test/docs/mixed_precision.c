/* mixed_precision.c - the same step in f32, in bf16, and in f16 with a scaled loss. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

static weir_status train(weir_device *dev, weir_dtype half)
{
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 6, (int64_t[]){64, 64, 64, 64, 64, 10});
    weir_optim  *sgd = weir_sgd_new(dev, 0.05, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, 512, 64));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, 512));
    weir_scaler *scaler = half == WEIR_F16 ? weir_scaler_new(dev, NULL) : NULL;
    weir_graph_stats stats;
    float            value, scale = 1;

    WEIR_TRY(weir_write_normal(x, 0, 1));
    WEIR_TRY(weir_write_fill(y, 3));
    WEIR_TRY(weir_model_set_precision(net, half));      /* WEIR_F32: as if not called */
    WEIR_TRY(weir_optim_set_scaler(sgd, scaler));       /* NULL: the loss is not scaled */

    weir_graph  *step = weir_graph_begin(dev);
    weir_tensor *loss = weir_keep(weir_cross_entropy(weir_apply(mlp, x), y));
    WEIR_TRY(weir_minimize(sgd, loss));                 /* unscales, checks, updates */
    WEIR_TRY(weir_graph_end(step, NULL));
    for (int i = 0; i < 5; i++)
        WEIR_TRY(weir_graph_run(step));
    WEIR_TRY(weir_read(loss, &value, sizeof value));
    if (scaler)
        WEIR_TRY(weir_read(weir_scaler_state(scaler, 0), &scale, sizeof scale));
    WEIR_TRY(weir_graph_stats_of(step, &stats));
    printf("%-4s  loss %.4f  step peak %7zu bytes  scale %.0f\n", weir_dtype_name(half),
           (double)value, stats.arena_bytes, (double)scale);
    return WEIR_OK;
}

int main(void)
{
    static const weir_dtype types[] = {WEIR_F32, WEIR_BF16, WEIR_F16};

    for (int i = 0; i < 3; i++) {
        weir_device *dev = weir_device_open("cpu", &(weir_device_options){.seed = 2});
        if (train(dev, types[i]) != WEIR_OK) {
            fprintf(stderr, "%s\n", weir_error());
            return EXIT_FAILURE;
        }
        weir_device_close(dev);
    }
    return EXIT_SUCCESS;
}
