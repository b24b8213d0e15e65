/* fixture.h - helpers of the graph tests: a device, tensors with values, counts of a plan's
 * instructions. */
#ifndef WEIR_TEST_GRAPH_FIXTURE_H
#define WEIR_TEST_GRAPH_FIXTURE_H

#include "check.h"
#include "core/mem.h"
#include "device/memory/guard.h"
#include "graph/plan/plan.h"
#include "weir.h"

/* Options that leave the named passes out; no pass at all; every pass. */
#define OPTIONS_WITHOUT(names) (&(weir_plan_options){.disable = (names)})
#define OPTIONS_AS_RECORDED       (&(weir_plan_options){.level = WEIR_LEVEL_RECORDED})

static inline weir_device *fixture_open_with(int guard)
{
    const weir_device_options o = {.threads = 2, .seed = 7, .guard = guard};
    weir_device *d = weir_device_open(check_device(), &o);
    CHECK(d != NULL);
    return d;
}

static inline weir_device *fixture_open(void)
{
    return fixture_open_with(0);
}

/* For cases that count bytes: without guard zones, whatever WEIR_GUARD says. */
static inline weir_device *fixture_open_unguarded(void)
{
    return fixture_open_with(-1);
}

/* Bytes that a piece of `bytes` bytes takes on the device, guard zones included. */
static inline size_t fixture_bytes_taken(const weir_device *d, size_t bytes)
{
    size_t taken = 0;
    CHECK(weir_guard_size(d, bytes, &taken));
    return taken;
}

/* Makes a tensor with weir_param or weir_state and writes the n values (0 if v is NULL). */
static inline weir_tensor *fixture_tensor(weir_device *d,
                                          weir_tensor *(*make)(weir_device *, weir_desc,
                                                               const char *),
                                          int64_t n, const float *v)
{
    weir_tensor *t = make(d, weir_1d(WEIR_F32, n), "t");
    if (CHECK(t != NULL))
        CHECK_OK(v ? weir_write(t, v, (size_t)n * sizeof *v) : weir_write_fill(t, 0));
    return t;
}

static inline weir_tensor *fixture_named_input(weir_device *d, weir_desc desc, const char *name)
{
    (void)name;
    return weir_input(d, desc);
}

static inline weir_tensor *fixture_input(weir_device *d, int64_t n, const float *v)
{
    return fixture_tensor(d, fixture_named_input, n, v);
}

static inline weir_tensor *fixture_param(weir_device *d, int64_t n, const float *v)
{
    return fixture_tensor(d, weir_param, n, v);
}

static inline weir_tensor *fixture_state(weir_device *d, int64_t n, const float *v)
{
    return fixture_tensor(d, weir_state, n, v);
}

/* Element 0 of an f32 tensor of up to 64 elements; NaN when it cannot be read. */
static inline float fixture_value(const weir_tensor *t)
{
    float v[64];
    return weir_read(t, v, weir_tensor_bytes(t)) == WEIR_OK ? v[0] : NAN;
}

/* Instructions of the planned graph that are `op`. */
static inline uint32_t fixture_count(const weir_graph *g, weir_op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->plan->n; i++)
        n += g->plan->instr[i].call.op == op;
    return n;
}

/* Ends the recording with the options and runs it once. */
static inline bool fixture_finish(weir_graph *g, const weir_plan_options *o)
{
    return CHECK_OK(weir_graph_end(g, o)) && CHECK_OK(weir_graph_run(g));
}

#endif
