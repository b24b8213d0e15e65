/* wire.h - the wire thread of a communicator: it alone calls the transport, tests and naps.
 *
 * Collectives are queued and performed one after another, in the order in which they were posted. A
 * thread of its own moves messages while the device computes or a callback runs, and answers other
 * ranks that ask where this one is. Each collective carries the graph and the run that it belongs
 * to, so ranks that run different graphs, or another number of steps, learn it at the next one.
 *
 * Deadlines. A rank that waits longer than a sixth of the timeout asks all others; each answers
 * with the collective, the graph and the run that it is at. At the deadline the rank that did not
 * answer, or that is at an earlier collective, is named, and every other rank is told. */
#ifndef WEIR_DEVICE_COMM_WIRE_H
#define WEIR_DEVICE_COMM_WIRE_H

#include "device/comm/comm.h"

typedef struct weir_comm_wire weir_comm_wire;

typedef struct weir_wire_options {
    const weir_comm_ops *ops;
    const char          *spec;          /* of the transport; read during weir_wire_new */
    double               timeout;       /* seconds */
    weir_sum_order       order;
    /* Performs a collective by weir_wire_exchange: rounds.h. */
    weir_status        (*perform)(weir_comm_wire *w, const weir_collective *job);
} weir_wire_options;

/* Starts the thread and opens the transport there; NULL after a failure, which is remembered. */
weir_comm_wire *weir_wire_new(const weir_wire_options *o);

/* Tells the other ranks, closes the transport and ends the thread. A transport whose close takes
 * longer than the timeout is left behind, with its thread. NULL is fine. */
void weir_wire_free(weir_comm_wire *w);

const weir_comm_link *weir_wire_link(const weir_comm_wire *w);

/* Collectives that are posted from now on belong to this run of this graph; 0, 0: to none. */
void weir_wire_at(weir_comm_wire *w, uint64_t graph, uint64_t run);

/* Queues a collective and returns its ticket; waits while the queue is full. */
uint64_t weir_wire_post(weir_comm_wire *w, const weir_collective *job);

/* Returns when the collective and all earlier ones are done. ERR_COMM with the sentence of the
 * failure that has broken the communicator. */
weir_status weir_wire_wait(weir_comm_wire *w, uint64_t ticket);

/* What was done so far. */
weir_comm_stats weir_wire_stats(weir_comm_wire *w);

/* ---- for rounds.c, on the wire thread ---- */

/* Adds a message to the next exchange; one of 0 bytes is left out. */
void weir_wire_send(weir_comm_wire *w, const void *at, size_t bytes, int peer);
void weir_wire_recv(weir_comm_wire *w, void *at, size_t bytes, int peer);

/* Performs the exchange of the messages that were added. */
weir_status weir_wire_exchange(weir_comm_wire *w);

/* weir_ordered_sum in the communicator's order. */
void weir_wire_sum(const weir_comm_wire *w, void *to, const void *const *from, int64_t count,
                   weir_dtype dtype);

/* [world] room for the operands of a sum. */
const void **weir_wire_operands(weir_comm_wire *w);

#endif
