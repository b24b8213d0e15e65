/* op.c - names of ops; failure messages and costs of calls. */
#include "core/op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/status.h"

bool weir_op_takes(const weir_opdef *def, int i, const weir_layout *l)
{
    const int last = l->desc.ndim - 1;

    if (!(def->flags & (WEIR_STRIDED | WEIR_VIEW)))
        return weir_shape_is_dense(l);
    return !(def->unit_last >> i & 1) || last < 0 || l->desc.dim[last] <= 1 || l->stride[last] == 1;
}

const char *weir_op_name(weir_op op)
{
    static const char *const names[WEIR_OP_COUNT] = {
#define OP(ID, id) [WEIR_OP_##ID] = #id,
#include "core/ops.def"
#undef OP
#define ROW(ID, id, ...) [WEIR_OP_##ID] = #id,
#include "core/elementwise.def"
#undef ROW
    };

    return names[op];
}

/* Appends to buf of `capacity` bytes, of which n are used; returns the bytes used, capacity - 1 at
 * most. */
static size_t append(char *buf, size_t capacity, size_t n, const char *text)
{
    n += (size_t)snprintf(buf + n, capacity - n, "%s", text);
    return n < capacity ? n : capacity - 1;
}

weir_status weir_call_fail(weir_status s, const weir_call *c, const char *format, ...)
{
    char sentence[512], inputs[384] = "", one[WEIR_DESC_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    size_t n = 0;
    for (int i = 0; i < c->nin; i++) {
        n = append(inputs, sizeof inputs, n, i == 0 ? " (inputs " : ", ");
        n = append(inputs, sizeof inputs, n, weir_desc_text(&c->in[i].desc, one));
    }
    append(inputs, sizeof inputs, n, c->nin > 0 ? ")" : "");
    return weir_fail(s, "%s: %s%s", weir_op_name(c->op), sentence, inputs);
}

/* Bytes an operand occupies: an axis of stride 0 repeats the same elements. */
static double operand_bytes(const weir_layout *l)
{
    double bytes = (double)weir_dtype_size(l->desc.dtype);
    for (int i = 0; i < l->desc.ndim; i++)
        if (l->stride[i] != 0 || l->desc.dim[i] == 0)
            bytes *= (double)l->desc.dim[i];
    return bytes;
}

double weir_call_bytes(const weir_call *c)
{
    double sum = 0;
    for (int i = 0; i < c->nin; i++)
        sum += operand_bytes(&c->in[i]);
    for (int i = 0; i < c->nout; i++)
        sum += operand_bytes(&c->out[i]);
    return sum;
}

double weir_call_flops(const weir_call *c)
{
    if (c->def && c->def->flops)
        return c->def->flops(c);
    return c->nout > 0 ? (double)weir_shape_count(&c->out[0].desc) : 0;
}

double weir_call_multiply_adds(const weir_call *c)
{
    const double out = c->nout > 0 ? (double)weir_shape_count(&c->out[0].desc) : 0;

    return c->def && c->def->flags & WEIR_PRODUCT && out > 0
               ? floor(weir_call_flops(c) / (2 * out)) * out
               : 0;
}

/* The speed of two server cores, and the least time of any call. */
#define FLOPS_PER_SECOND 1.5e11
#define BYTES_PER_SECOND 1.5e10
#define CALL_SECONDS     2e-6

double weir_call_estimate(const weir_call *c)
{
    const double compute = weir_call_flops(c) / FLOPS_PER_SECOND,
                 move = weir_call_bytes(c) / BYTES_PER_SECOND;
    return CALL_SECONDS + (compute > move ? compute : move);
}
