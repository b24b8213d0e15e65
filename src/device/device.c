/* device.c - devices: opened by name, closed, asked; the arena, the random stream, the trace.
 *
 * A device is counted: its handle holds one reference, each block and tensor on it another. Closing
 * frees everything that belongs to the device alone and drops the handle's; the structure, the back
 * end and the workers stay until the last block or tensor that somebody retained has gone. */
#include "device/device.h"

#include <string.h>

#include "core/mem.h"
#include "core/status.h"
#include "core/text.h"
#include "device/memory/guard.h"
#include "device/plugin.h"
#include "device/common/staging.h"

#define ARENA_UNIT  ((size_t)2 << 20)   /* the arena is a multiple of this: huge pages */
#define MAX_THREADS 1024

static const weir_device_ops *const back_ends[] = {&weir_device_cpu, &weir_device_sim};

/* "sim:v100" is sim; *spec is "v100", NULL without a colon. What is not built in may be a
 * plugin. */
static const weir_device_ops *back_end_named(const char *name, const char **spec)
{
    const size_t n = strcspn(name, ":");

    *spec = name[n] ? name + n + 1 : NULL;
    for (size_t i = 0; i < sizeof back_ends / sizeof *back_ends; i++)
        if (strlen(back_ends[i]->name) == n && strncmp(back_ends[i]->name, name, n) == 0)
            return back_ends[i];
    return weir_plugin_find(name, n);
}

static void device_destroy(weir_ref *self)
{
    weir_device *d = (weir_device *)self;
    d->ops->close(d);
    weir_threads_free(d->threads);
    weir_mem_free(d->spill_dir);
    weir_vec_free(&d->spill_slots);
    weir_mem_free(d);
}

static weir_device *device_new(const weir_device_ops *ops, const char *spec, int threads,
                               uint64_t seed, size_t guard, const char *spill_dir)
{
    weir_device *d = weir_mem_zalloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->ref = (weir_ref){1, device_destroy};
    d->ops = ops;
    d->opened = weir_now();
    d->seed = seed;
    d->pool.limit = SIZE_MAX;
    d->guard = guard;
    d->threads = weir_threads_new(threads);
    d->spill_dir = spill_dir ? weir_mem_strdup(spill_dir) : NULL;
    if (!d->threads || (spill_dir && !d->spill_dir) || ops->open(d, spec) != WEIR_OK) {
        weir_threads_free(d->threads);
        weir_mem_free(d->spill_dir);
        weir_mem_free(d);
        return NULL;
    }
    return d;
}

weir_device *weir_device_open(const char *name, const weir_device_options *options)
{
    const weir_device_options o = options ? *options : (weir_device_options){0};
    if (!name)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_device_open: name is NULL");
    const char            *spec;
    const weir_device_ops *ops = back_end_named(name, &spec);
    if (!ops)
        return NULL;
    if (o.threads < 0 || o.threads > MAX_THREADS)
        return WEIR_FAIL_NULL(WEIR_ERR_INVALID, "weir_device_open: %d threads, not 0 to %d",
                              o.threads, MAX_THREADS);
    size_t guard;
    if (weir_guard_zone(ops, o.guard, &guard) != WEIR_OK)
        return NULL;
    return device_new(ops, spec, o.threads > 0 ? o.threads : weir_threads_default(),
                      o.seed > 0 ? o.seed : 1, guard, o.spill_dir);
}

static void arena_free(weir_device *d)
{
    if (d->arena.at)
        d->ops->free(d, d->arena.at, d->arena.bytes);
    d->arena.at = NULL;
    d->arena.bytes = d->arena.used = 0;
}

int weir_device_count(const char *name)
{
    const char *spec;
    int         n = 0;

    if (!name) {
        weir_fail(WEIR_ERR_INVALID, "weir_device_count: name is NULL");
        return -1;
    }
    const weir_device_ops *const ops = back_end_named(name, &spec);
    return ops && ops->count(&n) == WEIR_OK ? n : -1;
}

void weir_device_close(weir_device *d)
{
    if (!d || d->closed)
        return;
    d->closed = true;
    if (d->session_free)
        d->session_free(d->session);
    d->session = NULL;
    d->session_free = NULL;
    (void)d->ops->sync(d);              /* copies that go on use the file */
    weir_spill_free(d->spill);
    d->spill = NULL;
    weir_kernel_cache_free(&d->kernels);
    weir_pool_trim(d);
    arena_free(d);
    weir_staging_free(d);
    weir_trace_free(d->trace);
    d->trace = NULL;
    weir_ref_drop(d);
}

weir_status weir_device_check(const weir_device *d, const char *who)
{
    if (!d)
        return weir_fail_null(who, "the device");
    if (d->closed)
        return weir_fail(WEIR_ERR_DEVICE, "%s: the device is closed", who);
    return WEIR_OK;
}

/* In whole units if there is room for them, else in exactly what is needed; free blocks that the
 * pool holds are given back before that. */
static weir_status arena_take(weir_device *d, size_t bytes, size_t *capacity, void **at)
{
    if (!weir_size_align(bytes, ARENA_UNIT, capacity))
        return WEIR_ERR_NOMEM;
    if (d->ops->alloc(d, *capacity, true, at) == WEIR_OK)
        return WEIR_OK;
    weir_pool_trim(d);
    if (d->ops->alloc(d, *capacity, true, at) == WEIR_OK)
        return WEIR_OK;
    *capacity = bytes;
    return d->ops->alloc(d, bytes, true, at);
}

