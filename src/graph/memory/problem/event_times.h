/* event_times.h - when the events of an ended schedule begin and end, and how long the compute
 * stream waits for each. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H
#define WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_event_time {
    double   begin, end; /* seconds on its stream */
    double   wait;       /* seconds that the compute stream stands still before it ... */
    uint32_t waits_for;  /* ... because of a copy of this tensor; WEIR_NO_TENSOR: no wait */
} weir_event_time;

/* Returns one entry an event, owned by the caller (weir_mem_free); NULL when memory is short. The
 * latest end equals s->time except for rounding. */
weir_event_time *weir_schedule_event_times(const weir_schedule *s);

#endif
