/* eager_budget.c - the graph off within a budget: results are evicted and recomputed on demand. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

static weir_status step(weir_layer *mlp, weir_optim *sgd, weir_tensor *x, weir_tensor *y,
                        float *loss_value)
{
    weir_tensor *loss = weir_cross_entropy(weir_apply(mlp, x), y);
    WEIR_TRY(weir_minimize(sgd, loss));
    return weir_read(loss, loss_value, sizeof *loss_value);
}

static weir_status train(const char *budget, const char *policy)
{
    weir_device *dev = weir_device_open("cpu", &(weir_device_options){.seed = 5});
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 6, (int64_t[]){64, 64, 64, 64, 64, 10});
    weir_optim  *sgd = weir_sgd_new(dev, 0.05, NULL);
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, 512, 64));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, 512));
    weir_memory  m;
    weir_status  s = weir_write_normal(x, 0, 1);
    float        loss = 0;

    weir_write_fill(y, 3);
    weir_device_set_policy(dev, policy);
    if (s == WEIR_OK)
        s = weir_device_set_budget(dev, budget);
    for (int i = 0; i < 3 && s == WEIR_OK; i++) {
        weir_scope_begin(dev);              /* results of the step die at its end */
        s = step(mlp, sgd, x, y, &loss);
        weir_scope_end(dev);
    }
    weir_device_memory(dev, &m);
    if (s == WEIR_OK)
        printf("budget %-5s  loss %.7f  peak %7zu bytes  evicted %d, recomputed %d\n",
               budget ? budget : "none", (double)loss, m.live_peak, (int)m.evicted,
               (int)m.recomputed);
    else
        printf("budget %-5s  %s\n", budget, weir_error());
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    weir_model_free(net);
    weir_device_close(dev);
    return s;
}

int main(void)
{
    return train(NULL, NULL) == WEIR_OK && train("1MB", NULL) == WEIR_OK &&
                   train("1MB", "dtr:lru") == WEIR_OK && train("100kB", NULL) == WEIR_ERR_BUDGET
               ? EXIT_SUCCESS : EXIT_FAILURE;
}
