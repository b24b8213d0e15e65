/* move.c - calls that move, convert or make elements. Attributes: core/attr.h. */
#include "model/onnx/write/calls.h"

/* The axes that a shape attribute names, from word `at` on. */
enum { AXES = WEIR_MAX_DIMS };

static bool is_float(weir_dtype t)
{
    return t == WEIR_F32 || t == WEIR_F64 || t == WEIR_F16 || t == WEIR_BF16;
}

void weir_onnx_write_reshape(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_onnx_reshaped(w, c->out[0], weir_onnx_in(w, c, 0), weir_onnx_out_desc(w, c, 0));
}

void weir_onnx_write_copy(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_put_node1(w, "Identity", c->out[0], weir_onnx_in(w, c, 0));
}

void weir_onnx_write_cast(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_onnx_cast_to(w, c->out[0], weir_onnx_in(w, c, 0), weir_onnx_out_desc(w, c, 0)->dtype);
}

void weir_onnx_write_bit_cast(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *const x = weir_onnx_in(w, c, 0);
    const int64_t     to = weir_onnx_type_of(weir_onnx_out_desc(w, c, 0)->dtype);

    weir_put_node(w, "BitCast", c->out[0], 1, &x, 1, &(weir_onnx_set)WEIR_SET_INT("to", to));
}

void weir_onnx_write_fill(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_onnx_filled(w, c->out[0], weir_onnx_out_desc(w, c, 0), weir_recording_double(c->call, 0));
}

void weir_onnx_write_concat(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const char *in[WEIR_RECORDING_IN];

    for (uint32_t i = 0; i < c->uses; i++)
        in[i] = weir_onnx_in(w, c, i);
    weir_put_node(w, "Concat", c->out[0], c->uses, in, 1,
                   &(weir_onnx_set)WEIR_SET_INT("axis", c->call->attr[0]));
}

/* Numbers are counted exactly as integers; floats are scaled afterwards, as the kernel does. */
void weir_onnx_write_arange(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const double           start = weir_recording_double(c->call, 0);
    const double           step = weir_recording_double(c->call, 1);
    const weir_desc *const d = weir_onnx_out_desc(w, c, 0);
    const weir_dtype       wide = d->dtype == WEIR_F64 ? WEIR_F64 : WEIR_F32;
    const char *const      from0[] = {weir_onnx_int_of(w, 0), weir_onnx_int_of(w, d->dim[0]),
                                      weir_onnx_int_of(w, 1)};
    const char            *x = weir_put_node(w, "Range", NULL, 3, from0, 0, NULL);

    if (!is_float(d->dtype)) {
        x = weir_put_node2(w, "Mul", NULL, x, weir_onnx_int_of(w, (int64_t)step));
        x = weir_put_node2(w, "Add", NULL, x, weir_onnx_int_of(w, (int64_t)start));
        weir_onnx_cast_to(w, c->out[0], x, d->dtype);
        return;
    }
    x = weir_onnx_cast_to(w, NULL, x, WEIR_F64);
    x = weir_put_node2(w, "Mul", NULL, x, weir_onnx_scalar_of(w, WEIR_F64, step));
    x = weir_put_node2(w, "Add", NULL, x, weir_onnx_scalar_of(w, WEIR_F64, start));
    x = weir_onnx_cast_to(w, d->dtype == wide ? c->out[0] : NULL, x, wide);
    if (d->dtype != wide)
        weir_onnx_cast_to(w, c->out[0], x, d->dtype);
}

/* ---- by index ---- */

void weir_onnx_write_gather(weir_onnx_writer *w, const weir_onnx_written *c)
{
    weir_put_node2(w, "Gather", c->out[0], weir_onnx_in(w, c, 0), weir_onnx_in(w, c, 1));
}

void weir_onnx_write_one_hot(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const d = weir_onnx_out_desc(w, c, 0);
    const weir_dtype       wide = d->dtype == WEIR_F64 || d->dtype == WEIR_I32 ||
                            d->dtype == WEIR_I64 ? d->dtype : WEIR_F32;
    const weir_desc        one = {wide, 1, {1}};
    const char *const      none = weir_onnx_scalar_of(w, wide, 0);
    const char *const      ends[] = {weir_onnx_reshaped(w, NULL, none, &one),
                                     weir_onnx_reshaped(w, NULL, weir_onnx_scalar_of(w, wide, 1),
                                                        &one)};
    const char *const      values = weir_put_node(w, "Concat", NULL, 2, ends, 1,
                                                   &(weir_onnx_set)WEIR_SET_INT("axis", 0));
    const char *const      in[] = {weir_onnx_in(w, c, 0), weir_onnx_int_of(w, d->dim[1]), values};
    const char *const      y = weir_put_node(w, "OneHot", wide == d->dtype ? c->out[0] : NULL, 3,
                                              in, 0, NULL);

    if (wide != d->dtype)
        weir_onnx_cast_to(w, c->out[0], y, d->dtype);
}

