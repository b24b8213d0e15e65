/* stream.h - streams, events and captured runs: the entries of the device's table. */
#ifndef WEIR_DEVICE_CUDA_RUNTIME_STREAM_H
#define WEIR_DEVICE_CUDA_RUNTIME_STREAM_H

#include "device/cuda/runtime/context.h"

enum { WEIR_CUDA_STREAMS = 4 };       /* default of $WEIR_STREAMS, 1 to 8 */

extern const weir_device_streams weir_cuda_stream_ops;

/* Creates the streams and the random state; after a failure, closing frees what was created. */
weir_status weir_cuda_streams_open(weir_cuda_context *c);
void        weir_cuda_streams_close(weir_cuda_context *c);
void        weir_cuda_streams_info(const weir_device *d, weir_string *s);

/* Work that belongs to no call has been queued on stream 0: returns the late error of others, and
 * where calls are checked also waits for the work, whose name is `what`. */
weir_status weir_cuda_queued(weir_device *d, const char *what);

#endif
