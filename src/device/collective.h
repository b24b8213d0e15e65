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

/* One collective of dense memory: the host's, or the device's if it is queued. REDUCE_SCATTER and
 * ALL_GATHER: src or dst is the part of this rank, count / world elements; all other operands have
 * count. dst may be src. */
typedef struct weir_collective {
    weir_collective_kind kind;
    weir_dtype           dtype;
    int                  peer;  /* BROADCAST, REDUCE: the root; SEND, RECV: the other rank */
    int64_t              count;
    const void          *src;   /* NULL if nothing is sent */
    void                *dst;   /* NULL if nothing is received */
    void                *work;  /* weir_collective_window() bytes */
    weir_purpose         purpose;
    bool                 queued; /* its operands are a card's and follow on its stream: the wire
                                  * compares what ranks call, and moves nothing */
} weir_collective;

/* The collective that a call asks for, without its operands. */
weir_collective weir_collective_of(const weir_call *c);

/* Elements of each rank's part of a sum (the last ranks may have fewer), and those of a part that
 * are summed in one round. */
int64_t weir_collective_part(int world, const weir_collective *job);
int64_t weir_collective_chunk(int world, const weir_collective *job);

/* Bytes of the window in which the operands of a collective's sums arrive; 0 if it sums nothing. */
size_t weir_collective_window(int world, const weir_collective *job);

/* A sum over all ranks of `count` elements: this rank's operand is `own`, those of the others are
 * `stride` bytes apart from `others` on, in the order of ranks. `to` may be `own`. */
typedef struct weir_rank_sum {
    void       *to;
    const void *own;
    const char *others;
    size_t      stride;
    int64_t     count;
    weir_dtype  dtype;
} weir_rank_sum;

/* What performs the rounds of a collective (comm/rounds.h), in host memory or as work of a stream.
 * send and recv add messages to a round; those of 0 bytes are left out. */
typedef struct weir_rounds_ops {
    void        (*send)(void *by, const void *at, size_t bytes, int peer);
    void        (*recv)(void *by, void *at, size_t bytes, int peer);
    weir_status (*exchange)(void *by);  /* ends the round; fails if adding a message has */
    weir_status (*sum)(void *by, const weir_rank_sum *sum);     /* in the communicator's order */
} weir_rounds_ops;

/* One rank's end of a library that performs collectives as work of a device's streams: NCCL. */
typedef struct weir_stream_comm weir_stream_comm;

enum { WEIR_STREAM_COMM_ID = 128 };     /* bytes of what ranks must know to meet */

/* Functions of the device's thread, but for under_way and abandon, which the wire thread calls. */
typedef struct weir_stream_comm_ops {
    weir_rounds_ops rounds;             /* `by` is the weir_stream_comm */
    /* Opens the library; id NULL, else makes an id, of WEIR_STREAM_COMM_ID bytes. ERR_COMM. */
    weir_status (*prepare)(weir_device *d, void *id);
    /* Returns when all ranks have joined with this id. */
    weir_status (*join)(weir_device *d, const void *id, int rank, int world, weir_sum_order order,
                        weir_stream_comm **s);
    /* What is queued from begin to end is one collective, behind the earlier work of the stream. */
    weir_status (*begin)(weir_stream_comm *s, weir_stream *stream);
    weir_status (*end)(weir_stream_comm *s, weir_status so_far);
    /* Queues the library's own all_reduce; *has is false where it has none for the type. */
    weir_status (*reduce)(weir_stream_comm *s, const weir_collective *job, bool *has);
    void        (*finish)(weir_stream_comm *s);         /* waits for all that was queued */
    /* *number: the collective, from 1, that has begun and not ended; false without one. */
    bool        (*under_way)(weir_stream_comm *s, uint64_t *number);
    /* Gives up, so that streams go on. The device then fails once with ERR_COMM and this
     * sentence, and later collectives fail. */
    void        (*abandon)(weir_stream_comm *s, const char *why);
    void        (*leave)(weir_stream_comm *s);          /* frees s; NULL is fine */
} weir_stream_comm_ops;

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
    /* Performs one of device memory as work of the stream (NULL: the first), and returns once all
     * ranks have come to it. NULL: the transport moves host memory alone. ERR_COMM. */
    weir_status  (*queue)(weir_comm *c, const weir_collective *job, weir_stream *stream);
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
    const weir_collective job = {.kind = WEIR_ALL_GATHER, .dtype = WEIR_U8,
                                 .count = (int64_t)bytes * c->world, .src = mine, .dst = all,
                                 .purpose = purpose};

    memcpy((char *)all + (size_t)c->rank * bytes, mine, bytes);
    return c->run(c, &job);
}

#endif
