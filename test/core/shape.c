/* shape.c - tests of dims, strides, broadcasting, views and element types. */
#include "core/shape.h"
#include "check.h"

static weir_layout dense(weir_desc d)
{
    weir_layout l = {.desc = d};
    weir_shape_dense(&l);
    return l;
}

static bool strides_are(const weir_layout *l, const int64_t *want)
{
    for (int i = 0; i < l->desc.ndim; i++)
        if (l->stride[i] != want[i])
            return false;
    return true;
}

#define STRIDES(l, ...) CHECK(strides_are((l), (const int64_t[]){__VA_ARGS__}))

CASE(dtypes)
{
    CHECK(weir_dtype_size(WEIR_F32) == 4 && weir_dtype_size(WEIR_F64) == 8);
    CHECK(weir_dtype_size(WEIR_I32) == 4 && weir_dtype_size(WEIR_I64) == 8);
    CHECK(weir_dtype_size(WEIR_U8) == 1 && weir_dtype_size(WEIR_BOOL) == 1);
    CHECK(weir_dtype_size((weir_dtype)77) == 0);
    CHECK_TEXT(weir_dtype_name(WEIR_BOOL), "bool");
    CHECK_TEXT(weir_dtype_name((weir_dtype)77), "?");
}

CASE(check_accepts)
{
    const weir_desc scalar = weir_scalar(WEIR_F32), empty = weir_2d(WEIR_I64, 0, 5);
    CHECK_OK(weir_shape_check("t", &scalar));
    CHECK_OK(weir_shape_check("t", &empty));
    CHECK(weir_shape_count(&scalar) == 1 && weir_shape_bytes(&scalar) == 4);
    CHECK(weir_shape_count(&empty) == 0 && weir_shape_bytes(&empty) == 0);
}

CASE(check_refuses)
{
    weir_desc d = weir_2d((weir_dtype)99, 1, 1);
    CHECK_STATUS(weir_shape_check("weir_input", &d), WEIR_ERR_DTYPE);
    CHECK_TEXT(weir_error(), "weir_input");
    d = weir_2d(WEIR_F32, 2, -3);
    CHECK_STATUS(weir_shape_check("t", &d), WEIR_ERR_SHAPE);
    CHECK_TEXT(weir_error(), "f32(2,-3)");
    d.ndim = WEIR_MAX_DIMS + 1;
    CHECK_STATUS(weir_shape_check("t", &d), WEIR_ERR_SHAPE);
    d = weir_2d(WEIR_F64, INT64_MAX, 1);
    CHECK_STATUS(weir_shape_check("t", &d), WEIR_ERR_SHAPE);
    d = weir_2d(WEIR_U8, INT64_MAX / 2, 3);
    CHECK_STATUS(weir_shape_check("t", &d), WEIR_ERR_SHAPE);
    d = weir_2d(WEIR_U8, INT64_MAX, 1);
    CHECK_OK(weir_shape_check("t", &d));
}

CASE(dense_strides)
{
    const weir_layout m = dense(weir_2d(WEIR_F32, 3, 5)), x = dense(weir_4d(WEIR_F32, 2, 3, 5, 7));
    const weir_layout i = dense(weir_4d(WEIR_I32, 2, 3, 5, 7)), e = dense(weir_2d(WEIR_F32, 3, 0));
    STRIDES(&m, 5, 1);
    STRIDES(&x, 105, 1, 21, 3);     /* channels last */
    STRIDES(&i, 105, 35, 7, 1);
    STRIDES(&e, 1, 1);
    CHECK(weir_shape_is_dense(&m) && weir_shape_is_dense(&x) && weir_shape_is_dense(&e));
}

CASE(dense_ignores_axes_of_one)
{
    weir_layout l = dense(weir_4d(WEIR_F32, 1, 8, 1, 1));
    l.stride[0] = l.stride[2] = l.stride[3] = 0;
    CHECK(weir_shape_is_dense(&l));
    l.stride[1] = 0;
    CHECK(!weir_shape_is_dense(&l));
}

CASE(broadcast)
{
    weir_desc out;
    const weir_desc a = weir_2d(WEIR_F32, 3, 1), b = weir_1d(WEIR_F32, 4);
    const weir_desc s = weir_scalar(WEIR_F32);
    const weir_desc bad = weir_1d(WEIR_F32, 2), empty = weir_1d(WEIR_F32, 0);
    CHECK(weir_shape_broadcast(&a, &b, &out) && out.ndim == 2);
    CHECK(out.dim[0] == 3 && out.dim[1] == 4);
    CHECK(weir_shape_broadcast(&s, &a, &out) && weir_shape_equal(&out, &a));
    CHECK(weir_shape_broadcast(&a, &empty, &out) && out.dim[0] == 3 && out.dim[1] == 0);
    CHECK(!weir_shape_broadcast(&b, &bad, &out));
    CHECK(!weir_shape_broadcast(&bad, &empty, &out));
}

