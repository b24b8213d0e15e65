/* communicator.c - opens and closes communicators; host data that ranks compare. */
#include "device/comm/comm.h"

#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "device/comm/launcher.h"
#include "device/comm/local.h"
#include "device/comm/queued.h"
#include "device/comm/rounds.h"
#include "device/comm/wire.h"
#include "device/plugin.h"

typedef struct joined {
    weir_comm  comm;            /* first: the public handle */
    weir_comm_wire *wire;            /* NULL: a world of one */
    /* Collectives started and awaited so far, and the tickets of those in between. */
    uint64_t        started, awaited, ticket[WEIR_STARTED_MOST];
    weir_comm_stats last;       /* when it was left */
    weir_stream_comm *stream;   /* collectives on the device's stream; NULL: none */
} joined;

static weir_status run(weir_comm *c, const weir_collective *job)
{
    weir_comm_wire *const w = ((joined *)c)->wire;

    return weir_wire_wait(w, weir_wire_post(w, job));
}

static weir_status start(weir_comm *c, const weir_collective *job)
{
    joined *const j = (joined *)c;

    if (j->started - j->awaited == WEIR_STARTED_MOST)
        return weir_fail(WEIR_ERR_STATE, "internal: more than %d collectives are under way",
                         WEIR_STARTED_MOST);
    j->ticket[j->started++ % WEIR_STARTED_MOST] = weir_wire_post(j->wire, job);
    return WEIR_OK;
}

static weir_status wait_for_one(weir_comm *c)
{
    joined *const j = (joined *)c;

    if (j->awaited == j->started)
        return WEIR_OK;
    if (!j->wire)       /* left by a callback, after the start */
        return weir_collective_left(c, NULL);
    return weir_wire_wait(j->wire, j->ticket[j->awaited++ % WEIR_STARTED_MOST]);
}

static weir_status queue(weir_comm *c, const weir_collective *job, weir_stream *stream)
{
    joined *const j = (joined *)c;

    return j->stream ? weir_queued_run(c, j->wire, j->stream, job, stream)
                     : weir_collective_left(c, job);
}

static weir_status settle(weir_comm *c, weir_status so_far)
{
    joined *const j = (joined *)c;
    weir_failure  failure;

    weir_failure_get(&failure);
    while (j->wire && j->awaited < j->started) {
        const weir_status status = wait_for_one(c);
        if (so_far == WEIR_OK && status != WEIR_OK)
            weir_failure_get(&failure);
        so_far = so_far == WEIR_OK ? status : so_far;
    }
    if (so_far != WEIR_OK)
        weir_failure_set(&failure);
    return so_far;
}

static void at(weir_comm *c, uint64_t graph, uint64_t run)
{
    weir_comm_wire *const w = ((joined *)c)->wire;

    if (w)
        weir_wire_at(w, graph, run);
}

/* What was measured is an all_reduce; its two halves are a reduce_scatter and an all_gather. */
static double seconds(const weir_comm *c, const weir_collective *job)
{
    const double bytes = (double)job->count * (double)weir_dtype_size(job->dtype);
    const bool   half = job->kind == WEIR_REDUCE_SCATTER || job->kind == WEIR_ALL_GATHER;

    if (c->constant_s < 0 || (job->kind != WEIR_ALL_REDUCE && !half))
        return -1;
    return (c->constant_s + bytes * c->per_byte_s) / (half ? 2 : 1);
}

static weir_comm_stats stats_of(const weir_comm *c)
{
    const joined *const j = (const joined *)c;

    return j->wire ? weir_wire_stats(j->wire) : j->last;
}

static size_t own(const weir_comm *c)
{
    const weir_comm_wire *const w = ((const joined *)c)->wire;
    const weir_comm_link *const l = w ? weir_wire_link(w) : NULL;

    return l ? l->ops->overhead(l) : 0;
}

/* What was queued ends while the wire still watches over it. */
static void leave(weir_comm *c)
{
    joined *const j = (joined *)c;

    if (j->stream)
        c->dev->ops->streams->comm->finish(j->stream);
    if (j->wire)
        j->last = weir_wire_stats(j->wire);
    weir_wire_free(j->wire);
    if (j->stream)
        c->dev->ops->streams->comm->leave(j->stream);
    j->wire = NULL;
    j->stream = NULL;
    c->transport = "alone";
    c->run = c->start = weir_collective_left;
}

/* ---- opening ---- */

