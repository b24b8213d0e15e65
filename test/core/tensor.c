/* tensor.c - tests of tensor handles without a device. */
#include "core/tensor.h"
#include "check.h"
#include "core/mem.h"

static weir_tensor *made(void)
{
    weir_layout l = {.desc = weir_2d(WEIR_F32, 2, 3)};
    weir_shape_dense(&l);
    return weir_tensor_make(NULL, &l, 0, NULL);
}

CASE(counts_references)
{
    static weir_ref block = {1, NULL};
    weir_layout     l = {.desc = weir_scalar(WEIR_F64)};
    weir_tensor    *t = weir_tensor_make(NULL, &l, 4, &block);
    CHECK_OR_RETURN(t != NULL);
    CHECK(block.count == 2 && t->offset == 4);
    CHECK(weir_retain(t) == t);
    weir_release(t);
    CHECK(block.count == 2);
    weir_release(t);
    CHECK(block.count == 1);
    weir_release(NULL);
    CHECK(weir_retain(NULL) == NULL);
}

CASE(answers)
{
    weir_tensor *t = made();
    CHECK_OR_RETURN(t != NULL);
    const weir_desc want = weir_2d(WEIR_F32, 2, 3), got = weir_tensor_desc(t);
    CHECK(weir_desc_equal(&got, &want) && weir_tensor_bytes(t) == 24);
    CHECK(strcmp(weir_tensor_name(t), "") == 0 && !weir_tensor_needs_grad(t));
    t->name = weir_mem_strdup("w");
    CHECK_TEXT(weir_tensor_name(t), "w");
    weir_release(t);
    CHECK(weir_tensor_bytes(NULL) == 0 && weir_tensor_device(NULL) == NULL);
    CHECK(strcmp(weir_tensor_name(NULL), "") == 0 && !weir_tensor_needs_grad(NULL));
}

CASE(short_memory)
{
    weir_mem_fail_nth(0, false);
    CHECK(made() == NULL);
}
