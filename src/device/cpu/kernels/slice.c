/* slice.c - SLICE, PLACE, CONCAT: parts made by this device's copies. */
#include "device/cpu/kernels.h"
#include "device/common/slice_copy.h"

static const parts_by by = {weir_cpu_copy, weir_cpu_fill, "c"};

weir_status weir_cpu_slice(weir_device *d, const weir_call *c, weir_choice *out)
{
    return parts_slice(d, &by, c, out);
}

weir_status weir_cpu_place(weir_device *d, const weir_call *c, weir_choice *out)
{
    return parts_place(d, &by, c, out);
}

weir_status weir_cpu_concat(weir_device *d, const weir_call *c, weir_choice *out)
{
    return parts_concat(d, &by, c, out);
}
