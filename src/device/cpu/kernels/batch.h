/* batch.h - runs a call in parts along its first axis. */
#ifndef WEIR_DEVICE_CPU_KERNELS_BATCH_H
#define WEIR_DEVICE_CPU_KERNELS_BATCH_H

#include "device/device.h"

/* weir_cpu_widened of parts of the call, so that copies in f32 stay small. Places of input 0's
 * first axis must be computed each by itself; other operands have as many rows in theirs, or a
 * multiple. A small call, or one with operands of other sizes, is not divided. */
weir_status weir_cpu_widened_by_batch(weir_device *d, const weir_call *c, weir_choose_fn choose,
                                      weir_kernel *out);

#endif
