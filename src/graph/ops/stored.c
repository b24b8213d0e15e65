/* stored.c - reductions and gathers of integer types that no kernel adds: computed in i64. */
#include "graph/ops/stored.h"

/* x + 2^63 in u64, which wraps: the order of u64 becomes that of i64, and the other way round. */
static weir_tensor *turned(weir_tensor *x)
{
    return weir_add(x, weir_fill(x->dev, weir_scalar(WEIR_U64), 0x1p63));
}

weir_tensor *weir_widen_stored(weir_tensor *x, bool ordered)
{
    if (!x || !weir_is_stored(x->layout.desc.dtype))
        return x;
    return weir_cast(ordered && x->layout.desc.dtype == WEIR_U64 ? turned(x) : x, WEIR_I64);
}

weir_tensor *weir_narrow_stored(weir_tensor *y, weir_dtype t, bool ordered)
{
    if (!y || !weir_is_stored(t))
        return y;
    weir_tensor *const narrow = weir_cast(y, t);
    return narrow && ordered && t == WEIR_U64 ? turned(narrow) : narrow;
}
