/* host_abi.h - the plugin's view of libweir. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_HOST_ABI_H
#define WEIR_DEVICE_CUDA_RUNTIME_HOST_ABI_H

#include "device/plugin.h"

/* Takes the table; false, with the failure remembered there, if the two do not fit together. */
bool weir_cuda_bind_host(const weir_plugin_host *h);

#endif
