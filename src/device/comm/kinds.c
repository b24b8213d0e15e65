/* kinds.c - the kinds of collectives: their names, and which ranks send to which. */
#include "device/comm/kinds.h"

bool weir_collective_sends(const weir_collective *job, int rank, int peer)
{
    return job->kind == WEIR_BROADCAST ? rank == job->peer
           : job->kind == WEIR_REDUCE  ? peer == job->peer
           : job->kind == WEIR_SEND    ? peer == job->peer
                                       : job->kind != WEIR_RECV;
}

bool weir_collective_receives(const weir_collective *job, int rank, int peer)
{
    return job->kind == WEIR_BROADCAST ? peer == job->peer
           : job->kind == WEIR_REDUCE  ? rank == job->peer
           : job->kind == WEIR_RECV    ? peer == job->peer
                                       : job->kind != WEIR_SEND;
}

const char *weir_purpose_name(weir_purpose purpose)
{
    static const char *const name[WEIR_PURPOSES] = {"a collective", "weir_graph_end"};

    return purpose < WEIR_PURPOSES ? name[purpose] : name[0];
}

const char *weir_collective_name(weir_collective_kind kind)
{
    static const char *const name[WEIR_COLLECTIVE_KINDS] = {
        "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "send", "recv"};

    return kind < WEIR_COLLECTIVE_KINDS ? name[kind] : "a collective";
}
