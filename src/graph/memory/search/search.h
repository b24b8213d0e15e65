/* search.h - which tensors to drop and make anew so that a step fits a number of bytes at the least
 * extra time. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H
#define WEIR_GRAPH_MEMORY_SEARCH_SEARCH_H

#include "graph/memory/search/request.h"

/* ERR_NOMEM, or WEIR_OK: then best_peak <= budget says whether a plan was found, else best is the
 * smallest one met. */
weir_status weir_search_run(weir_search *s);
void        weir_search_free(weir_search *s);

#endif
