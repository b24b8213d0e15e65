/* collective_kernel.h - what kernels of collectives have in common, on the CPU and on cards. */
#ifndef WEIR_DEVICE_COMMON_COLLECTIVE_KERNEL_H
#define WEIR_DEVICE_COMMON_COLLECTIVE_KERNEL_H

#include "core/attr.h"
#include "core/dtype.h"
#include "core/mem.h"
#include "device/collective.h"
#include "device/device.h"

/* The state of such a kernel. */
typedef struct collective_kernel {
    weir_comm      *comm;
    weir_collective job;        /* without operands */
    size_t          bytes;      /* of the whole tensor, count elements */
} collective_kernel;

/* The communicator of the call. */
static inline weir_comm *collective_comm(const weir_call *c)
{
    return (weir_comm *)(uintptr_t)((const weir_collective_attr *)c->attr)->comm;
}

/* The window in which operands of others arrive is the workspace, so plans count it. */
static inline weir_status collective_choose(const weir_call *c,
                                            weir_status (*run)(const weir_kargs *),
                                            const char *impl, weir_kernel *out)
{
    collective_kernel *const s = weir_mem_alloc(sizeof *s);

    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (collective_kernel){.comm = collective_comm(c), .job = weir_collective_of(c)};
    s->bytes = (size_t)s->job.count * weir_dtype_size(s->job.dtype);
    *out = (weir_kernel){.run = run, .work = weir_collective_window(s->comm->world, &s->job),
                         .state = s, .destroy = weir_mem_free, .impl = impl};
    return WEIR_OK;
}

/* The collective with the operands of a run. */
static inline weir_collective collective_job(const weir_kargs *k)
{
    weir_collective job = ((const collective_kernel *)k->state)->job;

    job.src = k->call->nin > 0 ? k->src[0] : NULL;
    job.dst = k->dst[0];
    job.work = k->work;
    return job;
}

#endif
