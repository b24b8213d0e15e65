"""arith - SINGA's rules of element types, for calls of the core on raw tensors.

float32 with float32 gives float32, integers with integers int32; all else meets in float32, as any
tensor with a Python number does. Beyond SINGA: float64 stays float64, int64 stays int64. Integers
are added, subtracted and multiplied as integers; SINGA goes through float32.
"""
from . import capi
from .core import (core_dtype, is_float, kBFloat16, kBool, kChar, kDouble, kFloat16, kFloat32,
                   kInt, kInt64)

F32, F64 = capi.WEIR_F32, capi.WEIR_F64
_EXACT = (capi.weir_add, capi.weir_sub, capi.weir_mul)


def cast(x, number):
    """The handle of a raw tensor's elements as another type."""
    value = x.value
    return value.handle if value.dtype == number else capi.weir_cast(value.handle,
                                                                     core_dtype(number))


def to(handle, number):
    """A handle as another type."""
    wanted = core_dtype(number)
    return handle if capi.weir_tensor_desc(handle)[0] == wanted else capi.weir_cast(handle, wanted)


def result_type(a, b):
    """Type of the result of two element types."""
    if a == kFloat32 and b == kFloat32:
        return kFloat32
    if kDouble in (a, b):
        return kDouble
    if is_float(a) or is_float(b):
        return kFloat32
    return kInt64 if kInt64 in (a, b) else kInt


def binary(op, a, b):
    """op of two raw tensors, in the type of the rule."""
    if a.value.dtype == kFloat32 == b.value.dtype:
        return op(a.value.handle, b.value.handle)
    number = result_type(a.value.dtype, b.value.dtype)
    if is_float(number) or op in _EXACT:
        return op(cast(a, number), cast(b, number))
    return capi.weir_cast(op(cast(a, kDouble), cast(b, kDouble)), core_dtype(number))


def real(x):
    """The handle of a raw tensor for arithmetic with a Python number: float64 or float32."""
    return cast(x, kDouble if x.value.dtype == kDouble else kFloat32)


def number(x, like):
    """A Python number as a tensor without axes of the type of the handle `like`."""
    return capi.weir_fill(capi.weir_tensor_device(like), (capi.weir_tensor_desc(like)[0], ()),
                          float(x))


def add_number(x, c):
    return capi.weir_affine(real(x), 1.0, float(c))


def mul_number(x, c):
    return capi.weir_affine(real(x), float(c), -0.0)     # + -0 keeps the sign of a zero


def with_number(op, x, c, swap=False):
    """op(x, c), or op(c, x)."""
    handle = real(x)
    scalar = number(c, handle)
    return op(scalar, handle) if swap else op(handle, scalar)


def compare(op, a, b):
    """A comparison of two raw tensors, as 0 and 1 in float32."""
    if a.value.dtype == b.value.dtype:
        mask = op(a.handle, b.handle)
    else:
        number = result_type(a.value.dtype, b.value.dtype)
        mask = op(cast(a, number), cast(b, number))
    return capi.weir_cast(mask, F32)


def compare_number(op, x, c):
    return capi.weir_cast(with_number(op, x, c), F32)


def unary(op, x, whole=False):
    """op of a raw tensor. Integers become float32; with `whole` the result is integers again."""
    dtype = x.value.dtype
    if is_float(dtype):
        return op(x.handle)
    if whole:
        return capi.weir_cast(op(cast(x, kDouble)), core_dtype(dtype))
    return op(cast(x, kFloat32))


def reduce(op, x, *args):
    """A reduction op(handle, *args); of integers exact, as integers."""
    dtype = x.value.dtype
    if dtype in (kFloat16, kBFloat16) and op is capi.weir_var:
        return to(op(cast(x, kFloat32), *args), dtype)
    if is_float(dtype):
        return op(x.handle, *args)
    back = kInt if dtype in (kBool, kChar) else dtype
    return capi.weir_cast(op(cast(x, kDouble), *args), core_dtype(back))


def flags(x):
    """Which elements are not 0, as bool."""
    return cast(x, kBool)
