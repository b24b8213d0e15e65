/* relower_profile.h - bytes within one stage of an incrementally lowered plan (relower.h). */
#ifndef WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_PROFILE_H
#define WEIR_GRAPH_MEMORY_PROBLEM_RELOWER_PROFILE_H

#include "graph/memory/problem/relower_state.h"

/* Computes r->most[s], which must have been lowered. */
void weir_relower_sum(weir_relower *r, uint32_t s);

#endif
