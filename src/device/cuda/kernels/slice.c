/* slice.c - SLICE, CONCAT: parts of tensors moved by this device's copy kernels. */
#include "device/cuda/kernels/kernels.h"
#include "device/common/slice_copy.h"

static const slice_copy_kernels by = {weir_cuda_copy, weir_cuda_fill, "cuda"};

weir_status weir_cuda_slice(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return slice_copies_slice(d, &by, c, out);
}

weir_status weir_cuda_concat(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return slice_copies_concat(d, &by, c, out);
}
