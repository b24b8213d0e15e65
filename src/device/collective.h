/* collective.h - what operations and kernels see of a communicator: a job, and whom to ask for it.
 * src/device/comm has the transports. */
#ifndef WEIR_DEVICE_COLLECTIVE_H
#define WEIR_DEVICE_COLLECTIVE_H

#include "device/device.h"
#include "weir/comm.h"

typedef enum weir_collective_kind {
    WEIR_ALL_REDUCE, WEIR_REDUCE_SCATTER, WEIR_ALL_GATHER, WEIR_BROADCAST, WEIR_REDUCE, WEIR_SEND,
    WEIR_RECV, WEIR_COLLECTIVE_KINDS
} weir_collective_kind;

typedef enum weir_sum_order { WEIR_SUM_SERIAL, WEIR_SUM_TREE, WEIR_SUM_ORDERS } weir_sum_order;

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
} weir_collective;

struct weir_comm {
    weir_device   *dev;         /* referenced */
    int            rank, world;
    weir_sum_order order;
    /* Runs the collective and returns when its operands are free. ERR_COMM. */
    weir_status  (*run)(weir_comm *c, const weir_collective *job);
    /* Bytes of scratch that the collective needs: the window in which operands of sums arrive. */
    size_t       (*work)(const weir_comm *c, const weir_collective *job);
};

#endif
