/* shape.c - arithmetic of shapes and strides.
 *
 * An empty tensor has the strides of the same tensor with each 0 replaced by 1: nothing is read
 * through them, but they are defined and bounded. */
#include "core/dtype.h"
#include "core/shape.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/status.h"

static int64_t at_least_1(int64_t dim)
{
    return dim > 0 ? dim : 1;
}

weir_status weir_shape_check(const char *who, const weir_desc *d)
{
    char text[WEIR_DESC_TEXT];
    if (weir_dtype_size(d->dtype) == 0)
        return weir_fail(WEIR_ERR_DTYPE, "%s: unknown element type %d (expected a weir_dtype)", who,
                         (int)d->dtype);
    if (d->ndim < 0 || d->ndim > WEIR_MAX_DIMS)
        return weir_fail(WEIR_ERR_SHAPE, "%s: a tensor has 0 to %d dims, not %d", who,
                         WEIR_MAX_DIMS, d->ndim);
    size_t bytes = weir_dtype_size(d->dtype);
    for (int i = 0; i < d->ndim; i++) {
        if (d->dim[i] < 0)
            return weir_fail(WEIR_ERR_SHAPE, "%s: dim %d of %s is negative", who, i,
                             weir_desc_text(d, text));
        if (!weir_size_mul(bytes, (size_t)at_least_1(d->dim[i]), &bytes) || bytes > PTRDIFF_MAX)
            return weir_fail(WEIR_ERR_SHAPE, "%s: %s has more bytes than can be addressed", who,
                             weir_desc_text(d, text));
    }
    return WEIR_OK;
}

int64_t weir_shape_count(const weir_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->ndim; i++) {
        if (d->dim[i] == 0)
            return 0;
        n *= d->dim[i];
    }
    return n;
}

size_t weir_shape_bytes(const weir_desc *d)
{
    return (size_t)weir_shape_count(d) * weir_dtype_size(d->dtype);
}

bool weir_shape_equal(const weir_desc *a, const weir_desc *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

bool weir_desc_equal(const weir_desc *a, const weir_desc *b)
{
    return a->dtype == b->dtype && weir_shape_equal(a, b);
}

void weir_shape_row_major(const weir_desc *d, int64_t stride[WEIR_MAX_DIMS])
{
    int64_t step = 1;
    for (int i = d->ndim - 1; i >= 0; i--) {
        stride[i] = step;
        step *= at_least_1(d->dim[i]);
    }
}

void weir_shape_dense(weir_layout *l)
{
    const weir_desc *d = &l->desc;
    if (d->ndim != 4 || !weir_is_any_float(d->dtype)) {
        weir_shape_row_major(d, l->stride);
        return;
    }
    const int64_t c = at_least_1(d->dim[1]), h = at_least_1(d->dim[2]), w = at_least_1(d->dim[3]);
    l->stride[0] = h * w * c;
    l->stride[1] = 1;
    l->stride[2] = w * c;
    l->stride[3] = c;
}

bool weir_shape_is_dense(const weir_layout *l)
{
    weir_layout dense = {.desc = l->desc};
    weir_shape_dense(&dense);
    if (weir_shape_count(&l->desc) == 0)
        return true;
    for (int i = 0; i < l->desc.ndim; i++)
        if (l->desc.dim[i] != 1 && l->stride[i] != dense.stride[i])
            return false;
    return true;
}

bool weir_shape_broadcast(const weir_desc *a, const weir_desc *b, weir_desc *out)
{
    weir_desc r = {.dtype = a->dtype, .ndim = a->ndim > b->ndim ? a->ndim : b->ndim};
    for (int i = 0; i < r.ndim; i++) {
        const int     ia = i - (r.ndim - a->ndim), ib = i - (r.ndim - b->ndim);
        const int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];
        if (da != db && da != 1 && db != 1)
            return false;
        r.dim[i] = da == 1 ? db : da;
    }
    *out = r;
    return true;
}

void weir_shape_expand(const weir_layout *in, const weir_desc *to, weir_layout *out)
{
    weir_layout r = {.desc = *to};
    r.desc.dtype = in->desc.dtype;
    for (int i = 0; i < to->ndim; i++) {
        const int j = i - (to->ndim - in->desc.ndim);
        r.stride[i] = j < 0 || in->desc.dim[j] == 1 ? 0 : in->stride[j];
    }
    *out = r;
}

/* The layout without its axes of size 1. */
static weir_layout squeezed(const weir_layout *in)
{
    weir_layout r = {.desc = {.dtype = in->desc.dtype}};
    for (int i = 0; i < in->desc.ndim; i++) {
        if (in->desc.dim[i] == 1)
            continue;
        r.desc.dim[r.desc.ndim] = in->desc.dim[i];
        r.stride[r.desc.ndim++] = in->stride[i];
    }
    return r;
}

/* True if axes from..end-1 step through memory like a single axis. */
static bool is_one_run(const weir_layout *l, int from, int end)
{
    for (int k = from; k + 1 < end; k++)
        if (l->stride[k] != l->stride[k + 1] * l->desc.dim[k + 1])
            return false;
    return true;
}

/* Splits old and new axes, from the left, into the smallest groups of equal products. The old axes
 * of a group must be one run of memory, which the group's new axes then divide (as in NumPy). */
bool weir_shape_reshape(const weir_layout *in, const weir_desc *to, weir_layout *out)
{
    const weir_layout old = squeezed(in);
    weir_layout r = {.desc = *to};
    r.desc.dtype = in->desc.dtype;
    weir_shape_row_major(to, r.stride);
    const bool empty = weir_shape_count(to) == 0;

    for (int from = 0, begin = 0; !empty && from < old.desc.ndim;) {
        int     end = from + 1, stop = begin + 1;
        int64_t have = old.desc.dim[from], want = to->dim[begin];
        while (have != want) {
            if (want < have)
                want *= to->dim[stop++];
            else
                have *= old.desc.dim[end++];
        }
        if (!is_one_run(&old, from, end))
            return false;
        r.stride[stop - 1] = old.stride[end - 1];
        for (int k = stop - 1; k > begin; k--)
            r.stride[k - 1] = r.stride[k] * to->dim[k];
        from = end;
        begin = stop;
    }
    *out = r;
    return true;
}

char *weir_desc_text(const weir_desc *d, char buf[WEIR_DESC_TEXT])
{
    size_t n = (size_t)snprintf(buf, WEIR_DESC_TEXT, "%s(", weir_dtype_name(d->dtype));
    for (int i = 0; i < d->ndim && i < WEIR_MAX_DIMS && n < WEIR_DESC_TEXT; i++)
        n += (size_t)snprintf(buf + n, WEIR_DESC_TEXT - n, i > 0 ? ",%lld" : "%lld",
                              (long long)d->dim[i]);
    if (n < WEIR_DESC_TEXT)
        snprintf(buf + n, WEIR_DESC_TEXT - n, ")");
    return buf;
}
