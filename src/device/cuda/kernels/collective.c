/* collective.c - collectives on a card: not yet. Their communicators move host memory alone. */
#include "core/status.h"
#include "device/cuda/kernels/kernels.h"

#define NONE(id)                                                                                   \
    weir_status weir_cuda_##id(weir_device *d, const weir_call *c, weir_kernel *out)               \
    {                                                                                              \
        (void)d;                                                                                   \
        (void)out;                                                                                 \
        return weir_fail(WEIR_ERR_NOKERNEL, "%s: cards have no collectives yet", c->def->name);    \
    }

NONE(all_reduce)
NONE(reduce_scatter)
NONE(all_gather)
NONE(broadcast_from)
NONE(reduce_to)
NONE(send_to)
NONE(recv_from)
NONE(all_reduce_start)
NONE(all_reduce_wait)
