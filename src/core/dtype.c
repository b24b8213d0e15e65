/* dtype.c - size, name and order of the element types. */
#include "core/dtype.h"

enum { RANK_INTEGER = 1 };

/* rank: a promotion takes the type of higher rank; integers see below, and two different floats of
 * one rank promote to f32. negative: an integer type with a sign. */
static const struct {
    size_t      size;
    const char *name;
    int         rank;
    bool        negative;
} dtypes[WEIR_DTYPES] = {
    [WEIR_F32] = {4, "f32", 3, false}, [WEIR_F64] = {8, "f64", 4, false},
    [WEIR_I32] = {4, "i32", 1, true},  [WEIR_I64] = {8, "i64", 1, true},
    [WEIR_U8] = {1, "u8", 1, false},   [WEIR_BOOL] = {1, "bool", 0, false},
    [WEIR_F16] = {2, "f16", 2, false}, [WEIR_BF16] = {2, "bf16", 2, false},
    [WEIR_I8] = {1, "i8", 1, true},    [WEIR_I16] = {2, "i16", 1, true},
    [WEIR_U16] = {2, "u16", 1, false}, [WEIR_U32] = {4, "u32", 1, false},
    [WEIR_U64] = {8, "u64", 1, false},
};

static bool known(weir_dtype t)
{
    return (size_t)t < WEIR_DTYPES;
}

/* The narrowest type that holds all values of two different integer types. */
static weir_dtype promote_integers(weir_dtype a, weir_dtype b)
{
    const bool       same = dtypes[a].negative == dtypes[b].negative;
    const weir_dtype wide = dtypes[a].size >= dtypes[b].size ? a : b;
    const weir_dtype sign = dtypes[a].negative ? a : b, none = sign == a ? b : a;

    if (same)
        return wide;
    if (dtypes[sign].size > dtypes[none].size)
        return sign;
    switch (dtypes[none].size) {
    case 1: return WEIR_I16;
    case 2: return WEIR_I32;
    case 4: return WEIR_I64;
    default: return WEIR_F64;
    }
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
    if (ra == rb && ra == RANK_INTEGER)
        return promote_integers(a, b);
    return ra == rb ? WEIR_F32 : ra > rb ? a : b;
}
