/* waiting.h - a graph that waits between its halves: it keeps its arena, and others must fit
 * beside it. */
#ifndef WEIR_GRAPH_COMPILE_WAITING_H
#define WEIR_GRAPH_COMPILE_WAITING_H

#include "graph/ir/graph.h"

/* Fails with ERR_STATE if the second half of g is still to run. */
weir_status weir_waiting_check_none(const char *who, const weir_graph *g);

/* Fails with ERR_STATE unless the second half of g can run: it waits, and nothing that both halves
 * use has changed. */
weir_status weir_waiting_check(const char *who, const weir_graph *g);

/* Fails with ERR_BUDGET or ERR_STATE if g cannot run beside the graphs that wait. */
weir_status weir_waiting_leave_room(const char *who, const weir_graph *g);

/* The first half has run: the arena is the graph's until weir_waiting_end. */
void weir_waiting_begin(weir_graph *g, uint64_t rng, bool profile);

/* Moves what the second half needs to *w and makes its arena the device's. *aside: see
 * weir_device_arena_give_back. */
void weir_waiting_end(weir_graph *g, weir_waiting *w, weir_arena *aside);

/* Gives up the second half, if it is still to run. */
void weir_waiting_drop(weir_graph *g);

#endif
