/* transfers.h - how long a step waits for offloads and prefetches on a link that carries one copy
 * at a time in each direction. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H
#define WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H

#include "graph/memory/problem/problem.h"

/* An offload and its prefetch, in seconds from the beginning of the step, as if nothing waited. */
typedef struct weir_transfer {
    double ready, due;          /* when the offload may begin, when the tensor is read again */
    double from, to;            /* the time over which its memory is needed for others */
    double out, in;             /* seconds of the two copies */
} weir_transfer;

typedef struct weir_transfer_list {
    WEIR_VEC(weir_transfer) by_ready, by_due; /* the same transfers in two orders */
} weir_transfer_list;

/* Frees the transfers. A list begins as {0}. */
void weir_transfer_list_free(weir_transfer_list *t);

/* Adds a copy of the transfer. Returns false if memory runs out. */
bool weir_transfer_list_add(weir_transfer_list *t, const weir_transfer *transfer);

/* Returns the seconds waited for all transfers, and for *more as well unless it is NULL. */
double weir_transfer_list_wait(const weir_transfer_list *t, const weir_transfer *more);

#endif
