/* rounds.h - collectives as rounds of exchanges between ranks. */
#ifndef WEIR_DEVICE_COMM_ROUNDS_H
#define WEIR_DEVICE_COMM_ROUNDS_H

#include "device/comm/wire.h"

/* Performs the collective by these functions. */
weir_status weir_rounds_by(const weir_rounds_ops *ops, void *by, int rank, int world,
                           const weir_collective *job);

/* Performs the collective on the wire thread. */
weir_status weir_rounds_run(weir_comm_wire *w, const weir_collective *job);

#endif
