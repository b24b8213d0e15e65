/* collective.c - collectives on a card: work of the stream of their communicator (lib/nccl.h), and
 * copies of this rank's own part, which never leaves it. Operands of others arrive in the
 * workspace, so plans count it.
 *
 * A stream is ordered, so all_reduce_start queues the whole collective and all_reduce_wait nothing:
 * what follows on the stream follows the sum, and the host goes on at once. */
#include "device/cuda/kernels/kernels.h"
#include "device/cuda/lib/nccl.h"

typedef struct collective {
    weir_comm      *comm;
    weir_collective job;        /* without operands */
    size_t          bytes;      /* of the whole tensor */
} collective;

/* What this rank has of the result before anything is exchanged. */
static weir_status move_own(const weir_kargs *k, const collective *s, const weir_collective *job)
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
    const collective *const s = k->state;
    weir_collective         job = s->job;

    job.src = k->call->nin > 0 ? k->src[0] : NULL;
    job.dst = k->dst[0];
    job.work = k->work;
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
    const weir_collective_attr *const a = c->attr;
    weir_comm *const                  comm = (weir_comm *)(uintptr_t)a->comm;

    if (!comm->queue)
        return weir_fail(WEIR_ERR_NOKERNEL, "%s: the communicator's transport, %s, moves host "
                         "memory alone: those of cards have a spec 'nccl:...'", c->def->name,
                         comm->transport);
    collective *const s = weir_mem_alloc(sizeof *s);
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (collective){.comm = comm, .job = weir_collective_of(c)};
    s->bytes = (size_t)s->job.count * weir_dtype_size(s->job.dtype);
    *out = (weir_kernel){.run = run, .work = weir_collective_window(comm->world, &s->job),
                         .state = s, .destroy = weir_mem_free, .impl = "nccl"};
    return WEIR_OK;
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
