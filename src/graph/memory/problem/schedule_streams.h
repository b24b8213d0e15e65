/* schedule_streams.h - when the events of a schedule happen on three streams. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_STREAMS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_SCHEDULE_STREAMS_H

#include "graph/memory/problem/schedule.h"

/* Moves copies to the device to where they are to be issued, lets lives that are copied out last
 * until that is done, and sets `time`. `live` holds the bytes without either; afterwards it is
 * to be added up anew. False when memory is short. */
bool weir_schedule_stream(weir_schedule *s, size_t room);

#endif
