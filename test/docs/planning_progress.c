/* planning_progress.c - prints how far planning is, and stops it if it takes too long. */
#include <stdio.h>
#include "weir.h"

static bool tell(void *context, const weir_progress *p)
{
    const double limit = *(const double *)context;

    fprintf(stderr, "\rplanning %.1f s, %s, %llu plans", p->seconds, p->phase,
            (unsigned long long)p->plans);
    return p->seconds < limit;          /* false: stop */
}

int main(void)
{
    double       seconds = 60;
    weir_device *dev = weir_device_open("cpu", NULL);
    weir_model  *net = weir_model_new(dev);
    weir_layer  *mlp = weir_mlp_new(net, 4, (int64_t[]){16, 64, 64, 4});
    weir_optim  *sgd = weir_sgd_new(dev, 0.1, NULL);
    weir_tensor *x = weir_input(dev, weir_2d(WEIR_F32, 512, 16));
    weir_tensor *y = weir_input(dev, weir_1d(WEIR_I32, 512));

    weir_device_set_progress(dev, tell, &seconds);
    for (int i = 0; i < 2; i++) {
        weir_graph *step = weir_graph_begin(dev);
        weir_minimize(sgd, weir_keep(weir_cross_entropy(weir_apply(mlp, x), y)));
        const weir_status s = weir_graph_end(step, &(weir_plan_options){.budget = "85%"});
        printf("%s\n", s == WEIR_OK ? "planned" : weir_status_text(s));
        weir_graph_free(step);
        seconds = 0;
    }
    weir_release(x);
    weir_release(y);
    weir_optim_free(sgd);
    weir_model_free(net);
    weir_device_close(dev);
}
