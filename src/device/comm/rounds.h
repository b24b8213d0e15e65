/* rounds.h - collectives as rounds of exchanges between ranks. */
#ifndef WEIR_DEVICE_COMM_ROUNDS_H
#define WEIR_DEVICE_COMM_ROUNDS_H

#include "device/comm/wire.h"

/* Bytes of the window in which the operands of a collective's sums arrive; 0 if it sums nothing. */
size_t weir_rounds_work(int world, const weir_collective *job);

/* Performs the collective on the wire thread. */
weir_status weir_rounds_run(weir_comm_wire *w, const weir_collective *job);

#endif
