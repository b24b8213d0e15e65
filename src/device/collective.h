/* collective.h - what operations and kernels see of a communicator: a job, and whom to ask for it.
 * src/device/comm has the transports. */
#ifndef WEIR_DEVICE_COLLECTIVE_H
#define WEIR_DEVICE_COLLECTIVE_H

#include <string.h>

#include "core/op.h"
#include "device/device.h"
#include "weir/comm.h"

typedef enum weir_collective_kind {
    WEIR_ALL_REDUCE, WEIR_REDUCE_SCATTER, WEIR_ALL_GATHER, WEIR_BROADCAST, WEIR_REDUCE, WEIR_SEND,
    WEIR_RECV, WEIR_COLLECTIVE_KINDS
} weir_collective_kind;

/* For whom ranks exchange data: named where they differ. */
typedef enum weir_purpose {
    WEIR_FOR_PROGRAM, WEIR_FOR_GRAPH, WEIR_PURPOSES
} weir_purpose;

typedef enum weir_sum_order {
    WEIR_SUM_SERIAL, WEIR_SUM_TREE,
    WEIR_SUM_ENGINE,            /* the transport's own; serial where it has none */
    WEIR_SUM_ORDERS
} weir_sum_order;

const char *weir_sum_order_name(weir_sum_order order);

/* One collective of dense host memory. REDUCE_SCATTER and ALL_GATHER: src or dst is the part of
 * this rank, count / world elements; all other operands have count. dst may be src. */
typedef struct weir_collective {
    weir_collective_kind kind;
    weir_dtype           dtype;
    int                  peer;  /* BROADCAST, REDUCE: the root; SEND, RECV: the other rank */
    int64_t              count;
    const void          *src;   /* NULL if nothing is sent */
    void                *dst;   /* NULL if nothing is received */
    void                *work;  /* work() bytes */
    weir_purpose         purpose;
} weir_collective;

/* The collective that a call asks for, without its operands. */
weir_collective weir_collective_of(const weir_call *c);

/* Elements of each rank's part of a sum (the last ranks may have fewer), and those of a part that
 * are summed in one round. */
int64_t weir_collective_part(int world, const weir_collective *job);
int64_t weir_collective_chunk(int world, const weir_collective *job);

/* Bytes of the window in which the operands of a collective's sums arrive; 0 if it sums nothing. */
size_t weir_collective_window(int world, const weir_collective *job);

/* Fails with ERR_COMM: this rank has left the communicator. A `run` and a `start`. */
weir_status weir_collective_left(weir_comm *c, const weir_collective *job);

enum { WEIR_STARTED_MOST = 8 };

struct weir_comm {
    weir_device   *dev;         /* referenced */
    int            rank, world;
    weir_sum_order order;
    bool           graphs_may_differ;   /* only their collectives must be the same */
    uint64_t       graphs;      /* on which all ranks have agreed so far */
    const char    *transport;   /* its name */
    /* Run `run` of graph number `graph` begins, both from 1; 0, 0: a run has ended. */
    void         (*at)(weir_comm *c, uint64_t graph, uint64_t run);
    /* Runs the collective and returns when its operands are free. ERR_COMM. */
    weir_status  (*run)(weir_comm *c, const weir_collective *job);
    /* Starts it and returns; its operands are taken until wait has returned for it. At most
     * WEIR_STARTED_MOST may be started and not awaited. */
    weir_status  (*start)(weir_comm *c, const weir_collective *job);
    /* Returns when the first collective that was started and not awaited is done; at once if there
     * is none. ERR_COMM. */
    weir_status  (*wait)(weir_comm *c);
    /* Waits for all that was started, so that its operands are free; after a failure, too. Returns
     * `so_far`, if that is a failure, else the first failure. */
    weir_status  (*settle)(weir_comm *c, weir_status so_far);
    /* Seconds that the collective is expected to take on the wire; negative: not known. */
    double       (*seconds)(const weir_comm *c, const weir_collective *job);
    weir_comm_stats (*stats)(const weir_comm *c);
    size_t       (*own)(const weir_comm *c);    /* bytes that the transport holds */
    void         (*leave)(weir_comm *c);
    double         constant_s, per_byte_s;      /* weir_comm_measure's; negative: not measured */
};

/* weir_comm_gather for a purpose, in a world of two ranks or more. */
static inline weir_status weir_comm_gather_for(weir_comm *c, weir_purpose purpose, const void *mine,
                                               size_t bytes, void *all)
{
    const weir_collective job = {.kind = WEIR_ALL_GATHER, .dtype = WEIR_U8, .purpose = purpose,
                                 .count = (int64_t)bytes * c->world, .src = mine, .dst = all};

    memcpy((char *)all + (size_t)c->rank * bytes, mine, bytes);
    return c->run(c, &job);
}

#endif
