/* budget_readme.c - a budget for one step, and a budget for every step of a device. */
#include <stdio.h>
#include "weir.h"

/* Records one training step, plans it by `options` and runs it once. */
static weir_status train(weir_device *dev, weir_layer *mlp, const weir_plan_options *options)
{
    weir_optim  *sgd = weir_sgd_new(dev, 0.1, NULL);
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, 512, 64));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, 512));
    weir_memory  m = {0};

    static const float   pixels[512 * 64];      /* zeros: only the bytes matter here */
    static const int32_t labels[512];
    weir_write(x, pixels, sizeof pixels);
    weir_write(y, labels, sizeof labels);
    weir_graph *step = weir_graph_begin(dev);
    weir_minimize(sgd, weir_keep(weir_cross_entropy(weir_apply(mlp, x), y)));
    weir_status status = weir_graph_end(step, options);     /* planned within the budget */
    if (status == WEIR_OK)
        status = weir_graph_run(step);
    if (status == WEIR_OK) {
        weir_device_memory(dev, &m);
        printf("%zu persistent bytes, %zu bytes of arena\n", m.persistent, m.arena);
    }
    weir_graph_free(step);
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    return status;
}

int main(void)
{
    weir_device *dev = weir_device_open("cpu", NULL);
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 4, (int64_t[]){64, 256, 256, 10});

    weir_plan_options options = {.budget = "80%"};      /* or "512MB", "0.5GiB" */

    weir_status status = train(dev, mlp, &options);
    if (status == WEIR_OK)
        status = weir_device_set_budget(dev, "512MB");
    if (status == WEIR_OK)
        status = train(dev, mlp, NULL);
    if (status != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    weir_model_free(net);
    weir_device_close(dev);
    return status == WEIR_OK ? 0 : 1;
}
