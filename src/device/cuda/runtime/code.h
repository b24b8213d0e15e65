/* code.h - the code for cards that the plugin contains. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_CODE_H
#define WEIR_DEVICE_CUDA_RUNTIME_CODE_H

#include "device/cuda/runtime/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fails with a sentence unless the plugin has code that the card, the thread's current one, can
 * run. Without this the first launch would fail. */
weir_status weir_cuda_code_check(weir_cuda_context *u);

/* A line on what the plugin was built for, and a warning where the card is of a later generation
 * than the code it runs. */
void weir_cuda_code_info(const weir_cuda_context *u, weir_string *s);

#ifdef __cplusplus
}
#endif

#endif
