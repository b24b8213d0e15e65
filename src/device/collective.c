/* collective.c - the collective that a call asks for, and the window of its sums. */
#include "device/collective.h"

#include "core/attr.h"
#include "core/dtype.h"
#include "core/status.h"

enum { WINDOW = 4 << 20 };

const char *weir_sum_order_name(weir_sum_order order)
{
    static const char *const names[WEIR_SUM_ORDERS] = {"serial", "tree", "engine"};

    return names[order];
}

static weir_collective_kind kind_of(weir_op op)
{
    switch (op) {
    case WEIR_OP_REDUCE_SCATTER: return WEIR_REDUCE_SCATTER;
    case WEIR_OP_ALL_GATHER:     return WEIR_ALL_GATHER;
    case WEIR_OP_BROADCAST_FROM: return WEIR_BROADCAST;
    case WEIR_OP_REDUCE_TO:      return WEIR_REDUCE;
    case WEIR_OP_SEND_TO:        return WEIR_SEND;
    case WEIR_OP_RECV_FROM:      return WEIR_RECV;
    default:                     return WEIR_ALL_REDUCE;        /* and its start and its wait */
    }
}

weir_collective weir_collective_of(const weir_call *c)
{
    const weir_collective_kind        kind = kind_of(c->op);
    const weir_collective_attr *const a = c->attr;
    const bool       result = kind == WEIR_ALL_GATHER || kind == WEIR_RECV;
    const weir_desc *whole = result ? &c->out[0].desc : &c->in[0].desc;

    return (weir_collective){.kind = kind, .dtype = whole->dtype, .peer = (int)a->peer,
                             .count = weir_shape_count(whole)};
}

int64_t weir_collective_part(int world, const weir_collective *job)
{
    return job->kind == WEIR_REDUCE ? job->count : (job->count + world - 1) / world;
}

int64_t weir_collective_chunk(int world, const weir_collective *job)
{
    const int64_t size = (int64_t)weir_dtype_size(job->dtype), others = world - 1;
    const int64_t most = WINDOW / (others > 0 ? others * size : size);
    const int64_t part = weir_collective_part(world, job), least = most > 64 ? most / 64 * 64 : 64;

    return part < least ? part : least;
}

size_t weir_collective_window(int world, const weir_collective *job)
{
    const bool sums = job->kind == WEIR_ALL_REDUCE || job->kind == WEIR_REDUCE_SCATTER ||
                      job->kind == WEIR_REDUCE;

    return sums ? (size_t)(world - 1) * (size_t)weir_collective_chunk(world, job) *
                      weir_dtype_size(job->dtype)
                : 0;
}

weir_status weir_collective_left(weir_comm *c, const weir_collective *job)
{
    (void)job;
    return weir_fail(WEIR_ERR_COMM, "rank %d has left its communicator", c->rank);
}
