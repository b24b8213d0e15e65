/* collective.c - collectives on a card: work of the stream of their communicator (lib/nccl.h), and
 * copies of this rank's own part, which never leaves it. Operands of others arrive in the
 * workspace, so plans count it.
 *
 * A stream is ordered, so all_reduce_start queues the whole collective and all_reduce_wait nothing:
 * what follows on the stream follows the sum, and the host goes on at once. */
#include "device/common/collective_kernel.h"
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/lib/nccl.h"

/* What this rank has of the result before anything is exchanged. */
static weir_status move_own(const weir_kargs *k, const collective_kernel *s,
                            const weir_collective *job)
{
    const size_t part = s->bytes / (size_t)s->comm->world;
    const int    rank = s->comm->rank;

    if (job->kind == WEIR_ALL_GATHER && part > 0)
        WEIR_CUDA_TRY(k->call, cudaMemcpyAsync((char *)job->dst + (size_t)rank * part, job->src,
                                               part, cudaMemcpyDeviceToDevice,
                                               weir_cuda_stream(k)));
    if (job->kind == WEIR_BROADCAST && rank == job->peer && job->dst != job->src && s->bytes > 0)
        WEIR_CUDA_TRY(k->call, cudaMemcpyAsync(job->dst, job->src, s->bytes,
                                               cudaMemcpyDeviceToDevice, weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status run(const weir_kargs *k)
{
    const collective_kernel *const s = k->state;
    const weir_collective          job = collective_job(k);

    WEIR_TRY(move_own(k, s, &job));
    WEIR_TRY(s->comm->queue(s->comm, &job, k->stream));
    if (job.kind == WEIR_SEND)
        WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, sizeof(float), weir_cuda_stream(k)));
    if (job.kind == WEIR_REDUCE && s->comm->rank != job.peer && s->bytes > 0)
        WEIR_CUDA_TRY(k->call, cudaMemsetAsync(k->dst[0], 0, s->bytes, weir_cuda_stream(k)));
    return WEIR_OK;
}

static weir_status run_nothing(const weir_kargs *k)
{
    (void)k;
    return WEIR_OK;
}

static weir_status choose(const weir_call *c, weir_kernel *out)
{
    const weir_comm *const comm = collective_comm(c);

    if (!comm->queue)
        return weir_fail(WEIR_ERR_NOKERNEL, "%s: the communicator's transport, %s, moves host "
                         "memory alone: those of cards have a spec 'nccl:...'", c->def->name,
                         comm->transport);
    return collective_choose(c, run, "nccl", out);
}

#define KERNEL(id)                                                                                 \
    weir_status weir_cuda_##id(weir_device *d, const weir_call *c, weir_kernel *out)               \
    {                                                                                              \
        (void)d;                                                                                   \
        return choose(c, out);                                                                     \
    }

KERNEL(all_reduce)
KERNEL(reduce_scatter)
KERNEL(all_gather)
KERNEL(broadcast_from)
KERNEL(reduce_to)
KERNEL(send_to)
KERNEL(recv_from)
KERNEL(all_reduce_start)

weir_status weir_cuda_all_reduce_wait(weir_device *d, const weir_call *c, weir_kernel *out)
{
    (void)d;
    (void)c;
    *out = (weir_kernel){.run = run_nothing, .impl = "nccl"};
    return WEIR_OK;
}
