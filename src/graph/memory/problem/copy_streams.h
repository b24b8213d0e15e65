/* copy_streams.h - ends a schedule: when its events happen on the three streams. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_COPY_STREAMS_H
#define WEIR_GRAPH_MEMORY_PROBLEM_COPY_STREAMS_H

#include "graph/memory/problem/schedule.h"

/* Ends a schedule for `limit` bytes of tensors and workspace: makes outputs in place where that is
 * allowed, issues prefetches early where memory allows, and keeps the bytes of an offloaded tensor
 * until its copy is complete; compute waits for that copy if the limit leaves no other room. Then
 * computes live bytes, peak and time. An invalid schedule gets peak SIZE_MAX. Returns false if
 * memory runs out or weir_progress_poll says stop. */
bool weir_schedule_end(weir_schedule *s, size_t limit);

/* Its second part, after weir_schedule_end_runs, for those who may need only the first. Of a step
 * that takes more than `most` seconds, s->time may be infinite and the rest left unfinished. */
bool weir_schedule_end_copies(weir_schedule *s, size_t limit, double most);

#endif
