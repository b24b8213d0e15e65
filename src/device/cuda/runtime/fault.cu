/* fault.cu - checks indices on the card and reports wrong ones. */
#define WEIR_CUDA_FAULTS
#include "device/cuda/runtime/fault.h"

#include "device/cuda/runtime/launch.h"

template <class I>
static __global__ void check(const I *index, int64_t n, int64_t limit, int op,
                             weir_cuda_fault *fault)
{
    WEIR_EACH(i, n) {
        const int64_t x = (int64_t)index[i];
        if (x < 0 || x >= limit)
            weir_fault_index(fault, op, x, limit);
    }
}

weir_status weir_cuda_fault_of(const weir_kargs *k, weir_cuda_fault **fault)
{
    weir_cuda_context *const u = weir_cuda_context_of(k->dev);

    if (!u->fault) {
        WEIR_CUDA_TRY(k->call, cudaMallocHost((void **)&u->fault, sizeof *u->fault));
        u->fault->taken = 0;
    }
    *fault = u->fault;
    return WEIR_OK;
}

weir_status weir_cuda_check_index(const weir_kargs *k, int input, int64_t limit)
{
    const weir_desc *const d = &k->call->in[input].desc;
    const int64_t          n = d->dim[0];
    const int              op = (int)k->call->op;
    weir_cuda_fault       *f = NULL;

    if (n == 0)
        return WEIR_OK;
    WEIR_TRY(weir_cuda_fault_of(k, &f));
    return d->dtype == WEIR_I64
               ? weir_launch(k, check<int64_t>, weir_cuda_blocks(n), WEIR_CUDA_THREADS,
                             (const int64_t *)k->src[input], n, limit, op, f)
               : weir_launch(k, check<int32_t>, weir_cuda_blocks(n), WEIR_CUDA_THREADS,
                             (const int32_t *)k->src[input], n, limit, op, f);
}

weir_status weir_cuda_fault_tell(weir_cuda_context *u)
{
    if (!u->fault || !u->fault->taken)
        return WEIR_OK;
    const weir_cuda_fault f = *u->fault;
    const bool            loss =
        f.op == WEIR_OP_CROSS_ENTROPY || f.op == WEIR_OP_CROSS_ENTROPY_GRAD;

    u->fault->taken = 0;
    return weir_fail(WEIR_ERR_INDEX, "%s: %s %lld is outside 0..%lld; the card found it after the "
                     "call, and results computed from it hold NaN or lack rows",
                     weir_op_name((weir_op)f.op), loss ? "class" : "index", (long long)f.index,
                     (long long)f.limit - 1);
}

void weir_cuda_fault_close(weir_cuda_context *u)
{
    (void)cudaFreeHost(u->fault);
    u->fault = NULL;
}
