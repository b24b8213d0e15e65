/* vec.c - tests of growing arrays. */
#include "core/vec.h"
#include "check.h"

typedef struct pair {
    int64_t a;
    char    b;
} pair;

CASE(push)
{
    WEIR_VEC(pair) v = {0};
    for (int i = 0; i < 1000; i++)
        CHECK_OR_RETURN(weir_vec_push(&v, (pair){i, (char)(i % 7)}));
    CHECK(v.n == 1000 && v.cap >= 1000);
    for (int i = 0; i < 1000; i++)
        CHECK(v.at[i].a == i && v.at[i].b == i % 7);
    weir_vec_free(&v);
    CHECK(v.at == NULL && v.n == 0 && v.cap == 0);
}

CASE(reserve)
{
    WEIR_VEC(double) v = {0};
    CHECK(weir_vec_reserve(&v, 0) && v.at == NULL);
    CHECK(weir_vec_reserve(&v, 100) && v.cap >= 100 && v.n == 0);
    const uint64_t calls = weir_mem_calls();
    for (int i = 0; i < 100; i++)
        weir_vec_push(&v, i);
    CHECK(weir_mem_calls() == calls);
    weir_vec_free(&v);
}

CASE(short_memory)
{
    WEIR_VEC(int) v = {0};
    int pushed = 0;
    weir_mem_fail_nth(2, true);
    while (weir_vec_push(&v, pushed))
        pushed++;
    CHECK_STATUS(weir_error_status(), WEIR_ERR_NOMEM);
    CHECK(pushed > 0 && v.n == (uint32_t)pushed && v.at[pushed - 1] == pushed - 1);
    CHECK(!weir_vec_reserve(&v, (uint64_t)UINT32_MAX + 1));
    weir_vec_free(&v);
}
