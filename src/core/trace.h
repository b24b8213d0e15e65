/* trace.h - the clock, and timed events for Chrome's trace viewer and Perfetto. */
#ifndef WEIR_CORE_TRACE_H
#define WEIR_CORE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of the monotonic clock. */
double weir_now(void);

typedef struct weir_trace weir_trace;

/* Creates a trace whose times count from `origin`, in seconds of any clock. NULL if memory runs
 * out. */
weir_trace *weir_trace_new(double origin);
void        weir_trace_free(weir_trace *t);

/* Adds one finished event. name and category must outlive the trace. Events dropped for lack of
 * memory are counted, and the JSON states their number. */
void weir_trace_event(weir_trace *t, const char *name, const char *category, int track,
                      double begin, double end, uint64_t bytes);

/* The same on track 0, with a name that the trace takes over (weir_mem_free; NULL: ""). */
void weir_trace_event_text(weir_trace *t, char *text, const char *category, double begin,
                           double end, uint64_t bytes);

/* Adds a span that may overlap others: it has a row of its own. category is the row's name; both it
 * and `text` are as above. */
void weir_trace_span(weir_trace *t, char *text, const char *category, double begin, double end,
                     uint64_t bytes);

/* Adds a sample of a counter (live bytes over time). */
void weir_trace_counter(weir_trace *t, const char *name, double at, uint64_t value);

/* {"traceEvents": [...]}; the caller frees it with weir_mem_free. NULL if memory runs out. */
char *weir_trace_json(const weir_trace *t);

#endif
