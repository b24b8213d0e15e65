/* simulator.c - ResNet-50 on a simulated V100: memory and time of a step for growing batches. */
#include <stdio.h>

#include "weir.h"

static weir_status play(weir_device *dev, int64_t batch)
{
    weir_model  *net = weir_model_new(dev);
    weir_layer  *resnet = weir_resnet_new(net, 50, 1000, false);
    weir_optim  *sgd = weir_sgd_new(dev, 0.1, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *x = weir_input(dev, weir_4d(WEIR_F32, batch, 3, 224, 224));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, batch));
    weir_graph_stats stats;

    WEIR_TRY(weir_write_fill(x, 0));
    WEIR_TRY(weir_write_fill(y, 0));
    weir_graph *step = weir_graph_begin(dev);
    WEIR_TRY(weir_minimize(sgd, weir_cross_entropy(weir_apply(resnet, x), y)));
    WEIR_TRY(weir_graph_end(step, NULL));
    WEIR_TRY(weir_graph_stats_of(step, &stats));
    const double begin = weir_device_clock(dev);
    WEIR_TRY(weir_graph_run(step));
    WEIR_TRY(weir_device_sync(dev));
    printf("batch %3d: %.2f GB, %.0f ms a step on a v100\n", (int)batch,
           (double)stats.planned_peak_bytes / 1e9, 1e3 * (weir_device_clock(dev) - begin));
    return WEIR_OK;
}

int main(void)
{
    for (int64_t batch = 64; batch <= 256; batch *= 2) {
        weir_device *dev = weir_device_open("sim:v100", NULL);
        if (play(dev, batch) != WEIR_OK)
            printf("batch %3d: %s\n", (int)batch, weir_error());
        weir_device_close(dev);
    }
}
