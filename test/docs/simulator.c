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

    weir_write_fill(x, 0);
    weir_write_fill(y, 0);
    weir_graph *step = weir_graph_begin(dev);
    weir_minimize(sgd, weir_cross_entropy(weir_apply(resnet, x), y));
    weir_status  status = weir_graph_end(step, NULL);
    const double begin = weir_device_clock(dev);
    if (status == WEIR_OK)
        status = weir_graph_stats_of(step, &stats);
    if (status == WEIR_OK)
        status = weir_graph_run(step);
    if (status == WEIR_OK)
        status = weir_device_sync(dev);
    if (status == WEIR_OK)
        printf("batch %3d: %.2f GB, %.0f ms a step on a v100\n", (int)batch,
               (double)stats.planned_peak_bytes / 1e9, 1e3 * (weir_device_clock(dev) - begin));
    weir_graph_free(step);
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    weir_model_free(net);
    return status;
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