CASE(expand)
{
    const weir_layout in = dense(weir_2d(WEIR_F64, 3, 1));
    const weir_desc   to = {WEIR_F64, 3, {2, 3, 4}};
    weir_layout       out;
    weir_shape_expand(&in, &to, &out);
    STRIDES(&out, 0, 1, 0);
    CHECK(weir_desc_equal(&out.desc, &to));
}

CASE(reshape_dense)
{
    const weir_layout in = dense(weir_2d(WEIR_F32, 6, 4));
    const weir_desc   to = {WEIR_F32, 3, {2, 3, 4}}, ones = {WEIR_F32, 4, {1, 24, 1, 1}};
    weir_layout       out;
    CHECK(weir_shape_reshape(&in, &to, &out));
    STRIDES(&out, 12, 4, 1);
    CHECK(weir_shape_reshape(&in, &ones, &out) && out.stride[1] == 1);
}

CASE(reshape_strided)
{
    weir_layout in = dense(weir_2d(WEIR_F32, 6, 4)), out;
    in.stride[0] = 1;       /* the transpose of a (4, 6) matrix */
    in.stride[1] = 6;
    const weir_desc split = {WEIR_F32, 3, {2, 3, 4}}, flat = weir_1d(WEIR_F32, 24);
    CHECK(weir_shape_reshape(&in, &split, &out));
    STRIDES(&out, 3, 1, 6);
    CHECK(!weir_shape_reshape(&in, &flat, &out));
}

CASE(reshape_of_images)
{
    const weir_layout pixels = dense(weir_4d(WEIR_F32, 2, 3, 4, 5));
    const weir_layout means = dense(weir_4d(WEIR_F32, 2, 3, 1, 1));
    const weir_desc   flat = weir_2d(WEIR_F32, 2, 60), rows = weir_2d(WEIR_F32, 2, 3);
    weir_layout       out;
    CHECK(!weir_shape_reshape(&pixels, &flat, &out));   /* channels are last in memory */
    CHECK(weir_shape_reshape(&means, &rows, &out) && weir_shape_is_dense(&out));
}

CASE(reshape_empty)
{
    const weir_layout in = dense(weir_2d(WEIR_F32, 0, 4));
    const weir_desc   to = weir_2d(WEIR_F32, 7, 0);
    weir_layout       out;
    CHECK(weir_shape_reshape(&in, &to, &out) && weir_shape_equal(&out.desc, &to));
}

/* Element number i in logical order, as an offset. */
static int64_t offset_of(const weir_layout *l, int64_t i)
{
    int64_t at = 0;
    for (int k = l->desc.ndim - 1; k >= 0; k--) {
        at += i % l->desc.dim[k] * l->stride[k];
        i /= l->desc.dim[k];
    }
    return at;
}

CASE(reshape_keeps_order)
{
    int done = 0;
    for (int trial = 0; trial < 300; trial++) {
        weir_desc from = {WEIR_I32, 3, {check_int(1, 3) * 2, check_int(1, 4), check_int(1, 4)}};
        weir_layout in = dense(from), out;
        const int   a = (int)check_int(0, 2), b = (int)check_int(0, 2);
        const weir_layout was = in;
        in.desc.dim[a] = was.desc.dim[b];   /* a transposed view */
        in.desc.dim[b] = was.desc.dim[a];
        in.stride[a] = was.stride[b];
        in.stride[b] = was.stride[a];
        const int64_t   n = weir_shape_count(&from);
        const weir_desc to = weir_2d(WEIR_I32, trial % 2 ? n / 2 : 2, trial % 2 ? 2 : n / 2);
        if (!weir_shape_reshape(&in, &to, &out))
            continue;
        done++;
        for (int64_t i = 0; i < n; i++)
            CHECK_OR_RETURN(offset_of(&in, i) == offset_of(&out, i));
    }
    CHECK(done > 50);
}

CASE(desc_text)
{
    char            buf[WEIR_DESC_TEXT];
    const weir_desc s = weir_scalar(WEIR_I64), m = weir_2d(WEIR_F32, 2, 3);
    weir_desc       huge = {.dtype = WEIR_BOOL, .ndim = WEIR_MAX_DIMS};
    CHECK(strcmp(weir_desc_text(&s, buf), "i64()") == 0);
    CHECK(strcmp(weir_desc_text(&m, buf), "f32(2,3)") == 0);
    for (int i = 0; i < WEIR_MAX_DIMS; i++)
        huge.dim[i] = INT64_MIN;
    CHECK(strlen(weir_desc_text(&huge, buf)) == WEIR_DESC_TEXT - 1);
}
