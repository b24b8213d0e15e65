/* sim.h - the simulated device: its rates, four clocks, and what overlaps with compute. Defined in
 * sim.c, clock.c, watch.c and world.c. */
#ifndef WEIR_DEVICE_SIM_SIM_H
#define WEIR_DEVICE_SIM_SIM_H

#include "core/vec.h"
#include "device/device.h"
#include "device/network.h"

typedef WEIR_VEC(double) weir_sim_times;

typedef struct weir_sim {
    weir_rates rates;
    weir_network network;               /* of the world in which it is rank 0 */
    size_t     capacity, used;
    uintptr_t  next;                    /* address of the next block */
    /* Four streams, each in order: the second at which all work queued so far is done. */
    double     compute, out, in, wire;
    double     stalled;                 /* seconds that compute has waited for the others */
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

/* The same for a collective that takes the wire for that many seconds. */
double weir_sim_use_wire(weir_device *d, double seconds);

/* The second at which all work queued so far is done. */
double weir_sim_done(const weir_sim *sim);

/* Makes later compute begin no earlier than the second `when`. */
void weir_sim_wait(weir_device *d, double when);

/* Notes which bytes of the watched addresses the kernel uses; `work`: bytes of its workspace. */
void weir_sim_watch(weir_sim *sim, const weir_kargs *k, size_t work);

/* A weir_choose_fn for collectives. */
weir_status weir_sim_choose_collective(weir_device *d, const weir_call *c, weir_kernel *out);

/* Of weir_device_ops. */
weir_comm *weir_sim_join(weir_device *d, bool tree);

extern const weir_device_ops weir_device_sim;

#endif
