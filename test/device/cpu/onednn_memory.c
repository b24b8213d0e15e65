/* onednn_memory.c - tests that oneDNN is not called where malloc has no memory for it, since it
 * would end the process. */
#include <stdlib.h>

#include "check.h"
#include "core/env.h"
#include "device/cpu/gemm/onednn.h"
#include "weir.h"

enum { SIDE = 8, CHANNELS = 16, CHUNK = 64 << 10, RUN = 1000, N = CHANNELS * SIDE * SIDE };

/* Requests of this size come from the question how much malloc has. */
static void *no_chunks(size_t bytes)
{
    return bytes == CHUNK || bytes == RUN ? NULL : weir_env_system.malloc(bytes);
}

static void chunks(bool there)
{
    static weir_env e;

    e = weir_env_system;
    e.malloc = no_chunks;
    weir_env_set(there ? NULL : &e);
}

/* Convolves x with w by oneDNN, graph off. */
static weir_status convolve(weir_tensor *x, weir_tensor *w, float *y)
{
    weir_tensor *const t = weir_conv2d(x, w, NULL, &(weir_conv2d_options){.pad = {1, 1}});

    return t ? weir_read(t, y, N * sizeof *y) : weir_error_status();
}

/* The shortage is met as a status when the call is prepared, and in each run. */
CASE(a_shortage_is_a_status)
{
    static float before[N], after[N];
    if (!weir_onednn_present())
        return;
    setenv("WEIR_CONV", "onednn", 1);
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, 1, CHANNELS, SIDE, SIDE));
    weir_tensor *const w = weir_input(d, weir_4d(WEIR_F32, CHANNELS, CHANNELS, 3, 3));

    CHECK_OK(weir_write_fill(x, 0.5));
    CHECK_OK(weir_write_fill(w, 0.25));
    chunks(false);
    CHECK_STATUS(convolve(x, w, before), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "oneDNN wants");
    chunks(true);
    CHECK_OK(convolve(x, w, before));
    chunks(false);
    CHECK_STATUS(convolve(x, w, after), WEIR_ERR_NOMEM);
    CHECK_TEXT(weir_error(), "oneDNN wants 1000 bytes of its own");
    chunks(true);
    CHECK_OK(convolve(x, w, after));
    CHECK_BITS(before, after, sizeof before);
    weir_release(w);
    weir_release(x);
    weir_device_close(d);
    unsetenv("WEIR_CONV");
}

/* A step that has been planned meets it before its first update, and runs afterwards. */
CASE(a_shortage_leaves_a_planned_step)
{
    static float weights[2][CHANNELS * CHANNELS * 9];
    if (!weir_onednn_present())
        return;
    setenv("WEIR_CONV", "onednn", 1);
    weir_device *const d = weir_device_open("cpu", &(weir_device_options){.threads = 2});
    weir_tensor *const x = weir_input(d, weir_4d(WEIR_F32, 1, CHANNELS, SIDE, SIDE));
    weir_tensor *const w = weir_param(d, weir_4d(WEIR_F32, CHANNELS, CHANNELS, 3, 3), "w");
    weir_tensor *const lr = weir_input(d, weir_1d(WEIR_F32, 1));

    CHECK_OK(weir_write_fill(x, 0.5));
    CHECK_OK(weir_write_fill(w, 0.25));
    CHECK_OK(weir_write_fill(lr, 0.125));
    weir_graph *const g = weir_graph_begin(d);
    weir_tensor *const y = weir_conv2d(x, w, NULL, &(weir_conv2d_options){.pad = {1, 1}});
    weir_tensor       *gradient = NULL;
    CHECK_OK(weir_gradients(weir_mean(weir_mul(y, y), 0, false), 1, &w, &gradient));
    CHECK_OK(weir_sgd_update(w, gradient, NULL, lr, NULL));
    CHECK_OK(weir_graph_end(g, NULL));
    CHECK_OK(weir_graph_run(g));
    CHECK_OK(weir_read(w, weights[0], sizeof weights[0]));
    chunks(false);
    CHECK_STATUS(weir_graph_run(g), WEIR_ERR_NOMEM);
    chunks(true);
    CHECK_OK(weir_read(w, weights[1], sizeof weights[1]));
    CHECK_BITS(weights[0], weights[1], sizeof weights[0]);
    CHECK_OK(weir_graph_run(g));
    weir_graph_free(g);
    weir_release(lr);
    weir_release(w);
    weir_release(x);
    weir_device_close(d);
    unsetenv("WEIR_CONV");
}
