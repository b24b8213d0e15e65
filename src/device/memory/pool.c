/* pool.c - size classes and free lists of device memory.
 *
 * Invariants: a free block of class c has exactly class_bytes(c) bytes; held = live + the bytes of
 * all free blocks (+ one unit per persistent block of 0 bytes); there is one spare list node per
 * block from weir_pool_take. Guard zones are counted, but callers get the memory between them. */
#include "device/memory/pool.h"

#include "core/mem.h"
#include "core/status.h"
#include "device/memory/guard.h"
#include "device/memory/reserve.h"

#define STEPS      32 /* classes per power of two; below 32 units every multiple */
#define REUSE      16                   /* a request accepts a free block up to 1/16 larger */
#define BESIDE      4   /* 1/BESIDE of the limit may be held beyond it */
#define SMALL_SHARE 256 /* blocks up to 1/SMALL_SHARE of the heap are small */
#define HUGE_FROM  ((size_t)4 << 20)    /* bytes from which huge pages are requested */

/* Class of a multiple of `unit`: the number of units up to STEPS, then STEPS classes per power of
 * two. */
static size_t class_of(size_t bytes, size_t unit)
{
    const size_t units = bytes / unit;
    if (units <= STEPS)
        return units - 1;
    /* STEPS * 2^k < units <= STEPS * 2^(k + 1) */
    const size_t k = 63 - (size_t)__builtin_clzll((units - 1) / STEPS);
    return STEPS + k * STEPS + (((units - 1) >> k) - STEPS);
}

static size_t class_bytes(size_t class, size_t unit)
{
    if (class < STEPS)
        return (class + 1) * unit;
    const size_t k = (class - STEPS) / STEPS;
    return (((class - STEPS) % STEPS + STEPS + 1) << k) * unit;
}

static void count_live(weir_pool *pool, size_t bytes)
{
    pool->live += bytes;
    if (pool->live > pool->live_peak)
        pool->live_peak = pool->live;
}

/* Makes `bytes` more fit under the limit, or fails. */
static weir_status reclaim(weir_device *d, size_t bytes)
{
    const weir_pool *pool = &d->pool;
    return bytes <= pool->limit && pool->live <= pool->limit - bytes
               ? WEIR_OK : pool->reclaim(d, bytes);
}

weir_status weir_pool_alloc(weir_device *d, size_t bytes, bool huge, bool budgeted, void **p)
{
    if (!budgeted && d->ops->reserve > 0) {
        const weir_memory_limits space = d->ops->space(d);
        const size_t             kept = weir_reserve_of(d->ops->reserve, &space);
        if (bytes <= space.unused && space.unused - bytes < kept)
            return weir_fail(WEIR_ERR_NOMEM, "device %s: %zu bytes wanted, but of the %zu that are "
                             "unused %zu are kept for what the device's libraries load later; a "
                             "budget, such as \"auto\", says how many bytes to use", d->ops->name,
                             bytes, space.unused, kept);
    }
    return d->ops->alloc(d, bytes, huge, p);
}

/* Allocates from the system; if that fails, returns the free blocks to it and tries again. */
static weir_status system_take(weir_device *d, size_t bytes, void **p)
{
    const bool huge = bytes >= HUGE_FROM, budgeted = d->pool.limit < SIZE_MAX || d->arena.budgeted;
    if (weir_pool_alloc(d, bytes, huge, budgeted, p) != WEIR_OK) {
        weir_pool_trim(d);
        WEIR_TRY(weir_pool_alloc(d, bytes, huge, budgeted, p));
    }
    d->pool.held += bytes;
    return WEIR_OK;
}

static void system_give(weir_device *d, void *p, size_t bytes)
{
    d->ops->free(d, p, bytes);
    d->pool.held -= bytes;
}

static void release_heap(weir_device *d)
{
    weir_heap *s = &d->pool.heap;
    system_give(d, s->at, s->bytes);
    weir_heap_close(s);
}

/* Allocates all that the limit leaves; without effect if the system or the host lacks memory. */
static void open_heap(weir_device *d)
{
    weir_pool *pool = &d->pool;
    void      *at;
    weir_pool_trim(d);
    const size_t unit = d->ops->align;
    const size_t bytes = pool->held < pool->limit ? (pool->limit - pool->held) / unit * unit : 0;
    if (bytes == 0 || d->ops->alloc(d, bytes, bytes >= HUGE_FROM, &at) != WEIR_OK)
        return;
    if (weir_heap_open(&pool->heap, at, bytes))
        pool->held += bytes;
    else
        d->ops->free(d, at, bytes);
    pool->stale = false;
}

