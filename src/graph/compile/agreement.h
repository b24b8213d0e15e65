/* agreement.h - the ranks of a communicator agree on a graph before it runs, and know in which run
 * of which graph each of them is. A graph without collectives costs nothing here. */
#ifndef WEIR_GRAPH_COMPILE_AGREEMENT_H
#define WEIR_GRAPH_COMPILE_AGREEMENT_H

#include "graph/ir/graph.h"

/* Compares a closed recording, before its passes, with those of the other ranks of each
 * communicator that it has collectives of. so_far: how recording has ended on this rank, which the
 * others learn. Fails on all ranks if it has failed on one, or if they differ: ERR_COMM. */
weir_status weir_agree_recorded(weir_graph *g, weir_status so_far);

/* The same for how planning has ended. Plans must be equal only where they round values. */
weir_status weir_agree_planned(weir_graph *g, weir_status so_far);

/* Around a run, or a half of it: collectives carry the numbers of graph and run. */
void weir_agreed_begin(const weir_graph *g);
void weir_agreed_end(const weir_graph *g);

#endif
