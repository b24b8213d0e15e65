/* rng_state.cu - writes two words to device memory, passed by value, so that no host memory has to
 * outlive the call. */
#include "device/cuda/runtime/rng_state.h"

#include "device/cuda/runtime/launch.h"

static __global__ void set_rng_state(uint64_t *to, uint64_t first, uint64_t second)
{
    to[0] = first;
    to[1] = second;
}

weir_status weir_cuda_rng_state_set(weir_device *d, uint64_t *to, uint64_t first, uint64_t second)
{
    weir_kargs k = {};

    k.dev = d;
    return weir_launch(&k, set_rng_state, 1, 1, to, first, second);
}
