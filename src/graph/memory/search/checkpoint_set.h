/* checkpoint_set.h - plans as checkpointing makes them: some tensors stay, the others go once and
 * are made anew from those. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H
#define WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H

#include "graph/memory/problem/lower.h"

#define WEIR_NEVER_DROPPED UINT32_MAX

/* The decisions in which tensor k goes in its gap drop[k] (its number of uses: behind the last
 * one); WEIR_NEVER_DROPPED: it stays until nobody is made anew from it any more. What could not be
 * made anew in time stays, too: drop[] says so afterwards. False when memory is short. */
bool weir_checkpoint_set_decide(const weir_lower_state *w, uint32_t *drop, uint8_t *decisions);

/* Changes decisions so that what forward ops read that run again is on the host from its last
 * forward reader until somebody asks for it. */
void weir_checkpoint_set_offload(const weir_lower_state *w, const uint32_t *drop,
                                 uint8_t *decisions);

/* Where the forward pass is over: the number of the op before which fewest ops belong to later
 * phases, and behind which fewest are forward. An order may mix the two. */
uint32_t weir_forward_end(const weir_mem_problem *p);

/* The gap in which a tensor waits for gradients: before its first use from op `turn` on. */
uint32_t weir_forward_end_interval(const weir_mem_problem *p, uint32_t tensor, uint32_t turn);

/* Forward ops are in segments: segment[op], 0: in none; NULL: the regions that the program
 * marked. What a segment makes goes, except what forward ops outside of it read. */
void weir_checkpoint_set_segments(const weir_mem_problem *p, const uint32_t *segment,
                                  uint32_t *drop);

#endif
