/* consumer.c - a program outside the tree: trains one linear layer with an installed Weir. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#if WEIR_VERSION_NUMBER < WEIR_VERSION_OF(0, 1, 0)
#error "this program needs Weir 0.1"
#endif

enum { ROWS = 8, STEPS = 200 };

/* One check for everything recorded: the first mistake is what weir_error tells. */
static void stop_if(int bad)
{
    if (bad) {
        fprintf(stderr, "consumer: %s\n", weir_error());
        exit(1);
    }
}

int main(void)
{
    float data[ROWS], loss = 1, weight = 0;

    if (strcmp(weir_version(), WEIR_VERSION_STRING) != 0) {
        fprintf(stderr, "consumer: headers %s, library %s\n", WEIR_VERSION_STRING, weir_version());
        return 1;
    }
    weir_device *dev = weir_device_open("cpu", NULL);
    weir_tensor *x = weir_input(dev, weir_1d(WEIR_F32, ROWS));
    weir_tensor *w = weir_param(dev, weir_scalar(WEIR_F32), "w");
    weir_optim  *sgd = weir_sgd_new(dev, 0.1, NULL);
    for (int i = 0; i < ROWS; i++)
        data[i] = (float)i / ROWS;
    stop_if(!sgd || weir_write(x, data, sizeof data) != WEIR_OK ||
            weir_write_fill(w, 0) != WEIR_OK);

    weir_graph  *step = weir_graph_begin(dev);
    weir_tensor *error = weir_sub(weir_mul(x, w), weir_affine(x, 3, 0));
    weir_tensor *mean = weir_keep(weir_mean(weir_square(error), 0, false));
    stop_if(weir_minimize(sgd, mean) != WEIR_OK || weir_graph_end(step, NULL) != WEIR_OK);
    for (int i = 0; i < STEPS; i++)
        stop_if(weir_graph_run(step) != WEIR_OK);
    stop_if(weir_read(mean, &loss, sizeof loss) != WEIR_OK ||
            weir_read(w, &weight, sizeof weight) != WEIR_OK);

    printf("weir %s: weight %.3f after %d steps\n", weir_version(), (double)weight, STEPS);
    weir_graph_free(step);
    weir_optim_free(sgd);
    weir_release(x);
    weir_release(w);
    weir_device_close(dev);
    return loss < 1e-3f ? 0 : 1;
}
