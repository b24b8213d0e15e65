/* execute.c - runs a plan, instruction by instruction. */
#include "graph/runtime/execute.h"

#include "core/attr.h"
#include "core/status.h"
#include "device/call.h"
#include "device/collective.h"
#include "device/memory/arena.h"
#include "device/memory/guard.h"
#include "device/offload/spill_slots.h"
#include "graph/ir/format.h"
#include "graph/runtime/tracing.h"

/* The value of p->bound for an empty arena. */
static const char no_arena[] = "no arena";

/* Is input k of the instruction overwritten without being read? */
static bool is_write_only(const weir_instr *ins, int k)
{
    return ins->call.def->write_only >> k & 1;
}

/* The error for input k of the instruction, which would be read before it was ever written. */
static weir_status never_written(const weir_graph *g, const weir_instr *ins, int k)
{
    char              text[WEIR_DESC_TEXT];
    const char *const name = weir_storage_name(g, ins->in[k].storage);
    weir_string       of = {0};

    weir_format_node(&of, g, (uint32_t)(ins - g->plan->instr), NULL);
    const weir_status status =
        weir_fail(WEIR_ERR_STATE, "weir_graph_run: input %d of %s, %s %s%s%s%s, has never been "
                  "written", k, of.at ? of.at : ins->call.def->name,
                  weir_kind_name[g->storages.at[ins->in[k].storage].kind], *name ? "'" : "", name,
                  *name ? "' " : "", weir_desc_text(&ins->call.in[k].desc, text));
    weir_mem_free(of.at);
    return status;
}

/* Marks the storages that the instruction writes as filled. */
static void note_filled(weir_graph *g, const weir_instr *ins)
{
    for (int k = 0; k < ins->call.nout; k++)
        g->storages.at[ins->out[k].storage].filled = true;
    for (int k = 0; k < ins->call.nin; k++)
        if (is_write_only(ins, k))
            g->storages.at[ins->in[k].storage].filled = true;
}

/* Fails unless every external storage has a value when one of the first n instructions first reads
 * it: from the user, from another graph, or from an earlier instruction. */
static weir_status check_written(weir_graph *g, uint32_t n)
{
    for (uint32_t i = 0; i < g->storages.n; i++) {
        weir_storage *const s = &g->storages.at[i];
        s->filled = !s->external || s->bytes == 0 || s->block->written;
    }
    for (uint32_t i = 0; i < n; i++) {
        const weir_instr *ins = &g->plan->instr[i];
        for (int k = 0; k < ins->call.nin; k++)
            if (!g->storages.at[ins->in[k].storage].filled && !is_write_only(ins, k))
                return never_written(g, ins, k);
        note_filled(g, ins);
    }
    return WEIR_OK;
}

static void *pointer(const weir_graph *g, const weir_operand *o)
{
    char *base = o->external ? g->storages.at[o->storage].block->data : g->dev->arena.at;
    return base ? base + o->offset : NULL;
}

/* Marks the outputs that the first n instructions make as written, all if n is the plan's. */
static void note_written(const weir_graph *g, uint32_t n)
{
    for (uint32_t i = 0; i < g->storages.n && n == g->plan->n; i++)
        if (g->storages.at[i].external && g->storages.at[i].kind == WEIR_KIND_OUTPUT)
            g->storages.at[i].block->written = true;
    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < g->plan->instr[i].call.nout; k++) {
            const weir_storage *const s = &g->storages.at[g->plan->instr[i].out[k].storage];
            if (s->external)
                s->block->written = true;
        }
}

