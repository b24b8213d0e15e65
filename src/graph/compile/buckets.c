/* buckets.c - ranks choose together which gradients are summed in one message. See buckets.h.
 *
 * Cuts follow from the slowest rank's times and the smallest limit of all ranks, which every rank
 * gathers, so all of them cut alike. Each exchange has one size on all ranks. */
#include "graph/compile/buckets.h"

#include <string.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "graph/compile/join_sums.h"
#include "graph/ir/pass_set.h"
#include "graph/memory/budget/budget.h"
#include "graph/plan/plan.h"

/* SHRINK divides a limit that takes too much memory, down to SMALLEST; then each sum is alone. */
enum { SHRINK = 4, SMALLEST = 1 << 12 };

/* What a rank tells of each sum. One whose list is not as long as the recording's, because it has
 * failed or does not join, tells that none is ready. */
typedef struct told_sum {
    double   ready;             /* seconds; negative: this rank joins none */
    uint64_t first;
} told_sum;

/* A communicator's sums on this rank. */
typedef struct bucketing {
    weir_graph              *g;
    weir_comm               *comm;
    uint32_t                 passes;
    const weir_plan_options *options;
    weir_bucket_sums         sums;
    bool                    *ends;      /* [sums] */
} bucketing;

/* ---- what all ranks know ---- */

/* Merges what the ranks have told into this one's list; false if one of them joins none. */
static bool merge(bucketing *b, const told_sum *all)
{
    const uint32_t n = b->sums.n;

    for (size_t i = 0; i < (size_t)b->comm->world * n; i++) {
        weir_bucket_sum *const s = &b->sums.at[i % n];
        if (all[i].ready < 0)
            return false;
        s->ready = all[i].ready > s->ready ? all[i].ready : s->ready;
        s->first |= all[i].first != 0;
    }
    for (uint32_t i = 1; i < n; i++)
        if (b->sums.at[i].ready < b->sums.at[i - 1].ready)
            b->sums.at[i].ready = b->sums.at[i - 1].ready;
    return true;
}

/* Exchanges lists of n sums; *joins: all ranks have one. */
static weir_status exchange_sums(bucketing *b, uint32_t n, bool whole, bool *joins)
{
    const size_t    size = n * sizeof(told_sum);
    told_sum *const mine = weir_mem_zalloc(n, sizeof *mine);
    told_sum *const all = weir_mem_alloc((size_t)b->comm->world * size);
    weir_status     status = WEIR_ERR_NOMEM;

    for (uint32_t i = 0; i < n && mine; i++)
        mine[i] = whole ? (told_sum){b->sums.at[i].ready, b->sums.at[i].first}
                        : (told_sum){.ready = -1};
    if (mine && all)
        status = weir_comm_gather_for(b->comm, WEIR_FOR_GRAPH, mine, size, all);
    *joins = status == WEIR_OK && whole && merge(b, all);
    weir_mem_free(mine);
    weir_mem_free(all);
    return status;
}

/* *most becomes the smallest of all ranks. */
static weir_status agree_on(const bucketing *b, size_t *most)
{
    const uint64_t  mine = *most;
    uint64_t *const all = weir_mem_alloc((size_t)b->comm->world * sizeof *all);
    weir_status     status = WEIR_ERR_NOMEM;

    if (all)
        status = weir_comm_gather_for(b->comm, WEIR_FOR_GRAPH, &mine, sizeof mine, all);
    for (int r = 0; r < b->comm->world && status == WEIR_OK; r++)
        *most = all[r] < *most ? (size_t)all[r] : *most;
    weir_mem_free(all);
    return status;
}

/* ---- cuts ---- */

static int64_t bucket_of(const bucketing *b, uint32_t i)
{
    return ((const weir_collective_attr *)b->g->nodes.at[b->sums.at[i].node].attr)->bucket;
}

static bool knows_wire(const bucketing *b)
{
    const weir_collective job = {.kind = WEIR_ALL_REDUCE, .dtype = WEIR_F32, .count = 1};

    return b->comm->seconds(b->comm, &job) >= 0;
}

/* Cuts sums [from, to), all recorded with one bucket, where none that the plan sizes has more than
 * `most` bytes. */
static weir_status cut_run(const bucketing *b, uint32_t from, uint32_t to, size_t most)
{
    const int64_t                bucket = bucket_of(b, from);
    const weir_bucket_sum *const sum = b->sums.at + from;
    double                       done;

    if (bucket == WEIR_BUCKET_PLANNED && knows_wire(b))
        return weir_bucket_cut(b->comm, sum, to - from, most, b->ends + from, &done);
    if (bucket == WEIR_BUCKET_PLANNED)
        most = most < WEIR_BUCKET_BYTES ? most : WEIR_BUCKET_BYTES;
    else
        most = (size_t)bucket;
    weir_bucket_fill(sum, to - from, most, b->ends + from);
    return WEIR_OK;
}