static weir_status order_of(const char *name, weir_sum_order *order)
{
    for (*order = WEIR_SUM_SERIAL; name && *order < WEIR_SUM_ORDERS; (*order)++)
        if (strcmp(name, weir_sum_order_name(*order)) == 0)
            break;
    return *order < WEIR_SUM_ORDERS
               ? WEIR_OK
               : weir_fail_unknown("weir_comm_open: order", name, strlen(name),
                                   "serial, tree, engine");
}

static weir_status agree_of(const char *name, bool *may_differ)
{
    *may_differ = name && strcmp(name, "collectives") == 0;
    return !name || *may_differ || strcmp(name, "graphs") == 0
               ? WEIR_OK
               : weir_fail_unknown("weir_comm_open: agree", name, strlen(name),
                                   "graphs, collectives");
}

static weir_status mpi_of(const char *name, weir_wire_options *o)
{
    o->spec = "";
    if (!(o->ops = weir_plugin_mpi(name)))
        return weir_error_status();
    return o->ops->bytes == sizeof *o->ops
               ? WEIR_OK
               : weir_fail(WEIR_ERR_COMM, "weir_comm_open: the plugin for %s comes from another "
                           "build", name);
}

/* `what` is the origin of the spec, for the message. */
static weir_status transport_named(const char *what, const char *spec, weir_wire_options *o)
{
    if (strcmp(spec, "mpi:openmpi") == 0 || strcmp(spec, "mpi:mpich") == 0)
        return mpi_of(spec + 4, o);
    o->ops = &weir_comm_local;
    o->spec = spec + 6;
    return strncmp(spec, "local:", 6) == 0
               ? WEIR_OK
               : weir_fail_unknown(what, spec, strlen(spec),
                                   "auto, local:NAME,rank=R,world=W, mpi:openmpi, mpi:mpich, "
                                   "nccl:SPEC");
}

/* The transport of a spec; ops stays NULL in a world of one. WEIR_COMM comes before the variables
 * of other launchers, which weir launch inherits inside their jobs. `made` holds a spec that a
 * launcher's variables give. */
static weir_status transport_of(const char *spec, char made[WEIR_LAUNCHER_SPEC],
                                weir_wire_options *o)
{
    const char *const given = getenv("WEIR_COMM");

    if (strcmp(spec, "auto") != 0)
        return transport_named("weir_comm_open: spec", spec, o);
    if (given && *given && strcmp(given, "auto") != 0)
        return transport_named("weir_comm_open: WEIR_COMM", given, o);
    WEIR_TRY(weir_launcher_spec(made));
    return *made ? transport_named("weir_comm_open: the launcher", made, o) : WEIR_OK;
}

/* spec NULL: of a device that needs no transport. */
static weir_status read_options(const weir_comm_options *given, const char *spec,
                                char made[WEIR_LAUNCHER_SPEC], weir_wire_options *o)
{
    const weir_comm_options none = {0}, *const g = given ? given : &none;

    if (!(g->timeout_s >= 0 && g->timeout_s <= 1e6))
        return weir_fail(WEIR_ERR_INVALID, "weir_comm_open: the timeout is %g s, not 0 to 1e6",
                         g->timeout_s);
    o->timeout = g->timeout_s > 0 ? g->timeout_s : 60;
    WEIR_TRY(order_of(g->order, &o->order));
    return spec ? transport_of(spec, made, o) : WEIR_OK;
}

/* "nccl:SPEC" is SPEC, whose ranks move the memory of their cards by NCCL. */
static weir_status strip_nccl(weir_device *d, const char **spec, bool *nccl)
{
    *nccl = strncmp(*spec, "nccl:", 5) == 0;
    if (*nccl && !(d->ops->streams && d->ops->streams->comm))
        return weir_fail(WEIR_ERR_DEVICE, "weir_comm_open: '%s' joins cards, and device %s is none",
                         *spec, d->ops->name);
    *spec += *nccl ? 5 : 0;
    return WEIR_OK;
}

/* The communicator of the world that a simulated device is in: launchers do not matter. */
static weir_comm *open_simulated(const char *spec, weir_device *d, weir_sum_order order)
{
    if (strcmp(spec, "auto") == 0)
        return d->ops->join(d, order == WEIR_SUM_TREE);
    return WEIR_FAIL_NULL(WEIR_ERR_DEVICE, "weir_comm_open: '%s' joins ranks that compute, which "
                          "device %s does not: it has spec auto, and world=... in its name", spec,
                          d->ops->name);
}

