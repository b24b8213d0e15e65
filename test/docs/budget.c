/* budget.c - a training step without a budget, within half of its peak, and within too little. */
#include <stdio.h>
#include <string.h>

#include "weir.h"

enum { BATCH = 128, WIDTH = 64, STEPS = 6 };

static const char *budget;      /* NULL: none */

static weir_status train(weir_device *dev, float *loss_value)
{
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 5, (int64_t[]){WIDTH, 64, 64, 64, 10});
    weir_optim  *sgd = weir_sgd_new(dev, 0.05, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, BATCH, WIDTH));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, BATCH));
    weir_graph_stats stats;

    weir_write_normal(x, 0, 1);
    weir_write_fill(y, 3);
    weir_graph  *step = weir_graph_begin(dev);
    weir_tensor *loss = weir_keep(weir_cross_entropy(weir_apply(mlp, x), y));
    weir_minimize(sgd, loss);               /* what fails here makes weir_graph_end fail */
    weir_status status = weir_graph_end(step, &(weir_plan_options){.budget = budget});
    for (int i = 0; i < STEPS && status == WEIR_OK; i++)
        status = weir_graph_run(step);
    if (status == WEIR_OK)
        status = weir_read(loss, loss_value, sizeof *loss_value);
    if (status == WEIR_OK)
        status = weir_graph_stats_of(step, &stats);
    if (status == WEIR_OK)
        printf("budget %-6s planned peak %6zu bytes, %zu operations again, loss %.6f\n",
               budget ? budget : "none", stats.planned_peak_bytes, stats.recomputed,
               (double)*loss_value);
    weir_graph_free(step);
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    weir_model_free(net);
    return status;
}

int main(void)
{
    const char *const budgets[] = {NULL, "75%", "300KB", "20%"};
    float             first = 0, loss = 0;

    for (int i = 0; i < 4; i++) {
        weir_device *dev = weir_device_open("cpu", &(weir_device_options){.seed = 7});
        budget = budgets[i];
        if (train(dev, &loss) != WEIR_OK)
            printf("%s\n", weir_error());
        else if (i == 0)
            first = loss;
        else
            printf("    same bits: %s\n", memcmp(&first, &loss, sizeof loss) == 0 ? "yes" : "no");
        weir_device_close(dev);
    }
}
