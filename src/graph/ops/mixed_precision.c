/* mixed_precision.c - casts around functions that compute in f32: norms, losses, sums of squares.
 *
 * They widen halves, whose rounding would spoil long sums, and give a result of the inputs' type,
 * as PyTorch does. Inside weir_autocast_begin sums and losses stay f32, norms do not. Casts are
 * recorded calls, so gradients flow through them. */
#include "core/dtype.h"
#include "core/tensor.h"
#include "graph/ir/session.h"
#include "graph/ops/op.h"

/* Is a scope open on t's device? */
static bool inside(const weir_tensor *t)
{
    const weir_session *const s = t && t->dev && !t->dev->closed ? t->dev->session : NULL;

    return s && s->autocast != WEIR_F32;
}

weir_tensor *weir_half_to_f32(weir_tensor *t)
{
    return t && weir_is_half(t->layout.desc.dtype) ? weir_cast(t, WEIR_F32) : t;
}

weir_tensor *weir_f32_to_half(weir_tensor *t, const weir_tensor *like)
{
    const bool differ = t && like && weir_is_half(like->layout.desc.dtype) &&
                        t->layout.desc.dtype == WEIR_F32;
    return differ ? weir_cast(t, like->layout.desc.dtype) : t;
}

weir_tensor *weir_autocast_to_half(weir_tensor *t, const weir_tensor *like)
{
    return inside(t) ? weir_f32_to_half(t, like) : t;
}

weir_tensor *weir_sum_to_half(weir_tensor *t, const weir_tensor *a, const weir_tensor *b)
{
    const bool one_type = a && b && a->layout.desc.dtype == b->layout.desc.dtype;

    return one_type && !inside(t) ? weir_f32_to_half(t, a) : t;
}
