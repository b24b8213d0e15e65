/* checkpoint_set.h - plans of classic checkpointing (Chen and others, 2016): some tensors stay,
 * every other one is dropped once and recomputed from those. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H
#define WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H

#include "graph/memory/problem/lower.h"

#define WEIR_NEVER_DROPPED UINT32_MAX

/* Sets the decisions such that tensor k is dropped over interval drop[k] (its number of uses: after
 * the last one); WEIR_NEVER_DROPPED: it stays as long as recomputations read it. A tensor that
 * could not be recomputed in time stays, too, and drop[] is corrected accordingly. Returns false if
 * memory runs out. */
bool weir_checkpoint_set_decide(const weir_lower_state *w, uint32_t *drop, uint8_t *decisions);

/* Changes the decisions such that checkpoints, the tensors that repeated forward ops read, are on
 * the host from their last forward reader until a recomputation needs them. */
void weir_checkpoint_set_offload(const weir_lower_state *w, const uint32_t *drop,
                                 uint8_t *decisions);

/* Returns the op that ends the forward pass: the position where the number of forward ops before
 * it, less the number of other ops before it, is largest. (An order may mix the phases.) */
uint32_t weir_forward_end(const weir_mem_problem *p);

/* Returns the interval in which a tensor waits for the backward pass: the one before its first use
 * at or after op `turn`. */
uint32_t weir_forward_end_interval(const weir_mem_problem *p, uint32_t tensor, uint32_t turn);

/* Sets drop[] by segments of forward ops. segment[op] is a number, 0: in no segment; NULL: the
 * regions that the program marked. The outputs of a segment are dropped unless forward ops outside
 * the segment read them. */
void weir_checkpoint_set_segments(const weir_mem_problem *p, const uint32_t *segment,
                                  uint32_t *drop);

/* Sets drop[] such that outputs of forward convolutions and matrix products stay, and all other
 * forward outputs are dropped while they wait for the backward pass. */
void weir_checkpoint_set_products(const weir_mem_problem *p, uint32_t *drop);

#endif
