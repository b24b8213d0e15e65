/* mincut.h - decisions read off the cheapest minimum cut: policy "mincut", a seed for searches.
 *
 * "mincut": at one moment of the step the kept tensors fit the budget and the repeated ops take
 * least time. "mincut:ratio=R": like a partitioner between forward and backward pass; ops that
 * compute rather than move data are not repeated, and the tensors kept at the fullest moment take
 * up to R of what all of them take. R promises nothing about the peak. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H
#define WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H

#include "graph/memory/problem/lower.h"

/* Fills decisions[w->intervals] and leaves w lowered by them. The peak fits the budget if the
 * method gets there at all; else it is the smallest found. With a ratio, the plan of that ratio,
 * whatever its peak. ERR_NOMEM or WEIR_OK. */
weir_status weir_mincut(weir_lower_state *w, size_t budget, double ratio, uint8_t *decisions);

#endif
