/* rounds.c - collectives as rounds of exchanges between ranks.
 *
 * Sums: each rank owns one part of the elements. In a round every rank sends the operands of a
 * chunk of each part to its owner, which sums them in the order of ranks, so the bits are those of
 * one process, and all_reduce sends the sums back. A rank sends and receives 2 (W - 1) / W times
 * the bytes of the tensor, as a ring does. A window of limited size holds the operands that
 * arrive, so large tensors take several rounds. */
#include "device/comm/rounds.h"

#include "core/dtype.h"
#include "device/comm/kinds.h"

/* A range of elements. */
typedef struct range {
    int64_t at, n;
} range;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Chunk k of the part of rank r. */
static range chunk_of(const weir_collective *job, int world, int r, int64_t k)
{
    const int64_t part = weir_collective_part(world, job);
    const int64_t chunk = weir_collective_chunk(world, job);
    const int64_t end = smaller(job->count, (r + 1) * part);
    const int64_t at = smaller(end, r * part + k * chunk);
    const int64_t within = smaller(chunk, part - k * chunk);

    return (range){at, smaller(within, end - at)};
}

/* What a round needs to know of a collective. */
typedef struct rounds {
    const weir_rounds_ops *ops;
    void                  *by;
    const weir_collective *job;
    int                    rank, world;
    size_t                 size;        /* bytes of an element */
} rounds;

static void send(const rounds *s, const void *at, int64_t n, int peer)
{
    if (n > 0)
        s->ops->send(s->by, at, (size_t)n * s->size, peer);
}

static void recv(const rounds *s, void *at, int64_t n, int peer)
{
    if (n > 0)
        s->ops->recv(s->by, at, (size_t)n * s->size, peer);
}

static weir_status exchange(const rounds *s)
{
    return s->ops->exchange(s->by);
}

static const char *source(const rounds *s, int64_t at)
{
    return (const char *)s->job->src + (size_t)at * s->size;
}

static char *target(const rounds *s, int64_t at)
{
    return (char *)s->job->dst + (size_t)at * s->size;
}

/* Bytes between the operands of two ranks in the window. */
static size_t stride(const rounds *s)
{
    return (size_t)weir_collective_chunk(s->world, s->job) * s->size;
}

/* Where the operand of a rank arrives in the window. */
static char *window(const rounds *s, int r)
{
    return (char *)s->job->work + (size_t)(r < s->rank ? r : r - 1) * stride(s);
}

/* Receives the operands of a range from all others, and sums them with this rank's into `to`. The
 * messages to the owners of other ranges have been added. */
static weir_status sum_range(const rounds *s, range mine, void *to)
{
    const weir_rank_sum sum = {to, source(s, mine.at), s->job->work, stride(s), mine.n,
                               s->job->dtype};

    for (int r = 0; r < s->world; r++)
        if (r != s->rank)
            recv(s, window(s, r), mine.n, r);
    WEIR_TRY(exchange(s));
    return mine.n > 0 ? s->ops->sum(s->by, &sum) : WEIR_OK;
}

/* ALL_REDUCE and REDUCE_SCATTER. The operands that a rank sends in a round have arrived before its
 * sums overwrite them, so dst may be src. */
static weir_status reduce_parts(const rounds *s, bool gather)
{
    const int64_t part = weir_collective_part(s->world, s->job);
    const int64_t chunk = weir_collective_chunk(s->world, s->job);

    for (int64_t k = 0; k * chunk < part; k++) {
        const range mine = chunk_of(s->job, s->world, s->rank, k);
        char *const to = target(s, gather ? mine.at : mine.at - s->rank * part);
        for (int r = 0; r < s->world; r++) {
            const range its = chunk_of(s->job, s->world, r, k);
            if (r != s->rank)
                send(s, source(s, its.at), its.n, r);
        }
        WEIR_TRY(sum_range(s, mine, to));
        for (int r = 0; r < s->world && gather; r++) {
            const range its = chunk_of(s->job, s->world, r, k);
            if (r == s->rank)
                continue;
            send(s, to, mine.n, r);
            recv(s, target(s, its.at), its.n, r);
        }
        if (gather)
            WEIR_TRY(exchange(s));
    }
    return WEIR_OK;
}

/* REDUCE: the root owns all elements. */
static weir_status reduce_whole(const rounds *s)
{
    const int64_t chunk = weir_collective_chunk(s->world, s->job);

    for (int64_t at = 0; at < s->job->count; at += chunk) {
        const range one = {at, smaller(chunk, s->job->count - at)};
        if (s->rank == s->job->peer) {
            WEIR_TRY(sum_range(s, one, target(s, at)));
            continue;
        }
        send(s, source(s, at), one.n, s->job->peer);
        WEIR_TRY(exchange(s));
    }
    return WEIR_OK;
}

/* The kinds that only move elements, in one round. */
static weir_status move_all(const rounds *s)
{
    const weir_collective *const job = s->job;
    const bool                   parts = job->kind == WEIR_ALL_GATHER;
    const int64_t                n = parts ? job->count / s->world : job->count;

    for (int r = 0; r < s->world; r++) {
        if (r == s->rank)
            continue;
        if (weir_collective_sends(job, s->rank, r))
            send(s, job->src, n, r);
        if (weir_collective_receives(job, s->rank, r))
            recv(s, target(s, parts ? r * n : 0), n, r);
    }
    return exchange(s);
}

weir_status weir_rounds_by(const weir_rounds_ops *ops, void *by, int rank, int world,
                           const weir_collective *job)
{
    const rounds s = {ops, by, job, rank, world, weir_dtype_size(job->dtype)};

    switch (job->kind) {
    case WEIR_ALL_REDUCE:     return reduce_parts(&s, true);
    case WEIR_REDUCE_SCATTER: return reduce_parts(&s, false);
    case WEIR_REDUCE:         return reduce_whole(&s);
    default:                  return move_all(&s);
    }
}

weir_status weir_rounds_run(weir_comm_wire *w, const weir_collective *job)
{
    static const weir_rounds_ops ops = {weir_wire_send, weir_wire_recv, weir_wire_exchange,
                                        weir_wire_sum};
    const weir_comm_link *const  l = weir_wire_link(w);

    return weir_rounds_by(&ops, w, l->rank, l->world, job);
}
