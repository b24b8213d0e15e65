/* network.h - how long a collective takes between ranks whose network is given as numbers.
 *
 * W ranks, n on each of N = W / n nodes. A message takes a constant time and its bytes over the
 * bandwidth (Hockney, "The communication challenge for MPP", 1994): `alpha` and `wire` between
 * nodes, `inner_alpha` and `inner` within one. The n ranks of a node share its link to the others.
 * An all_reduce of S bytes is a reduce_scatter and an all_gather, each of which takes
 *
 *   serial  R ((n - 1) inner_alpha + (W - n) alpha) + (n - 1) S / (W inner)
 *             + n (W - n) S / (W wire)
 *           Each operand goes to the rank that sums its part, in R rounds of a window (rounds.c):
 *           pairwise exchange. No partial sum of a node may be sent, as the order of the sum allows
 *           none.
 *   tree    L(n) inner_alpha + (n - 1) S / (n inner) + L(N) alpha + (N - 1) S / (N wire)
 *           L is the logarithm to base 2, rounded up. Within the node first, then parts of S / n
 *           across: recursive halving and doubling.
 *
 * Both costs are those of Thakur, Rabenseifner and Gropp, "Optimization of collective communication
 * operations in MPICH", 2005, without the time of the additions. The transports that exist exchange
 * pairwise in both orders; `tree` is what a hierarchical one would take.
 *
 * broadcast and reduce: the root and all others, one after another. send, recv: one message. */
#ifndef WEIR_DEVICE_NETWORK_H
#define WEIR_DEVICE_NETWORK_H

#include "device/collective.h"

typedef struct weir_network {
    int    world, node;         /* ranks; those of a node: a divisor */
    double wire, inner;         /* bytes per second, each way: of a node's link to the others; of a
                                 * rank's link within its node */
    double alpha, inner_alpha;  /* seconds */
} weir_network;

/* Seconds of the collective on rank 0. */
double weir_network_seconds(const weir_network *n, weir_sum_order order,
                            const weir_collective *job);

#endif
