/* host_abi.h - the plugin's view of libweir. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_HOST_ABI_H
#define WEIR_DEVICE_CUDA_RUNTIME_HOST_ABI_H

#include "device/plugin.h"

/* Stores the host table; false, with a failure remembered, if plugin and library do not match. */
bool weir_cuda_bind_host(const weir_plugin_host *h);

#endif
