/* transfers.h - pieces that are on the host for a while: how long the step waits for a link that
 * carries one at a time each way. */
#ifndef WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H
#define WEIR_GRAPH_MEMORY_SEARCH_TRANSFERS_H

#include "graph/memory/problem/problem.h"

/* Seconds from the beginning of the step, as if nothing waited. */
typedef struct weir_trip {
    double ready, due;          /* when it may leave, when it is read again */
    double from, to;            /* while it has to be away */
    double out, in;             /* of the copies */
} weir_trip;

typedef struct weir_trips {
    WEIR_VEC(weir_trip) leave, come;    /* the same, by `ready` and by `due` */
} weir_trips;

void weir_trips_free(weir_trips *t);

/* False when memory is short. */
bool weir_trips_add(weir_trips *t, const weir_trip *trip);

/* Seconds waited for all, and for one more if it is not NULL. */
double weir_trips_wait(const weir_trips *t, const weir_trip *more);

#endif
