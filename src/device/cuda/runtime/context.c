/* context.c - the streams that work is queued on; CUDA errors as statuses. */
#include "device/cuda/runtime/context.h"

/* Errors of running kernels are met by any later call. */
static const char *hint(cudaError_t e)
{
    const bool lasting = e == cudaErrorIllegalAddress || e == cudaErrorMisalignedAddress ||
                         e == cudaErrorLaunchFailure || e == cudaErrorLaunchTimeout ||
                         e == cudaErrorAssert || e == cudaErrorHardwareStackError ||
                         e == cudaErrorIllegalInstruction || e == cudaErrorInvalidAddressSpace ||
                         e == cudaErrorInvalidPc;
    return lasting ? "; an earlier operation caused it: WEIR_CUDA_SYNC=1 names it" : "";
}

weir_status weir_cuda_status(cudaError_t e, const weir_call *c, const char *what)
{
    if (e == cudaSuccess)
        return WEIR_OK;
    (void)cudaGetLastError();
    const weir_status s = e == cudaErrorMemoryAllocation ? WEIR_ERR_NOMEM : WEIR_ERR_DEVICE;
    if (c)
        return weir_call_fail(s, c, "%s: %s (%s)%s", what, cudaGetErrorString(e),
                              cudaGetErrorName(e), hint(e));
    return weir_fail(s, "device cuda: %s: %s (%s)%s", what, cudaGetErrorString(e),
                     cudaGetErrorName(e), hint(e));
}

void weir_cuda_set_late(weir_cuda_context *c, cudaError_t e, const char *of)
{
    if (e == cudaSuccess || c->pending.late != cudaSuccess)
        return;
    c->pending.late = e;
    c->pending.late_of = of;
}

/* Called before any work is queued: launches waiting updates. */
static void launch_waiting(const weir_device *d)
{
    weir_cuda_context *const c = weir_cuda_context_of(d);

    weir_cuda_here(d);
    if (c->pending.flush)
        weir_cuda_set_late(c, c->pending.flush(c->pending.arg), "launch of pending updates");
}

cudaStream_t weir_cuda_stream(const weir_kargs *k)
{
    launch_waiting(k->dev);
    return k->stream ? (cudaStream_t)k->stream : weir_cuda_context_of(k->dev)->compute;
}

cudaStream_t weir_cuda_compute(const weir_device *d)
{
    launch_waiting(d);
    return weir_cuda_context_of(d)->compute;
}

weir_status weir_cuda_late(const weir_device *d)
{
    weir_cuda_context *const c = weir_cuda_context_of(d);
    const cudaError_t        e = c->pending.late;

    if (__atomic_exchange_n(&c->given_up.told, 0, __ATOMIC_ACQUIRE))
        return weir_fail(WEIR_ERR_COMM, "%s", c->given_up.why);
    c->pending.late = cudaSuccess;
    return weir_cuda_status(e, NULL, c->pending.late_of);
}