/* True if `bytes` may be taken outside the heap; frees free blocks to make that possible. */
static bool system_has_bytes(weir_device *d, size_t bytes)
{
    weir_pool *pool = &d->pool;
    const size_t most = pool->limit + pool->limit / BESIDE;
    if (bytes > most)
        return false;
    if (pool->held > most - bytes)
        weir_pool_trim_to(d, most - bytes);
    return pool->held <= most - bytes;
}

/* The class of a free block for `bytes`, of at most `most` bytes; WEIR_POOL_CLASSES if none. */
static size_t class_with_block(const weir_device *d, size_t bytes, size_t most)
{
    const size_t unit = d->ops->align;
    size_t       c = class_of(bytes, unit);
    while (c < WEIR_POOL_CLASSES && class_bytes(c, unit) <= most && !d->pool.head[c])
        c++;
    return c < WEIR_POOL_CLASSES && class_bytes(c, unit) <= most ? c : WEIR_POOL_CLASSES;
}

/* Size of the largest free block that may serve a request of own_bytes. */
static size_t most_for(const weir_pool *pool, size_t own_bytes)
{
    const size_t remaining = pool->limit - pool->live, wide = own_bytes + own_bytes / REUSE;
    return wide < remaining ? wide : remaining;
}

/* Under a limit, with enough free bytes: cuts memory from the heap, or sets *p to NULL if the
 * caller should use a free block or the system. If the free bytes are fragmented, a small block is
 * taken outside the heap; for a large one values are evicted until a span is large enough, at most
 * `bytes` of them, since holding more than the limit costs less than recomputing much. Small and
 * persistent blocks are cut from the top, out of the way of large ones. */
static weir_status take_limited(weir_device *d, size_t bytes, bool high, void **p)
{
    weir_pool   *pool = &d->pool;
    const size_t least = pool->live > bytes ? pool->live - bytes : 0;
    *p = NULL;
    if (!pool->heap.at)
        open_heap(d);
    high |= bytes <= pool->heap.bytes / SMALL_SHARE;
    for (;;) {
        weir_span *span = weir_heap_find(&pool->heap, bytes, high);
        if (span) {
            *p = weir_heap_take(&pool->heap, span, bytes, high);
            return *p ? WEIR_OK : WEIR_ERR_NOMEM;
        }
        if (class_with_block(d, bytes, most_for(pool, bytes)) < WEIR_POOL_CLASSES && !high)
            return WEIR_OK;
        if (system_has_bytes(d, bytes) || pool->live <= least || !pool->drop_one(d))
            return WEIR_OK;
    }
}

static void heap_give(weir_device *d, const void *p)
{
    weir_heap_give(&d->pool.heap, p);
    if (d->pool.heap.used == 0 && (d->pool.stale || d->closed))
        release_heap(d);
}

void weir_pool_set_limit(weir_device *d, size_t limit)
{
    weir_pool *pool = &d->pool;
    pool->stale |= limit != pool->limit;
    pool->limit = limit;
    if (pool->heap.at && pool->heap.used == 0 && pool->stale)
        release_heap(d);
}

static void push(weir_pool_free **list, weir_pool_free *node)
{
    node->next = *list;
    *list = node;
}

static weir_pool_free *pop(weir_pool_free **list)
{
    weir_pool_free *node = *list;
    *list = node->next;
    return node;
}

/* Allocates a block of a class, and the list node that freeing it will need. */
static weir_status take_new(weir_device *d, size_t bytes, void **p)
{
    weir_pool_free *node = weir_mem_alloc(sizeof *node);
    if (!node)
        return WEIR_ERR_NOMEM;
    const weir_status s = system_take(d, bytes, p);
    if (s != WEIR_OK) {
        weir_mem_free(node);
        return s;
    }
    push(&d->pool.spare, node);
    return WEIR_OK;
}

/* The bytes that a request of `bytes` takes, at least one unit: a multiple of the alignment. */
static weir_status round_up(const weir_device *d, size_t bytes, size_t *out)
{
    if (!weir_guard_size(d, bytes > 0 ? bytes : 1, out) || *out > PTRDIFF_MAX / 2)
        return weir_fail(WEIR_ERR_NOMEM, "device %s: out of memory: %zu bytes wanted", d->ops->name,
                         bytes);
    return WEIR_OK;
}

