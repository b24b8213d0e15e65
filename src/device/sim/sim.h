/* sim.h - the simulated device: numbers, three clocks, and the copies that run beside compute. */
#ifndef WEIR_DEVICE_SIM_SIM_H
#define WEIR_DEVICE_SIM_SIM_H

#include "core/vec.h"
#include "device/device.h"

typedef WEIR_VEC(double) weir_sim_times;

typedef struct weir_sim {
    weir_rates rates;
    size_t     capacity, used;
    uintptr_t  next;                    /* address of the next piece of memory */
    /* Three queues, each in order: the second at which what was given to it so far is done. */
    double     compute, out, in;
    double     stalled;                 /* seconds that compute waited for copies */
    weir_sim_times tickets, slots;      /* when each copy, and what lies in each slot, is done */
    uintptr_t  lo, hi, top;             /* of what is watched: addresses [lo, hi), the highest
                                         * address in it below which a kernel was given bytes */
} weir_sim;

static inline weir_sim *weir_sim_of(const weir_device *d)
{
    return d->impl;
}

/* A copy beside compute, out to the host or in from it: begins when its queue is free, when all
 * that was computed so far is done, and not before the second `after` (0: at once). Returns the
 * second at which it is done. */
double weir_sim_copy_out(weir_device *d, size_t bytes, double after);
double weir_sim_copy_in(weir_device *d, size_t bytes, double after);

/* What is computed from now on begins no earlier than the second `when`. */
void weir_sim_wait(weir_device *d, double when);

extern const weir_device_ops weir_device_sim;

#endif
