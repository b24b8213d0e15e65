/* queued.c - see queued.h.
 *
 * A library for cards can neither tell that ranks call different collectives nor which rank is
 * missing: it hangs, or adds what does not belong together. So the wire compares first what the
 * ranks call, as it does for host memory; only then is anything queued, the same on all ranks. */
#include "device/comm/queued.h"

#include <stdio.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/comm/rounds.h"

/* What ranks tell each other before they join; only rank 0's id counts. */
typedef struct greeting {
    int32_t status;
    char    id[WEIR_STREAM_COMM_ID];
    char    why[512];
} greeting;

static const weir_stream_comm_ops *ops_of(const weir_comm *c)
{
    return c->dev->ops->streams->comm;
}

/* Fails if a rank cannot join, on all of them. */
static weir_status all_can(const weir_comm *c, const greeting *all)
{
    for (int r = 0; r < c->world; r++)
        if (all[r].status != WEIR_OK)
            return weir_fail(WEIR_ERR_COMM, "weir_comm_open: rank %d cannot join: %.512s", r,
                             all[r].why);
    return WEIR_OK;
}

static weir_status greet(weir_comm *c, greeting *all)
{
    greeting mine = {.status = WEIR_OK};

    mine.status = (int32_t)ops_of(c)->prepare(c->dev, c->rank == 0 ? mine.id : NULL);
    if (mine.status != WEIR_OK)
        snprintf(mine.why, sizeof mine.why, "%s", weir_error());
    WEIR_TRY(weir_comm_gather_for(c, WEIR_FOR_PROGRAM, &mine, sizeof mine, all));
    return all_can(c, all);
}

weir_status weir_queued_open(weir_comm *c, weir_comm_wire *w, weir_stream_comm **s)
{
    greeting *const all = weir_mem_zalloc((size_t)c->world, sizeof *all);

    if (!all)
        return WEIR_ERR_NOMEM;
    weir_status status = greet(c, all);
    if (status == WEIR_OK)
        status = ops_of(c)->join(c->dev, all[0].id, c->rank, c->world, c->order, s);
    if (status == WEIR_OK)
        weir_wire_watch(w, ops_of(c), *s);
    weir_mem_free(all);
    return status;
}

static weir_status queue(weir_comm *c, weir_stream_comm *s, const weir_collective *job)
{
    const weir_stream_comm_ops *const ops = ops_of(c);
    bool                              has = false;

    if (c->order == WEIR_SUM_ENGINE && job->kind == WEIR_ALL_REDUCE)
        WEIR_TRY(ops->reduce(s, job, &has));
    return has ? WEIR_OK : weir_rounds_by(&ops->rounds, s, c->rank, c->world, job);
}

weir_status weir_queued_run(weir_comm *c, weir_comm_wire *w, weir_stream_comm *s,
                            const weir_collective *job, weir_stream *stream)
{
    weir_collective called = *job;

    called.queued = true;
    WEIR_TRY(weir_wire_wait(w, weir_wire_post(w, &called)));
    WEIR_TRY(ops_of(c)->begin(s, stream));
    return ops_of(c)->end(s, queue(c, s, job));
}