static weir_status take(weir_device *d, size_t bytes, void **p, size_t *got)
{
    weir_pool   *pool = &d->pool;
    const size_t unit = d->ops->align;
    size_t       size = 0;
    WEIR_TRY(round_up(d, bytes, &size));

    const size_t own = class_of(size, unit), own_bytes = class_bytes(own, unit);
    if (pool->limit < SIZE_MAX) {
        WEIR_TRY(reclaim(d, own_bytes));
        WEIR_TRY(take_limited(d, size, false, p));
        if (*p) {
            *got = size;
            count_live(pool, *got);
            return WEIR_OK;
        }
    }
    const size_t c = class_with_block(d, size, most_for(pool, own_bytes));
    if (c < WEIR_POOL_CLASSES) {
        weir_pool_free *node = pop(&pool->head[c]);
        *p = node->p;
        *got = class_bytes(c, unit);
        push(&pool->spare, node);
    } else {
        WEIR_TRY(take_new(d, own_bytes, p));
        *got = own_bytes;
    }
    count_live(pool, *got);
    return WEIR_OK;
}

static void give(weir_device *d, void *p, size_t got)
{
    d->pool.live -= got;
    if (weir_heap_holds(&d->pool.heap, p)) {
        heap_give(d, p);
        return;
    }
    weir_pool_free *node = pop(&d->pool.spare);
    if (d->closed) {
        weir_mem_free(node);
        system_give(d, p, got);
        return;
    }
    node->p = p;
    push(&d->pool.head[class_of(got, d->ops->align)], node);
}

/* Bytes that a persistent block of 0 bytes takes from the system; they are not counted. */
static size_t bytes_of_empty(const weir_device *d)
{
    size_t bytes = 0;
    (void)weir_guard_size(d, 1, &bytes);
    return bytes;
}

static weir_status take_persistent(weir_device *d, size_t bytes, void **p, size_t *got)
{
    size_t size = 0;
    WEIR_TRY(round_up(d, bytes, &size));
    *p = NULL;
    if (d->pool.limit < SIZE_MAX) {
        WEIR_TRY(reclaim(d, bytes > 0 ? size : 0));
        WEIR_TRY(take_limited(d, size, true, p));
    }
    if (!*p)
        WEIR_TRY(system_take(d, size, p));
    *got = bytes > 0 ? size : 0;
    count_live(&d->pool, *got);
    d->pool.persistent += *got;
    return WEIR_OK;
}

static void give_persistent(weir_device *d, void *p, size_t got)
{
    d->pool.live -= got;
    d->pool.persistent -= got;
    if (weir_heap_holds(&d->pool.heap, p))
        heap_give(d, p);
    else
        system_give(d, p, got > 0 ? got : bytes_of_empty(d));
}

/* ---- public: the memory between the guard zones ---- */

/* Moves *p from the whole range to the block's own memory and writes the zones around it. */
static weir_status add_zones(weir_device *d, size_t bytes, size_t got, void **p,
                             void (*give_back)(weir_device *d, void *p, size_t got))
{
    char *const       own = (char *)*p + d->guard;
    const weir_status status = weir_guard_fill(d, own, bytes, bytes);

    if (status != WEIR_OK)
        give_back(d, *p, got);
    *p = own;
    return status;
}

weir_status weir_pool_take(weir_device *d, size_t bytes, void **p, size_t *got)
{
    WEIR_TRY(take(d, bytes, p, got));
    return add_zones(d, bytes, *got, p, give);
}

void weir_pool_give(weir_device *d, void *p, size_t got)
{
    give(d, (char *)p - d->guard, got);
}

weir_status weir_pool_take_persistent(weir_device *d, size_t bytes, void **p, size_t *got)
{
    WEIR_TRY(take_persistent(d, bytes, p, got));
    return add_zones(d, bytes, *got, p, give_persistent);
}

void weir_pool_give_persistent(weir_device *d, void *p, size_t got)
{
    give_persistent(d, (char *)p - d->guard, got);
}

void weir_pool_adopt(weir_device *d, const void *p, size_t got)
{
    if (!weir_heap_holds(&d->pool.heap, p))
        weir_mem_free(pop(&d->pool.spare));     /* it never returns to a free list */
    d->pool.persistent += got;
}

void weir_pool_trim(weir_device *d)
{
    weir_pool_trim_to(d, 0);
}

void weir_pool_trim_to(weir_device *d, size_t most)
{
    for (size_t c = WEIR_POOL_CLASSES; c-- > 0;) {
        while (d->pool.head[c] && d->pool.held > most) {
            weir_pool_free *node = pop(&d->pool.head[c]);
            system_give(d, node->p, class_bytes(c, d->ops->align));
            weir_mem_free(node);
        }
    }
}