weir_status weir_plan_bind(weir_graph *g, weir_instr_range span)
{
    weir_plan   *p = g->plan;
    weir_device *d = g->dev;

    weir_plan_forget_replay(p);
    WEIR_TRY(check_written(g, span.to));
    WEIR_TRY(weir_device_arena(d, p->arena, g->budget > 0));
    if (d->tickets)                     /* another plan may have reserved different slots */
        WEIR_TRY(weir_device_spill(d, 0, 0));
    for (uint32_t i = 0; i < g->storages.n; i++)
        if (g->storages.at[i].external && !g->storages.at[i].offloaded)
            WEIR_TRY(weir_block_touch(g->storages.at[i].block));
    for (uint32_t i = 0; i < p->n; i++) {
        weir_instr *ins = &p->instr[i];
        void      **src = p->pointers + (ins->in - p->operands);
        for (int k = 0; k < ins->call.nin + ins->call.nout; k++)
            src[k] = pointer(g, &ins->in[k]);
        for (int k = 0; k < ins->call.nin; k++)
            if (is_write_only(ins, k) && ins->in[k].external)
                g->storages.at[ins->in[k].storage].block->written = true;
        ins->args.work = ins->kernel->work ? d->arena.at + ins->work : NULL;
    }
    note_written(g, span.to);
    p->checked = span.to;
    p->bound = d->arena.at ? d->arena.at : no_arena;
    p->moves = d->moves;
    return WEIR_OK;
}

bool weir_plan_is_bound(const weir_graph *g, weir_instr_range span)
{
    const weir_device *const d = g->dev;

    return g->plan->bound == (d->arena.at ? d->arena.at : no_arena) &&
           g->plan->moves == d->moves && g->plan->checked >= span.to;
}

/* Where a run's random numbers begin. CPU: `base` is added to each instruction's position. Devices
 * with streams: base is 0 and the true one is read from device memory, so that a recorded run can
 * be replayed with the same arguments. */
typedef struct draws {
    uint64_t           base;
    const uint64_t    *in_device;
    const weir_instr **at;          /* set to the instruction being run */
} draws;

/* Sets base and in_device of a run. A graph without random calls needs no upload. */
static weir_status draws_of(const weir_graph *g, uint64_t base, draws *r)
{
    const weir_device_streams *const q = g->dev->ops->streams;

    r->base = base;
    r->in_device = NULL;
    if (!q || g->rng_total == 0)
        return WEIR_OK;
    r->base = 0;
    return q->draws(g->dev, base, &r->in_device);
}

static weir_status run_one(weir_device *d, weir_instr *ins, const draws *r, weir_stream *stream)
{
    ins->args.seed = d->seed;
    ins->args.rng = r->base + ins->rng;
    ins->args.draw = r->in_device;
    ins->args.stream = stream;
    *r->at = ins;
    return weir_kernel_run(ins->kernel, &ins->args);
}

/* With `ran`, checks the guard zones of the operands and workspace of instruction i after its run;
 * else writes the zones of items whose live range begins with it. */
static weir_status look_at_instr(const weir_graph *g, uint32_t i, bool ran, weir_status so_far)
{
    const weir_plan *const  p = g->plan;
    const weir_instr *const ins = &p->instr[i];
    const int               n = ins->call.nin + ins->call.nout;
    const size_t            work = ins->kernel->work, capacity = weir_guard_work(g->dev, work);
    weir_watch w = {.dev = g->dev, .call = &ins->call, .place = i, .of = p->n, .ran = ran};

    for (int k = 0; k < n; k++) {
        const weir_storage *const s = &g->storages.at[ins->in[k].storage];
        if (ins->in[k].external) {
            WEIR_TRY(weir_guard_look_block(&w, k, s->block));
            continue;
        }
        const weir_item *const it = &p->items.at[p->item_of[ins->in[k].storage]];
        char *const            at = g->dev->arena.at + it->offset + g->dev->guard;
        WEIR_TRY(!ran && it->first == i ? weir_guard_fill(g->dev, at, s->bytes, s->bytes)
                                        : weir_guard_look(&w, k, at, s->bytes, s->bytes));
    }
    if (work)
        WEIR_TRY(ran ? weir_guard_look(&w, n, ins->args.work, work, capacity)
                     : weir_guard_fill(g->dev, ins->args.work, work, capacity));
    return weir_guard_verdict(&w, so_far);
}

