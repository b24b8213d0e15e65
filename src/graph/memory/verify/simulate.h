/* simulate.h - the time of a correct plan on one compute and two copy streams. */
#ifndef WEIR_GRAPH_MEMORY_VERIFY_SIMULATE_H
#define WEIR_GRAPH_MEMORY_VERIFY_SIMULATE_H

#include "graph/memory/problem/mem_plan.h"

typedef struct weir_sim_result {
    double time;     /* seconds, until the last stream ends */
    double compute;  /* seconds of op runs */
    double stall;    /* seconds for which compute waited for inputs and memory */
    double compress; /* seconds of compression, masks and decompression */
    size_t out, in;  /* bytes copied to the host and back */
    size_t host;     /* most bytes on the host at any time */
} weir_sim_result;

/* Simulates a plan that weir_mem_plan_check has accepted. A step begins when its stream is free,
 * what it reads is ready, and the last owner of the bytes that it writes has finished with them.
 * Copies take bytes / bandwidth. Returns false if memory runs out. */
bool weir_mem_plan_simulate(const weir_mem_plan *a, weir_sim_result *clock);

/* The same for an ended schedule that weir_schedule_check has accepted. */
bool weir_schedule_simulate(const weir_schedule *s, const weir_offsets *offsets,
                            weir_sim_result *clock);

#endif
