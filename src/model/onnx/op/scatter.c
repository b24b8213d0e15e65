/* scatter.c - elements and rows written to places that indices name.
 *
 * A sum is one operation. The largest, smallest or product of what meets in a place is composed: a
 * mask says which updates meet which row, so it takes rows times updates, up to MEETINGS. */
#include <inttypes.h>
#include <string.h>

#include "model/onnx/op/ops.h"

enum { MEETINGS = 1 << 22 };

typedef enum reduction { REPLACE, ADD, MUL, MAX, MIN, REDUCTIONS } reduction;

/* The rows of x (v, d...) at flat numbers `at` become those of update, or the sum with them. */
static weir_tensor *replaced(weir_onnx_call *c, weir_tensor *x, weir_tensor *at,
                             weir_tensor *update)
{
    const weir_desc    d = weir_tensor_desc(x), u = weir_tensor_desc(update);
    weir_tensor *const none = weir_fill(c->dev, d, 0), *const one = weir_fill(c->dev, u, 1);
    weir_tensor *const zero = weir_fill(c->dev, weir_scalar(d.dtype), 0);
    weir_tensor *const hit = weir_gt(weir_scatter_add(none, at, one), zero);

    return weir_where(hit, weir_scatter_add(none, at, update), x);
}

/* Updates (n, row) that do not meet a row count as `neutral`: (v, n, row) reduced over n. */
static weir_tensor *met(weir_onnx_call *c, weir_tensor *x, weir_tensor *at, weir_tensor *update,
                        reduction how)
{
    const weir_desc d = weir_tensor_desc(x), a = weir_tensor_desc(at);
    const int64_t   n = weir_onnx_product(&a, 0, a.ndim), v = d.dim[0];
    const int64_t   row = weir_onnx_product(&d, 1, d.ndim);

    if (v < 1 || n < 1 || row < 1)
        return weir_onnx_same(x);
    if (v > MEETINGS / n || v * n > MEETINGS / row)
        return (void)weir_onnx_refuse(c, "%" PRId64 " updates of %" PRId64 " rows", n, v), NULL;
    weir_tensor *const rows = weir_reshape(x, 2, (int64_t[]){v, row});
    weir_tensor *const each = weir_reshape(update, 3, (int64_t[]){1, n, row});
    weir_tensor *const hit = weir_eq(weir_onnx_ramp(c, v, 1, 3, 0),
                                     weir_reshape(weir_onnx_as(at, WEIR_I64), 3,
                                                  (int64_t[]){1, n, 1}));
    weir_tensor *const neutral =
        how == MUL ? weir_onnx_scalar(c, d.dtype, 1) : weir_unsqueeze(rows, 1);
    weir_tensor *const all = weir_where(hit, each, neutral);
    weir_tensor *const y =
        how == MUL   ? weir_mul(rows, weir_onnx_as(weir_prod(all, 2, false), d.dtype))
        : how == MAX ? weir_max(rows, weir_amax(all, 2, false))
                     : weir_min(rows, weir_amin(all, 2, false));
    return y ? weir_reshape(y, d.ndim, d.dim) : NULL;
}

static weir_tensor *scattered(weir_onnx_call *c, weir_tensor *x, weir_tensor *at,
                              weir_tensor *update, reduction how)
{
    if (!x || !at || !update)
        return NULL;
    return how == ADD       ? weir_scatter_add(x, at, update)
           : how == REPLACE ? replaced(c, x, at, update)
                            : met(c, x, at, update, how);
}

/* Duplicates are left open by ONNX where nothing is said of them. */
static weir_status read_reduction(weir_onnx_call *c, reduction *how)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const char *const        said = weir_onnx_str(c, "reduction", "none");

    *how = REPLACE;
    while (*how < REDUCTIONS && strcmp(names[*how], said) != 0)
        (*how)++;
    return *how < REDUCTIONS ? WEIR_OK : weir_onnx_refuse(c, "reduction %.20s", said);
}

static weir_status give_whole(weir_onnx_call *c, weir_tensor *y, const weir_desc *d)
{
    return weir_onnx_give(c, 0, y ? weir_reshape(y, d->ndim, d->dim) : NULL);
}

weir_status weir_onnx_scatter_elements(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const index = weir_onnx_x(c, 1);
    weir_tensor *const update = weir_onnx_x(c, 2);
    weir_tensor       *flat;
    int64_t            all;
    reduction          how;

    if (!x || !index || !update)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(read_reduction(c, &how));
    WEIR_TRY(weir_onnx_flat_elements(c, &d, index, &flat, &all));
    return give_whole(c, scattered(c, weir_reshape(x, 1, &all), flat, update, how), &d);
}

weir_status weir_onnx_scatter_nd(weir_onnx_call *c)
{
    weir_tensor *const x = weir_onnx_x(c, 0), *const index = weir_onnx_x(c, 1);
    weir_tensor *const update = weir_onnx_x(c, 2);
    weir_tensor       *flat;
    weir_desc          rows;
    reduction          how;

    if (!x || !index || !update)
        return weir_error_status();
    const weir_desc d = weir_tensor_desc(x);
    WEIR_TRY(read_reduction(c, &how));
    WEIR_TRY(weir_onnx_flat_rows(c, &d, index, 0, &flat, &rows));
    weir_tensor *const table = weir_reshape(x, rows.ndim, rows.dim);
    return give_whole(c, scattered(c, table, flat, update, how), &d);
}
