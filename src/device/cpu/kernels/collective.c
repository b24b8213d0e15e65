/* collective.c - the kernels of collectives: they hand operands to the communicator, and move this
 * rank's own part, which never leaves it. The window in which others' operands arrive is their
 * workspace, so plans count it. */
#include "device/collective.h"

#include <string.h>

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "device/cpu/kernels.h"

typedef struct collective {
    weir_comm      *comm;
    weir_collective job;        /* without operands */
    size_t          bytes;      /* of the whole tensor, count elements */
} collective;

/* What this rank has of the result before anything is exchanged. */
static void move_own(const collective *s, const weir_collective *job)
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
    const collective *const s = k->state;
    weir_collective         job = s->job;

    job.src = k->call->nin > 0 ? k->src[0] : NULL;
    job.dst = k->dst[0];
    job.work = k->work;
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
    const collective *const s = k->state;
    weir_collective         job = s->job;

    job.src = k->src[0];
    job.dst = k->dst[0];
    job.work = k->work;
    return s->comm->start(s->comm, &job);
}

static weir_status wait_for_one(const weir_kargs *k)
{
    const collective *const s = k->state;

    return s->comm->wait(s->comm);
}

static weir_status choose(const weir_call *c, weir_kernel *out)
{
    const weir_collective_attr *const a = c->attr;
    collective *const                 s = weir_mem_alloc(sizeof *s);

    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (collective){.comm = (weir_comm *)(uintptr_t)a->comm, .job = weir_collective_of(c)};
    s->bytes = (size_t)s->job.count * weir_dtype_size(s->job.dtype);
    *out = (weir_kernel){.run = run, .work = weir_collective_window(s->comm->world, &s->job),
                         .state = s, .destroy = weir_mem_free, .impl = "comm"};
    return WEIR_OK;
}

#define KERNEL(id)                                                                                 \
    weir_status weir_cpu_##id(weir_device *d, const weir_call *c, weir_kernel *out)                \
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
