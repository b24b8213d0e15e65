/* open.c - opens devices by name and closes them.
 *
 * A device is reference counted: its handle holds one reference, each of its blocks and tensors
 * another. Closing frees everything but those and drops the handle's reference; the structure, the
 * back end and the worker threads stay until the last retained block or tensor is released. */
#include <string.h>

#include "core/env.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/common/staging.h"
#include "device/kernel.h"
#include "device/kernel_table.h"
#include "device/memory/arena.h"
#include "device/memory/guard.h"
#include "device/memory/pool.h"
#include "device/plugin.h"
#include "device/resources.h"

#define MAX_THREADS 1024

#define BACK_END(id) extern const weir_device_ops weir_device_##id;
#include "device/back_ends.def"
#undef BACK_END

static const weir_device_ops *const back_ends[] = {
#define BACK_END(id) &weir_device_##id,
#include "device/back_ends.def"
#undef BACK_END
};

/* Returns the back end: "sim:v100" selects sim, with *spec "v100" (NULL without a colon). A name
 * that is not built in may be a plugin. */
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
    weir_mem_free(d->unrecorded.why);
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
    if (weir_threads_lost())
        return (void)weir_device_fail_forked("weir_device_open"), NULL;
    if (weir_env_check() != WEIR_OK)
        return NULL;
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
    weir_device *d = device_new(ops, spec, o.threads > 0 ? o.threads : weir_threads_default(),
                                o.seed > 0 ? o.seed : 1, guard, o.spill_dir);
    if (d && weir_kernel_table_open(d) != WEIR_OK) {
        weir_device_close(d);
        return NULL;
    }
    return d;
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
    if (!d || d->closed || weir_threads_lost())
        return;                         /* the threads and copies of a forked process are gone */
    WEIR_VISIT(d, "weir_device_close", );
    d->closed = true;
    if (d->session_free)
        d->session_free(d->session);
    d->session = NULL;
    d->session_free = NULL;
    (void)d->ops->sync(d);              /* running copies use the file */
    weir_spill_free(d->spill);
    d->spill = NULL;
    weir_kernel_cache_free(&d->kernels);
    weir_kernel_table_free(d);
    weir_pool_trim(d);
    weir_device_arena_free(d);
    for (const weir_held_arena *h = d->held; h; h = h->next)
        d->ops->free(d, h->arena.at, h->arena.bytes);
    d->held = NULL;
    weir_staging_free(d);
    weir_trace_free(d->trace);
    d->trace = NULL;
    weir_device_leave(&visit);
    weir_ref_drop(d);
}
