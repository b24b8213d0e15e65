/* pool.c - tests of recycling: classes, reuse, exact persistent sizes, trimming, lack of memory. */
#include "device/memory/pool.h"
#include "check.h"
#include "core/mem.h"
#include "core/status.h"
#include "device/device.h"

/* Without guard zones, since bytes are counted here. */
static weir_device *opened(void)
{
    return weir_device_open("cpu", &(weir_device_options){.threads = 1, .guard = -1});
}

/* Takes a block, checks it and gives it back; returns its class size. */
static size_t class_size(weir_device *d, size_t bytes)
{
    void  *p = NULL;
    size_t got = 0;
    if (CHECK_OK(weir_pool_take(d, bytes, &p, &got))) {
        memset(p, 1, bytes);
        CHECK((uintptr_t)p % d->ops->align == 0);
        weir_pool_give(d, p, got);
    }
    weir_pool_trim(d);
    return got;
}

CASE(classes)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    CHECK(class_size(d, 0) == 64 && class_size(d, 1) == 64 && class_size(d, 64) == 64);
    CHECK(class_size(d, 65) == 128 && class_size(d, 1024) == 1024);
    CHECK(class_size(d, 1025) == 1088 && class_size(d, 2048) == 2048);
    CHECK(class_size(d, 2049) == 2112 && class_size(d, 4096) == 4096);
    CHECK(class_size(d, 4097) == 4224 && class_size(d, 4225) == 4352);
    for (size_t bytes = 1; bytes < (size_t)40 << 20; bytes += bytes / 3 + 1) {
        const size_t got = class_size(d, bytes), unit = (bytes + 63) / 64 * 64;
        CHECK(got >= unit && (double)got <= (double)unit * 1.032 && class_size(d, got) == got);
    }
    CHECK(d->pool.held == 0 && d->pool.live == 0);
    weir_device_close(d);
}

CASE(recycles)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    void  *p, *q, *r;
    size_t got_p, got_q, got_r;
    CHECK_OK(weir_pool_take(d, 10000, &p, &got_p));
    CHECK_OK(weir_pool_take(d, 10000, &q, &got_q));
    weir_pool_give(d, p, got_p);
    const uint64_t calls = weir_mem_calls();
    CHECK_OK(weir_pool_take(d, 9700, &r, &got_r));      /* from a class up to 1/16 larger */
    CHECK(r == p && got_r == got_p && weir_mem_calls() == calls);
    weir_pool_give(d, r, got_r);
    CHECK_OK(weir_pool_take(d, 5000, &r, &got_r));      /* too small for it */
    CHECK(r != p && weir_mem_calls() > calls);
    weir_pool_give(d, r, got_r);
    weir_pool_give(d, q, got_q);
    CHECK(d->pool.live == 0 && d->pool.live_peak == got_p + got_q);
    weir_device_close(d);
}

CASE(persistent_is_exact)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    void  *p, *q;
    size_t got_p, got_q;
    CHECK_OK(weir_pool_take_persistent(d, 10001, &p, &got_p));
    CHECK_OK(weir_pool_take_persistent(d, 0, &q, &got_q));
    CHECK(got_p == 10048 && got_q == 0 && q != NULL);
    CHECK(d->pool.persistent == 10048 && d->pool.live == 10048);
    weir_pool_give_persistent(d, p, got_p);
    weir_pool_give_persistent(d, q, got_q);
    CHECK(d->pool.persistent == 0 && d->pool.live == 0 && d->pool.held == 0);
    weir_device_close(d);
}

CASE(refuses_what_cannot_be)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    const size_t sizes[] = {(size_t)1 << 60, SIZE_MAX / 2, SIZE_MAX};
    void        *p;
    size_t       got;
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(weir_pool_take(d, sizes[i], &p, &got), WEIR_ERR_NOMEM);
        CHECK_STATUS(weir_pool_take_persistent(d, sizes[i], &p, &got), WEIR_ERR_NOMEM);
    }
    CHECK(d->pool.live == 0 && d->pool.held == 0);
    weir_device_close(d);
}

CASE(short_memory_trims_and_leaks_nothing)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    void  *p;
    size_t got;
    for (int n = 0; n < 3; n++) {
        weir_mem_fail_nth(n, true);
        const weir_status s = weir_pool_take(d, 5000, &p, &got);
        weir_mem_fail_nth(-1, false);
        CHECK_STATUS(s, n < 2 ? WEIR_ERR_NOMEM : WEIR_OK);
        if (s == WEIR_OK)
            weir_pool_give(d, p, got);
    }
    CHECK(d->pool.held > 0);
    weir_mem_fail_nth(1, false);    /* fails once: free blocks are returned, then it works */
    CHECK_OK(weir_pool_take(d, 100000, &p, &got));
    CHECK(weir_mem_failed() && d->pool.held == got);
    weir_pool_give(d, p, got);
    weir_device_close(d);
}

