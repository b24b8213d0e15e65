/* dtype.c - size, name and order of the element types. */
#include "weir/base.h"

/* rank: a promotion takes the type of higher rank; two different types of one rank promote to the
 * next: f32. */
static const struct {
    size_t      size;
    const char *name;
    int         rank;
} dtypes[] = {
    [WEIR_F32] = {4, "f32", 5}, [WEIR_F64] = {8, "f64", 6}, [WEIR_I32] = {4, "i32", 2},
    [WEIR_I64] = {8, "i64", 3}, [WEIR_U8] = {1, "u8", 1},   [WEIR_BOOL] = {1, "bool", 0},
    [WEIR_F16] = {2, "f16", 4}, [WEIR_BF16] = {2, "bf16", 4},
};

static bool known(weir_dtype t)
{
    return (size_t)t < sizeof dtypes / sizeof *dtypes;
}

size_t weir_dtype_size(weir_dtype t)
{
    return known(t) ? dtypes[t].size : 0;
}

const char *weir_dtype_name(weir_dtype t)
{
    return known(t) ? dtypes[t].name : "?";
}

weir_dtype weir_dtype_promote(weir_dtype a, weir_dtype b)
{
    if (a == b || !known(a) || !known(b))
        return a;
    const int ra = dtypes[a].rank, rb = dtypes[b].rank;
    return ra == rb ? WEIR_F32 : ra > rb ? a : b;
}
