/* stream.h - when the events of a schedule happen on three streams. */
#ifndef WEIR_GRAPH_POLICY_STREAM_H
#define WEIR_GRAPH_POLICY_STREAM_H

#include "graph/policy/schedule.h"

/* Moves copies to the device to where they are to be issued, lets lives that are copied out last
 * until that is done, and sets `time`. `live` holds the bytes without either; afterwards it is
 * to be added up anew. False when memory is short. */
bool weir_schedule_stream(weir_schedule *s, size_t room);

#endif
