/* network.c - the time of collectives on a described network, against the formulas written out. */
#include "device/network.h"

#include "check.h"

/* 12 ranks, 4 on each of 3 nodes; numbers that can be told apart in a sum. */
static const weir_network net = {.world = 12, .node = 4, .wire = 1e6, .inner = 1e8, .alpha = 1e-2,
                                 .inner_alpha = 1e-4};

static double takes(weir_collective_kind kind, int64_t count, int peer, weir_sum_order order)
{
    const weir_collective job = {.kind = kind, .dtype = WEIR_F32, .count = count, .peer = peer};

    return weir_network_seconds(&net, order, &job);
}

/* 1200 elements are 4800 bytes, of which each rank owns 400. */
CASE(serial_exchanges_pairwise)
{
    const double half = 3 * 1e-4 + 8 * 1e-2 + 3 * 400 / 1e8 + 4 * 8 * 400 / 1e6;

    CHECK_NEAR(takes(WEIR_ALL_REDUCE, 1200, -1, WEIR_SUM_SERIAL), 2 * half, 1e-12);
    CHECK_NEAR(takes(WEIR_REDUCE_SCATTER, 1200, -1, WEIR_SUM_SERIAL), half, 1e-12);
    CHECK_NEAR(takes(WEIR_ALL_GATHER, 1200, -1, WEIR_SUM_SERIAL), half, 1e-12);
}

CASE(tree_sums_within_nodes_first)
{
    const double half = 2 * 1e-4 + 0.75 * 4800 / 1e8 + 2 * 1e-2 + 2.0 / 3 * 4800 / 1e6;

    CHECK_NEAR(takes(WEIR_ALL_REDUCE, 1200, -1, WEIR_SUM_TREE), 2 * half, 1e-12);
    CHECK_NEAR(takes(WEIR_REDUCE_SCATTER, 1200, -1, WEIR_SUM_TREE), half, 1e-12);
}

/* Parts of 1,200,000 elements go in rounds of 95,296, of which 11 fit into the window of 4 MiB;
 * each round has its messages. */
CASE(large_sums_take_rounds)
{
    const double rounds = 13, bytes = 14.4e6 * 4 / 12;
    const double half = rounds * (3 * 1e-4 + 8 * 1e-2) + 3 * bytes / 1e8 + 4 * 8 * bytes / 1e6;

    CHECK_NEAR(takes(WEIR_ALL_REDUCE, 14400000, -1, WEIR_SUM_SERIAL), 2 * half, 1e-9);
}

CASE(others_are_messages_of_rank_0)
{
    const double inner = 1e-4 + 400 / 1e8, outer = 1e-2 + 400 / 1e6;

    CHECK_NEAR(takes(WEIR_SEND, 100, 3, WEIR_SUM_SERIAL), inner, 1e-15);
    CHECK_NEAR(takes(WEIR_RECV, 100, 4, WEIR_SUM_SERIAL), outer, 1e-15);
    CHECK_NEAR(takes(WEIR_BROADCAST, 100, 0, WEIR_SUM_SERIAL), 3 * inner + 8 * outer, 1e-15);
    CHECK_NEAR(takes(WEIR_REDUCE, 100, 5, WEIR_SUM_TREE), 3 * inner + 8 * outer, 1e-15);
}

/* One node has no wire to others; one rank needs none at all. */
CASE(one_node_and_one_rank)
{
    const weir_network    node = {.world = 4, .node = 4, .wire = 1, .inner = 1e8, .alpha = 9,
                                  .inner_alpha = 1e-4};
    const weir_network    alone = {.world = 1, .node = 1, .wire = 1, .inner = 1, .alpha = 9};
    const weir_collective job = {.kind = WEIR_ALL_REDUCE, .dtype = WEIR_F32, .count = 1000};

    CHECK_NEAR(weir_network_seconds(&node, WEIR_SUM_SERIAL, &job),
               2 * (3 * 1e-4 + 3 * 1000 / 1e8), 1e-12);
    CHECK_NEAR(weir_network_seconds(&node, WEIR_SUM_TREE, &job),
               2 * (2 * 1e-4 + 0.75 * 4000 / 1e8), 1e-12);
    for (weir_sum_order order = WEIR_SUM_SERIAL; order < WEIR_SUM_ORDERS; order++)
        CHECK(weir_network_seconds(&alone, order, &job) == 0);
}
