/* internal.h - includes the headers of core and device in C and C++ files, declaring their
 * functions extern "C", which the headers themselves do not. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_INTERNAL_H
#define WEIR_DEVICE_CUDA_RUNTIME_INTERNAL_H

#include <cuda_runtime_api.h>

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "core/attr.h"
#include "core/dtype.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/shape.h"
#include "core/status.h"
#include "device/common/axes.h"
#include "device/common/conv_geometry.h"
#include "device/common/copy_axes.h"
#include "device/common/div.h"
#include "device/common/memory_order.h"
#include "device/device.h"
#include "device/offload/swap.h"

#ifdef __cplusplus
}
#endif

#endif
