/* index.h - indices that a kernel is about to follow: each is checked before any work is done. */
#ifndef WEIR_DEVICE_CPU_KERNELS_INDEX_H
#define WEIR_DEVICE_CPU_KERNELS_INDEX_H

#include "device/device.h"

/* The indices (n) of an input, i32 or i64, all below `limit`, not negative: else ERR_INDEX, whose
 * sentence names the op, the first such index and its place. `what` they are: "index", "class". */
weir_status weir_cpu_check_index(const weir_kargs *k, int input, const char *what, int64_t limit);

/* The same, but for those equal to `ignored`; *counted: how many others there are. */
weir_status weir_cpu_check_index_but(const weir_kargs *k, int input, const char *what,
                                     int64_t limit, int64_t ignored, int64_t *counted);

#endif
