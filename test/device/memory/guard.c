/* guard.c - tests of guard zones: which devices have them, their size, damage found and
 * reported. */
#include "device/memory/guard.h"
#include "check.h"
#include "device/memory/block.h"
#include "device/memory/pool.h"

static weir_device *opened(int guard)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 1, .guard = guard});
}

/* Bytes of a device's zone with WEIR_GUARD set to `text` (NULL: unset); -1 if opening fails. */
static long zone_by(const char *name, const char *text, int guard)
{
    const char *const before = getenv("WEIR_GUARD");
    char              kept[8] = "";
    long              zone = -1;

    snprintf(kept, sizeof kept, "%s", before ? before : "");
    text ? setenv("WEIR_GUARD", text, 1) : unsetenv("WEIR_GUARD");
    weir_device *const d = weir_device_open(name, &(weir_device_options){.guard = guard});
    before ? setenv("WEIR_GUARD", kept, 1) : unsetenv("WEIR_GUARD");
    if (d)
        zone = (long)d->guard;
    weir_device_close(d);
    return zone;
}

CASE(asked_for)
{
    CHECK(zone_by("cpu", NULL, 0) == 0 && zone_by("cpu", "", 0) == 0);
    CHECK(zone_by("cpu", "0", 0) == 0 && zone_by("cpu", "1", 0) >= 64);
    CHECK(zone_by("cpu", NULL, 1) % 64 == 0 && zone_by("cpu", "0", 1) >= 64);
    CHECK(zone_by("cpu", "1", -1) == 0);
    CHECK(zone_by("sim", "1", 0) == 0 && zone_by("sim", NULL, 1) == 0);
    static const char *const wrong[] = {"2", "yes", "01", "1 "};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(zone_by("cpu", wrong[i], 0) == -1);
        CHECK_TEXT(weir_error(), "WEIR_GUARD is '");
        CHECK_TEXT(weir_error(), "(expected 0 or 1)");
    }
    CHECK(zone_by("cpu", NULL, 2) == -1);
    CHECK_TEXT(weir_error(), "unknown guard 2 (expected -1, 0 or 1)");
}

CASE(is_in_the_information)
{
    weir_device *d = opened(1), *none = opened(-1);
    char        *with = weir_info_text(d), *without = weir_info_text(none);
    CHECK_TEXT(with, "guard zones of 256 bytes");
    CHECK(without && !strstr(without, "guard zones"));
    weir_text_free(with);
    weir_text_free(without);
    weir_device_close(d);
    weir_device_close(none);
}

CASE(what_allocations_take)
{
    weir_device *d = opened(1);
    size_t       bytes = 1;
    CHECK_OR_RETURN(d != NULL);
    CHECK(weir_guard_size(d, 0, &bytes) && bytes == 0 && weir_guard_begin(d, 0) == 0);
    CHECK(weir_guard_size(d, 1, &bytes) && bytes == 64 + 2 * d->guard);
    CHECK(weir_guard_size(d, 65, &bytes) && bytes == 128 + 2 * d->guard);
    CHECK(!weir_guard_size(d, SIZE_MAX - 100, &bytes));
    CHECK(weir_guard_begin(d, bytes) == d->guard);
    CHECK(weir_guard_work(d, 0) == 0 && weir_guard_work(d, 1) == 4097);
    CHECK(weir_guard_work(d, 10000) == 20000 && weir_guard_work(d, SIZE_MAX - 9) == SIZE_MAX);
    CHECK(weir_guard_work(d, 9 << 20) == 10 << 20);
    weir_device_close(d);
}

/* Every byte of both zones is checked, no byte between them; the sentence names it. */
CASE(each_byte_counts)
{
    static const weir_layout vector = {.desc = {WEIR_U8, 1, {100}}, .stride = {1}};
    const weir_call          c = {.op = WEIR_OP_EXP, .nin = 1, .nout = 1, .in = &vector,
                                  .out = (weir_layout[]){vector}, .alias = -1};
    weir_device *d = opened(1);
    weir_block  *b = d ? weir_block_new(d, 100, WEIR_KIND_PARAM) : NULL;
    CHECK_OR_RETURN(b && weir_block_touch(b) == WEIR_OK);
    const ptrdiff_t end = 128 + (ptrdiff_t)d->guard;
    for (ptrdiff_t at = -(ptrdiff_t)d->guard; at < end; at++) {
        weir_watch w = {.dev = d, .call = &c, .ran = true};
        char       where[96];
        ((unsigned char *)b->data)[at] ^= 0xff;
        CHECK_OK(weir_guard_look_block(&w, at % 2 ? 1 : 0, b));
        const bool own = at >= 0 && at < 100;
        CHECK_OR_RETURN(CHECK_STATUS(weir_guard_verdict(&w, WEIR_OK),
                                     own ? WEIR_OK : WEIR_ERR_DEVICE));
        if (own)
            continue;
        snprintf(where, sizeof where, "1 byte changed %s %s", at < 0 ? "before" : "after",
                 at % 2 ? "output 0 " : "input 0 ");
        CHECK_TEXT(weir_error(), where);
        snprintf(where, sizeof where, "of 100 bytes, at offsets %td to %td", at, at);
        CHECK_TEXT(weir_error(), where);
        CHECK_STATUS(weir_guard_verdict(&w, WEIR_ERR_IO), WEIR_ERR_IO);
        w = (weir_watch){.dev = d, .call = &c};
        CHECK_OK(weir_guard_look_block(&w, 0, b));      /* restored */
        CHECK_OK(weir_guard_verdict(&w, WEIR_OK));
    }
    weir_ref_drop(b);
    weir_device_close(d);
}

/* Blocks of any size, recycled, under a limit, made persistent: zones are intact and counted. */
static bool whole(weir_device *d, void *p, size_t bytes)
{
    static const weir_call c = {.op = WEIR_OP_FILL};
    weir_watch             w = {.dev = d, .call = &c};
    memset(p, 0, bytes);
    return weir_guard_look(&w, 0, p, bytes, bytes) == WEIR_OK && w.hit == 0;
}

CASE(of_blocks)
{
    enum { SLOTS = 20 };
    struct { void *p; size_t got; bool persistent; } slot[SLOTS] = {0};
    weir_device *d = opened(1);
    CHECK_OR_RETURN(d != NULL);
    for (int i = 0; i < 2000; i++) {
        const int k = (int)check_int(0, SLOTS - 1);
        if (slot[k].p) {
            (slot[k].persistent ? weir_pool_give_persistent : weir_pool_give)(d, slot[k].p,
                                                                              slot[k].got);
            slot[k].p = NULL;
            continue;
        }
        const size_t bytes = (size_t)check_int(1, (int64_t)1 << check_int(1, 14));
        slot[k].persistent = check_int(0, 3) == 0;
        CHECK_OR_RETURN((slot[k].persistent ? weir_pool_take_persistent : weir_pool_take)(
                            d, bytes, &slot[k].p, &slot[k].got) == WEIR_OK);
        CHECK((uintptr_t)slot[k].p % d->ops->align == 0 && slot[k].got >= bytes + 2 * d->guard);
        CHECK_OR_RETURN(CHECK(whole(d, slot[k].p, bytes)));
    }
    for (int k = 0; k < SLOTS; k++)
        if (slot[k].p)
            (slot[k].persistent ? weir_pool_give_persistent : weir_pool_give)(d, slot[k].p,
                                                                              slot[k].got);
    CHECK(d->pool.live == 0 && d->pool.persistent == 0);
    weir_device_close(d);
}
