/* block.c - tests of blocks: allocation when touched, kinds, orphans, lifetimes beyond the closing
 * of the device. */
#include "device/memory/block.h"
#include "check.h"
#include "core/mem.h"
#include "core/tensor.h"

/* Without guard zones, since bytes are counted here. */
static weir_device *opened(void)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 1, .guard = -1});
}

CASE(memory_comes_and_goes)
{
    weir_device *d = opened();
    weir_block  *b = weir_block_new(d, 1000, WEIR_KIND_ACTIVATION);
    CHECK_OR_RETURN(d && b);
    CHECK(!b->data && b->got == 0 && !b->written && d->pool.live == 0);
    CHECK_OK(weir_block_touch(b));
    void *const data = b->data;
    CHECK(data && b->got >= 1000 && d->pool.live == b->got && d->pool.persistent == 0);
    CHECK_OK(weir_block_touch(b));
    CHECK(b->data == data);
    b->written = true;
    weir_block_empty(b);
    CHECK(!b->data && b->got == 0 && !b->written && d->pool.live == 0);
    CHECK_OK(weir_block_touch(b));
    CHECK(b->data == data);
    weir_ref_drop(b);
    CHECK(d->pool.live == 0);
    weir_device_close(d);
}

CASE(kinds)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    for (int kind = 0; kind < WEIR_KIND_COUNT; kind++) {
        weir_block *b = weir_block_new(d, 1500, (weir_kind)kind);
        CHECK_OR_RETURN(b && weir_kind_name[kind]);
        CHECK_OK(weir_block_touch(b));
        const bool persistent = kind <= WEIR_KIND_OUTPUT;
        CHECK(d->pool.persistent == (persistent ? 1536u : 0u));
        b->kind = WEIR_KIND_OUTPUT;     /* may change while there is memory */
        weir_ref_drop(b);
        CHECK(d->pool.persistent == 0 && d->pool.live == 0);
    }
    weir_device_close(d);
}

static void note_orphan(weir_block *b)
{
    ++*(int *)b->owner;
}

CASE(owner_is_told)
{
    int          told = 0;
    weir_device *d = opened();
    weir_block  *b = weir_block_new(d, 10, WEIR_KIND_ACTIVATION);
    CHECK_OR_RETURN(d && b);
    b->owner = &told;
    b->orphan = note_orphan;
    weir_ref_take(b);
    weir_ref_drop(b);
    CHECK(told == 0);
    weir_ref_drop(b);
    CHECK(told == 1);
    weir_device_close(d);
}

CASE(outlives_the_device)
{
    weir_layout l = {.desc = weir_1d(WEIR_F32, 5000)};
    weir_shape_dense(&l);
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    weir_block  *a = weir_block_new(d, 20000, WEIR_KIND_PARAM);
    weir_block  *b = weir_block_new(d, 20000, WEIR_KIND_ACTIVATION);
    weir_block  *never = weir_block_new(d, 20000, WEIR_KIND_ACTIVATION);
    CHECK_OK(weir_block_touch(a));
    CHECK_OK(weir_block_touch(b));
    weir_tensor *t = weir_tensor_make(d, &l, 0, a), *u = weir_tensor_make(d, &l, 0, b);
    CHECK_OR_RETURN(t && u && never);
    weir_ref_drop(a);
    weir_ref_drop(b);
    weir_device_close(d);
    CHECK_STATUS(weir_block_touch(never), WEIR_ERR_DEVICE);
    CHECK_TEXT(weir_error(), "closed");
    CHECK(weir_tensor_bytes(t) == 20000);
    weir_ref_drop(never);
    weir_release(t);
    weir_release(u);    /* the last reference: frees the device as well */
}

CASE(short_memory)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    weir_mem_fail_nth(0, false);
    CHECK(weir_block_new(d, 10, WEIR_KIND_PARAM) == NULL);
    weir_block *b = weir_block_new(d, 10, WEIR_KIND_PARAM);
    CHECK_OR_RETURN(b != NULL);
    weir_mem_fail_nth(0, true);
    CHECK_STATUS(weir_block_touch(b), WEIR_ERR_NOMEM);
    weir_mem_fail_nth(-1, false);
    CHECK(!b->data && b->got == 0 && d->pool.persistent == 0);
    CHECK_OK(weir_block_touch(b));
    weir_ref_drop(b);
    weir_device_close(d);
}
