/* timing.c - measures how long the kernels of a graph take: each distinct call runs on zeros.
 *
 * One block of memory, no larger than what the budget leaves beside resident bytes, serves for all
 * operands; calls that need more, or that run code of the caller, keep their estimates. Equal calls
 * are timed once. */
#include <string.h>

#include "core/rng.h"
#include "device/kernel.h"
#include "graph/plan/plan.h"
#include "graph/memory/budget/from_graph.h"
#include "graph/placement/progress.h"

/* AT_ONCE: launches between two clock readings on a device that queues them. */
enum { RUNS = 3, AT_ONCE = 8 };

/* Returns the bytes of the block that the node's operands and workspace take, with their offsets in
 * at[]; SIZE_MAX if they are too many. */
static size_t need_of(const weir_graph *g, const weir_node *n, size_t work, size_t *at)
{
    const size_t align = g->dev->ops->align;
    size_t       end = 0;

    for (int k = 0; k < n->nin + n->nout; k++) {
        const uint32_t v = k < n->nin ? n->in[k] : n->out[k - n->nin];
        const size_t   bytes = g->storages.at[weir_storage_of(g, v)].bytes;
        at[k] = end;
        if (!weir_size_align(end + bytes, align, &end) || end > SIZE_MAX / 4)
            return SIZE_MAX;
    }
    at[n->nin + n->nout] = end;
    return end + work;
}

/* Clears index operands: values left in the block by other calls could exceed the table's size. */
static weir_status clear_indices(const weir_graph *g, const weir_call *call, char *scratch,
                                 const size_t *at)
{
    for (int i = 0; i < call->nin; i++)
        if (call->in[i].desc.dtype == WEIR_I32 || call->in[i].desc.dtype == WEIR_I64)
            WEIR_TRY(g->dev->ops->fill(g->dev, scratch + at[i], 0, at[i + 1] - at[i]));
    return WEIR_OK;
}

/* Returns the seconds of the fastest of a few runs; -1 if the kernel fails. */
static double time_one(const weir_graph *g, const weir_node *n, const weir_call *call,
                       const weir_kernel *kernel, char *scratch, const size_t *at)
{
    void      *operand[WEIR_EW_MAX_IN + WEIR_MAX_OUT];
    double     best = 1e30;
    const int  times = g->dev->ops->streams ? AT_ONCE : 1;
    weir_kargs k = {.call = call,
                    .src = operand,
                    .dst = operand + n->nin,
                    .state = kernel->state,
                    .work = kernel->work ? scratch + at[n->nin + n->nout] : NULL,
                    .threads = g->dev->threads,
                    .seed = g->dev->seed,
                    .rng = n->rng,
                    .dev = g->dev};

    for (int i = 0; i < n->nin + n->nout; i++) {
        const weir_value *v = &g->values.at[i < n->nin ? n->in[i] : n->out[i - n->nin]];
        operand[i] =
            scratch + at[i] + (size_t)v->offset * weir_dtype_size(v->layout.desc.dtype);
    }
    if (clear_indices(g, call, scratch, at) != WEIR_OK)
        return -1;
    for (int r = 0; r < RUNS; r++) {
        const double begin = weir_device_clock(g->dev);
        for (int i = 0; i < times; i++)
            if (kernel->run(&k) != WEIR_OK)
                return -1;
        const double seconds = (weir_device_clock(g->dev) - begin) / times;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* Returns the seconds of an earlier node with the same kernel; -1 if no earlier node has it. */
static double known(const weir_kernel *const *of, const double *seconds, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;)
        if (of[i] == of[n])
            return seconds[i];
    return -1;
}

static weir_status time_all(const weir_graph *g, size_t limit, double *seconds,
                            const weir_kernel **of)
{
    weir_layout in[WEIR_EW_MAX_IN], out[WEIR_MAX_OUT];
    size_t      at[WEIR_EW_MAX_IN + WEIR_MAX_OUT + 1], most = 0;
    void       *scratch = NULL;

    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const weir_node *n = &g->nodes.at[i];
        const weir_call  call = weir_node_call(g, n, in, out);
        WEIR_TRY(weir_kernel_of(g->dev, &call, &of[i]));
        const size_t need = need_of(g, n, of[i]->work, at);
        most = need <= limit && need > most ? need : most;
    }
    WEIR_TRY(g->dev->ops->alloc(g->dev, most + 1, false, &scratch));
    weir_status status = g->dev->ops->fill(g->dev, scratch, 0, most + 1);
    for (uint32_t i = 0; i < g->nodes.n && status == WEIR_OK; i++) {
        const weir_node *n = &g->nodes.at[i];
        weir_progress_share(i, g->nodes.n);
        if (!weir_progress_poll())
            status = WEIR_ERR_CANCELLED;
        seconds[i] = known(of, seconds, i);
        if (seconds[i] >= 0 || n->def->flags & WEIR_CALLER ||
            need_of(g, n, of[i]->work, at) > most)
            continue;
        const weir_call call = weir_node_call(g, n, in, out);
        seconds[i] = time_one(g, n, &call, of[i], scratch, at);
    }
    g->dev->ops->free(g->dev, scratch, most + 1);
    return status;
}

weir_status weir_graph_time(const weir_graph *g, size_t limit, double **seconds)
{
    const weir_kernel **of = weir_mem_alloc((g->nodes.n + 1u) * sizeof *of);

    *seconds = weir_mem_alloc((g->nodes.n + 1u) * sizeof **seconds);
    weir_progress_phase("kernels");
    const weir_status status = of && *seconds ? time_all(g, limit, *seconds, of) : WEIR_ERR_NOMEM;
    weir_mem_free(of);
    if (status != WEIR_OK) {
        weir_mem_free(*seconds);
        *seconds = NULL;
    }
    return status;
}
