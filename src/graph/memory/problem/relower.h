/* relower.h - what weir_lower says of a plan that only recomputes, kept up to date while single
 * decisions change.
 *
 * A stage is an op's first run with the recomputations just before it. Between two stages nothing
 * matters but which tensors are on the device, and that follows from the decisions and, for an
 * interval that is recomputed and then kept, from the stage that restored the tensor. So a changed
 * decision touches only the stages that ask for its tensor, and the stages that ask for what these
 * restore. Each stage holds its recomputations and its own peak beyond the bytes live when it
 * begins; a tree of sums over the stages (peak_tree.h) holds those bytes.
 *
 * Seconds are counted in whole ticks, so that a change and its reversal leave no trace. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_H

#include "graph/memory/problem/relower_state.h"

/* Prepares *r for the problem of `w`, which must outlive it. Returns false if memory runs out; the
 * caller calls weir_relower_free in either case. */
bool weir_relower_init(weir_relower *r, const weir_lower_state *w);
void weir_relower_free(weir_relower *r);

/* Returns whether decisions of this kind can be lowered here: no copies, no compression. */
bool weir_relower_can(const weir_lower_state *w, const uint8_t *decisions);

/* Lowers a whole plan. This and the functions below return false if memory runs out; then *r can
 * only be freed. */
bool weir_relower_all(weir_relower *r, const uint8_t *decisions);

/* Changes a decision; weir_relower_run then brings the results up to date. If they are not valid,
 * further changes, such as back to the previous plan, are possible. */
bool weir_relower_set(weir_relower *r, uint32_t interval, uint8_t decision);
bool weir_relower_run(weir_relower *r);

#endif
