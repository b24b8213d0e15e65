/* model.c - how long an all_reduce takes: a constant and a time per byte, fitted to measured ones.
 *
 * The model of Hockney, "The communication challenge for MPP", 1994. The smallest size gives the
 * constant, the two largest the time per byte: those between may go at the speed of buffers on the
 * way, which take a message of 64 KiB at once and are full where messages follow each other. */
#include "device/comm/model.h"

#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "core/trace.h"
#include "device/collective.h"

/* Sizes: LEAST bytes times powers of 4. */
enum { SIZES = 8, REPEATS = 3, LEAST = 256 };

#define MOST_BYTES ((size_t)LEAST << 2 * (SIZES - 1))

/* The fastest of some all_reduces of `bytes` bytes; what is simulated need not be timed. */
static weir_status time_one(weir_comm *c, size_t bytes, float *data, void *window, double *seconds)
{
    const weir_collective job = {.kind = WEIR_ALL_REDUCE, .dtype = WEIR_F32,
                                 .count = (int64_t)(bytes / sizeof *data), .src = data,
                                 .dst = data, .work = window};

    *seconds = c->dev->ops->unreal ? c->seconds(c, &job) : 1e30;
    if (c->dev->ops->unreal)
        return WEIR_OK;
    for (int i = 0; i < REPEATS; i++) {
        const double began = weir_now();
        WEIR_TRY(c->run(c, &job));
        const double took = weir_now() - began;
        *seconds = took < *seconds ? took : *seconds;
    }
    return WEIR_OK;
}

void weir_fit_sums(const double *bytes, const double *seconds, int n, double *constant,
                   double *per_byte)
{
    const double slope = (seconds[n - 1] - seconds[n - 2]) / (bytes[n - 1] - bytes[n - 2]);

    *per_byte = slope > 0 ? slope : seconds[n - 1] / bytes[n - 1];
    *constant = seconds[0] - bytes[0] * *per_byte;
    *constant = *constant > 0 ? *constant : 0;
}

/* Both numbers become the largest of all ranks. */
static weir_status agree(weir_comm *c, double *constant, double *per_byte)
{
    double *const         all = weir_mem_zalloc((size_t)c->world * 2, sizeof *all);
    const double          mine[2] = {*constant, *per_byte};
    const weir_collective job = {.kind = WEIR_ALL_GATHER, .dtype = WEIR_F64,
                                 .count = (int64_t)c->world * 2, .src = mine, .dst = all};

    if (!all)
        return WEIR_ERR_NOMEM;
    memcpy(all + 2 * c->rank, mine, sizeof mine);
    const weir_status status = c->run(c, &job);
    for (int r = 0; r < c->world && status == WEIR_OK; r++) {
        *constant = all[2 * r] > *constant ? all[2 * r] : *constant;
        *per_byte = all[2 * r + 1] > *per_byte ? all[2 * r + 1] : *per_byte;
    }
    weir_mem_free(all);
    return status;
}

static weir_status measure(weir_comm *c, float *data, void *window, double *constant,
                           double *per_byte)
{
    double bytes[SIZES], seconds[SIZES];

    for (int i = 0; i < SIZES; i++) {
        const size_t n = (size_t)LEAST << 2 * i;
        bytes[i] = (double)n;
        WEIR_TRY(time_one(c, n, data, window, &seconds[i]));
    }
    weir_fit_sums(bytes, seconds, SIZES, constant, per_byte);
    WEIR_TRY(agree(c, constant, per_byte));
    c->constant_s = *constant;
    c->per_byte_s = *per_byte;
    return WEIR_OK;
}

weir_status weir_comm_measure(weir_comm *c, double *constant_s, double *per_byte_s)
{
    if (!c || !constant_s || !per_byte_s)
        return weir_fail_null("weir_comm_measure", c ? "a result" : "communicator");
    WEIR_VISIT(c->dev, "weir_comm_measure", weir_error_status());
    *constant_s = *per_byte_s = 0;
    if (c->world == 1)
        return WEIR_OK;
    if (c->queue)
        return weir_fail(WEIR_ERR_NOKERNEL, "weir_comm_measure: collectives of cards are not "
                         "measured");
    const weir_collective largest = {.kind = WEIR_ALL_REDUCE, .dtype = WEIR_F32,
                                     .count = (int64_t)(MOST_BYTES / sizeof(float))};
    float *const data = weir_mem_zalloc(1, MOST_BYTES);
    void *const  window = weir_mem_alloc(weir_collective_window(c->world, &largest));
    const weir_status status = data && window ? measure(c, data, window, constant_s, per_byte_s)
                                              : WEIR_ERR_NOMEM;
    weir_mem_free(data);
    weir_mem_free(window);
    return status;
}
