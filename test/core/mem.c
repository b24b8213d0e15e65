/* mem.c - tests of host memory: counters, injected failures, pages, a program's own allocator. */
#include "core/mem.h"

#include <stdlib.h>

#include "check.h"

CASE(counts)
{
    const uint64_t calls = weir_mem_calls();
    const int64_t  alive = weir_mem_alive();
    void          *p = weir_mem_alloc(0), *q = weir_mem_zalloc(3, 5);
    CHECK(p && q && p != q);
    CHECK(weir_mem_calls() == calls + 2 && weir_mem_alive() == alive + 2);
    weir_mem_free(p);
    weir_mem_free(q);
    weir_mem_free(NULL);
    CHECK(weir_mem_alive() == alive);
}

CASE(zalloc_checks_the_product)
{
    CHECK(weir_mem_zalloc(SIZE_MAX / 2, 3) == NULL);
    CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
}

CASE(realloc_keeps)
{
    char *p = weir_mem_strdup("weir");
    CHECK_OR_RETURN(p != NULL);
    weir_mem_fail_nth(0, false);
    CHECK(weir_mem_realloc(p, 5, 100) == NULL && weir_mem_failed());
    CHECK_TEXT(p, "weir");
    p = weir_mem_realloc(p, 5, 100);
    CHECK_TEXT(p, "weir");
    p = weir_mem_realloc(p, 100, 2);
    CHECK(p && p[0] == 'w' && p[1] == 'e');
    weir_mem_free(p);
}

CASE(fails_once)
{
    weir_mem_fail_nth(1, false);
    void *p = weir_mem_alloc(1);
    CHECK(p && !weir_mem_failed());
    CHECK(weir_mem_pages(10, false) == NULL && weir_mem_failed());
    CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
    void *q = weir_mem_alloc(1);
    CHECK(q != NULL);
    weir_mem_free(p);
    weir_mem_free(q);
}

CASE(fails_for_good)
{
    weir_mem_fail_nth(0, true);
    CHECK(!weir_mem_alloc(1) && !weir_mem_alloc(1) && !weir_mem_pages((size_t)4 << 20, true));
    weir_mem_fail_nth(-1, false);
    CHECK(!weir_mem_failed());
    void *p = weir_mem_alloc(1);
    CHECK(p != NULL);
    weir_mem_free(p);
}

static void use_pages(size_t bytes, bool huge, size_t align)
{
    const int64_t alive = weir_mem_alive();
    char         *p = weir_mem_pages(bytes, huge);
    CHECK_OR_RETURN(p != NULL);
    CHECK((uintptr_t)p % align == 0);
    memset(p, 7, bytes);
    CHECK(weir_mem_alive() == alive + 1);
    weir_mem_pages_free(p, bytes);
    CHECK(weir_mem_alive() == alive);
}

CASE(pages)
{
    use_pages(0, false, 64);
    use_pages(1, false, 64);
    use_pages(1000, true, 64);
    use_pages(((size_t)1 << 20) - 1, false, 64);
    use_pages((size_t)1 << 20, false, 4096);
    use_pages(((size_t)3 << 20) + 5, true, (size_t)2 << 20);
    weir_mem_pages_free(NULL, 12);
    CHECK(weir_mem_pages(SIZE_MAX - 3, false) == NULL);
    CHECK(weir_mem_pages(SIZE_MAX / 2, true) == NULL);
}

static void *counting_alloc(size_t bytes, void *user)
{
    ++*(int *)user;
    return malloc(bytes);
}

static void counting_free(void *p, void *user)
{
    --*(int *)user;
    free(p);
}

CASE(own_allocator)
{
    int n = 0;
    if (weir_mem_alive() != 0)
        return;
    CHECK_STATUS(weir_set_allocator(counting_alloc, NULL, &n), WEIR_ERR_INVALID);
    CHECK_OK(weir_set_allocator(counting_alloc, counting_free, &n));
    void *p = weir_mem_alloc(3), *q = weir_mem_pages((size_t)2 << 20, true);
    CHECK(n == 2 && (uintptr_t)q % 64 == 0);
    CHECK_STATUS(weir_set_allocator(NULL, NULL, NULL), WEIR_ERR_STATE);
    weir_mem_free(p);
    weir_mem_pages_free(q, (size_t)2 << 20);
    CHECK(n == 0);
    CHECK_OK(weir_set_allocator(NULL, NULL, NULL));
}

CASE(size_arithmetic)
{
    size_t r = 5;
    CHECK(!weir_size_mul(SIZE_MAX, 2, &r) && !weir_size_add(SIZE_MAX, 1, &r) && r == 5);
    CHECK(!weir_size_align(SIZE_MAX - 3, 64, &r) && r == 5);
    CHECK(weir_size_align(65, 64, &r) && r == 128);
    CHECK(weir_size_align(0, 64, &r) && r == 0);
}
