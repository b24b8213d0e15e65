/* swap.c - the CPU's offload store: the spill file of the device. */
#include "device/cpu/kernels/swap.h"

#include <assert.h>

weir_status weir_cpu_swap_reserve(weir_device *d, size_t bytes, uint32_t tickets)
{
    if (!d->spill)
        WEIR_TRY(weir_spill_new(&(weir_spill_options){.dir = d->spill_dir}, &d->spill));
    assert(weir_spill_staging(d->spill) == 0);      /* staging would have to count in budgets */
    WEIR_TRY(weir_spill_reserve(d->spill, bytes));
    return weir_spill_tickets(d->spill, tickets);
}

weir_status weir_cpu_swap(weir_device *d, const weir_swap *c)
{
    const bool now = c->ticket == WEIR_SWAP_NOW;
    uint64_t   own, *const ticket = now ? &own : weir_spill_ticket(d->spill, c->ticket);

    WEIR_TRY(c->in ? weir_spill_in(d->spill, c->slot, c->at, c->bytes, ticket)
                   : weir_spill_out(d->spill, c->slot, c->at, c->bytes, ticket));
    return now ? weir_spill_wait(d->spill, own) : WEIR_OK;
}

weir_status weir_cpu_swap_wait(weir_device *d, weir_stream *s, uint32_t ticket)
{
    (void)s;
    return weir_spill_wait(d->spill, *weir_spill_ticket(d->spill, ticket));
}

weir_status weir_cpu_swap_settle(weir_device *d, weir_status so_far)
{
    return d->spill ? weir_spill_settle(d->spill, so_far) : so_far;
}

weir_status weir_cpu_swap_speed(weir_device *d, double *out, double *in)
{
    return weir_spill_measure(&(weir_spill_options){.dir = d->spill_dir}, out, in);
}
