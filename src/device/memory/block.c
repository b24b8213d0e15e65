/* block.c - blocks of device memory: created empty, allocated when first written, freed with the
 * last handle. */
#include "device/memory/block.h"

#include "core/mem.h"
#include "core/status.h"
#include "device/memory/pool.h"
#include "device/offload/checksum.h"
#include "device/offload/spill_slots.h"

static void block_destroy(weir_ref *self)
{
    weir_block *b = (weir_block *)self;
    if (b->owner && b->orphan)
        b->orphan(b);
    if (b->origin)
        b->dev->forget(b);
    weir_block_empty(b);
    if (b->has_spill_slot)
        weir_device_spill_slot_free(b->dev, b->spill_slot);
    weir_ref_drop(b->dev);
    weir_mem_free(b->name);
    weir_mem_free(b);
}

weir_block *weir_block_new(weir_device *d, size_t bytes, weir_kind kind)
{
    weir_block *b = weir_mem_alloc(sizeof *b);
    if (!b)
        return NULL;
    *b = (weir_block){
        .ref = {1, block_destroy},
        .dev = weir_ref_take(d),
        .bytes = bytes,
        .kind = kind,
    };
    return b;
}

static weir_status take(weir_block *b)
{
    WEIR_TRY(weir_device_check(b->dev, "memory of a tensor"));
    b->persistent = b->kind <= WEIR_KIND_OUTPUT;
    return b->persistent ? weir_pool_take_persistent(b->dev, b->bytes, &b->data, &b->got)
                         : weir_pool_take(b->dev, b->bytes, &b->data, &b->got);
}

static weir_status swap(const weir_block *b, bool in)
{
    const weir_swap c = {
        .in = in, .slot = b->spill_slot, .at = b->data, .bytes = b->bytes, .ticket = WEIR_SWAP_NOW};
    return b->dev->ops->swap(b->dev, &c);
}

static weir_status fetch(weir_block *b)
{
    const weir_status status = swap(b, true);

    if (status != WEIR_OK)
        weir_block_evict(b);
    b->offloaded = status != WEIR_OK;
    b->dev->moves++;
    return status;
}

weir_status weir_block_touch(weir_block *b)
{
    if (b->data)
        return WEIR_OK;
    WEIR_TRY(take(b));
    return b->offloaded ? fetch(b) : WEIR_OK;
}

weir_status weir_block_touch_whole(weir_block *b)
{
    if (!b->data)
        WEIR_TRY(take(b));
    b->dev->moves += b->offloaded;
    b->offloaded = false;
    return WEIR_OK;
}

weir_status weir_block_take_spill_slot(weir_block *b)
{
    if (!b->has_spill_slot)
        WEIR_TRY(weir_device_spill_slot(b->dev, b->bytes, &b->spill_slot));
    b->has_spill_slot = true;
    return WEIR_OK;
}

weir_status weir_block_offload(weir_block *b)
{
    WEIR_TRY(swap(b, false));
    weir_block_offload_clean(b);
    return WEIR_OK;
}

void weir_block_offload_clean(weir_block *b)
{
    weir_block_evict(b);
    b->offloaded = true;
    b->dev->moves++;
}

void weir_block_changed(weir_block *b, const char *by)
{
    b->changed = ++b->dev->changes;
    b->changed_by = by;
    b->looked = false;
}

void weir_block_look(weir_block *b)
{
    if (!b->shared || !b->data)
        return;
    const uint64_t now = weir_checksum(b->data, b->bytes);
    if (b->looked && now != b->seen)
        weir_block_changed(b, "a write to its memory, whose address was given away");
    b->seen = now;
    b->looked = true;
}

void weir_block_persist(weir_block *b, weir_kind kind)
{
    if (b->data && !b->persistent)
        weir_pool_adopt(b->dev, b->data, b->got);
    b->persistent |= b->data != NULL;
    b->kind = kind;
}

void weir_block_evict(weir_block *b)
{
    if (b->data && b->persistent)
        weir_pool_give_persistent(b->dev, b->data, b->got);
    else if (b->data)
        weir_pool_give(b->dev, b->data, b->got);
    b->data = NULL;
    b->got = 0;
}

void weir_block_empty(weir_block *b)
{
    weir_block_evict(b);
    b->offloaded = false;
    b->written = false;
}