/* Runs with instrumentation on a single stream: time per instruction, trace, guard zones. */
static weir_status run_each(weir_graph *g, weir_instr_range span, const draws *r, bool profile,
                            weir_tracing *t)
{
    weir_plan *p = g->plan;

    for (uint32_t i = span.from; i < span.to; i++) {
        weir_instr *ins = &p->instr[i];
        if (g->dev->guard)
            WEIR_TRY(look_at_instr(g, i, false, WEIR_OK));
        const double begin = weir_device_clock(g->dev);
        weir_status  status = run_one(g->dev, ins, r, NULL);
        if (profile)
            ins->seconds += weir_device_clock(g->dev) - begin;
        if (status == WEIR_OK && g->dev->ops->streams && !g->dev->checks)
            status = g->dev->ops->streams->check(&ins->args);
        if (g->dev->guard)
            status = look_at_instr(g, i, true, status);
        WEIR_TRY(status);
        weir_tracing_instr(t, i, begin);
    }
    p->profiled += profile && span.to == p->n;
    return WEIR_OK;
}

static weir_status run_watched(weir_graph *g, weir_instr_range span, const draws *r, bool profile)
{
    weir_tracing t;

    weir_tracing_begin(&t, g);
    const weir_status status = run_each(g, span, r, profile, &t);
    weir_tracing_end(&t);
    return status;
}

static weir_status run_plain(weir_device *d, const weir_plan *p, weir_instr_range span,
                             const draws *r)
{
    for (uint32_t i = span.from; i < span.to; i++)
        WEIR_TRY(run_one(d, &p->instr[i], r, NULL));
    return WEIR_OK;
}

/* Runs on several streams, ordered by events. All begin after event 0 of stream 0, which awaits
 * them at the end. */
static weir_status run_streams(weir_device *d, const weir_plan *p, const draws *r)
{
    const weir_device_streams *const q = d->ops->streams;
    weir_stream *const              first = q->stream(d, 0);

    WEIR_TRY(q->events(d, p->events));
    WEIR_TRY(q->signal(d, first, 0));
    for (uint32_t i = 0; i < p->n; i++) {
        weir_instr        *ins = &p->instr[i];
        weir_stream *const s = q->stream(d, ins->stream);
        for (uint32_t k = 0; k < ins->waits; k++)
            WEIR_TRY(q->await(d, s, p->wait[ins->first_wait + k]));
        WEIR_TRY(run_one(d, ins, r, s));
        if (ins->signals != WEIR_NONE)
            WEIR_TRY(q->signal(d, s, ins->signals));
    }
    for (uint32_t k = p->ends; k < p->nwait; k++)
        WEIR_TRY(q->await(d, first, p->wait[k]));
    return WEIR_OK;
}

/* Runs a span of the list; a plan on several streams has no halves. Also after a failure, no
 * transfer that uses the arena is still under way. */
static weir_status run_list(weir_device *d, const weir_plan *p, weir_instr_range span,
                            const draws *r)
{
    const weir_status status = p->events ? run_streams(d, p, r) : run_plain(d, p, span, r);
    return d->tickets ? d->ops->swap_settle(d, status) : status;
}

/* May the launches be recorded and replayed? Not if a function of the caller is among them, nor in
 * two halves. */
static bool replays(const weir_plan *p)
{
    if (p->halves)
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->instr[i].call.def->flags & WEIR_CALLER)
            return false;
    return p->n > 0;
}

/* Notes in plan and device why runs of the plan are launched one by one from now on. */
static void note_unrecordable(weir_device *d, weir_plan *p)
{
    p->unrecordable = true;
    p->unrecorded = weir_mem_strdup(weir_error());
    d->unrecorded.plans++;
    weir_mem_free(d->unrecorded.why);
    d->unrecorded.why = weir_mem_strdup(weir_error());
}

/* Records a run. A failed recording has run nothing, so it costs the plan its replays and no more:
 * a fault of the card is met again by the launches one by one. */