static weir_status cut(const bucketing *b, size_t most)
{
    uint32_t from = 0;

    for (uint32_t i = 1; i <= b->sums.n; i++)
        if (i == b->sums.n || bucket_of(b, i) != bucket_of(b, from)) {
            WEIR_TRY(cut_run(b, from, i, most));
            from = i;
        }
    return WEIR_OK;
}

/* ---- memory ---- */

/* Bytes of the arena with the buckets as they are cut. */
static weir_status arena_of(bucketing *b, size_t *bytes)
{
    weir_sums_before before;

    WEIR_TRY(weir_sums_join(b->g, &b->sums, b->ends, &before));
    const weir_status status = weir_plan_build(b->g, b->passes);
    *bytes = status == WEIR_OK ? b->g->plan->arena : 0;
    weir_plan_free(b->g->plan);
    b->g->plan = NULL;
    weir_sums_part(b->g, &before);
    return status;
}

/* Bytes that the arena may have: what the budget leaves, or what the step takes without buckets. */
static weir_status arena_limit(bucketing *b, size_t *bytes)
{
    size_t budget;

    WEIR_TRY(weir_plan_build(b->g, b->passes));
    const weir_status status = weir_budget_bytes(b->g, b->options, &budget);
    const size_t      resident = weir_plan_resident(b->g);
    *bytes = b->g->plan->arena;
    if (status == WEIR_OK && budget > resident && budget - resident > *bytes)
        *bytes = budget - resident;
    weir_plan_free(b->g->plan);
    b->g->plan = NULL;
    return status;
}

/* The largest limit up to *most whose buckets leave the step within this rank's budget. */
static weir_status shrink(bucketing *b, size_t *most)
{
    size_t limit, arena;

    WEIR_TRY(arena_limit(b, &limit));
    for (;;) {
        WEIR_TRY(cut(b, *most));
        WEIR_TRY(arena_of(b, &arena));
        if (arena <= limit || *most == 0)
            return WEIR_OK;
        *most = *most / SHRINK < SMALLEST ? 0 : *most / SHRINK;
    }
}

static weir_status limit_of(bucketing *b, size_t *most)
{
    *most = WEIR_BUCKET_BYTES;
    if (knows_wire(b))
        WEIR_TRY(weir_bucket_limit(b->comm, b->sums.at, b->sums.n, most));
    return b->options->budget ? shrink(b, most) : WEIR_OK;
}

/* ---- choosing ---- */

static weir_status join(bucketing *b, size_t most)
{
    weir_sums_before before;

    WEIR_TRY(cut(b, most));
    WEIR_TRY(weir_sums_join(b->g, &b->sums, b->ends, &before));
    weir_sums_keep(&before);
    return WEIR_OK;
}

/* A rank that fails tells a limit, too, so that none waits for it. */
static weir_status choose(bucketing *b, uint32_t recorded, weir_status so_far)
{
    const bool joins = (b->passes >> WEIR_PASS_BUCKETS & 1) != 0;
    size_t     most = 0;
    bool       all;

    if (so_far == WEIR_OK)
        so_far = weir_sums_find(b->g, b->comm, &b->sums);
    if (so_far == WEIR_OK && !(b->ends = weir_mem_zalloc(b->sums.n + 1u, 1)))
        so_far = WEIR_ERR_NOMEM;
    const bool whole = so_far == WEIR_OK && joins && b->sums.n == recorded;
    const weir_status told = exchange_sums(b, recorded, whole, &all);
    if (so_far != WEIR_OK || told != WEIR_OK || !all)
        return so_far != WEIR_OK ? so_far : told;
    so_far = limit_of(b, &most);
    const weir_status agreed = agree_on(b, &most);
    so_far = so_far == WEIR_OK ? agreed : so_far;
    return so_far == WEIR_OK ? join(b, most) : so_far;
}

weir_status weir_buckets_choose(weir_graph *g, uint32_t passes, const weir_plan_options *options,
                                weir_status so_far)
{
    for (uint32_t i = 0; i < g->agreed.n; i++) {
        bucketing b = {.g = g, .comm = g->agreed.at[i].comm, .passes = passes, .options = options};
        if (g->agreed.at[i].sums == 0)
            continue;
        so_far = choose(&b, g->agreed.at[i].sums, so_far);
        weir_vec_free(&b.sums);
        weir_mem_free(b.ends);
    }
    return so_far;
}
