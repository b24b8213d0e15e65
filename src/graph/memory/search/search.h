/* search.h - decides which tensors to evict, and how, so that a step fits a number of bytes with
 * the least extra time. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H

#include "graph/memory/search/request.h"

/* ERR_NOMEM or WEIR_OK: s->best_peak <= s->budget says whether a plan was found; if not, s->best is
 * the smallest plan seen. */
weir_status weir_search_run(weir_search *s);
void        weir_search_free(weir_search *s);

#endif
