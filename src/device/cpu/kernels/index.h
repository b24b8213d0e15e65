/* index.h - checks of the indices of a call, before any of its work is done. */
#ifndef WEIR_DEVICE_CPU_KERNELS_INDEX_H
#define WEIR_DEVICE_CPU_KERNELS_INDEX_H

#include "device/device.h"

/* Fails with ERR_INDEX unless all indices (n) of an input, i32 or i64, are in 0 .. limit - 1. The
 * sentence names the op, the first wrong index and its position. what: "index" or "class". */
weir_status weir_cpu_check_index(const weir_kargs *k, int input, const char *what, int64_t limit);

/* The same, but indices equal to `ignored` are accepted; *counted: the number of others. */
weir_status weir_cpu_check_index_but(const weir_kargs *k, int input, const char *what,
                                     int64_t limit, int64_t ignored, int64_t *counted);

#endif
