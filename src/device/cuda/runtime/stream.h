/* stream.h - streams, events, recorded runs: the entries of the device's table. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_STREAM_H
#define WEIR_DEVICE_CUDA_RUNTIME_STREAM_H

#include "device/cuda/runtime/context.h"

enum { WEIR_CUDA_STREAMS = 4 };       /* $WEIR_STREAMS: fewer, or more up to 8 */

extern const weir_device_streams weir_cuda_stream_ops;

/* Streams and the words of random numbers; closing takes what opening left, whole or not. */
weir_status weir_cuda_streams_open(weir_cuda_context *c);
void        weir_cuda_streams_close(weir_cuda_context *c);

#endif
