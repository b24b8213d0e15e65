/* kernel_table.h - the choice among the kernels of a call by measured time.
 *
 * A device has a first kernel for each call, and may have others (weir_device_ops.other). Where
 * the environment names a folder (WEIR_KERNELS), those that give the first one's bits at that
 * shape, as a probe finds, are timed when the call is first seen; the fastest is chosen and never
 * changed while the device is open. A file in the folder keeps the choices of this machine, its
 * libraries and this number of threads. WEIR_KERNEL_BITS=any lets kernels with other bits be
 * chosen, too.
 *
 * The choice changes no plan: a call's workspace is the largest of those it was chosen from. */
#ifndef WEIR_DEVICE_KERNEL_TABLE_H
#define WEIR_DEVICE_KERNEL_TABLE_H

#include "device/device.h"

/* Gives the device a table if the environment asks for one. Fails with ERR_NOMEM. */
weir_status weir_kernel_table_open(weir_device *d);
void        weir_kernel_table_free(weir_device *d);

/* Puts the chosen kernel in the place of *k, the first kernel of the call. `hash` hashes the call.
 * Fails with ERR_NOMEM, and then frees *k. */
weir_status weir_kernel_table_choose(weir_device *d, const weir_call *c, const uint64_t hash[2],
                                     weir_kernel *k);

#endif
