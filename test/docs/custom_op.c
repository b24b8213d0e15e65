/* custom_op.c - an operation of a program's own, x^3, with a gradient: at once, recorded, and in a
 * step that trains. */
#include <stdio.h>
#include <stdlib.h>

#include "weir.h"

static int64_t elements(weir_desc desc)
{
    int64_t n = 1;
    for (int i = 0; i < desc.ndim; i++)
        n *= desc.dim[i];
    return n;
}

static weir_status cube(void *ctx, const weir_host_in *x, const weir_host_out *y)
{
    const float *v = x[0].data;
    float       *out = y[0].data;

    (void)ctx;
    if (x[0].desc.dtype != WEIR_F32)
        return weir_fail(WEIR_ERR_DTYPE, "cube: x must be f32, is %s",
                         weir_dtype_name(x[0].desc.dtype));
    for (int64_t i = 0; i < elements(x[0].desc); i++)
        out[i] = v[i] * v[i] * v[i];
    return WEIR_OK;
}

/* dx = 3 x^2 dy */
static weir_status cube_back(void *ctx, const weir_host_in *x, const weir_host_in *y,
                             const weir_host_in *dy, const weir_host_out *dx)
{
    const float *v = x[0].data, *g = dy[0].data;
    float       *out = dx[0].data;

    (void)ctx;
    (void)y;
    for (int64_t i = 0; i < elements(x[0].desc); i++)
        out[i] = 3 * v[i] * v[i] * g[i];
    return WEIR_OK;
}

static const weir_callback_def cubes = {"cube", cube, cube_back, .backward_without_y = true};

static weir_tensor *cubed(weir_tensor *x)
{
    const weir_desc desc = weir_tensor_desc(x);         /* of the result */
    weir_tensor    *y = NULL;
    return weir_callback(&cubes, NULL, 1, &x, 1, &desc, &y) == WEIR_OK ? y : NULL;
}

static weir_status play(weir_device *dev)
{
    weir_tensor *x = weir_param(dev, weir_1d(WEIR_F32, 2), "x");
    weir_optim  *sgd = weir_sgd_new(dev, 0.01, NULL);
    float        v[2] = {1, 2}, value;

    WEIR_TRY(weir_write(x, v, sizeof v));
    WEIR_TRY(weir_read(cubed(x), v, sizeof v));         /* computed at once */
    printf("cubes: %g %g\n", (double)v[0], (double)v[1]);

    weir_graph  *step = weir_graph_begin(dev);          /* recorded, with its gradient */
    weir_tensor *loss = weir_keep(weir_sum(cubed(x), 0, false));
    WEIR_TRY(weir_minimize(sgd, loss));
    WEIR_TRY(weir_graph_end(step, NULL));
    for (int i = 0; i < 3; i++) {
        WEIR_TRY(weir_graph_run(step));
        WEIR_TRY(weir_read(loss, &value, sizeof value));
        printf("sum of cubes: %.4f\n", (double)value);
    }
    weir_graph_free(step);
    weir_optim_free(sgd);
    weir_release(x);

    weir_tensor *whole = weir_input(dev, weir_1d(WEIR_I32, 2));
    weir_write_fill(whole, 3);
    if (!cubed(whole))
        printf("%s\n", weir_error());
    weir_release(whole);
    return WEIR_OK;
}

int main(void)
{
    weir_device      *dev = weir_device_open("cpu", NULL);
    const weir_status s = play(dev);

    if (s != WEIR_OK)
        fprintf(stderr, "%s\n", weir_error());
    weir_device_close(dev);
    return s == WEIR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
