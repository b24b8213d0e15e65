/* watch.c - which of the watched addresses kernels of the simulated device use. */
#include "core/dtype.h"
#include "device/sim/sim.h"

/* Address after the last byte of an operand whose element 0 is at p. */
static uintptr_t end_of(const weir_layout *l, const void *p)
{
    int64_t last = 0;

    for (int i = 0; i < l->desc.ndim; i++) {
        if (l->desc.dim[i] == 0)
            return (uintptr_t)p;
        last += (l->desc.dim[i] - 1) * l->stride[i];
    }
    return (uintptr_t)p + (size_t)(last + 1) * weir_dtype_size(l->desc.dtype);
}

static void watch(weir_sim *sim, const void *p, uintptr_t end)
{
    if ((uintptr_t)p >= sim->lo && end <= sim->hi && end > sim->top)
        sim->top = end;
}

void weir_sim_watch(weir_sim *sim, const weir_kargs *k, size_t work)
{
    if (sim->lo == sim->hi)
        return;
    for (int i = 0; i < k->call->nin; i++)
        watch(sim, k->src[i], end_of(&k->call->in[i], k->src[i]));
    for (int i = 0; i < k->call->nout; i++)
        watch(sim, k->dst[i], end_of(&k->call->out[i], k->dst[i]));
    if (work > 0)
        watch(sim, k->work, (uintptr_t)k->work + work);
}
