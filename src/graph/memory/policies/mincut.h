/* mincut.h - decisions derived from the cheapest minimum cut: policy mincut, and a seed of
 * searches.
 *
 * Without a ratio: at one moment of the step the kept tensors fit the budget and the repeated ops
 * take the least time. "ratio=R" works like a partitioner between forward and backward pass: ops
 * that compute rather than move data are not repeated, and the tensors kept at the fullest moment
 * take up to R times the bytes of all that are live there. R guarantees nothing about the peak. */
#ifndef WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H
#define WEIR_GRAPH_MEMORY_POLICIES_MINCUT_H

#include "graph/memory/problem/lower.h"

/* Fills decisions[w->intervals] and leaves w lowered by them. Without a ratio (0), the peak fits
 * the budget if the method finds such a plan; otherwise it is the smallest found. With a ratio, the
 * plan of that ratio, whatever its peak. Returns WEIR_OK or ERR_NOMEM. */
weir_status weir_mincut(weir_lower_state *w, size_t budget, double ratio, uint8_t *decisions);

#endif
