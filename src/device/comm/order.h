/* order.h - sums whose bits depend on the order of ranks alone. */
#ifndef WEIR_DEVICE_COMM_ORDER_H
#define WEIR_DEVICE_COMM_ORDER_H

#include "device/collective.h"

/* to[i] = from[0][i] + .. + from[n-1][i] in the order given; `to` may be one of them. f16 and bf16
 * are summed in f32 and rounded once. Any type but bool. */
void weir_ordered_sum(void *to, const void *const *from, int n, int64_t count, weir_dtype dtype,
                      weir_sum_order order);

#endif
