/* queued.h - collectives of device memory as work of a stream, by the device's library for them. */
#ifndef WEIR_DEVICE_COMM_QUEUED_H
#define WEIR_DEVICE_COMM_QUEUED_H

#include "device/comm/wire.h"

/* Joins the ranks of a communicator over the library of its device, and lets the wire watch it.
 * Fails with ERR_COMM on all ranks if one of them lacks the library. */
weir_status weir_queued_open(weir_comm *c, weir_comm_wire *w, weir_stream_comm **s);

/* weir_comm.queue. */
weir_status weir_queued_run(weir_comm *c, weir_comm_wire *w, weir_stream_comm *s,
                            const weir_collective *job, weir_stream *stream);

#endif
