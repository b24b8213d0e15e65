/* shortest.c - the shortest whole program: two layers learn which of two numbers is the larger. */
#include <stdio.h>
#include <stdlib.h>
#include "weir.h"

int main(void)
{
    weir_device *dev = weir_device_open("cpu", NULL);
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 3, (int64_t[]){2, 16, 2});
    weir_optim  *sgd = weir_sgd_new(dev, 0.1, &(weir_sgd_options){.momentum = 0.9});
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, 64, 2));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, 64));

    weir_graph  *step = weir_graph_begin(dev);              /* recorded from here on */
    weir_tensor *loss = weir_keep(weir_cross_entropy(weir_apply(mlp, x), y));
    weir_minimize(sgd, loss);                               /* gradients and updates */
    if (weir_graph_end(step, NULL) != WEIR_OK) {            /* planned; one check for all of it */
        fprintf(stderr, "%s\n", weir_error());
        return 1;
    }
    for (int i = 0; i <= 200; i++) {
        float   numbers[64][2], value;
        int32_t larger[64];
        for (int k = 0; k < 64; k++) {
            numbers[k][0] = (float)(rand() % 100) / 100;
            numbers[k][1] = (float)(rand() % 100) / 100;
            larger[k] = numbers[k][0] < numbers[k][1];
        }
        weir_write(x, numbers, sizeof numbers);
        weir_write(y, larger, sizeof larger);
        weir_graph_run(step);                               /* allocates nothing */
        weir_read(loss, &value, sizeof value);
        if (i % 50 == 0)
            printf("step %3d  loss %.4f\n", i, (double)value);
    }
    weir_graph_free(step);
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    weir_model_free(net);
    weir_device_close(dev);
}
