/* checkpoint_set.h - plans of classic checkpointing: some tensors stay, every other one is dropped
 * once and recomputed from those. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H
#define WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H

#include "graph/memory/problem/lower.h"

#define WEIR_NEVER_DROPPED UINT32_MAX

/* Decides that tensor k is dropped in interval drop[k] (its number of uses: after the last one);
 * WEIR_NEVER_DROPPED: it stays as long as recomputations read it. A tensor that could not be
 * recomputed in time stays, too, and drop[] says so afterwards. False when memory is short. */
bool weir_checkpoint_set_decide(const weir_lower_state *w, uint32_t *drop, uint8_t *decisions);

/* Changes the decisions so that the tensors that repeated forward ops read are on the host from
 * their last forward reader until a recomputation needs them. */
void weir_checkpoint_set_offload(const weir_lower_state *w, const uint32_t *drop,
                                 uint8_t *decisions);

/* The end of the forward pass: the number of ops before it that belong to the forward pass, less
 * those that do not, is largest. (An order may mix the phases.) */
uint32_t weir_forward_end(const weir_mem_problem *p);

/* The interval in which a tensor waits for the backward pass: before its first use at or after op
 * `turn`. */
uint32_t weir_forward_end_interval(const weir_mem_problem *p, uint32_t tensor, uint32_t turn);

/* Sets drop[] by segments of forward ops: segment[op], 0: in none; NULL: the regions that the
 * program marked. What a segment makes is dropped unless forward ops outside of it read it. */
void weir_checkpoint_set_segments(const weir_mem_problem *p, const uint32_t *segment,
                                  uint32_t *drop);

/* Sets drop[] so that results of forward convolutions and matrix products stay, and all other
 * forward results are dropped where they wait for the backward pass. */
void weir_checkpoint_set_products(const weir_mem_problem *p, uint32_t *drop);

#endif
