/* relower.h - what weir_lower_runs says of a plan without compression, kept up to date while single
 * decisions change.
 *
 * A stage is an op's first run with the recomputations and prefetches just before it. Between two
 * stages nothing matters but which tensors are on the device and on the host, and that follows from
 * the decisions and, for an interval that is restored and then kept, from the stage that restored
 * the tensor. So a changed decision touches only the stages that ask for its tensor, and the stages
 * that ask for what these restore. Each stage holds what it restores and its own peak beyond the
 * bytes live when it begins; a tree of sums over the stages (peak_tree.h) holds those bytes.
 *
 * The times of copies and what they hold are not included: of a plan that offloads, peak and extra
 * are at most those of weir_lower.
 *
 * Seconds are counted in whole ticks, so that a change and its reversal leave no trace. */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_H
#define WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_H

#include "graph/memory/problem/relower_state.h"

/* Returns whether decisions of this kind can be lowered here: no compression. *offloads: some
 * offload. */
bool weir_relower_can(const weir_lower_state *w, const uint8_t *decisions, bool *offloads);

/* Lowers a whole plan. This and the functions below return false if memory runs out; then *r can
 * only be freed. */
bool weir_relower_all(weir_relower *r, const uint8_t *decisions);

/* Changes a decision; weir_relower_run then brings the results up to date. If they are not valid,
 * further changes, such as back to the previous plan, are possible. r->changed, which the caller
 * clears, is set if weir_lower makes another schedule: many decisions have no effect, such as to
 * restore early what another recomputation has restored before. */
bool weir_relower_set(weir_relower *r, uint32_t interval, uint8_t decision);
bool weir_relower_run(weir_relower *r);

#endif
