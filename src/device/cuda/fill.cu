/* fill.cu - FILL. */
#include "device/cuda/kernels.h"
#include "device/cuda/maths.h"

template <class T> static __global__ void fill(T *to, T value, int64_t n)
{
    WEIR_EACH(i, n) to[i] = value;
}

template <class T> static weir_status fill_run(const weir_kargs *k)
{
    const weir_layout *const y = &k->call->out[0];
    const int64_t            n = weir_shape_count(&y->desc);
    const double             value = ((const weir_fill_attr *)k->call->attr)->value;

    return weir_launch(k, fill<T>, weir_cuda_blocks(n), WEIR_CUDA_THREADS, (T *)k->dst[0], value,
                       n);
}

weir_status weir_cuda_fill(weir_device *d, const weir_call *c, weir_choice *out)
{
    (void)d;
    (void)c;
    *out = (weir_choice){.run = fill_run<float>, .impl = "cuda"};
    return WEIR_OK;
}
