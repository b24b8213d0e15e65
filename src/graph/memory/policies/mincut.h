/* mincut.h - decisions read off the cheapest minimal cut: policy "mincut", a start for searches.
 *
 * "mincut": at one moment of the step the kept tensors fit the budget and the repeated ops take
 * least time. "mincut:ratio=R": as a partitioner between forward and backward does it; ops that
 * compute rather than move are not repeated, the tensors kept where most are take up to R of what
 * all of them take. R says nothing of the peak. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H
#define WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H

#include "graph/memory/problem/lower.h"

/* Fills gap[w->gaps] and leaves w walked by it. The peak fits the budget if this way leads there at
 * all; else it is the smallest that was met. With a ratio, the plan of that ratio, whatever its
 * peak. ERR_NOMEM, or WEIR_OK. */
weir_status weir_mincut(weir_lower_state *w, size_t budget, double ratio, uint8_t *decisions);

#endif
