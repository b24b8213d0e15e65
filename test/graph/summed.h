/* summed.h - a small graph with a sum over four simulated ranks, whose times are known by hand. */
#ifndef WEIR_TEST_GRAPH_SUMMED_H
#define WEIR_TEST_GRAPH_SUMMED_H

#include "check.h"
#include "weir.h"

enum { SUMMED_N = 40, SUMMED_COUNT = SUMMED_N * SUMMED_N };

/* Each call takes 1 ms; 4 ranks on 2 nodes. */
#define SUMMED_MACHINE "sim:flops=1e24,memory=1e24,link=1e24,call=1e-3,copy=0"
#define SUMMED_NETWORK "node=2,wire=1e6,alpha=1e-3,inner=1e9"

/* Milliseconds of an all_reduce of 1600 f32, serial: parts of 1600 bytes. */
#define SUMMED_MS (2 * (2 + 1600 / 1e6 + 2 * 2 * 1600 / 1e3))

typedef struct summed {
    weir_device *d;
    weir_comm   *c;
    weir_tensor *x, *w;
    weir_graph  *g;
} summed;

/* exp, a sum of its result with three products beside it, and what needs both. */
static inline bool summed_open(summed *s, const char *device, const char *disable)
{
    const weir_desc n = weir_2d(WEIR_F32, SUMMED_N, SUMMED_N);

    *s = (summed){.d = weir_device_open(device, &(weir_device_options){.threads = 1})};
    s->c = weir_comm_open("auto", s->d, NULL);
    s->x = weir_input(s->d, n);
    s->w = weir_input(s->d, n);
    CHECK_OK(weir_write_fill(s->x, 0));
    CHECK_OK(weir_write_fill(s->w, 0));
    s->g = weir_graph_begin(s->d);
    weir_tensor *const sum = weir_all_reduce(s->c, weir_exp(s->x));
    weir_tensor       *z = s->w;
    for (int i = 0; i < 3; i++)
        z = weir_matmul(z, s->w);
    weir_keep(weir_mul(sum, z));
    return CHECK_OK(weir_graph_end(s->g, &(weir_plan_options){.disable = disable}));
}

static inline void summed_close(summed *s)
{
    weir_graph_free(s->g);
    weir_release(s->x);
    weir_release(s->w);
    weir_comm_close(s->c);
    weir_device_close(s->d);
}

#endif
