/* bucket_cuts.c - an exact programme for the cuts between buckets. See bucket_cuts.h.
 *
 * The first j sums are done at best[j], the smallest over i of max(best[i], ready[j - 1]) + the
 * time of a message with sums i to j - 1: since messages go one after another, an earlier end of
 * the first i sums never makes the rest later. That computing waits where too many sums are under
 * way is left to the choice of the limit. */
#include "graph/compile/bucket_cuts.h"

#include <float.h>

#include "core/dtype.h"
#include "core/mem.h"

/* LEAST: bytes of the smallest limit. ENOUGH: the last sum may be done so much later, relative. */
enum { LEAST = 1 << 16 };

#define ENOUGH 0.005

/* The best way to sum the first sums of a list. */
typedef struct best_way {
    double   done;              /* seconds */
    uint32_t from;              /* the first sum of its last bucket */
} best_way;

static double seconds_of(const weir_comm *comm, weir_dtype dtype, size_t bytes)
{
    const weir_collective job = {.kind = WEIR_ALL_REDUCE, .dtype = dtype,
                                 .count = (int64_t)(bytes / weir_dtype_size(dtype))};

    return comm->seconds(comm, &job);
}

/* Finds best[j] from those before it. */
static void extend(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t j, size_t most,
                   best_way *best)
{
    const double ready = sum[j - 1].ready;
    size_t       bytes = 0;

    best[j].done = DBL_MAX;
    for (uint32_t i = j; i-- > 0;) {
        bytes += sum[i].bytes;
        if (i + 1 < j && bytes > most)
            break;
        const double begin = best[i].done > ready ? best[i].done : ready;
        const double done = begin + seconds_of(comm, sum[i].dtype, bytes);
        if (done < best[j].done)
            best[j] = (best_way){done, i};
        if (sum[i].first)
            break;
    }
}

weir_status weir_bucket_cut(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t n,
                            size_t most, bool *ends, double *done)
{
    best_way *const best = weir_mem_zalloc(n + 1u, sizeof *best);

    if (!best)
        return WEIR_ERR_NOMEM;
    for (uint32_t j = 1; j <= n; j++)
        extend(comm, sum, j, most, best);
    for (uint32_t i = 0; i < n; i++)
        ends[i] = false;
    for (uint32_t j = n; j > 0; j = best[j].from)
        ends[j - 1] = true;
    *done = best[n].done;
    weir_mem_free(best);
    return WEIR_OK;
}

/* When the last sum is done if computing goes on while at most WEIR_STARTED_MOST sums are under
 * way: before it starts another it waits for the oldest, which makes all later operands late. */
static double end_of(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t n,
                     const bool *ends)
{
    double   done[WEIR_STARTED_MOST] = {0}, last = 0, late = 0;
    size_t   bytes = 0;
    uint32_t buckets = 0;

    for (uint32_t i = 0; i < n; i++) {
        bytes += sum[i].bytes;
        if (!ends[i])
            continue;
        double *const oldest = &done[buckets++ % WEIR_STARTED_MOST];
        if (*oldest > sum[i].ready + late)
            late = *oldest - sum[i].ready;
        const double ready = sum[i].ready + late;
        last = (last > ready ? last : ready) + seconds_of(comm, sum[i].dtype, bytes);
        *oldest = last;
        bytes = 0;
    }
    return last;
}

/* The largest of the limits below `bytes`: LEAST times a power of two. */
static size_t largest_below(size_t bytes)
{
    size_t limit = LEAST;

    while (limit < bytes / 2)
        limit *= 2;
    return limit;
}

weir_status weir_bucket_limit(const weir_comm *comm, const weir_bucket_sum *sum, uint32_t n,
                              size_t *most)
{
    bool *const ends = weir_mem_alloc(n + 1u);
    double      least = DBL_MAX, done;
    size_t      all = 0, best = SIZE_MAX;

    if (!ends)
        return WEIR_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++)
        all += sum[i].bytes;
    weir_status status = WEIR_OK;
    for (size_t limit = SIZE_MAX; status == WEIR_OK && limit >= LEAST;) {
        status = weir_bucket_cut(comm, sum, n, limit, ends, &done);
        done = end_of(comm, sum, n, ends);
        if (done <= least * (1 + ENOUGH))
            best = limit;
        least = done < least ? done : least;
        limit = limit == SIZE_MAX ? largest_below(all) : limit / 2;
    }
    *most = best;
    weir_mem_free(ends);
    return status;
}

void weir_bucket_fill(const weir_bucket_sum *sum, uint32_t n, size_t most, bool *ends)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < n; i++) {
        bytes += sum[i].bytes;
        ends[i] = i + 1 == n || sum[i + 1].first || bytes > most ||
                  sum[i + 1].bytes > most - bytes;
        bytes = ends[i] ? 0 : bytes;
    }
}