/* x (v,d), index (n), update (n,d) */
void weir_onnx_write_scatter_add(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const weir_desc *const update = weir_onnx_in_desc(w, c, 2);
    const weir_desc        column = {WEIR_I64, 2, {update->dim[0], 1}};
    const weir_desc        all = {WEIR_I64, 2, {update->dim[0], update->dim[1]}};
    const char *const      rows = weir_onnx_reshaped(w, NULL, weir_onnx_in(w, c, 1), &column);
    const char *const      in[] = {weir_onnx_in(w, c, 0), weir_onnx_expanded(w, NULL, rows, &all),
                                   weir_onnx_in(w, c, 2)};

    weir_put_node(w, "ScatterElements", c->out[0], 3, in, 1,
                   &(weir_onnx_set)WEIR_SET_TEXT("reduction", "add"));
}

/* ---- slices: ndim, then begin, step and dim of 8 axes each, then a value ---- */

void weir_onnx_write_slice(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const a = c->call->attr;

    weir_onnx_sliced(w, c->out[0], weir_onnx_in(w, c, 0), (int)a[0], a + 1, a + 1 + 2 * AXES,
                     a + 1 + AXES);
}

/* The elements' numbers in the result, which is flat at first. */
static const char *scattered(weir_onnx_writer *w, const char *out, const char *x,
                             const weir_desc *d, const weir_desc *to, const int64_t *a)
{
    weir_desc of = *d, into = *to;

    if (d->dtype == WEIR_BOOL) {        /* which not every reader scatters */
        of.dtype = into.dtype = WEIR_I32;
        x = weir_onnx_cast_to(w, NULL, x, WEIR_I32);
        return weir_onnx_cast_to(w, out, scattered(w, NULL, x, &of, &into, a), WEIR_BOOL);
    }

    const int64_t     n = weir_recording_count(d);
    const weir_desc   flat = {to->dtype, 1, {weir_recording_count(to)}}, list = {to->dtype, 1, {n}};
    const weir_desc   numbers = {WEIR_I64, 1, {n}};
    int64_t *const    at = weir_host_alloc((size_t)(n + 1) * sizeof *at);
    const char *const base = weir_onnx_filled(w, NULL, &flat, weir_recording_double(
                                                  &(weir_recording_call){.attr = {a[25]}}, 0));

    w->failed = w->failed || !at;
    for (int64_t i = 0; at && i < n; i++) {
        int64_t rest = i, unit = 1;
        at[i] = 0;
        for (int k = d->ndim - 1; k >= 0; k--) {
            at[i] += (a[1 + k] + rest % d->dim[k] * a[1 + AXES + k]) * unit;
            rest /= d->dim[k];
            unit *= to->dim[k];
        }
    }
    const char *const in[] = {
        base, at ? weir_onnx_elements_of(w, &numbers, at, (size_t)n * sizeof *at) : NULL,
        weir_onnx_reshaped(w, NULL, x, &list)};
    weir_host_free(at);
    return weir_onnx_reshaped(w, out, weir_put_node(w, "ScatterElements", NULL, 3, in, 0, NULL),
                              to);
}

void weir_onnx_write_slice_scatter(weir_onnx_writer *w, const weir_onnx_written *c)
{
    const int64_t *const   a = c->call->attr;
    const weir_desc *const x = weir_onnx_in_desc(w, c, 0), *const y = weir_onnx_out_desc(w, c, 0);
    int64_t                pads[2 * AXES];
    const size_t           n = (size_t)x->ndim;
    bool                   plain = n > 0 && is_float(x->dtype);

    for (size_t i = 0; i < n; i++) {
        plain = plain && a[1 + AXES + i] == 1;
        pads[i] = a[1 + i];
        pads[n + i] = y->dim[i] - a[1 + i] - x->dim[i];
    }
    const char *const in = weir_onnx_in(w, c, 0);
    if (!plain) {
        scattered(w, c->out[0], in, x, y, a);
        return;
    }
    const char *const of[] = {in, weir_onnx_ints_of(w, pads, 2 * n),
                              weir_onnx_scalar_of(w, x->dtype, weir_recording_double(c->call, 25))};
    weir_put_node(w, "Pad", c->out[0], 3, of, 0, NULL);
}
