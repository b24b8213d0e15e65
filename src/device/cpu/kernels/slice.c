/* slice.c - SLICE, SLICE_SCATTER, CONCAT: parts of tensors moved by this device's copy kernels. */
#include "device/cpu/kernels.h"
#include "device/common/slice_copy.h"

static const slice_copy_kernels by = {weir_cpu_copy, weir_cpu_fill, "c"};

weir_status weir_cpu_slice(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return slice_copies_slice(d, &by, c, out);
}

weir_status weir_cpu_slice_scatter(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return slice_copies_scatter(d, &by, c, out);
}

weir_status weir_cpu_concat(weir_device *d, const weir_call *c, weir_kernel *out)
{
    return slice_copies_concat(d, &by, c, out);
}
