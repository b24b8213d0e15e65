/* network.c - how long a collective takes between ranks. See network.h for the formulas. */
#include "device/network.h"

#include "core/dtype.h"

/* The logarithm of n to base 2, rounded up. */
static double levels(int n)
{
    int levels = 0;

    while (1 << levels < n)
        levels++;
    return levels;
}

/* A message of each rank to and from every other one, of `bytes` bytes each, `rounds` times. */
static double pairwise(const weir_network *n, double bytes, double rounds)
{
    const double inside = n->node - 1, outside = n->world - n->node;

    return rounds * (inside * n->inner_alpha + outside * n->alpha) + inside * bytes / n->inner +
           n->node * outside * bytes / n->wire;
}

/* reduce_scatter or all_gather of `bytes` bytes by node subtrees. */
static double halving(const weir_network *n, double bytes)
{
    const double ranks = n->node, nodes = n->world / n->node;

    return levels(n->node) * n->inner_alpha + (ranks - 1) / ranks * bytes / n->inner +
           levels(n->world / n->node) * n->alpha + (nodes - 1) / nodes * bytes / n->wire;
}

/* reduce_scatter or all_gather: half an all_reduce. */
static double half(const weir_network *n, weir_sum_order order, const weir_collective *job,
                   double bytes)
{
    const int64_t part = weir_collective_part(n->world, job);
    const int64_t chunk = weir_collective_chunk(n->world, job);
    const int64_t rounds = job->kind == WEIR_ALL_GATHER || chunk == 0 ? 1
                                                                      : (part + chunk - 1) / chunk;

    return order == WEIR_SUM_TREE ? halving(n, bytes)
                                  : pairwise(n, bytes / n->world, (double)rounds);
}

/* One message of rank 0. */
static double message(const weir_network *n, int peer, double bytes)
{
    return peer < n->node ? n->inner_alpha + bytes / n->inner : n->alpha + bytes / n->wire;
}

double weir_network_seconds(const weir_network *n, weir_sum_order order, const weir_collective *job)
{
    const double bytes = (double)job->count * (double)weir_dtype_size(job->dtype);

    if (n->world == 1)
        return 0;
    switch (job->kind) {
    case WEIR_ALL_REDUCE:
        return 2 * half(n, order, job, bytes);
    case WEIR_REDUCE_SCATTER:
    case WEIR_ALL_GATHER:
        return half(n, order, job, bytes);
    case WEIR_SEND:
    case WEIR_RECV:
        return message(n, job->peer, bytes);
    default:
        return (n->node - 1) * message(n, 0, bytes) +
               (n->world - n->node) * message(n, n->world, bytes);
    }
}
