/* trace.h - the clock, and timed events that become a Chrome/Perfetto trace. */
#ifndef WEIR_CORE_TRACE_H
#define WEIR_CORE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of a steady clock. */
double weir_now(void);

typedef struct weir_trace weir_trace;

/* Times of events count from `origin`, on any clock. NULL if out of memory. */
weir_trace *weir_trace_new(double origin);
void        weir_trace_free(weir_trace *t);

/* One finished event. name and category must outlive the trace (static or the graph's). Events that
 * are dropped for lack of memory are counted, and the JSON gives the count. */
void weir_trace_event(weir_trace *t, const char *name, const char *category, int track,
                      double begin, double end, uint64_t bytes);

/* A counter sample (live bytes over time). */
void weir_trace_counter(weir_trace *t, const char *name, double at, uint64_t value);

/* {"traceEvents": [...]}; yours to free. NULL when memory is short. */
char *weir_trace_json(const weir_trace *t);

#endif
