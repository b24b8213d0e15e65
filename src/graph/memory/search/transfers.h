/* transfers.h - how long a step waits for offloads and prefetches on a link that carries one copy
 * at a time each way. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H
#define WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H

#include "graph/memory/problem/problem.h"

/* In seconds from the beginning of the step, as if nothing waited. */
typedef struct weir_transfer {
    double ready, due;          /* when it may leave, when it is read again */
    double from, to;            /* while its memory is needed */
    double out, in;             /* of the copies */
} weir_transfer;

typedef struct weir_transfer_list {
    WEIR_VEC(weir_transfer) leave, come;    /* the same transfers, by `ready` and by `due` */
} weir_transfer_list;

void weir_transfer_list_free(weir_transfer_list *t);

/* Adds a copy of the transfer. False when memory is short. */
bool weir_transfer_list_add(weir_transfer_list *t, const weir_transfer *transfer);

/* Seconds waited for all transfers, and for one more if `more` is not NULL. */
double weir_transfer_list_wait(const weir_transfer_list *t, const weir_transfer *more);

#endif
