/* device.c - queries about an open device: random stream, memory, clock, threads, trace. */
#include "device/device.h"

#include "core/mem.h"
#include "core/status.h"
#include "core/tensor.h"
#include "device/memory/reserve.h"

weir_status weir_device_fail_forked(const char *who)
{
    return weir_fail(WEIR_ERR_STATE, "%s: this process was forked after Weir had opened a "
                     "device, whose worker threads exist in the parent alone: fork before that, or "
                     "start processes with exec (Python: 'spawn')", who);
}

weir_status weir_device_check(const weir_device *d, const char *who)
{
    if (!d)
        return weir_fail_null(who, "the device");
    if (weir_threads_lost())
        return weir_device_fail_forked(who);
    if (d->closed)
        return weir_fail(WEIR_ERR_DEVICE, "%s: the device is closed", who);
    return WEIR_OK;
}

weir_status weir_device_fail_busy(const char *who)
{
    return weir_fail(WEIR_ERR_STATE, "%s: another thread is inside a call on this device, which "
                     "one thread at a time may use", who);
}

weir_tensor *weir_retain(weir_tensor *t)
{
    weir_visit visit __attribute__((cleanup(weir_device_leave))) = {NULL};

    if (t && t->dev && !t->dev->closed && !weir_threads_lost() &&
        weir_device_enter(&visit, t->dev, "weir_retain") != WEIR_OK)
        return NULL;
    return weir_ref_take(t);
}

/* Without the device the handle is leaked: its memory is in use by another thread. */
void weir_release(weir_tensor *t)
{
    if (!t || weir_threads_lost())
        return;
    if (!t->dev || t->dev->closed) {    /* the device may end with the handle */
        weir_ref_drop(t);
        return;
    }
    WEIR_VISIT(t->dev, "weir_release", );
    weir_ref_drop(t);
}

uint64_t weir_device_draw(weir_device *d, uint64_t blocks)
{
    const uint64_t first = d->rng;
    d->rng += blocks;
    return first;
}

weir_status weir_device_seed(weir_device *d, uint64_t seed)
{
    WEIR_VISIT(d, "weir_device_seed", weir_error_status());
    d->seed = seed;
    d->rng = 0;
    return WEIR_OK;
}

weir_random weir_device_random(const weir_device *d)
{
    return d && !d->closed ? (weir_random){d->seed, d->rng} : (weir_random){0};
}

weir_status weir_device_set_random(weir_device *d, weir_random random)
{
    WEIR_VISIT(d, "weir_device_set_random", weir_error_status());
    d->seed = random.seed;
    d->rng = random.position;
    return WEIR_OK;
}

/* Bytes of the budget "auto": what the device holds and what is free, less a reserve for the rest
 * of the process (1/16 of the total, at least 64 MiB; none on a device without memory). That is
 * never less than weir_reserve_of. */
static size_t auto_budget(const weir_device *d, const weir_memory_limits *space)
{
    const size_t least = (size_t)64 << 20, share = space->total / WEIR_RESERVE_SHARE;
    const size_t reserve = d->ops->unreal ? 0 : share > least ? share : least;
    size_t available = space->unused + d->pool.held + d->arena.bytes;

    for (const weir_held_arena *h = d->held; h; h = h->next)
        available += h->arena.bytes;
    return available > reserve ? available - reserve : 0;
}

void weir_device_memory(const weir_device *d, weir_memory *m)
{
    *m = (weir_memory){.core_allocations = weir_mem_calls()};
    if (!d)
        return;
    m->persistent = d->pool.persistent;
    m->live = d->pool.live;
    m->live_peak = d->pool.live_peak;
    m->pool = d->pool.held;
    m->arena = d->arena.used + weir_device_arenas_held(d, NULL);
    m->evicted = d->evicted;
    m->recomputed = d->recomputed;
    const weir_memory_limits space = d->ops->space(d);
    m->total = space.total;
    m->unused = space.unused;
    m->grouped = space.grouped;
    m->auto_budget = auto_budget(d, &space);
    m->reserved = weir_reserve_of(d->ops->reserve, &space);
}

void weir_device_reset_peak(weir_device *d)
{
    if (d)
        d->pool.live_peak = d->pool.live;
}

weir_status weir_device_sync(weir_device *d)
{
    WEIR_VISIT(d, "weir_device_sync", weir_error_status());
    return d->ops->sync(d);
}

double weir_device_clock(const weir_device *d)
{
    return d && !d->closed ? d->ops->clock(d) : 0;
}

int weir_device_threads(const weir_device *d)
{
    return d ? weir_threads_count(d->threads) : 0;
}

char *weir_info_text(weir_device *d)
{
    weir_string s = {0};
    weir_memory m;

    if (weir_device_check(d, "weir_info_text") != WEIR_OK)
        return NULL;
    weir_device_memory(d, &m);
    weir_string_add(&s, "weir %s\n", weir_version());
    weir_string_add(&s, "device %s, %d threads (%s), memory %.1f GB, free %.1f GB%s, budget "
                    "\"auto\" %.1f GB\n", d->ops->name, weir_threads_count(d->threads),
                    weir_threads_backend(), (double)m.total / 1e9, (double)m.unused / 1e9,
                    m.grouped ? " (limited by a cgroup)" : "", (double)m.auto_budget / 1e9);
    if (m.reserved > 0)
        weir_string_add(&s, "%.2f GB stay free, where no budget is named, for what the device's "
                        "libraries load later\n", (double)m.reserved / 1e9);
    if (d->guard > 0)
        weir_string_add(&s, "guard zones of %zu bytes around every operand and workspace, checked "
                        "at each call (WEIR_GUARD)\n", d->guard);
    if (d->unrecorded.plans > 0)
        weir_string_add(&s, "%u plans are launched one by one, because recording them failed; the "
                        "last: %s\n", d->unrecorded.plans,
                        d->unrecorded.why ? d->unrecorded.why : "no memory for the sentence");
    d->ops->info(d, &s);
    if (d->table_info)
        d->table_info(d, &s);
    weir_spill_info(&s, d->spill_dir);
    return weir_string_take(&s);
}

weir_status weir_device_trace_start(weir_device *d)
{
    WEIR_VISIT(d, "weir_device_trace_start", weir_error_status());
    if (d->trace)
        return weir_fail(WEIR_ERR_STATE, "weir_device_trace_start: a trace has already been "
                                         "started");
    d->trace = weir_trace_new(d->ops->clock(d));
    return d->trace ? WEIR_OK : WEIR_ERR_NOMEM;
}

char *weir_device_trace_stop(weir_device *d)
{
    WEIR_VISIT(d, "weir_device_trace_stop", NULL);
    if (!d->trace)
        return WEIR_FAIL_NULL(WEIR_ERR_STATE, "weir_device_trace_stop: no trace has been started");
    char *text = weir_trace_json(d->trace);
    weir_trace_free(d->trace);
    d->trace = NULL;
    return text;
}
