/* collective.c - the kernels of collectives: they hand operands to the communicator, and move this
 * rank's own part, which never leaves it. The window in which others' operands arrive is their
 * workspace, so plans count it. */
#include <string.h>

#include "device/common/collective_kernel.h"
#include "device/cpu/kernels.h"

/* What this rank has of the result before anything is exchanged. */
static void move_own(const collective_kernel *s, const weir_collective *job)
{
    const size_t part = s->bytes / (size_t)s->comm->world;

    if (job->kind == WEIR_ALL_GATHER && part > 0)
        memcpy((char *)job->dst + (size_t)s->comm->rank * part, job->src, part);
    if (job->kind == WEIR_BROADCAST && s->comm->rank == job->peer && job->dst != job->src &&
        s->bytes > 0)
        memcpy(job->dst, job->src, s->bytes);
}

static weir_status run(const weir_kargs *k)
{
    const collective_kernel *const s = k->state;
    const weir_collective          job = collective_job(k);

    move_own(s, &job);
    WEIR_TRY(s->comm->run(s->comm, &job));
    if (job.kind == WEIR_SEND)
        *(float *)k->dst[0] = 0;        /* the token */
    if (job.kind == WEIR_REDUCE && s->comm->rank != job.peer && s->bytes > 0)
        memset(k->dst[0], 0, s->bytes);
    return WEIR_OK;
}

static weir_status start(const weir_kargs *k)
{
    const collective_kernel *const s = k->state;
    const weir_collective          job = collective_job(k);

    return s->comm->start(s->comm, &job);
}

static weir_status wait_for_one(const weir_kargs *k)
{
    const collective_kernel *const s = k->state;

    return s->comm->wait(s->comm);
}

#define KERNEL(id)                                                                                 \
    weir_status weir_cpu_##id(weir_device *d, const weir_call *c, weir_kernel *out)                \
    {                                                                                              \
        (void)d;                                                                                   \
        return collective_choose(c, run, "comm", out);                                             \
    }

KERNEL(all_reduce)
KERNEL(reduce_scatter)
KERNEL(all_gather)
KERNEL(broadcast_from)
KERNEL(reduce_to)
KERNEL(send_to)
KERNEL(recv_from)

/* all_reduce in two calls: the window is the first one's. */
weir_status weir_cpu_all_reduce_start(weir_device *d, const weir_call *c, weir_kernel *out)
{
    WEIR_TRY(weir_cpu_all_reduce(d, c, out));
    out->run = start;
    return WEIR_OK;
}

weir_status weir_cpu_all_reduce_wait(weir_device *d, const weir_call *c, weir_kernel *out)
{
    WEIR_TRY(weir_cpu_all_reduce(d, c, out));
    out->run = wait_for_one;
    out->work = 0;
    return WEIR_OK;
}