CASE(random_traffic)
{
    enum { SLOTS = 40 };
    struct {
        unsigned char *p;
        size_t         bytes, got;
        unsigned char  mark;
    } slot[SLOTS] = {{0}};
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    size_t live = 0;
    for (int i = 0; i < 4000; i++) {
        const int k = (int)check_int(0, SLOTS - 1);
        if (slot[k].p) {
            for (size_t b = 0; b < slot[k].bytes; b += 97)
                CHECK_OR_RETURN(slot[k].p[b] == slot[k].mark);
            weir_pool_give(d, slot[k].p, slot[k].got);
            live -= slot[k].got;
            slot[k].p = NULL;
            continue;
        }
        void *p;
        slot[k].bytes = (size_t)check_int(1, (int64_t)1 << check_int(1, 15));
        slot[k].mark = (unsigned char)i;
        CHECK_OR_RETURN(weir_pool_take(d, slot[k].bytes, &p, &slot[k].got) == WEIR_OK);
        memset(slot[k].p = p, slot[k].mark, slot[k].bytes);
        live += slot[k].got;
        CHECK(d->pool.live == live);
    }
    for (int k = 0; k < SLOTS; k++)
        if (slot[k].p)
            weir_pool_give(d, slot[k].p, slot[k].got);
    CHECK(d->pool.live == 0);
    weir_device_close(d);
}

CASE(adopted_blocks_stay_where_they_are)
{
    weir_device *d = opened();
    CHECK_OR_RETURN(d != NULL);
    void  *p;
    size_t got;
    CHECK_OK(weir_pool_take(d, 1025, &p, &got));
    const size_t live = d->pool.live;
    weir_pool_adopt(d, p, got);
    CHECK(d->pool.live == live && d->pool.persistent == got && got == 1088);
    weir_pool_give_persistent(d, p, got);
    CHECK(d->pool.live == 0 && d->pool.persistent == 0 && d->pool.held == 0);
    weir_device_close(d);
}

static weir_status reclaims_nothing(weir_device *d, size_t bytes)
{
    (void)d;
    return weir_fail(WEIR_ERR_BUDGET, "%zu bytes", bytes);
}

static bool nothing_goes(weir_device *d)
{
    (void)d;
    return false;
}

/* Under a limit blocks are cut from one heap: they do not overlap, live bytes stay within it, and
 * all memory returns to the system when the limit is lifted. */
CASE(within_a_limit)
{
    enum { BLOCKS = 24, LIMIT = 40000 };
    weir_device *d = opened();
    struct { unsigned char *p; size_t got, bytes; bool persistent; } b[BLOCKS] = {0};
    uint64_t     refused = 0;

    CHECK_OR_RETURN(d != NULL);
    d->pool.reclaim = reclaims_nothing;
    d->pool.drop_one = nothing_goes;
    weir_pool_set_limit(d, LIMIT);
    for (int i = 0; i < 4000; i++) {
        const size_t k = (size_t)check_int(0, BLOCKS - 1);
        if (b[k].p) {
            for (size_t j = 0; j < b[k].bytes; j++)
                CHECK_OR_RETURN(b[k].p[j] == (unsigned char)k);
            (b[k].persistent ? weir_pool_give_persistent : weir_pool_give)(d, b[k].p, b[k].got);
            b[k].p = NULL;
            continue;
        }
        void *p = NULL;
        b[k].bytes = (size_t)check_int(1, check_int(0, 3) ? 900 : 9000);
        b[k].persistent = check_int(0, 5) == 0;
        const weir_status s = (b[k].persistent ? weir_pool_take_persistent
                                               : weir_pool_take)(d, b[k].bytes, &p, &b[k].got);
        refused += s == WEIR_ERR_BUDGET;
        if (s != WEIR_OK)
            continue;
        b[k].p = p;
        memset(p, (int)k, b[k].bytes);
        CHECK((uintptr_t)p % d->ops->align == 0 && b[k].got >= b[k].bytes);
        CHECK(d->pool.live <= LIMIT);
    }
    CHECK(refused > 0 && d->pool.live_peak <= LIMIT);
    weir_pool_set_limit(d, SIZE_MAX);
    for (size_t k = 0; k < BLOCKS; k++)
        if (b[k].p)
            (b[k].persistent ? weir_pool_give_persistent : weir_pool_give)(d, b[k].p, b[k].got);
    weir_pool_trim(d);
    CHECK(d->pool.live == 0 && d->pool.persistent == 0 && d->pool.held == 0 && !d->pool.heap.at);
    weir_device_close(d);
}
