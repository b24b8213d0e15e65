/* unmeasured.h - a graph with a sum of ranks whose times nothing has measured: only a run tells
 * them. */
#ifndef WEIR_TEST_GRAPH_UNMEASURED_H
#define WEIR_TEST_GRAPH_UNMEASURED_H

#include "check.h"
#include "ranks.h"
#include "weir.h"

/* Of ranks of shared memory. Its runs are profiled from the first on. The caller frees it and
 * releases *x. */
static inline weir_graph *unmeasured_open(rank *r, weir_tensor **x)
{
    *x = weir_input(r->d, weir_1d(WEIR_F32, 8));
    weir_graph *const g = weir_graph_begin(r->d);

    weir_keep(weir_all_reduce(r->c, weir_exp(*x)));
    CHECK_OK(weir_write_fill(*x, 0));
    CHECK_OK(weir_graph_end(g, NULL));
    weir_device_set_verbosity(r->d, 1);
    weir_device_set_skip(r->d, 0);
    return g;
}

#endif
