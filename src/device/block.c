/* block.c - blocks of device memory: made empty, given memory when first written, freed with the
 * last handle. */
#include "device/block.h"

#include "core/mem.h"
#include "core/status.h"

const char *const weir_kind_name[WEIR_KIND_COUNT] = {
    [WEIR_KIND_PARAM] = "param",           [WEIR_KIND_STATE] = "state",
    [WEIR_KIND_INPUT] = "input",           [WEIR_KIND_OUTPUT] = "output",
    [WEIR_KIND_ACTIVATION] = "activation", [WEIR_KIND_GRADIENT] = "gradient",
    [WEIR_KIND_WORKSPACE] = "workspace",
};

static void block_destroy(weir_ref *self)
{
    weir_block *b = (weir_block *)self;
    if (b->owner && b->orphan)
        b->orphan(b);
    if (b->origin)
        b->dev->forget(b);
    weir_block_empty(b);
    weir_ref_drop(b->dev);
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

weir_status weir_block_touch(weir_block *b)
{
    if (b->data)
        return WEIR_OK;
    WEIR_TRY(weir_device_check(b->dev, "memory of a tensor"));
    b->persistent = b->kind <= WEIR_KIND_OUTPUT;
    return b->persistent ? weir_pool_take_persistent(b->dev, b->bytes, &b->data, &b->got)
                         : weir_pool_take(b->dev, b->bytes, &b->data, &b->got);
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
    b->written = false;
}
