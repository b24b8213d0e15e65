/* world.c - the simulated world of a device: its communicator, and the kernels of collectives.
 *
 * The device is rank 0 and all ranks do the same at the same time, so a collective begins when the
 * wire is free and this rank has reached it. What ranks exchange of host data, to agree on graphs
 * and parameters, takes no time, as recording and planning take none; each has sent what this one
 * has. A window of the transports' size is a sum's workspace. */
#include <string.h>

#include "core/attr.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/sim/sim.h"

typedef struct simulated {
    weir_comm       comm;       /* first: the public handle */
    weir_comm_stats stats;
    uint64_t        started, awaited;
    double          end[WEIR_STARTED_MOST];     /* seconds at which those in between are done */
} simulated;

/* ---- the communicator ---- */

static void at(weir_comm *c, uint64_t graph, uint64_t run)
{
    (void)c;
    (void)graph;
    (void)run;
}

static double seconds(const weir_comm *c, const weir_collective *job)
{
    return weir_network_seconds(&weir_sim_of(c->dev)->network, c->order, job);
}

/* Puts a collective on the wire and returns the second at which it is done. */
static double send(weir_comm *c, const weir_collective *job)
{
    simulated *const s = (simulated *)c;
    const double     takes = seconds(c, job);

    s->stats.collectives++;
    s->stats.bytes += (uint64_t)job->count * weir_dtype_size(job->dtype);
    s->stats.wire_ms += 1e3 * takes;
    return weir_sim_use_wire(c->dev, takes);
}

static void wait_until(weir_comm *c, double when)
{
    const weir_sim *const sim = weir_sim_of(c->dev);
    const double          before = sim->compute;

    weir_sim_wait(c->dev, when);
    ((simulated *)c)->stats.waited_ms += 1e3 * (sim->compute - before);
}

/* Fills the parts of the other ranks with this one's. */
static void gather_host(const weir_comm *c, const weir_collective *job)
{
    const size_t part = (size_t)job->count / (size_t)c->world * weir_dtype_size(job->dtype);

    for (int r = 0; r < c->world && job->kind == WEIR_ALL_GATHER; r++)
        if (r != c->rank)
            memcpy((char *)job->dst + (size_t)r * part, job->src, part);
}

/* Kernels pass no operands. */
static weir_status run(weir_comm *c, const weir_collective *job)
{
    if (job->src)
        gather_host(c, job);
    else
        wait_until(c, send(c, job));
    return WEIR_OK;
}

static weir_status start(weir_comm *c, const weir_collective *job)
{
    simulated *const s = (simulated *)c;

    if (s->started - s->awaited == WEIR_STARTED_MOST)
        return weir_fail(WEIR_ERR_STATE, "internal: more than %d collectives are under way",
                         WEIR_STARTED_MOST);
    s->end[s->started++ % WEIR_STARTED_MOST] = send(c, job);
    return WEIR_OK;
}

static weir_status wait_for_one(weir_comm *c)
{
    simulated *const s = (simulated *)c;

    if (s->awaited == s->started)
        return WEIR_OK;
    wait_until(c, s->end[s->awaited++ % WEIR_STARTED_MOST]);
    return c->run == run ? WEIR_OK : weir_collective_left(c, NULL);
}

static weir_status settle(weir_comm *c, weir_status so_far)
{
    simulated *const s = (simulated *)c;

    while (s->awaited < s->started)
        wait_until(c, s->end[s->awaited++ % WEIR_STARTED_MOST]);
    return so_far;
}

static weir_comm_stats stats_of(const weir_comm *c)
{
    return ((const simulated *)c)->stats;
}

static size_t own(const weir_comm *c)
{
    (void)c;
    return 0;
}

static void leave(weir_comm *c)
{
    c->run = c->start = weir_collective_left;
}

weir_comm *weir_sim_join(weir_device *d, bool tree)
{
    simulated *const s = weir_mem_zalloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->comm = (weir_comm){.dev = weir_ref_take(d), .world = weir_sim_of(d)->network.world,
                          .order = tree ? WEIR_SUM_TREE : WEIR_SUM_SERIAL,
                          .transport = "simulated", .constant_s = -1, .per_byte_s = -1, .at = at,
                          .run = run, .start = start, .wait = wait_for_one, .settle = settle,
                          .seconds = seconds, .stats = stats_of, .own = own, .leave = leave};
    return &s->comm;
}

/* ---- kernels ---- */

typedef struct collective {
    weir_comm      *comm;
    weir_collective job;
    size_t          work;       /* bytes of its window */
} collective;

static weir_status run_all(const weir_kargs *k)
{
    const collective *const s = k->state;

    weir_sim_watch(weir_sim_of(s->comm->dev), k, s->work);
    return s->comm->run(s->comm, &s->job);
}

static weir_status run_start(const weir_kargs *k)
{
    const collective *const s = k->state;

    weir_sim_watch(weir_sim_of(s->comm->dev), k, s->work);
    return s->comm->start(s->comm, &s->job);
}

static weir_status run_wait(const weir_kargs *k)
{
    const collective *const s = k->state;

    weir_sim_watch(weir_sim_of(s->comm->dev), k, 0);
    return s->comm->wait(s->comm);
}

weir_status weir_sim_choose_collective(weir_device *d, const weir_call *c, weir_kernel *out)
{
    const weir_collective_attr *const a = c->attr;
    const bool                        waits = c->op == WEIR_OP_ALL_REDUCE_WAIT;
    collective *const                 s = weir_mem_alloc(sizeof *s);

    (void)d;
    if (!s)
        return WEIR_ERR_NOMEM;
    *s = (collective){.comm = (weir_comm *)(uintptr_t)a->comm, .job = weir_collective_of(c)};
    s->work = waits ? 0 : weir_collective_window(s->comm->world, &s->job);
    *out = (weir_kernel){.run = waits ? run_wait
                                : c->op == WEIR_OP_ALL_REDUCE_START ? run_start : run_all,
                         .work = s->work, .state = s, .destroy = weir_mem_free, .impl = "sim"};
    return WEIR_OK;
}
