/* nonfinite.h - finds the first operation of a step whose result holds a NaN or an infinity. */
#ifndef WEIR_GRAPH_RUNTIME_NONFINITE_H
#define WEIR_GRAPH_RUNTIME_NONFINITE_H

#include "graph/plan/plan.h"

/* What the run changes outside the graph and a search restores: the elements of parameters, states
 * and inputs that the step overwrites, on the host, and the position in the random stream. */
typedef struct weir_nonfinite_search {
    weir_graph     *g;
    bool            nan_only;
    weir_nonfinite *found;
    bool           *bad;         /* [storages] external, not finite before the run */
    char          **saved;       /* [storages] elements; NULL: nothing overwrites it */
    void           *staging;     /* room for the largest result; NULL: the host reads the device */
    weir_status     status;      /* first failure to read a result */
} weir_nonfinite_search;

/* Saves what the run will change, and looks for values that are not finite in what it reads. */
weir_status weir_nonfinite_begin(weir_nonfinite_search *s);

/* Looks at the results of instruction i, which has just run. */
void weir_nonfinite_look(void *search, uint32_t i);

/* Restores and frees what was saved. `status`: of the run; returns the first failure. */
weir_status weir_nonfinite_end(weir_nonfinite_search *s, weir_status status);

#endif
