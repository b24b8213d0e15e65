"""arith - SINGA's rules of element types, for calls of the core on raw tensors.

float32 with float32 gives float32, integers with integers int32; all else meets in float32, as any
tensor with a Python number does. Beyond SINGA: float64 stays float64, int64 stays int64, sums and
products over axes of integers are int64. No integer is converted to a float, as happens in
SINGA: they are computed by the core as integers, which wrap, and become float32 at the end where
the rule says so.

Here types are chosen and numbers of a script converted; elements are the core's.
"""
from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING

from weir import _capi as capi
from weir.core import (core_dtype, is_float, kBFloat16, kBool, kChar, kDouble, kFloat16, kFloat32,
                   kInt, kInt64, kUChar)
from weir.dtypes import int16, uint16, uint32, uint64
from weir.errors import ShapeError
from weir.typing import BinaryCall, Handle, Number, UnaryCall

if TYPE_CHECKING:
    from .tensor import Tensor

F32, F64 = capi.WEIR_F32, capi.WEIR_F64
_LIMITS: dict[int, tuple[int, int]] = {
    kInt: (-2**31, 2**31 - 1), kInt64: (-2**63, 2**63 - 1), kUChar: (0, 255), kBool: (0, 1),
    kChar: (-2**7, 2**7 - 1), int16: (-2**15, 2**15 - 1), uint16: (0, 2**16 - 1),
    uint32: (0, 2**32 - 1), uint64: (0, 2**64 - 1)}

# What a number of a script may be for integers to stay exact on the way to the result.
_WHOLE = (capi.weir_add, capi.weir_sub, capi.weir_mul, capi.weir_div_floor, capi.weir_remainder,
          capi.weir_max, capi.weir_min)


def cast(x: Tensor, number: int) -> Handle:
    """The handle of a raw tensor's elements as another type."""
    value = x.value
    return value.handle if value.dtype == number else capi.weir_cast(value.handle,
                                                                     core_dtype(number))


def to(handle: Handle, number: int) -> Handle:
    """A handle as another type."""
    wanted = core_dtype(number)
    return handle if capi.weir_tensor_desc(handle)[0] == wanted else capi.weir_cast(handle, wanted)


def index(x: Tensor) -> Handle:
    """The handle of positions: integers of 64 bits as they are, all else as int32."""
    return cast(x, kInt64 if x.value.dtype == kInt64 else kInt)


def is_whole(x: object) -> bool:
    """True if the number of a script is an integer."""
    return isinstance(x, numbers.Integral)


def result_type(a: int, b: int) -> int:
    """Type of the result of two element types."""
    if a == kFloat32 and b == kFloat32:
        return kFloat32
    if kDouble in (a, b):
        return kDouble
    if is_float(a) or is_float(b):
        return kFloat32
    return kInt64 if any(x in (kInt64, uint32, uint64) for x in (a, b)) else kInt


def binary(op: BinaryCall, a: Tensor, b: Tensor) -> Handle:
    """op of two raw tensors, in the type of the rule; quotients of integers are cut towards 0."""
    if a.value.dtype == kFloat32 == b.value.dtype:
        return op(a.value.handle, b.value.handle)
    number = result_type(a.value.dtype, b.value.dtype)
    if op is capi.weir_div and not is_float(number):
        op = capi.weir_div_trunc
    return op(cast(a, number), cast(b, number))


def real(x: Tensor) -> Handle:
    """The handle of a raw tensor for arithmetic with a Python number: float64 or float32."""
    return cast(x, kDouble if x.value.dtype == kDouble else kFloat32)


def number(x: Number, like: Handle) -> Handle:
    """A Python number as a tensor without axes of the type of the handle `like`."""
    desc = capi.weir_tensor_desc(like)[0], ()
    if is_whole(x):
        return capi.weir_fill_int(capi.weir_tensor_device(like), desc, whole(x))
    return capi.weir_fill(capi.weir_tensor_device(like), desc, float(x))


def whole(x: Number) -> int:
    """The integer as one of the core's largest type."""
    x = int(x)
    low, high = _LIMITS[kInt64]
    if not low <= x <= high:
        raise OverflowError(f"{x} does not fit a 64-bit integer")
    return x


def scalar(x: Number, like: Tensor) -> Handle:
    """A number as a handle without axes, of a type in which it meets the raw tensor `like`: int64
    if both are integers, else float32 or float64."""
    dtype = like.value.dtype
    device = like.value.device.handle
    if is_whole(x) and not is_float(dtype):
        return capi.weir_fill_int(device, (capi.WEIR_I64, ()), whole(x))
    kind = F64 if dtype == kDouble else F32
    return capi.weir_fill(device, (kind, ()), float(x))


