/* spill_slots.c - the slots of a device's offload store: first fit among the permanent ones. */
#include "device/offload/spill_slots.h"

#include "core/mem.h"

weir_status weir_device_spill(weir_device *d, size_t bytes, uint32_t tickets)
{
    const uint32_t most = tickets > d->tickets ? tickets : d->tickets;
    size_t         all;

    if (!weir_size_add(d->spill_slots_end, bytes > d->passing ? bytes : d->passing, &all))
        all = SIZE_MAX;
    WEIR_TRY(d->ops->swap_reserve(d, all, most));
    d->passing = bytes > d->passing ? bytes : d->passing;
    d->tickets = most;
    return WEIR_OK;
}

weir_status weir_device_spill_slot(weir_device *d, size_t bytes, size_t *at)
{
    weir_spill_slot h = {.at = d->spill_slots_end, .taken = true};

    for (uint32_t i = 0; i < d->spill_slots.n; i++) {
        weir_spill_slot *const old = &d->spill_slots.at[i];
        if (!old->taken && old->bytes >= bytes) {
            old->taken = true;
            *at = old->at;
            return WEIR_OK;
        }
    }
    size_t end;
    if (!weir_size_align(bytes, WEIR_SPILL_ALIGN, &h.bytes) ||
        !weir_size_add(h.at, h.bytes, &end) || !weir_vec_push(&d->spill_slots, h))
        return WEIR_ERR_NOMEM;
    d->spill_slots_end = end;
    d->moves++;
    *at = h.at;
    return WEIR_OK;
}

void weir_device_spill_slot_free(weir_device *d, size_t at)
{
    for (uint32_t i = 0; i < d->spill_slots.n; i++)
        if (d->spill_slots.at[i].at == at)
            d->spill_slots.at[i].taken = false;
}

weir_status weir_device_spill_speed(weir_device *d, double *out, double *in)
{
    if (!(d->spill_out > 0))
        WEIR_TRY(d->ops->swap_speed(d, &d->spill_out, &d->spill_in));
    *out = d->spill_out;
    *in = d->spill_in;
    return WEIR_OK;
}
