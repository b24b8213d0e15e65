/* kinds.h - the kinds of collectives: their names, and which ranks send to which. */
#ifndef WEIR_DEVICE_COMM_KINDS_H
#define WEIR_DEVICE_COMM_KINDS_H

#include "device/collective.h"

/* "all_reduce". */
const char *weir_collective_name(weir_collective_kind kind);

/* "weir_graph_end". */
const char *weir_purpose_name(weir_purpose purpose);

/* True if the rank sends messages to `peer`, or receives from it, in the collective. */
bool weir_collective_sends(const weir_collective *job, int rank, int peer);
bool weir_collective_receives(const weir_collective *job, int rank, int peer);

#endif
