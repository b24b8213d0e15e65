/* fields.c - texts, names and counts of fields: what messages of every kind have. */
#include "model/onnx/proto.h"

weir_status weir_onnx_text(weir_onnx_proto *p, weir_wire_range r, const char **text, size_t *n)
{
    const uint64_t bytes = r.end - r.at;
    char *const    to = weir_onnx_pool_get(&p->pool, bytes + 1, 1);

    if (!to)
        return weir_error_status();
    WEIR_TRY(weir_wire_copy(&p->source, r, to));
    *text = to;
    if (n)
        *n = (size_t)bytes;
    return WEIR_OK;
}

weir_status weir_onnx_slot(weir_onnx_proto *p, weir_wire_range r, uint32_t *slot, const char **name)
{
    const char *text = "";

    WEIR_TRY(weir_onnx_text(p, r, &text, NULL));
    if (name)
        *name = text;
    if (*text)
        return weir_onnx_names_add(&p->names, text, slot);
    *slot = WEIR_ONNX_ABSENT;
    return WEIR_OK;
}

weir_status weir_onnx_count(weir_onnx_proto *p, weir_wire_range r, uint32_t number, uint64_t *n)
{
    weir_wire       w = weir_wire_over(&p->source, r);
    weir_wire_field f;
    bool            more;

    *n = 0;
    for (;;) {
        WEIR_TRY(weir_wire_next(&w, &f, &more));
        if (!more)
            return WEIR_OK;
        *n += f.number == number && f.kind == WEIR_WIRE_RANGE;
    }
}
