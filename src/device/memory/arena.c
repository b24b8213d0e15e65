/* arena.c - a device's arena: allocated in whole units, grown, kept by a graph, or freed as a
 * whole. */
#include "device/memory/arena.h"

#include "core/status.h"
#include "device/memory/pool.h"
#include "device/memory/reserve.h"

#define ARENA_UNIT ((size_t)2 << 20)    /* the arena is a multiple of this: huge pages */

void weir_device_arena_free(weir_device *d)
{
    if (d->arena.at)
        d->ops->free(d, d->arena.at, d->arena.bytes);
    d->arena.at = NULL;
    d->arena.bytes = d->arena.used = 0;
}

/* Allocates whole units if they fit, else exactly what is needed; before it fails, it returns the
 * pool's free blocks to the system. */
static weir_status arena_take(weir_device *d, size_t bytes, bool budgeted, size_t *capacity,
                              void **at)
{
    if (!weir_size_align(bytes, ARENA_UNIT, capacity))
        return WEIR_ERR_NOMEM;
    if (weir_pool_alloc(d, *capacity, true, budgeted, at) == WEIR_OK)
        return WEIR_OK;
    weir_pool_trim(d);
    if (weir_pool_alloc(d, *capacity, true, budgeted, at) == WEIR_OK)
        return WEIR_OK;
    *capacity = bytes;
    return weir_pool_alloc(d, bytes, true, budgeted, at);
}

static weir_status no_memory(const weir_device *d, size_t bytes, bool budgeted)
{
    const weir_memory_limits space = d->ops->space(d);
    const size_t             kept = budgeted ? 0 : weir_reserve_of(d->ops->reserve, &space);

    if (kept > 0)
        return weir_fail(WEIR_ERR_NOMEM, "device %s: no memory for an arena of %zu bytes; the "
                         "system has %zu, of which %zu are unused; %zu of them are kept for what "
                         "the device's libraries load later, unless a budget is named",
                         d->ops->name, bytes, space.total, space.unused, kept);
    return weir_fail(WEIR_ERR_NOMEM, "device %s: no memory for an arena of %zu bytes; the system "
                     "has %zu, of which %zu are unused", d->ops->name, bytes, space.total,
                     space.unused);
}

/* The old arena is freed first, because a large one would not fit beside its successor. */
weir_status weir_device_arena(weir_device *d, size_t bytes, bool budgeted)
{
    size_t capacity = 0;
    void  *at;
    d->arena.budgeted |= budgeted;
    if (bytes > d->arena.bytes) {
        weir_device_arena_free(d);
        const weir_status taken = arena_take(d, bytes, budgeted, &capacity, &at);
        if (taken != WEIR_OK)
            return taken == WEIR_ERR_NOMEM ? no_memory(d, bytes, budgeted) : taken;
        d->arena.at = at;
        d->arena.bytes = capacity;
        const weir_status filled = d->ops->fill(d, at, 0, capacity);
        if (filled != WEIR_OK) {
            weir_device_arena_free(d);
            return filled;
        }
    }
    if (bytes > d->arena.used)
        d->arena.used = bytes;
    return WEIR_OK;
}

/* ---- arenas that graphs keep ---- */

void weir_device_arena_hold(weir_device *d, weir_held_arena *h)
{
    h->arena = d->arena;
    h->next = d->held;
    d->held = h;
    d->arena = (weir_arena){.budgeted = d->arena.budgeted};
}

void weir_device_arena_give_back(weir_device *d, weir_held_arena *h, weir_arena *aside)
{
    weir_held_arena **p = &d->held;

    while (*p != h)
        p = &(*p)->next;
    *p = h->next;
    *aside = d->arena;
    d->arena = h->arena;
    d->arena.budgeted |= aside->budgeted;
    *h = (weir_held_arena){.next = NULL};
}

/* Plans are bound again if one is freed: another may be allocated at its address. */
void weir_device_arena_merge(weir_device *d, weir_arena *aside)
{
    weir_arena keep = d->arena, drop = *aside;

    if (drop.bytes > keep.bytes) {
        keep = *aside;
        drop = d->arena;
    }
    keep.budgeted |= drop.budgeted;
    if (drop.at) {
        d->ops->free(d, drop.at, drop.bytes);
        d->moves++;
    }
    d->arena = keep;
    *aside = (weir_arena){.at = NULL};
}
