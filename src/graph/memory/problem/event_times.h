/* event_times.h - start and end of each event of an ended schedule, and the compute stream's waits
 * for copies. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H
#define WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_event_time {
    double   begin, end; /* seconds from the start of the step, on the event's own stream */
    double   wait;       /* seconds for which compute stands still before the event ... */
    uint32_t waits_for;  /* ... for a copy of this tensor; WEIR_NO_TENSOR: no wait */
} weir_event_time;

/* Returns one entry per event; the caller frees the array with weir_mem_free. NULL if memory runs
 * out. The latest `end` equals s->time up to rounding. */
weir_event_time *weir_schedule_event_times(const weir_schedule *s);

#endif
