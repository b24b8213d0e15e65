/* mixed_precision.c - casts of functions composed of several calls, inside weir_autocast_begin:
 * they compute in f32 and return the type of their input. */
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

weir_tensor *weir_autocast_to_f32(weir_tensor *t)
{
    return inside(t) && weir_is_half(t->layout.desc.dtype) ? weir_cast(t, WEIR_F32) : t;
}

weir_tensor *weir_autocast_to_half(weir_tensor *t, const weir_tensor *like)
{
    const bool differ = inside(t) && like && weir_is_half(like->layout.desc.dtype) &&
                        t->layout.desc.dtype == WEIR_F32;
    return differ ? weir_cast(t, like->layout.desc.dtype) : t;
}
