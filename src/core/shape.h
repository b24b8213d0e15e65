/* shape.h - dims, strides, broadcasting, checked byte sizes.
 *
 * Dense means the strides of weir_shape_dense: row-major, except that 4-D float tensors (n,c,h,w)
 * are channels-last in memory: (n,h,w,c). So activations and convolution weights need kernels for
 * one layout only; data is converted where the host writes or reads it. */
#ifndef WEIR_CORE_SHAPE_H
#define WEIR_CORE_SHAPE_H

#include "weir/base.h"

/* A description with strides, in elements. Stride 0 repeats an element (a broadcast view). */
typedef struct weir_layout {
    weir_desc desc;
    int64_t   stride[WEIR_MAX_DIMS];
} weir_layout;

/* Checks that the dtype is known, 0 <= ndim <= WEIR_MAX_DIMS, no dim is negative, and elements and
 * bytes stay below PTRDIFF_MAX. Else fails with a sentence that begins with `who`. */
weir_status weir_shape_check(const char *who, const weir_desc *d);

/* Elements and bytes of a checked desc. */
int64_t weir_shape_count(const weir_desc *d);
size_t  weir_shape_bytes(const weir_desc *d);

bool weir_shape_equal(const weir_desc *a, const weir_desc *b);     /* dims only */
bool weir_desc_equal(const weir_desc *a, const weir_desc *b);      /* dtype and dims */

/* Strides of the dense layout (see above), of the row-major one, and whether a layout is dense.
 * An axis of size 1 may have any stride. */
void weir_shape_dense(weir_layout *l);
void weir_shape_row_major(const weir_desc *d, int64_t stride[WEIR_MAX_DIMS]);
bool weir_shape_is_dense(const weir_layout *l);

/* out = the NumPy broadcast of a and b (dims only; dtype of a). Returns false if they do not
 * fit. */
bool weir_shape_broadcast(const weir_desc *a, const weir_desc *b, weir_desc *out);

/* Views `in` with the dims of `to`, to which it broadcasts: repeated axes get stride 0. */
void weir_shape_expand(const weir_layout *in, const weir_desc *to, weir_layout *out);

/* Views `in` with the dims of `to` (equal element counts) without moving data; false if the strides
 * forbid it. Elements keep their logical (row-major) order. */
bool weir_shape_reshape(const weir_layout *in, const weir_desc *to, weir_layout *out);

/* Writes "f32(2,3)" to buf and returns buf. */
#define WEIR_DESC_TEXT 128
char *weir_desc_text(const weir_desc *d, char buf[WEIR_DESC_TEXT]);

#endif
