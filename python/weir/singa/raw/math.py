"""math - SINGA's low-level arithmetic, reductions, random fills and losses of raw tensors.

Each function is one composition of calls of the core, computed at once or recorded; the rules of
element types are in weir.raw.arith.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, Union, cast

from weir import _capi as capi
from weir.core import is_float, kBool, kDouble, kFloat32
from weir.errors import ShapeError
from . import arith
from .tensor import Tensor, _read_number, result
from weir.typing import Axes, BinaryCall, Handle, Number, Shape, UnaryCall

Operand: TypeAlias = Union[Tensor, Number]


class UnaryFunction(Protocol):
    """A function of a raw tensor."""

    __name__: str

    def __call__(self, t: Tensor, /) -> Tensor:
        """The result, a new raw tensor."""
        ...


class BinaryFunction(Protocol):
    """A function of two operands, one of them a number perhaps."""

    __name__: str

    def __call__(self, a: Operand, b: Operand, /) -> Tensor:
        """The result, a new raw tensor."""
        ...


class Arithmetic(Protocol):
    """A function of two operands, with a place for its result."""

    __name__: str

    def __call__(self, a: Operand, b: Operand, out: Tensor | None = None, /) -> Tensor:
        """The result, a new raw tensor, or `out`."""
        ...


FLT_MIN = 1.17549435e-38


def _of(handle: Handle, like: Tensor) -> Tensor:
    return result(handle, like.value.device)


# ---- one input ----

def _unary(name: str, op: UnaryCall, whole: bool = False) -> UnaryFunction:
    def function(t: Tensor) -> Tensor:
        return _of(arith.unary(op, t, whole), t)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.lower()} of each element."
    return function


def _rounding(name: str, op: UnaryCall) -> UnaryFunction:
    def function(t: Tensor) -> Tensor:
        return _of(arith.rounded(op, t), t)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name.lower()} of each element; integers stay as they are."
    return function


Abs: UnaryFunction = _unary("Abs", capi.weir_abs, whole=True)
Ceil: UnaryFunction = _rounding("Ceil", capi.weir_ceil)
Floor: UnaryFunction = _rounding("Floor", capi.weir_floor)
Round: UnaryFunction = _rounding("Round", capi.weir_round)            # half away from zero
RoundE: UnaryFunction = _rounding("RoundE", capi.weir_round_even)     # half to even
Sign: UnaryFunction = _unary("Sign", capi.weir_sign, whole=True)
Square: UnaryFunction = _unary("Square", capi.weir_square, whole=True)
Negative: UnaryFunction = _unary("Negative", capi.weir_neg, whole=True)
Exp: UnaryFunction = _unary("Exp", capi.weir_exp)
Erf: UnaryFunction = _unary("Erf", capi.weir_erf)
Log: UnaryFunction = _unary("Log", capi.weir_log)
ReLU: UnaryFunction = _unary("ReLU", capi.weir_relu)
Sigmoid: UnaryFunction = _unary("Sigmoid", capi.weir_sigmoid)
Sqrt: UnaryFunction = _unary("Sqrt", capi.weir_sqrt)
Cos: UnaryFunction = _unary("Cos", capi.weir_cos)
Cosh: UnaryFunction = _unary("Cosh", capi.weir_cosh)
Acos: UnaryFunction = _unary("Acos", capi.weir_acos)
Acosh: UnaryFunction = _unary("Acosh", capi.weir_acosh)
Sin: UnaryFunction = _unary("Sin", capi.weir_sin)
Sinh: UnaryFunction = _unary("Sinh", capi.weir_sinh)
Asin: UnaryFunction = _unary("Asin", capi.weir_asin)
Asinh: UnaryFunction = _unary("Asinh", capi.weir_asinh)
Tan: UnaryFunction = _unary("Tan", capi.weir_tan)
Tanh: UnaryFunction = _unary("Tanh", capi.weir_tanh)
Atan: UnaryFunction = _unary("Atan", capi.weir_atan)
Atanh: UnaryFunction = _unary("Atanh", capi.weir_atanh)


# ---- two inputs ----

def _into(out: Tensor, handle: Handle) -> Tensor:
    """The result, in the tensor given for it."""
    out.put(handle)
    return out


def _binary(name: str, op: BinaryCall,
            number_op: Callable[[Tensor, Number], Handle]) -> Arithmetic:
    """function(a, b[, out]) of raw tensors, one of which may be a number"""
    def function(a: Operand, b: Operand, out: Tensor | None = None) -> Tensor:
        if not isinstance(a, Tensor):
            handle = arith.with_number(op, cast("Tensor", b), a, swap=True)
        else:
            handle = arith.binary(op, a, b) if isinstance(b, Tensor) else number_op(a, b)
        if out is not None:
            return _into(out, handle)
        return _of(handle, a if isinstance(a, Tensor) else cast("Tensor", b))
    function.__name__ = function.__qualname__ = name
    return function


def _number(op: BinaryCall) -> Callable[[Tensor, Number], Handle]:
    return lambda x, c: arith.with_number(op, x, c)


Add: Arithmetic = _binary("Add", capi.weir_add, arith.add_number)
AddFloat: Arithmetic = Add
AddFloatWithRet: Arithmetic = Add
Sub: Arithmetic = _binary("Sub", capi.weir_sub, arith.less_number)
SubFloat: Arithmetic = Sub
SubFloatWithRet: Arithmetic = Sub
EltwiseMult: Arithmetic = _binary("EltwiseMult", capi.weir_mul, arith.mul_number)
MultFloat: Arithmetic = EltwiseMult
EltwiseMultFloatWithRet: Arithmetic = EltwiseMult
Div: Arithmetic = _binary("Div", capi.weir_div, _number(capi.weir_div))
DivFloat: Arithmetic = Div
DivFloatWithRet: Arithmetic = Div
Pow: Arithmetic = _binary("Pow", capi.weir_pow, _number(capi.weir_pow))
PowFloat: Arithmetic = Pow
PowWithRet: Arithmetic = Pow
PowFloatWithRet: Arithmetic = Pow
Maximum: Arithmetic = _binary("Maximum", capi.weir_max, _number(capi.weir_max))
Minimum: Arithmetic = _binary("Minimum", capi.weir_min, _number(capi.weir_min))

# The quotient rounded down, and a - b times that: of b's sign, as Python's // and %. Integers by
# integers give integers; by 0 they are 0, as in NumPy.
FloorDiv: Arithmetic = _binary("FloorDiv", capi.weir_div_floor, _number(capi.weir_div_floor))
Mod: Arithmetic = _binary("Mod", capi.weir_remainder, _number(capi.weir_remainder))


def Scalar(x: Number, like: Tensor) -> Tensor:
    """A number as a raw tensor without axes, of the type that a tensor meets numbers in."""
    return _of(arith.scalar(x, like), like)


def Clip(t: Tensor, low: Number | None = None, high: Number | None = None) -> Tensor:
    """Limited to [low, high]; None: no limit. Integers to those in between."""
    return _of(arith.clamp(t, low, high), t)


def _truth(x: Number, like: Tensor) -> Tensor:
    return _of(capi.weir_fill(like.device().handle, (capi.WEIR_BOOL, ()), float(x != 0)), like)


def _logical(name: str, op: BinaryCall) -> BinaryFunction:
    """function(a, b) of which elements are not 0, one a number perhaps: 0 and 1 in float32."""
    def function(a: Operand, b: Operand) -> Tensor:
        like = a if isinstance(a, Tensor) else cast("Tensor", b)
        x, y = (v if isinstance(v, Tensor) else _truth(v, like) for v in (a, b))
        for v in (x, y):
            if not is_float(v.data_type()) and v.data_type() != kBool:
                raise TypeError(f"{name}: integers have no bit operations here; compare them first")
        return _of(capi.weir_cast(op(arith.flags(x), arith.flags(y)), arith.F32), x)
    function.__name__ = function.__qualname__ = name
    return function


And: BinaryFunction = _logical("And", capi.weir_logical_and)
Or: BinaryFunction = _logical("Or", capi.weir_logical_or)
Xor: BinaryFunction = _logical("Xor", capi.weir_logical_xor)


def Not(a: Tensor) -> Tensor:
    """1 where an element is 0, else 0."""
    return _of(capi.weir_cast(capi.weir_logical_not(arith.flags(a)), arith.F32), a)


# SINGA's wrapper exports the C++ operators under these names.
__add__: Arithmetic = Add
__sub__: Arithmetic = Sub
__mul__: Arithmetic = EltwiseMult
__div__: Arithmetic = Div


def _compare(name: str, op: BinaryCall, swapped: BinaryCall) -> BinaryFunction:
    """function(a, b): 0 and 1 in float32; one may be a number. swapped: op of b and a."""
    def function(a: Operand, b: Operand) -> Tensor:
        if not isinstance(a, Tensor):
            like = cast("Tensor", b)
            return _of(arith.compare_number(swapped, like, a), like)
        if isinstance(b, Tensor):
            return _of(arith.compare(op, a, b), a)
        return _of(arith.compare_number(op, a, b), a)
    function.__name__ = function.__qualname__ = name
    return function


LT: BinaryFunction = _compare("LT", capi.weir_lt, capi.weir_gt)
LTFloat: BinaryFunction = LT
LE: BinaryFunction = _compare("LE", capi.weir_le, capi.weir_ge)
LEFloat: BinaryFunction = LE
GT: BinaryFunction = _compare("GT", capi.weir_gt, capi.weir_lt)
GTFloat: BinaryFunction = GT
GE: BinaryFunction = _compare("GE", capi.weir_ge, capi.weir_le)
GEFloat: BinaryFunction = GE
EQ: BinaryFunction = _compare("EQ", capi.weir_eq, capi.weir_eq)
EQFloat: BinaryFunction = EQ
NE: BinaryFunction = _compare("NE", capi.weir_ne, capi.weir_ne)
NEFloat: BinaryFunction = NE
__lt__: BinaryFunction = LT
__le__: BinaryFunction = LE
__gt__: BinaryFunction = GT
__ge__: BinaryFunction = GE
__eq__: BinaryFunction = EQ


def Axpy(alpha: Operand, x: Tensor, y: Tensor) -> None:
    """y += alpha x, in place; alpha is a number or a raw tensor of one element."""
    if isinstance(alpha, Tensor):
        factor = _of(capi.weir_reshape(alpha.handle, (1,) * max(1, x.nDim())), x)
        scaled = _of(arith.binary(capi.weir_mul, x, factor), x)
    else:
        scaled = _of(arith.mul_number(x, alpha), x)
    y.put(arith.binary(capi.weir_add, y, scaled))


# ---- reductions ----

def _dims(t: Tensor, axis: Axes | None) -> int:
    """The core's bit set of one axis, several, or None: all. Negative axes count from the end."""
    if axis is None:
        return (1 << t.nDim()) - 1
    axes = axis if isinstance(axis, (tuple, list)) else (cast("int", axis),)
    bits = 0
    for a in axes:
        if not -t.nDim() <= a < t.nDim():
            raise ValueError(f"axis {a} does not exist in a tensor of shape {t.shape()}")
        bits |= 1 << (a % t.nDim())
    return bits