def with_number(op: BinaryCall, x: Tensor, c: Number, swap: bool = False) -> Handle:
    """op(x, c), or op(c, x), of a raw tensor and a number.

    Integers with an integer: computed in int64; then int64, or float32 as the rule has it.
    """
    dtype = x.value.dtype
    if not is_float(dtype) and is_whole(c) and exact(op, c, swap, dtype):
        handle = cast(x, kInt64)
        value = number(c, handle)
        y = op(value, handle) if swap else op(handle, value)
        return y if dtype == kInt64 else capi.weir_cast(y, F32)
    handle = real(x)
    value = capi.weir_fill(x.value.device.handle, (capi.weir_tensor_desc(handle)[0], ()), float(c))
    return op(value, handle) if swap else op(handle, value)


def exact(op: BinaryCall, c: Number, swap: bool, dtype: int) -> bool:
    """True if op of integers and the integer c is an integer: not a power with c < 0."""
    return op in _WHOLE or op is capi.weir_pow and (dtype == kInt64 if swap else bool(c >= 0))


def add_number(x: Tensor, c: Number) -> Handle:
    """The handle of x + c: in x's type for whole numbers on integers, else in floats."""
    if is_float(x.value.dtype) or not is_whole(c):
        return capi.weir_affine(real(x), 1.0, float(c))
    return with_number(capi.weir_add, x, c)


def less_number(x: Tensor, c: Number) -> Handle:
    """The handle of x - c, as add_number."""
    if is_float(x.value.dtype) or not is_whole(c):
        return capi.weir_affine(real(x), 1.0, -float(c))
    return with_number(capi.weir_sub, x, c)


def mul_number(x: Tensor, c: Number) -> Handle:
    """The handle of x c, as add_number."""
    if is_float(x.value.dtype) or not is_whole(c):
        return capi.weir_affine(real(x), float(c), -0.0)     # + -0 keeps the sign of a zero
    return with_number(capi.weir_mul, x, c)


# ---- comparisons: 0 and 1 in float32 ----

def comparable(x: Tensor, number: int | None = None) -> Handle:
    """The handle for a comparison, in this type; truth values as numbers."""
    number = x.value.dtype if number is None else number
    return cast(x, kUChar if number == kBool else number)


def compare(op: BinaryCall, a: Tensor, b: Tensor) -> Handle:
    """A comparison of two raw tensors: of integers with floats in float64, as in NumPy, which holds
    int32 and float32 exactly."""
    x, y = a.value.dtype, b.value.dtype
    if x == y:
        return capi.weir_cast(op(comparable(a), comparable(b)), F32)
    number = result_type(x, y) if is_float(x) == is_float(y) else kDouble
    return capi.weir_cast(op(cast(a, number), cast(b, number)), F32)


# Of an integer x and a number c between two whole ones: which comparison with which of them.
_BETWEEN: dict[BinaryCall, tuple[BinaryCall, Callable[[Number], int]]] = {
    capi.weir_lt: (capi.weir_le, math.floor), capi.weir_le: (capi.weir_le, math.floor),
    capi.weir_gt: (capi.weir_ge, math.ceil), capi.weir_ge: (capi.weir_ge, math.ceil)}


def compare_number(op: BinaryCall, x: Tensor, c: Number) -> Handle:
    """op(x, c): of integers exact, whether their type has c or not."""
    if is_float(x.value.dtype):
        handle = real(x)
        kind = capi.weir_tensor_desc(handle)[0]
        value = capi.weir_fill(x.value.device.handle, (kind, ()), float(c))
        return capi.weir_cast(op(handle, value), F32)
    low, high = _LIMITS[x.value.dtype]
    if c != c:
        return _everywhere(op is capi.weir_ne, x)
    if not low <= c <= high:
        above = op in (capi.weir_lt, capi.weir_le) if c > high else \
            op in (capi.weir_gt, capi.weir_ge)
        return _everywhere(above or op is capi.weir_ne, x)
    if not is_whole(c) and c != math.floor(c):
        if op not in _BETWEEN:
            return _everywhere(op is capi.weir_ne, x)
        op, rounded = _BETWEEN[op]
        c = rounded(c)
    handle = comparable(x)
    return capi.weir_cast(op(handle, number(int(c), handle)), F32)


def _everywhere(truth: bool, x: Tensor) -> Handle:
    return capi.weir_fill(x.value.device.handle, (F32, x.value.shape), float(truth))


# ---- one input ----

def unary(op: UnaryCall, x: Tensor, whole: bool = False) -> Handle:
    """op of a raw tensor. Integers become float32; with `whole` the result is integers again."""
    dtype = x.value.dtype
    if is_float(dtype):
        return op(x.handle)
    if whole:
        return op(cast(x, kInt if dtype == kBool else dtype))
    return op(cast(x, kFloat32))


def relu(x: Tensor) -> Handle:
    """max(x, 0); integers stay integers."""
    if is_float(x.value.dtype):
        return capi.weir_relu(x.handle)
    handle = comparable(x)
    return to(capi.weir_max(handle, number(0, handle)), x.value.dtype)


def rounded(op: UnaryCall, x: Tensor) -> Handle:
    """op, which rounds to whole numbers, of a raw tensor: integers stay as they are."""
    return op(x.handle) if is_float(x.value.dtype) else capi.weir_copy(x.handle)


