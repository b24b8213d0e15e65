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

/* From now on deadlines hold for work of the device's streams, too: it is abandoned when the
 * communicator breaks. Called before anything is queued. */
void weir_wire_watch(weir_comm_wire *w, const weir_stream_comm_ops *ops, weir_stream_comm *s);

/* ---- weir_rounds_ops on the wire thread; `wire` is a weir_comm_wire ---- */

void        weir_wire_send(void *wire, const void *at, size_t bytes, int peer);
void        weir_wire_recv(void *wire, void *at, size_t bytes, int peer);
weir_status weir_wire_exchange(void *wire);
weir_status weir_wire_sum(void *wire, const weir_rank_sum *sum);

#endif
