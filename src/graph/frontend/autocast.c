/* autocast.c - scopes of mixed precision. See autocast.h. */
#include "graph/frontend/autocast.h"

#include "core/dtype.h"
#include "core/status.h"
#include "core/tensor.h"

weir_status weir_autocast_begin(weir_device *d, weir_dtype half)
{
    WEIR_VISIT(d, "weir_autocast_begin", weir_error_status());
    if (half != WEIR_F32 && !weir_is_half(half))
        return weir_fail(WEIR_ERR_DTYPE, "weir_autocast_begin: products are in bf16, f16 or f32, "
                         "not in %s", weir_dtype_name(half));
    weir_session *const s = weir_session_of(d);
    if (!s || !weir_vec_push(&s->outer_casts, s->autocast))
        return WEIR_ERR_NOMEM;
    s->autocast = half;
    return WEIR_OK;
}

weir_status weir_autocast_end(weir_device *d)
{
    WEIR_VISIT(d, "weir_autocast_end", weir_error_status());
    weir_session *const s = weir_session_of(d);
    if (!s)
        return WEIR_ERR_NOMEM;
    if (s->outer_casts.n == 0)
        return weir_fail(WEIR_ERR_STATE, "weir_autocast_end: without a weir_autocast_begin");
    s->autocast = s->outer_casts.at[--s->outer_casts.n];
    return WEIR_OK;
}

/* May the product's inputs be cast to a half? Only if all are f32 or halves already: with f64 among
 * them, the product is computed in f64 or refused. */
static bool autocast_half(const weir_opdef *def, int n, const weir_dtype *type)
{
    for (int i = 0; i < n; i++)
        if (def->autocast_half >> i & 1 && type[i] != WEIR_F32 && !weir_is_half(type[i]))
            return false;
    return true;
}

void weir_autocast_types(const weir_session *s, const weir_opdef *def, int n, weir_dtype *type)
{
    const bool products = s->autocast != WEIR_F32 && autocast_half(def, n, type);

    for (int i = 0; i < n && s->autocast != WEIR_F32; i++) {
        if (def->autocast_half >> i & 1 && products)
            type[i] = s->autocast;
        else if (def->autocast_f32 >> i & 1 && weir_is_half(type[i]))
            type[i] = WEIR_F32;
    }
}
