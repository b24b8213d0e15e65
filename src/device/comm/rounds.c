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
    weir_comm_wire             *w;
    const weir_collective *job;
    int                    rank, world;
    size_t                 size;        /* bytes of an element */
} rounds;

static const char *source(const rounds *s, int64_t at)
{
    return (const char *)s->job->src + (size_t)at * s->size;
}

static char *target(const rounds *s, int64_t at)
{
    return (char *)s->job->dst + (size_t)at * s->size;
}

/* Where the operand of a rank arrives in the window. */
static char *window(const rounds *s, int r)
{
    const size_t slot = (size_t)(r < s->rank ? r : r - 1);

    return (char *)s->job->work + slot * (size_t)weir_collective_chunk(s->world, s->job) * s->size;
}

/* Receives the operands of a range from all others, and sums them with this rank's into `to`. The
 * messages to the owners of other ranges have been added. */
static weir_status sum_range(const rounds *s, range mine, void *to)
{
    const void **const from = weir_wire_operands(s->w);

    for (int r = 0; r < s->world; r++) {
        from[r] = r == s->rank ? source(s, mine.at) : window(s, r);
        if (r != s->rank)
            weir_wire_recv(s->w, window(s, r), (size_t)mine.n * s->size, r);
    }
    WEIR_TRY(weir_wire_exchange(s->w));
    if (mine.n > 0)
        weir_wire_sum(s->w, to, from, mine.n, s->job->dtype);
    return WEIR_OK;
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
                weir_wire_send(s->w, source(s, its.at), (size_t)its.n * s->size, r);
        }
        WEIR_TRY(sum_range(s, mine, to));
        for (int r = 0; r < s->world && gather; r++) {
            const range its = chunk_of(s->job, s->world, r, k);
            if (r == s->rank)
                continue;
            weir_wire_send(s->w, to, (size_t)mine.n * s->size, r);
            weir_wire_recv(s->w, target(s, its.at), (size_t)its.n * s->size, r);
        }
        if (gather)
            WEIR_TRY(weir_wire_exchange(s->w));
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
        weir_wire_send(s->w, source(s, at), (size_t)one.n * s->size, s->job->peer);
        WEIR_TRY(weir_wire_exchange(s->w));
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
            weir_wire_send(s->w, job->src, (size_t)n * s->size, r);
        if (weir_collective_receives(job, s->rank, r))
            weir_wire_recv(s->w, target(s, parts ? r * n : 0), (size_t)n * s->size, r);
    }
    return weir_wire_exchange(s->w);
}

weir_status weir_rounds_run(weir_comm_wire *w, const weir_collective *job)
{
    const weir_comm_link *const l = weir_wire_link(w);
    const rounds           s = {w, job, l->rank, l->world, weir_dtype_size(job->dtype)};

    switch (job->kind) {
    case WEIR_ALL_REDUCE:     return reduce_parts(&s, true);
    case WEIR_REDUCE_SCATTER: return reduce_parts(&s, false);
    case WEIR_REDUCE:         return reduce_whole(&s);
    default:                  return move_all(&s);
    }
}
