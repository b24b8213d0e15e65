/* search.h - decides which tensors to evict, and how, so that a step fits a number of bytes with
 * the least extra time. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H

#include "graph/memory/search/request.h"

/* Searches. s->best_peak <= s->budget says whether a plan that fits was found; if not, s->best is
 * the smallest plan seen. Returns WEIR_OK, ERR_NOMEM or the placer's error. The caller calls
 * weir_search_free in either case. */
weir_status weir_search_run(weir_search *s);
void        weir_search_free(weir_search *s);

#endif