def clamp(x: Tensor, low: Number | None, high: Number | None) -> Handle:
    """Limited to [low, high], None or infinity: no limit. Integers to those in between."""
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    if is_float(x.value.dtype):
        return capi.weir_clamp(x.handle, float(low), float(high))
    if not low <= high:
        raise ValueError(f"clip: min is {low}, above max, which is {high}")
    least, most = _LIMITS[x.value.dtype]
    low = least if low <= least else most + 1 if low > most else math.ceil(low)
    high = most if high >= most else least - 1 if high < least else math.floor(high)
    if low > high or low > most or high < least:
        raise ValueError("clip: no integer of the tensor's type is within the limits")
    handle = comparable(x)
    return capi.weir_min(capi.weir_max(handle, number(low, handle)), number(high, handle))


def reduce(op: Callable[..., Handle], x: Tensor, *args: int) -> Handle:
    """A reduction op(handle, *args); of integers exact: sums and products int64, the largest and
    the smallest of their type."""
    dtype = x.value.dtype
    if dtype in (kFloat16, kBFloat16) and op is capi.weir_var:
        y = op(cast(x, kFloat32), *args)
        return to(y, kFloat16 if dtype == kFloat16 else kBFloat16)
    if op is capi.weir_mean and not is_float(dtype):
        return mean(x, args[0], bool(args[1]))
    if op in (capi.weir_amax, capi.weir_amin) and dtype == kBool:
        return capi.weir_cast(op(cast(x, kUChar), *args), core_dtype(kInt))
    return op(x.handle, *args)


def mean(x: Tensor, dims: int, keep: bool) -> Handle:
    """The mean of integers, in float32: of their sum, which is exact."""
    total = capi.weir_cast(capi.weir_sum(x.handle, dims, keep), F64)
    shape = x.value.shape
    axes = [i for i in range(len(shape)) if dims == 0 or dims >> i & 1]
    count = math.prod(shape[i] for i in axes)
    return capi.weir_cast(capi.weir_div(total, number(count, total)), F32)


# ---- products over axes; of integers exact: products are stored, then added up in int64 ----

def matmul(a: Tensor, b: Tensor) -> Handle:
    """A matrix product, of matrices, vectors or batches that broadcast."""
    kind = result_type(a.value.dtype, b.value.dtype)
    if is_float(kind):
        return capi.weir_matmul(cast(a, kind), cast(b, kind))
    x, y = a.value.shape, b.value.shape
    if not x or not y or x[-1] != y[-2 if len(y) > 1 else 0]:
        raise ShapeError(f"matmul: shapes {x} and {y} do not fit")
    left = capi.weir_reshape(cast(a, kInt64), ((1,) if len(x) == 1 else x[:-1]) + (x[-1], 1))
    right = capi.weir_reshape(cast(b, kInt64),
                              (1,) + y + (1,) if len(y) == 1 else y[:-2] + (1,) + y[-2:])
    products = capi.weir_mul(left, right)
    ndim = len(capi.weir_tensor_desc(products)[1])
    total = capi.weir_sum(products, 1 << (ndim - 2), False)
    shape = capi.weir_tensor_desc(total)[1]
    shape = shape[:-2] + shape[-2:-1] * (len(x) > 1) + shape[-1:] * (len(y) > 1)
    return to(capi.weir_reshape(total, shape), kind)


def einsum(equation: str, a: Tensor, b: Tensor | None = None) -> Handle:
    """Einstein's summation, with a "->"."""
    operands = [x for x in (a, b) if x is not None]
    kind = result_type(operands[0].value.dtype, operands[-1].value.dtype)
    if is_float(kind):
        return capi.weir_einsum(equation, *([cast(x, kind) for x in operands] + [None])[:2])
    given, _, result = equation.partition("->")
    terms = given.split(",")
    labels = result + "".join(sorted(set("".join(terms)) - set(result)))
    if "->" not in equation or len(terms) != len(operands) or not set(result) <= set(labels) or \
            any(len(set(t)) != len(t) or len(t) != x.nDim() for t, x in zip(terms, operands)):
        raise ShapeError(f"einsum: {equation!r} does not fit shapes "
                         f"{[x.shape() for x in operands]}")
    product = _spread(operands[0], terms[0], labels)
    if b is not None:
        product = capi.weir_mul(product, _spread(b, terms[1], labels))
    dims = sum(1 << i for i in range(len(result), len(labels)))
    return to(capi.weir_sum(product, dims, False) if dims else product, kind)


def _spread(x: Tensor, term: str, labels: str) -> Handle:
    """x with the axes of all labels in their order, of size 1 where the term has none."""
    order = [term.index(c) for c in labels if c in term]
    shape = [x.shape(term.index(c)) if c in term else 1 for c in labels]
    return capi.weir_reshape(capi.weir_transpose(cast(x, kInt64), order), shape)


def flags(x: Tensor) -> Handle:
    """Which elements are not 0, as bool."""
    return cast(x, kBool)
