/* checkpoint_set.h - plans as checkpointing makes them: some pieces stay, the others go once and
 * are made anew from those. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H
#define WEIR_GRAPH_MEMORY_SEARCH_CHECKPOINT_SET_H

#include "graph/memory/problem/lower.h"

#define WEIR_STAYS UINT32_MAX

/* The decisions in which piece k goes in its gap drop[k] (its number of uses: behind the last one);
 * WEIR_STAYS: it stays until nobody is made anew from it any more. What could not be made anew in
 * time stays, too: drop[] says so afterwards. False when memory is short. */
bool weir_keep_decide(const weir_walk_room *w, uint32_t *drop, uint8_t *gap);

/* Changes decisions so that what forward tasks read that run again is on the host from its last
 * forward reader until somebody asks for it. */
void weir_keep_offload(const weir_walk_room *w, const uint32_t *drop, uint8_t *gap);

/* Where the forward pass is over: the number of the task before which fewest tasks belong to later
 * phases, and behind which fewest are forward. An order may mix the two. */
uint32_t weir_keep_turn(const weir_problem *p);

/* The gap in which a piece waits for gradients: before its first use from task `turn` on. */
uint32_t weir_keep_gap(const weir_problem *p, uint32_t piece, uint32_t turn);

/* Forward tasks are in segments: segment[task], 0: in none; NULL: the regions that the program
 * marked. What a segment makes goes, except what forward tasks outside of it read. */
void weir_keep_segments(const weir_problem *p, const uint32_t *segment, uint32_t *drop);

#endif
