/* offsets.c - places at the bottom what is on the device for the whole step; turns all other live
 * ranges and workspaces into items for the placer. A range made in place extends the item of the
 * range that it takes over. */
#include "graph/memory/problem/offsets.h"

#include "core/status.h"
#include "graph/placement/placement.h"

static bool add_item(weir_items *items, size_t bytes, size_t align, uint32_t first, uint32_t last)
{
    weir_item it = {.first = first, .last = last, .kind = WEIR_KIND_ACTIVATION};
    return weir_size_align(bytes, align, &it.bytes) && weir_vec_push(items, it);
}

/* On the device from the first event to the last: needs no search. */
static bool always_on_device(const weir_schedule *s, const weir_live_range *l)
{
    return l->before && l->form == WEIR_FORM_PLAIN && l->last + 1 >= s->events.n;
}

/* Adds the live ranges in order (each after the one that it takes over), then the workspaces. */
static bool add_items(const weir_schedule *s, size_t align, weir_items *items, uint32_t *item)
{
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        const weir_live_range *v = &s->ranges.at[i];
        if (v->over != WEIR_NO_RANGE) {
            item[i] = item[v->over];
            items->at[item[i]].last = v->last;
            continue;
        }
        item[i] = items->n;
        if (v->form != WEIR_FORM_HOST && !always_on_device(s, v) &&
            !add_item(items, weir_live_range_bytes(s->p, v), align, v->first, v->last))
            return false;
    }
    for (uint32_t e = 0; e < s->events.n; e++) {
        const weir_event *v = &s->events.at[e];
        const size_t      work = v->kind == WEIR_EVENT_RUN ? s->p->ops.at[v->what].work : 0;
        if (work && !add_item(items, work, align, e, e))
            return false;
    }
    return true;
}

/* Stacks up what is always on the device; *bottom becomes its total bytes. */
static bool place_resident(const weir_schedule *s, size_t align, weir_offsets *l, size_t *bottom)
{
    size_t bytes;

    *bottom = 0;
    for (uint32_t i = 0; i < s->ranges.n; i++) {
        if (!always_on_device(s, &s->ranges.at[i]))
            continue;
        if (!weir_size_align(weir_live_range_bytes(s->p, &s->ranges.at[i]), align, &bytes))
            return false;
        l->offset[i] = *bottom;
        *bottom += bytes;
    }
    return true;
}

static void take_offsets(const weir_schedule *s, const weir_items *items, const uint32_t *item,
                         size_t bottom, weir_offsets *l)
{
    uint32_t at = items->n;

    for (uint32_t i = 0; i < s->ranges.n; i++)
        if (s->ranges.at[i].form == WEIR_FORM_HOST)
            l->offset[i] = 0;
        else if (!always_on_device(s, &s->ranges.at[i]))
            l->offset[i] = bottom + items->at[item[i]].offset;
    for (uint32_t e = s->events.n; e-- > 0;) {
        const weir_event *v = &s->events.at[e];
        const bool        work = v->kind == WEIR_EVENT_RUN && s->p->ops.at[v->what].work > 0;
        l->work[e] = work ? bottom + items->at[--at].offset : 0;
    }
}

/* limit 0: search for the least height. */
static weir_status place(weir_items *items, uint32_t steps, size_t bottom, size_t limit,
                         const char *placement, weir_placement_result *placed)
{
    weir_placement_options how = {.strategy = placement};

    if (limit == 0) {
        WEIR_TRY(weir_place_slack(items->at, items->n, steps, &how.slack));
        return weir_place_items(items->at, items->n, steps, &how, placed);
    }
    return weir_place_within(items->at, items->n, steps, placement,
                             limit > bottom ? limit - bottom : 0, placed);
}

/* Frees the previous offsets in *l. limit: as in place(). */
static weir_status offsets(const weir_schedule *s, size_t align, size_t limit,
                           const char *placement, weir_offsets *l)
{
    weir_items            items = {0};
    weir_placement_result placed = {0};
    uint32_t *const       item = weir_mem_alloc((s->ranges.n + 1u) * sizeof *item);
    weir_status           status = WEIR_ERR_NOMEM;
    size_t                bottom = 0;

    weir_offsets_free(l);
    l->offset = weir_mem_alloc((s->ranges.n + 1u) * sizeof *l->offset);
    l->work = weir_mem_alloc((s->events.n + 1u) * sizeof *l->work);
    if (item && l->offset && l->work && place_resident(s, align, l, &bottom) &&
        add_items(s, align, &items, item))
        status = place(&items, s->events.n, bottom, limit, placement, &placed);
    if (status == WEIR_OK) {
        take_offsets(s, &items, item, bottom, l);
        l->height = bottom + placed.height;
        l->strategy = placed.strategy;
    }
    weir_vec_free(&items);
    weir_mem_free(item);
    return status;
}

weir_status weir_assign_offsets(const weir_schedule *s, size_t align, const char *placement,
                                weir_offsets *l)
{
    return offsets(s, align, 0, placement, l);
}

weir_status weir_assign_offsets_within(const weir_schedule *s, size_t align, size_t limit,
                                       weir_offsets *l)
{
    return offsets(s, align, limit, NULL, l);
}

void weir_offsets_free(weir_offsets *l)
{
    weir_mem_free(l->offset);
    weir_mem_free(l->work);
    *l = (weir_offsets){0};
}
