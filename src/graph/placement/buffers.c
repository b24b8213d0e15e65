/* buffers.c - placement of a program's own buffers, whose times may be those of any clock. */
#include <stdlib.h>

#include "core/status.h"
#include "graph/placement/placement.h"
#include "weir/plan.h"

#define MOST_BYTES ((size_t)1 << 62)        /* of all buffers, so that sums fit 64 bits */
#define MOST_ALIGN ((size_t)1 << 30)
#define MOST_BUFFERS ((size_t)1 << 24)

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts the n times and removes duplicates. Returns how many are left. */
static uint32_t distinct(int64_t *time, size_t n)
{
    uint32_t kept = 0;

    qsort(time, n, sizeof *time, by_time);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || time[i] != time[kept - 1])
            time[kept++] = time[i];
    return kept;
}

static uint32_t step_of(const int64_t *time, uint32_t steps, int64_t t)
{
    uint32_t lo = 0, hi = steps;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (time[mid] < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static weir_status check_buffers(const weir_buffer *b, size_t n, size_t align, size_t *all)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes;
        if (b[i].lower >= b[i].upper)
            return weir_fail(WEIR_ERR_INVALID, "buffer %zu: lower %lld is not before upper %lld", i,
                             (long long)b[i].lower, (long long)b[i].upper);
        if (!weir_size_align(b[i].size, align, &bytes) || bytes > MOST_BYTES - *all)
            return weir_fail(WEIR_ERR_INVALID, "buffer %zu: too many bytes", i);
        *all += bytes;
    }
    return WEIR_OK;
}

static weir_status check_input(const weir_buffer *b, size_t n, const weir_place_options *o,
                               size_t align)
{
    size_t all = 0;

    if (n > 0 && !b)
        return weir_fail_null("weir_place_buffers", "the buffers");
    if (n > MOST_BUFFERS)
        return weir_fail(WEIR_ERR_INVALID, "%zu buffers are more than the limit of %zu",
                                           n, MOST_BUFFERS);
    if (align & (align - 1) || align > MOST_ALIGN)
        return weir_fail(WEIR_ERR_INVALID, "alignment %zu is not a power of two up to 2^30", align);
    if (!weir_place_named(o->strategy))
        return WEIR_ERR_INVALID;
    return check_buffers(b, n, align, &all);
}

static void fill(weir_item *item, const weir_buffer *b, size_t n, size_t align,
                 const int64_t *time, uint32_t steps)
{
    for (size_t i = 0; i < n; i++) {
        item[i] = (weir_item){.first = step_of(time, steps, b[i].lower),
                              .last = step_of(time, steps, b[i].upper) - 1,
                              .kind = WEIR_KIND_ACTIVATION};
        (void)weir_size_align(b[i].size, align, &item[i].bytes);
    }
}

/* Places the buffers. The height ends with the last byte of a buffer, without padding after it. */
static weir_status place(weir_buffer *b, size_t n, size_t align, const weir_place_options *o,
                         weir_item *item, int64_t *time, weir_placement_result *placed)
{
    for (size_t i = 0; i < n; i++) {
        time[2 * i] = b[i].lower;
        time[2 * i + 1] = b[i].upper;
    }
    const uint32_t       steps = distinct(time, 2 * n);
    const weir_placement_options how = {.strategy = o->strategy,
                                        .capacity = o->capacity & ~(align - 1),
                                        .nodes = o->nodes,
                                        .thorough = true};
    fill(item, b, n, align, time, steps);
    WEIR_TRY(weir_place_items(item, (uint32_t)n, steps, &how, placed));
    for (size_t i = 0; i < n; i++)
        b[i].offset = item[i].offset;
    return WEIR_OK;
}

static weir_status check_height(const weir_placement_result *r, size_t capacity)
{
    if (capacity == 0 || r->height <= capacity)
        return WEIR_OK;
    if (r->lower_bound > capacity)
        return weir_fail(WEIR_ERR_BUDGET, "capacity %zu: %zu bytes are live at one time", capacity,
                         r->lower_bound);
    return weir_fail(WEIR_ERR_BUDGET, "capacity %zu: %s, the lowest found has %zu bytes, %zu are "
                     "live at one time", capacity,
                     r->proven ? "no placement exists" : "no placement found", r->height,
                     r->lower_bound);
}

weir_status weir_place_buffers(weir_buffer *buffers, size_t n, const weir_place_options *options,
                               weir_place_stats *stats)
{
    static const weir_place_options none = {0};
    const weir_place_options       *o = options ? options : &none;
    const size_t                    align = o->alignment ? o->alignment : 1;
    weir_placement_result           placed = {0};

    WEIR_TRY(check_input(buffers, n, o, align));
    weir_item  *item = weir_mem_alloc((n + 1) * sizeof *item);
    int64_t    *time = weir_mem_alloc((2 * n + 1) * sizeof *time);
    weir_status status = item && time ? WEIR_OK : WEIR_ERR_NOMEM;
    if (status == WEIR_OK)
        status = place(buffers, n, align, o, item, time, &placed);
    weir_mem_free(item);
    weir_mem_free(time);
    WEIR_TRY(status);
    if (stats)
        *stats = (weir_place_stats){.buffers = n, .live_bytes = placed.lower_bound,
                                    .height_bytes = placed.height, .strategy = placed.strategy,
                                    .nodes = placed.nodes, .lowest = placed.proven};
    return check_height(&placed, o->capacity);
}
