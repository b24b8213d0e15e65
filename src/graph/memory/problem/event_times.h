/* event_times.h - when the events of an ended schedule happen, and what the compute stream waits
 * for. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H
#define WEIR_GRAPH_MEMORY_PROBLEM_EVENT_TIMES_H

#include "graph/memory/problem/schedule.h"

typedef struct weir_event_time {
    double   begin, end; /* seconds on its stream */
    double   wait;       /* before it: compute stands still for so long ... */
    uint32_t waits_for;  /* ... because of a copy of this tensor; WEIR_NO_TENSOR: none */
} weir_event_time;

/* moment[s->events.n], yours (weir_mem_free); NULL when memory is short. The latest end is s->time,
 * but for rounding. */
weir_event_time *weir_schedule_event_times(const weir_schedule *s);

#endif