weir_comm *weir_comm_open(const char *spec, weir_device *d, const weir_comm_options *options)
{
    weir_wire_options o = {.perform = weir_rounds_run};
    char              made[WEIR_LAUNCHER_SPEC];
    bool              may_differ, nccl;

    if (!spec || !d)
        return (void)weir_fail_null("weir_comm_open", spec ? "device" : "spec"), NULL;
    WEIR_VISIT(d, "weir_comm_open", NULL);
    if (agree_of(options ? options->agree : NULL, &may_differ) != WEIR_OK ||
        strip_nccl(d, &spec, &nccl) != WEIR_OK ||
        read_options(options, d->ops->join ? NULL : spec, made, &o) != WEIR_OK)
        return NULL;
    if (d->ops->join)
        return open_simulated(spec, d, o.order);
    joined *const j = weir_mem_zalloc(1, sizeof *j);
    if (!j || (o.ops && !(j->wire = weir_wire_new(&o)))) {
        weir_mem_free(j);
        return NULL;
    }
    const weir_comm_link *const l = j->wire ? weir_wire_link(j->wire) : NULL;
    j->comm = (weir_comm){.dev = weir_ref_take(d), .rank = l ? l->rank : 0,
                          .world = l ? l->world : 1, .order = o.order,
                          .graphs_may_differ = may_differ,
                          .transport = l ? l->ops->name : "alone", .constant_s = -1,
                          .per_byte_s = -1, .at = at, .run = run, .start = start,
                          .wait = wait_for_one, .settle = settle, .seconds = seconds,
                          .stats = stats_of, .own = own, .leave = leave,
                          .queue = nccl ? queue : NULL};
    if (!nccl || !l || weir_queued_open(&j->comm, j->wire, &j->stream) == WEIR_OK)
        return &j->comm;
    weir_failure failure;
    weir_failure_get(&failure);
    weir_comm_close(&j->comm);
    weir_failure_set(&failure);
    return NULL;
}

void weir_comm_leave(weir_comm *c)
{
    if (!c)
        return;
    weir_device *const d = c->dev;
    WEIR_VISIT(d, "weir_comm_leave", );
    c->leave(c);
    weir_device_leave(&visit);
}

void weir_comm_close(weir_comm *c)
{
    if (!c)
        return;
    weir_device *const d = c->dev;
    WEIR_VISIT(d, "weir_comm_close", );
    c->leave(c);
    weir_mem_free(c);
    weir_device_leave(&visit);
    weir_ref_drop(d);
}

int weir_comm_rank(const weir_comm *c)
{
    return c ? c->rank : 0;
}

int weir_comm_world(const weir_comm *c)
{
    return c ? c->world : 1;
}

const char *weir_comm_order(const weir_comm *c)
{
    return c ? weir_sum_order_name(c->order) : NULL;
}

char *weir_comm_text(const weir_comm *c)
{
    weir_string s = {0};

    if (!c)
        return (void)weir_fail_null("weir_comm_text", "communicator"), NULL;
    weir_string_add(&s, "%s: rank %d of %d, sums in order %s, %zu bytes of its own", c->transport,
                    c->rank, c->world, weir_comm_order(c), c->own(c));
    return weir_string_take(&s);
}

weir_status weir_comm_stats_of(const weir_comm *c, weir_comm_stats *stats)
{
    if (!c || !stats)
        return weir_fail_null("weir_comm_stats_of", c ? "stats" : "communicator");
    *stats = c->stats(c);
    return WEIR_OK;
}

/* ---- host data ---- */

weir_status weir_comm_gather(weir_comm *c, const void *mine, size_t bytes, void *all)
{
    if (!c || !mine || !all)
        return weir_fail_null("weir_comm_gather", !c ? "communicator" : mine ? "all" : "data");
    WEIR_VISIT(c->dev, "weir_comm_gather", weir_error_status());
    if (c->world > 1 && bytes > 0)
        return weir_comm_gather_for(c, WEIR_FOR_PROGRAM, mine, bytes, all);
    memcpy(all, mine, bytes);
    return WEIR_OK;
}

weir_status weir_comm_equal(weir_comm *c, const void *data, size_t bytes, bool *equal)
{
    if (!c || !data || !equal)
        return weir_fail_null("weir_comm_equal", !c ? "communicator" : data ? "equal" : "data");
    WEIR_VISIT(c->dev, "weir_comm_equal", weir_error_status());
    *equal = true;
    if (c->world == 1 || bytes == 0)
        return WEIR_OK;
    char *const all = weir_mem_alloc((size_t)c->world * bytes);
    if (!all)
        return WEIR_ERR_NOMEM;
    const weir_status status = weir_comm_gather_for(c, WEIR_FOR_PROGRAM, data, bytes, all);
    for (int r = 1; r < c->world && status == WEIR_OK; r++)
        *equal &= memcmp(all, all + (size_t)r * bytes, bytes) == 0;
    weir_mem_free(all);
    return status;
}
