/* packed.h - checks of PACK, UNPACK, QUANTIZE and DEQUANTIZE calls, for every device. */
#ifndef WEIR_DEVICE_COMMON_PACKED_H
#define WEIR_DEVICE_COMMON_PACKED_H

#include "core/attr.h"
#include "core/status.h"

/* True if the element type has this encoding. */
static inline bool packed_kind(const weir_pack_attr *a)
{
    switch (a->kind) {
    case WEIR_PACK_WHOLE: return a->dtype >= 0 && a->dtype <= WEIR_BF16;
    case WEIR_PACK_BF16:
    case WEIR_PACK_F16: return a->dtype == WEIR_F32 || a->dtype == WEIR_F64;
    case WEIR_PACK_F32: return a->dtype == WEIR_F64;
    default: return false;
    }
}

/* Fails unless plain elements and packed bytes have the sizes that the attributes state. */
static inline weir_status packed_sizes(const weir_call *c, const weir_layout *plain,
                                       const weir_layout *packed)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)c->attr;

    if (plain->desc.dtype != (weir_dtype)a->dtype || !weir_shape_is_dense(plain) ||
        weir_shape_count(&plain->desc) != a->count || !weir_shape_is_dense(packed) ||
        weir_shape_bytes(&packed->desc) != weir_pack_bytes(a))
        return weir_call_fail(WEIR_ERR_SHAPE, c, "its operands are not %lld elements and %zu bytes",
                              (long long)a->count, weir_pack_bytes(a));
    return WEIR_OK;
}

/* Checks a PACK or UNPACK. */
static inline weir_status packed_check(const weir_call *c, const weir_layout *plain,
                                       const weir_layout *packed)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)c->attr;

    if (c->attr_bytes != sizeof *a || !packed_kind(a) || a->bits < 1 || a->bits > 32 ||
        (a->bits & (a->bits - 1)) != 0)
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no attributes, or no code for its type");
    return packed_sizes(c, plain, packed);
}

/* Checks a QUANTIZE or DEQUANTIZE. */
static inline weir_status packed_check_groups(const weir_call *c, const weir_layout *plain,
                                              const weir_layout *codes)
{
    const weir_pack_attr *const a = (const weir_pack_attr *)c->attr;

    if (c->attr_bytes != sizeof *a || a->kind != WEIR_PACK_GROUPS || a->dtype != WEIR_F32 ||
        (a->bits != 2 && a->bits != 4 && a->bits != 8 && a->bits != 16))
        return weir_call_fail(WEIR_ERR_INVALID, c, "has no attributes, or no code for its type");
    return packed_sizes(c, plain, codes);
}

#endif