def reduced(op: Callable[..., Handle], t: Tensor, axis: Axes | None = None, keepdims: bool = False,
            *args: int) -> Tensor:
    """A reduction of the core; of no axes left the shape is (1,), as SINGA has no others."""
    bits = _dims(t, axis)
    if bits == 0 and t.nDim() > 0:
        return t.Clone()
    handle = arith.reduce(op, t, bits, *args, bool(keepdims))
    if capi.weir_tensor_desc(handle)[1] == ():
        handle = capi.weir_reshape(handle, (1,))
    return _of(handle, t)


def Std(t: Tensor, axis: Axes | None = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
    """The root of the mean squared distance from the mean, with n - ddof (0 or 1) as the divisor.

    Of equal elements the slope is 0, as PyTorch's: a norm has it there, the root of a variance has
    none. Integers are computed in float64 and become float32, halves in float32.
    """
    if ddof not in (0, 1):
        raise ValueError(f"std: ddof is {ddof}, must be 0 or 1")
    number, bits = t.data_type(), _dims(t, axis)
    within = number if number in (kFloat32, kDouble) else kFloat32 if is_float(number) else kDouble
    x, count = arith.cast(t, within), 1
    for i, size in enumerate(t.shape()):
        count *= size if bits >> i & 1 else 1
    if bits or not t.nDim():
        apart = capi.weir_sub(x, capi.weir_mean(x, bits, True))
        norm = capi.weir_norm(apart, 2, bits, bool(keepdims))
        y = capi.weir_affine(norm, (count - ddof) ** -0.5 if count > ddof else math.nan, -0.0)
    else:
        y = capi.weir_sub(x, x)
    y = capi.weir_reshape(y, (1,)) if capi.weir_tensor_desc(y)[1] == () else y
    return _of(arith.to(y, number if is_float(number) else kFloat32), t)


def ArgReduce(op: Callable[[Handle, int, bool], Handle], t: Tensor, axis: int | None = None,
              keepdims: bool = False) -> Tensor:
    """weir_argmax or weir_argmin, of all elements without an axis, as int32."""
    handle, shape = arith.comparable(t), t.shape()
    if axis is None:
        handle, axis = capi.weir_reshape(handle, (-1,)), 0
        shape = (1,) * max(1, len(shape)) if keepdims else (1,)
        handle = capi.weir_reshape(op(handle, 0, False), shape)
    else:
        handle = op(handle, int(axis), bool(keepdims))
    if capi.weir_tensor_desc(handle)[1] == ():
        handle = capi.weir_reshape(handle, (1,))
    return _of(capi.weir_cast(handle, capi.WEIR_I32), t)


def Sum(t: Tensor, axis: Axes | None = None) -> Tensor:
    """Sum along one axis, several or all."""
    return reduced(capi.weir_sum, t, axis)


def SumAll(t: Tensor) -> Tensor:
    """Sum of all elements, shape (1,): added in blocks, not one after the other as in SINGA."""
    return reduced(capi.weir_sum, t)


def SumAsFloat(t: Tensor) -> float:
    """The sum of all elements, a Python number, read at once."""
    return _read_number(capi.weir_sum(t.handle, 0, False))


def AverageAsFloat(t: Tensor) -> float:
    """The mean of all elements, as a Python number."""
    return _read_number(arith.reduce(capi.weir_mean, t, 0, False))


def Average(t: Tensor, axis: Axes | None = None) -> Tensor:
    """Mean along an axis; of integers in float32."""
    return reduced(capi.weir_mean, t, axis)


def SumRows(M: Tensor, out: Tensor) -> Tensor:
    """out (columns) = the sum of the rows of M."""
    return _into(out, capi.weir_reshape(Sum(_matrix(M, "SumRows"), 0).handle, out.shape()))


def SumColumns(M: Tensor, out: Tensor) -> Tensor:
    """out (rows) = the sum of the columns of M."""
    return _into(out, capi.weir_reshape(Sum(_matrix(M, "SumColumns"), 1).handle, out.shape()))


# ---- matrices ----

def _matrix(M: Tensor, name: str) -> Tensor:
    if M.nDim() != 2:
        raise ShapeError(f"{name}: M has shape {M.shape()}, must have 2 axes")
    return M


def Mult(A: Tensor, B: Tensor) -> Tensor:
    """Matrix product: of matrices, a matrix and a vector, or batches that broadcast."""
    if not isinstance(A, Tensor) or not isinstance(B, Tensor):
        raise ShapeError("matmul: an operand without axes is not a matrix")
    return _of(arith.matmul(A, B), A)


def MultWithRet(A: Tensor, B: Tensor, C: Tensor) -> Tensor:
    """A B written into C; returns C."""
    return _into(C, arith.matmul(A, B))


def MultWithScale(alpha: float, A: Tensor, B: Tensor, beta: float, C: Tensor) -> Tensor:
    """C = alpha A B + beta C, in place. With beta 0 what C holds is not read."""
    number = kDouble if kDouble in (A.data_type(), B.data_type()) else kFloat32
    old = arith.cast(C, number) if beta != 0 else None
    return _into(C, capi.weir_gemm(arith.cast(A, number), arith.cast(B, number), old, float(alpha),
                                   float(beta), False, False))


def Einsum(equation: str, A: Tensor, B: Tensor | None = None) -> Tensor:
    """Einstein's summation of one or two tensors, with a "->"; of a scalar the shape is (1,)."""
    handle = arith.einsum(equation.replace(" ", ""), A, B)
    if capi.weir_tensor_desc(handle)[1] == ():
        handle = capi.weir_reshape(handle, (1,))
    return _of(handle, A)


def TensorDot(A: Tensor, B: Tensor, axes: int | Sequence[Axes] = 2) -> Tensor:
    """The sum over pairs of axes of A and B; axes: how many (the last of A with the first of B), or
    (axes of A, axes of B)."""
    if isinstance(axes, int):
        ours, theirs = list(range(A.nDim() - axes, A.nDim())), list(range(axes))
    else:
        ours, theirs = ([a] if isinstance(a, int) else list(a) for a in axes)
    if len(ours) != len(theirs) or any(A.shape(a) != B.shape(b) for a, b in zip(ours, theirs)):
        raise ShapeError(f"tensordot: axes {ours} of {A.shape()} and {theirs} of {B.shape()} do "
                         "not fit")
    left = [chr(ord("a") + i) for i in range(A.nDim())]
    right = [chr(ord("a") + A.nDim() + i) for i in range(B.nDim())]
    for a, b in zip(ours, theirs):
        right[b] = left[a]
    kept = [x for x in left if x not in right] + [x for x in right if x not in left]
    return Einsum("".join(left) + "," + "".join(right) + "->" + "".join(kept), A, B)


def _vector(op: BinaryCall, name: str, shape: Shape, v: Tensor, M: Tensor) -> Tensor:
    """M = M op v, in place; v reshaped to `shape` first."""
    _matrix(M, name)
    v = _of(capi.weir_reshape(v.handle, shape), M)
    return _into(M, arith.binary(op, M, v))


def AddRow(v: Tensor, M: Tensor) -> Tensor:
    """v is added to each row of M, in place; the others subtract, multiply, divide by it."""
    return _vector(capi.weir_add, "AddRow", (1, -1), v, M)


def SubRow(v: Tensor, M: Tensor) -> Tensor:
    """Subtracts v (columns) from each row of M (rows, columns), in place."""
    return _vector(capi.weir_sub, "SubRow", (1, -1), v, M)


def MultRow(v: Tensor, M: Tensor) -> Tensor:
    """Multiplies each row of M (rows, columns) by v (columns), in place."""
    return _vector(capi.weir_mul, "MultRow", (1, -1), v, M)


def DivRow(v: Tensor, M: Tensor) -> Tensor:
    """Divides each row of M (rows, columns) by v (columns), in place."""
    return _vector(capi.weir_div, "DivRow", (1, -1), v, M)


def AddColumn(v: Tensor, M: Tensor) -> Tensor:
    """v is added to each column of M, in place; the others subtract, multiply, divide by it."""
    return _vector(capi.weir_add, "AddColumn", (-1, 1), v, M)


def SubColumn(v: Tensor, M: Tensor) -> Tensor:
    """Subtracts v (rows) from each column of M (rows, columns), in place."""
    return _vector(capi.weir_sub, "SubColumn", (-1, 1), v, M)


def MultColumn(v: Tensor, M: Tensor) -> Tensor:
    """Multiplies each column of M (rows, columns) by v (rows), in place."""
    return _vector(capi.weir_mul, "MultColumn", (-1, 1), v, M)


def DivColumn(v: Tensor, M: Tensor) -> Tensor:
    """Divides each column of M (rows, columns) by v (rows), in place."""
    return _vector(capi.weir_div, "DivColumn", (-1, 1), v, M)


def AddRowWithScale(alpha: float, beta: float, v: Tensor, M: Tensor) -> Tensor:
    """Each row of M becomes alpha v + beta row."""
    return _scaled(AddRow, alpha, beta, v, M)


def AddColumnWithScale(alpha: float, beta: float, v: Tensor, M: Tensor) -> Tensor:
    """Each column of M becomes alpha v + beta column."""
    return _scaled(AddColumn, alpha, beta, v, M)


def _scaled(add: Callable[[Tensor, Tensor], Tensor], alpha: float, beta: float, v: Tensor,
            M: Tensor) -> Tensor:
    _matrix(M, add.__name__ + "WithScale")
    if beta != 1:
        M.put(arith.mul_number(M, beta))
    return add(v if alpha == 1 else EltwiseMult(v, alpha), M)


# ---- random fills, in place ----

def _draw(out: Tensor, at_once: Callable[..., None] | None, draw: Callable[..., Handle],
          *args: float) -> Tensor:
    """Fills out. While recording, each run of the graph draws new numbers."""
    value = out.value
    device = value.device
    if at_once and is_float(value.dtype) and not device.recording and value.owned:
        at_once(value.writable(), *args)
        return out
    dtype = capi.WEIR_F64 if value.dtype == kDouble else capi.WEIR_F32
    return _into(out, draw(device.handle, (dtype, value.shape), *args))


def Bernoulli(p: float, out: Tensor) -> Tensor:
    """1 with probability p, else 0."""
    return _draw(out, None, capi.weir_bernoulli, float(p))


def Gaussian(mean: float, std: float, out: Tensor) -> Tensor:
    """Fills out with normal numbers of this mean and standard deviation, from the device's stream.
    """
    return _draw(out, capi.weir_write_normal, capi.weir_normal, float(mean), float(std))


def Uniform(low: float, high: float, out: Tensor) -> Tensor:
    """Numbers in [low, high)."""
    return _draw(out, capi.weir_write_uniform, capi.weir_uniform, float(low), float(high))


# ---- softmax and losses ----

def softmax_rows(t: Tensor, axis: int | None) -> Handle:
    """(handle of t as a matrix whose rows softmax is over, shape of t)"""
    shape = t.shape()
    if axis is None:
        if len(shape) not in (1, 2):
            raise ShapeError(f"SoftMax: shape {shape} needs an axis")
        axis = len(shape) - 1
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"SoftMax: axis {axis} is out of range for shape {shape}")
    before = 1
    for size in shape[:axis % len(shape)]:
        before *= size
    return capi.weir_reshape(arith.real(t), (before, t.Size() // max(before, 1)))


def SoftMax(t: Tensor, axis: int | None = None) -> Tensor:
    """Softmax of each row of the matrix (axes before `axis`, the others), in t's shape."""
    y = capi.weir_softmax(softmax_rows(t, axis), 1)
    return _of(capi.weir_reshape(y, t.shape()), t)


def LogSoftMax(t: Tensor, axis: int | None = None) -> Tensor:
    """log(SoftMax(t, axis)), without overflow, in the shape of t."""
    y = capi.weir_log_softmax(softmax_rows(t, axis), 1)
    return _of(capi.weir_reshape(y, t.shape()), t)


def _shares(p: Tensor, t: Tensor) -> Handle:
    """Targets for the probabilities p as rows that add up to 1, of class numbers or of weights.

    Class numbers and weights may be of any type; SINGA reads floats as the bits of integers.
    """
    rows, classes = (1, p.shape(0)) if p.nDim() == 1 else (p.shape(0), p.shape(1))
    dtype = capi.weir_tensor_desc(p.handle)[0]
    if t.Size() == rows and classes != 1 or t.Size() == rows and t.nDim() == 1:
        labels = capi.weir_reshape(capi.weir_cast(t.handle, capi.WEIR_I32), (rows,))
        return capi.weir_one_hot(labels, classes, dtype)
    weights = capi.weir_reshape(capi.weir_cast(t.handle, dtype), (rows, classes))
    return capi.weir_div(weights, capi.weir_sum(weights, 2, True))


def CrossEntropyFwd(p: Tensor, t: Tensor) -> Tensor:
    """Loss of each row of the probabilities p: the log ends at the smallest normal float."""
    shares = _shares(p, t)
    log = capi.weir_log(capi.weir_clamp(p.handle, FLT_MIN, math.inf))
    log = capi.weir_reshape(log, capi.weir_tensor_desc(shares)[1])
    return _of(capi.weir_neg(capi.weir_sum(capi.weir_mul(shares, log), 2, False)), p)


def SoftmaxCrossEntropyBwd(p: Tensor, t: Tensor) -> Tensor:
    """p - t / (sum of t), row by row."""
    return _of(capi.weir_sub(p.handle, capi.weir_reshape(_shares(p, t), p.shape())), p)
