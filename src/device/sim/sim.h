/* sim.h - the simulated device: its rates, three clocks, and copies that overlap with compute. */
#ifndef WEIR_DEVICE_SIM_SIM_H
#define WEIR_DEVICE_SIM_SIM_H

#include "core/vec.h"
#include "device/device.h"

typedef WEIR_VEC(double) weir_sim_times;

typedef struct weir_sim {
    weir_rates rates;
    size_t     capacity, used;
    uintptr_t  next;                    /* address of the next block */
    /* Three streams, each in order: the second at which all work queued so far is done. */
    double     compute, out, in;
    double     stalled;                 /* seconds that compute has waited for copies */
    weir_sim_times tickets, slots;      /* when each copy, and each slot's last copy, is done */
    uintptr_t  lo, hi, top;             /* the watched addresses [lo, hi), and the end of the
                                         * highest operand in them that a kernel was given */
} weir_sim;

static inline weir_sim *weir_sim_of(const weir_device *d)
{
    return d->impl;
}

/* Queues a copy beside compute, out to the host or in from it: it begins when its stream is free
 * and all earlier compute is done, but not before the second `after` (0: at once). Returns the
 * second at which it is done. */
double weir_sim_copy_out(weir_device *d, size_t bytes, double after);
double weir_sim_copy_in(weir_device *d, size_t bytes, double after);

/* Makes later compute begin no earlier than the second `when`. */
void weir_sim_wait(weir_device *d, double when);

extern const weir_device_ops weir_device_sim;

#endif