static void record_run(weir_device *d, weir_plan *p, const draws *r)
{
    const weir_device_streams *const q = d->ops->streams;
    weir_failure                     before;

    weir_failure_get(&before);
    weir_status status = q->record(d);
    if (status == WEIR_OK)
        status = q->recorded(d, run_list(d, p, weir_plan_whole(p), r), &p->replay);
    if (status == WEIR_OK)
        return;
    q->drain(d);
    note_unrecordable(d, p);
    weir_failure_set(&before);
}

/* The first run launches kernels one by one, which loads them; the second is recorded, and it and
 * all later ones replay the recording. If it cannot be recorded, all are launched one by one. */
static weir_status run_async(weir_device *d, weir_plan *p, weir_instr_range span, const draws *r)
{
    const weir_device_streams *const q = d->ops->streams;
    bool                             may = false;

    if (!p->replay && p->ran && !p->unrecordable && replays(p))
        WEIR_TRY(q->may_record(d, &may));
    if (may)
        record_run(d, p, r);
    if (p->replay)
        return q->replay(d, p->replay);
    const weir_status status = run_list(d, p, span, r);
    p->ran = status == WEIR_OK;
    if (!p->ran)
        q->drain(d);
    return status;
}

/* Waits for what the communicator of a collective has under way. */
static weir_status settle_one(const weir_instr *ins, weir_status so_far)
{
    weir_comm *const c =
        (weir_comm *)(uintptr_t)((const weir_collective_attr *)ins->call.attr)->comm;

    return c->settle(c, so_far);
}

/* After a failure: no collective that uses the arena is still under way. */
static weir_status settle_collectives(const weir_plan *p, weir_status status)
{
    for (uint32_t i = 0; i < p->n && status != WEIR_OK; i++)
        if (p->instr[i].call.op == WEIR_OP_ALL_REDUCE_START)
            status = settle_one(&p->instr[i], status);
    return status;
}

/* Completes the error of an index out of range with how far the run got. */
static weir_status stopped(const weir_plan *p, const weir_instr *at)
{
    uint32_t all = 0, done = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        const bool writes = p->instr[i].call.def->mutates != 0;
        all += writes;
        done += writes && &p->instr[i] < at;
    }
    return weir_fail(WEIR_ERR_INDEX, "%s; the run ended there, with %u of %u updates done",
                     weir_error(), done, all);
}

/* Runs the span in the way that device and options ask for. profile: adds up seconds. */
static weir_status run_either_way(weir_graph *g, weir_instr_range span, const draws *r,
                                  bool profile)
{
    weir_device *const d = g->dev;

    if (profile || d->trace || d->guard) {
        const weir_status status = run_watched(g, span, r, profile);
        return d->tickets ? d->ops->swap_settle(d, status) : status;
    }
    return d->ops->streams ? run_async(d, g->plan, span, r) : run_list(d, g->plan, span, r);
}

weir_status weir_plan_run(weir_graph *g, weir_instr_range span, uint64_t rng, bool profile)
{
    const weir_instr *at = NULL;
    draws             r = {.at = &at};
    weir_status       status = draws_of(g, rng, &r);

    if (status == WEIR_OK)
        status = settle_collectives(g->plan, run_either_way(g, span, &r, profile));
    return status == WEIR_ERR_INDEX && at ? stopped(g->plan, at) : status;
}

weir_status weir_plan_watch(weir_graph *g, void (*seen)(void *ctx, uint32_t instr), void *ctx)
{
    weir_device *const d = g->dev;
    const weir_instr  *at = NULL;
    draws              r = {.at = &at};
    weir_status        status = draws_of(g, weir_device_draw(d, g->rng_total), &r);

    for (uint32_t i = 0; i < g->plan->n && status == WEIR_OK; i++) {
        status = run_one(d, &g->plan->instr[i], &r, NULL);
        if (status == WEIR_OK && g->plan->instr[i].call.op == WEIR_OP_ALL_REDUCE_START)
            status = settle_one(&g->plan->instr[i], status);
        if (status == WEIR_OK)
            status = d->ops->sync(d);
        if (status == WEIR_OK)
            seen(ctx, i);
    }
    return d->tickets ? d->ops->swap_settle(d, status) : status;
}
