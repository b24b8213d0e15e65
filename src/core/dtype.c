/* dtype.c - size and name of the element types. */
#include "weir/base.h"

static const struct {
    size_t      size;
    const char *name;
} dtypes[] = {
    [WEIR_F32] = {4, "f32"}, [WEIR_F64] = {8, "f64"}, [WEIR_I32] = {4, "i32"},
    [WEIR_I64] = {8, "i64"}, [WEIR_U8] = {1, "u8"},   [WEIR_BOOL] = {1, "bool"},
};

static bool known(weir_dtype t)
{
    return (size_t)t < sizeof dtypes / sizeof *dtypes;
}

size_t weir_dtype_size(weir_dtype t)
{
    return known(t) ? dtypes[t].size : 0;
}

const char *weir_dtype_name(weir_dtype t)
{
    return known(t) ? dtypes[t].name : "?";
}
