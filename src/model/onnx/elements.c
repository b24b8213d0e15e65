/* elements.c - writes tensors by views of their rows, so that no address is given away, which would
 * pin a parameter. */
#include "model/onnx/elements.h"

enum { PART = 1 << 20 };

/* Bytes of a row of the first axis; of all if there is no axis. */
static size_t row_of(const weir_tensor *t)
{
    const weir_desc d = weir_tensor_desc(t);
    const size_t    bytes = weir_tensor_bytes(t);

    return bytes && d.ndim > 0 ? bytes / (size_t)d.dim[0] : bytes;
}

size_t weir_elements_room(const weir_tensor *t)
{
    const size_t row = row_of(t);

    return row > PART ? row : PART;
}

static weir_status add_rows(weir_tensor *t, void *buffer, size_t room, weir_output *o)
{
    const weir_desc d = weir_tensor_desc(t);
    const size_t    bytes = weir_tensor_bytes(t);
    const int64_t   row = (int64_t)row_of(t), all = d.ndim > 0 ? d.dim[0] : 1;
    const int64_t   rows = bytes ? (int64_t)room / row : 1;

    for (int64_t i = 0; bytes && i < all; i += rows) {
        const int64_t      n = all - i < rows ? all - i : rows;
        weir_tensor *const part = n < all ? weir_narrow(t, 0, i, n) : t;
        if (!part)
            return weir_error_status();
        WEIR_TRY(weir_read(part, buffer, (size_t)(n * row)));
        WEIR_TRY(weir_output_add(o, buffer, (size_t)(n * row)));
    }
    return WEIR_OK;
}

weir_status weir_elements_add(weir_tensor *t, void *buffer, size_t room, weir_output *o)
{
    weir_device *const d = weir_tensor_device(t);

    WEIR_TRY(weir_scope_begin(d));
    const weir_status s = add_rows(t, buffer, room, o), end = weir_scope_end(d);
    return s == WEIR_OK ? end : s;
}
