/* bucket_cuts.h - which sums over ranks share a message: buckets of gradients.
 *
 * Sums start one after another in the order of the list, each once its last operand is complete and
 * the wire is free. A message costs a constant time besides its bytes, so few large buckets take
 * the wire for less time; small ones start earlier. (S. Shi et al., "MG-WFBP: Merging Gradients
 * Wisely for Efficient Communication in Distributed Deep Learning", 2021.) */
#ifndef WEIR_GRAPH_COMPILE_BUCKET_CUTS_H
#define WEIR_GRAPH_COMPILE_BUCKET_CUTS_H

#include "device/collective.h"

/* One sum. */
typedef struct weir_bucket_sum {
    uint32_t   node;            /* of the graph, for join_sums.h */
    weir_dtype dtype;
    size_t     bytes;
    double     ready;           /* seconds at which its operand is complete; never decreases */
    bool       first;           /* it must begin a bucket */
} weir_bucket_sum;

/* Sets ends[i] where sum i ends a bucket, so that the last sum is done at the earliest; buckets of
 * several sums have at most `most` bytes. *done: the seconds at which it is. comm->seconds must
 * know how long an all_reduce takes. ERR_NOMEM. */
weir_status weir_bucket_cut(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t n,
                            size_t most, bool *ends, double *done);

/* The smallest of some limits on a bucket's bytes with which the last sum is done hardly later than
 * with the best of them: larger buckets would take memory for nothing. It knows what the cuts do
 * not: at most WEIR_STARTED_MOST sums are under way, and a queue of small ones behind a large one
 * holds computing up. ERR_NOMEM. */
weir_status weir_bucket_limit(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t n,
                              size_t *most);

/* Sets ends so that each bucket takes what fits into `most` bytes; where nothing is known of the
 * wire. */
void weir_bucket_fill(const weir_bucket_sum *sum, uint32_t n, size_t most, bool *ends);

#endif