/* Old memory goes first: a large arena would not fit beside its successor. */
weir_status weir_device_arena(weir_device *d, size_t bytes)
{
    size_t capacity = 0, unused, total;
    void  *at;
    if (bytes > d->arena.bytes) {
        arena_free(d);
        d->ops->space(d, &unused, &total);
        if (arena_take(d, bytes, &capacity, &at) != WEIR_OK)
            return weir_fail(WEIR_ERR_NOMEM,
                             "device %s: no memory for an arena of %zu bytes; the system has %zu, "
                             "of which %zu are unused",
                             d->ops->name, bytes, total, unused);
        d->arena.at = at;
        d->arena.bytes = capacity;
        WEIR_TRY(d->ops->fill(d, at, 0, capacity));
    }
    if (bytes > d->arena.used)
        d->arena.used = bytes;
    return WEIR_OK;
}

weir_status weir_device_spill(weir_device *d, size_t bytes, uint32_t tickets)
{
    const uint32_t most = tickets > d->tickets ? tickets : d->tickets;
    size_t         all;

    if (!weir_size_add(d->spill_slots_end, bytes > d->passing ? bytes : d->passing, &all))
        all = SIZE_MAX;
    WEIR_TRY(d->ops->swap_reserve(d, all, most));
    d->passing = bytes > d->passing ? bytes : d->passing;
    d->tickets = most;
    return WEIR_OK;
}

weir_status weir_device_spill_slot(weir_device *d, size_t bytes, size_t *at)
{
    weir_spill_slot h = {.at = d->spill_slots_end, .taken = true};

    for (uint32_t i = 0; i < d->spill_slots.n; i++) {
        weir_spill_slot *const old = &d->spill_slots.at[i];
        if (!old->taken && old->bytes >= bytes) {
            old->taken = true;
            *at = old->at;
            return WEIR_OK;
        }
    }
    size_t end;
    if (!weir_size_align(bytes, WEIR_SPILL_ALIGN, &h.bytes) ||
        !weir_size_add(h.at, h.bytes, &end) || !weir_vec_push(&d->spill_slots, h))
        return WEIR_ERR_NOMEM;
    d->spill_slots_end = end;
    d->moves++;
    *at = h.at;
    return WEIR_OK;
}

void weir_device_spill_slot_free(weir_device *d, size_t at)
{
    for (uint32_t i = 0; i < d->spill_slots.n; i++)
        if (d->spill_slots.at[i].at == at)
            d->spill_slots.at[i].taken = false;
}

weir_status weir_device_spill_speed(weir_device *d, double *out, double *in)
{
    if (!(d->spill_out > 0))
        WEIR_TRY(d->ops->swap_speed(d, &d->spill_out, &d->spill_in));
    *out = d->spill_out;
    *in = d->spill_in;
    return WEIR_OK;
}

uint64_t weir_device_draw(weir_device *d, uint64_t blocks)
{
    const uint64_t first = d->rng;
    d->rng += blocks;
    return first;
}

weir_status weir_device_seed(weir_device *d, uint64_t seed)
{
    WEIR_TRY(weir_device_check(d, "weir_device_seed"));
    d->seed = seed;
    d->rng = 0;
    return WEIR_OK;
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
    m->arena = d->arena.used;
    m->evicted = d->evicted;
    m->recomputed = d->recomputed;
    d->ops->space(d, &m->unused, &m->total);
}

void weir_device_reset_peak(weir_device *d)
{
    if (d)
        d->pool.live_peak = d->pool.live;
}

weir_status weir_device_sync(weir_device *d)
{
    WEIR_TRY(weir_device_check(d, "weir_device_sync"));
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
    size_t      unused, total;
    if (weir_device_check(d, "weir_info_text") != WEIR_OK)
        return NULL;
    d->ops->space(d, &unused, &total);
    weir_string_add(&s, "weir %s\n", weir_version());
    weir_string_add(&s, "device %s, %d threads (%s), memory %.1f GiB\n", d->ops->name,
                    weir_threads_count(d->threads), weir_threads_backend(),
                    (double)total * 0x1p-30);
    if (d->guard > 0)
        weir_string_add(&s, "guard zones of %zu bytes round every operand and workspace, looked at "
                        "with each call (WEIR_GUARD)\n", d->guard);
    d->ops->info(d, &s);
    weir_spill_info(&s, d->spill_dir);
    return weir_string_take(&s);
}

weir_status weir_device_trace_start(weir_device *d)
{
    WEIR_TRY(weir_device_check(d, "weir_device_trace_start"));
    if (d->trace)
        return weir_fail(WEIR_ERR_STATE, "weir_device_trace_start: a trace is being taken already");
    d->trace = weir_trace_new(d->ops->clock(d));
    return d->trace ? WEIR_OK : WEIR_ERR_NOMEM;
}

char *weir_device_trace_stop(weir_device *d)
{
    if (weir_device_check(d, "weir_device_trace_stop") != WEIR_OK)
        return NULL;
    if (!d->trace)
        return WEIR_FAIL_NULL(WEIR_ERR_STATE, "weir_device_trace_stop: no trace was started");
    char *text = weir_trace_json(d->trace);
    weir_trace_free(d->trace);
    d->trace = NULL;
    return text;
}
