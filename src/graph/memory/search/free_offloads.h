/* free_offloads.h - offloads resident tensors that the link moves while it is idle. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_FREE_OFFLOADS_H
#define WEIR_GRAPH_MEMORY_SEARCH_FREE_OFFLOADS_H

#include "graph/memory/search/search_state.h"

/* Changes the current plan so that it takes no longer, and evaluates it. Does nothing without the
 * lever or the link. Returns false if memory runs out. */
bool weir_search_free_offloads(weir_search_state *a);

#endif
