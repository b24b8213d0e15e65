/* buckets.h - ranks choose together which gradients are summed in one message. */
#ifndef WEIR_GRAPH_COMPILE_BUCKETS_H
#define WEIR_GRAPH_COMPILE_BUCKETS_H

#include "graph/ir/graph.h"

/* Joins the sums of a graph whose passes have run, the same ones on all ranks: buckets are cut for
 * the earliest end of the last sum (bucket_cuts.h), and within a budget so that they do not raise
 * the peak above it. All ranks must call it; so_far is this one's status, and one that has failed
 * leaves all sums alone. Returns so_far, or what fails here. */
weir_status weir_buckets_choose(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                                weir_status so_far);

#endif
