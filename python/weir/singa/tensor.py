"""tensor - SINGA's module of tensors: the Tensor, NumPy in and out, functions of Tensors.

Functions here compute or are recorded but are not differentiated: see weir.autograd.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias, TypeVar, Union

import numpy as np

from weir import core
from .asserted import ArgumentError, ShapeError
from . import singa_wrap as singa
from .raw.tensor import CTensor  # noqa: F401
from .tensor_class import Tensor, plain_array
from weir.dtypes import DType
from weir.typing import Array, ArrayLike, Axes, DTypeLike, Number, ShapeLike

__all__ = ["abs", "add", "add_column", "add_row", "average", "axpy", "bernoulli", "bfloat16",
           "BinaryFunction", "bool_", "ceil", "Comparison", "concatenate", "contiguous",
           "copy_data_to_from", "copy_from_numpy", "CTensor", "div", "einsum", "eltwise_mult", "eq",
           "exp", "F", "float16", "float32", "float64", "floor", "from_numpy", "from_raw_tensor",
           "from_raw_tensors", "full", "gaussian", "ge", "gt", "int32", "int64", "le", "log", "lt",
           "mult", "ones", "ones_like", "Operand", "PlaceHolder", "pow", "product", "random",
           "relu", "repeat", "reshape", "sigmoid", "sign", "sizeof", "softmax", "sqrt", "square",
           "sub", "sum", "sum_columns", "sum_rows", "tanh", "Tensor", "tensordot", "to_host",
           "to_numpy", "transpose", "uint8", "UnaryFunction", "uniform", "zeros", "zeros_like"]

float32: DType = core.kFloat32
float16: DType = core.kFloat16
int32: DType = core.kInt
float64: DType = core.kDouble
int64: DType = core.kInt64
uint8: DType = core.kUChar
bool_: DType = core.kBool
bfloat16: DType = core.kBFloat16

PlaceHolder = Tensor


Operand: TypeAlias = Union[Tensor, Number]


class UnaryFunction(Protocol):
    """A function of a Tensor, which is not differentiated."""

    __name__: str
    __qualname__: str

    def __call__(self, t: Tensor) -> Tensor:
        """The result, a new Tensor."""
        ...


class BinaryFunction(Protocol):
    """A function of a Tensor and of one or a number; ret: the place of the result."""

    __name__: str
    __qualname__: str

    def __call__(self, lhs: Operand, rhs: Operand, ret: Tensor | None = None) -> Tensor:
        """The result, a new Tensor, or `ret`."""
        ...


class Comparison(Protocol):
    """A function of a Tensor t and of one or a number x; ret: the place of the result."""

    __name__: str
    __qualname__: str

    def __call__(self, t: Operand, x: Operand, ret: Tensor | None = None) -> Tensor:
        """The result, a new Tensor, or `ret`."""
        ...


F = TypeVar("F", UnaryFunction, BinaryFunction, Comparison)


# ---- NumPy ----

def from_numpy(np_array: ArrayLike, dev: core.Device | None = None) -> Tensor:
    """A new Tensor: int64 becomes int32, float64 float32, as in SINGA."""
    if not isinstance(np_array, (np.ndarray, np.generic, list, tuple)):
        raise ArgumentError(f"from_numpy: np_array is a {type(np_array).__name__}, must be a NumPy "
                            "array or a list of numbers")
    array = plain_array(np_array)
    return Tensor(data=array, device=dev, dtype=core.dtype_number(array.dtype))


def to_numpy(t: Tensor) -> Array:
    """A new array of the Tensor's elements."""
    return t.data.to_numpy()


def to_host(t: Tensor) -> Tensor:
    """A copy on the host's device."""
    return Tensor(data=t.data.Clone(t.device.host()), requires_grad=t.requires_grad)


def copy_from_numpy(data: CTensor, np_array: Array) -> None:
    """Copies an array to a raw tensor of as many elements."""
    if np_array.size != data.Size():
        raise ShapeError(f"copy_from_numpy: an array of shape {np_array.shape} does not fit a "
                         f"tensor of shape {data.shape()}")
    data.from_numpy(plain_array(np_array))


# ---- raw tensors ----

def from_raw_tensor(t: CTensor) -> Tensor:
    """A Tensor that shares a raw tensor."""
    return Tensor(data=t)


def from_raw_tensors(tt: Iterable[CTensor]) -> list[Tensor]:
    """Tensors that share the elements of raw tensors."""
    return [from_raw_tensor(t) for t in tt]


def _raw(x: Operand) -> CTensor | Number:
    return x.data if isinstance(x, Tensor) else x


def _call_singa_func(func: Callable[..., CTensor], *args: Operand) -> Tensor:
    """A Tensor of what a function of singa_wrap gives; Tensors become raw ones."""
    return from_raw_tensor(func(*[_raw(x) for x in args]))


# ---- making Tensors ----

def _filled(shape: ShapeLike, device: core.Device | None, x: Number, dtype: DTypeLike) -> Tensor:
    device = core.default_device() if device is None else device
    t = Tensor(shape, device, dtype)
    t.set_value(x)
    return t


def zeros(shape: ShapeLike, device: core.Device | None = None,
          dtype: DTypeLike = float32) -> Tensor:
    """A Tensor of zeros on a device (None: the default one)."""
    return _filled(shape, device, 0.0, dtype)


def ones(shape: ShapeLike, device: core.Device | None = None, dtype: DTypeLike = float32) -> Tensor:
    """A Tensor of ones on a device (None: the default one)."""
    return _filled(shape, device, 1.0, dtype)


def full(shape: ShapeLike, value: Number, device: core.Device | None = None,
         dtype: DTypeLike = float32) -> Tensor:
    """A Tensor whose elements are `value`, on a device (None: the default one)."""
    return _filled(shape, device, value, dtype)


def zeros_like(t: Tensor) -> Tensor:
    """A Tensor of zeros with the shape, element type and device of t."""
    return _filled(t.shape, t.device, 0.0, t.dtype)


def ones_like(t: Tensor) -> Tensor:
    """A Tensor of ones with the shape, element type and device of t."""
    return _filled(t.shape, t.device, 1.0, t.dtype)


def random(shape: ShapeLike, device: core.Device | None = None) -> Tensor:
    """Numbers in [0, 1)."""
    return Tensor(shape, device).uniform(0, 1)


def product(shape: Iterable[int]) -> int:
    """The product of the sizes of a shape: its number of elements."""
    return singa.Product(shape)


def sizeof(dtype: DTypeLike) -> int:
    """Bytes of one element."""
    return singa.SizeOf(core.dtype_number(dtype))


# ---- copies and shapes ----

def copy_data_to_from(dst: Tensor, src: Tensor, size: int, dst_offset: int = 0,
                      src_offset: int = 0) -> None:
    """`size` elements of src from src_offset on to dst from dst_offset on."""
    singa.CopyDataToFrom(dst.data, src.data, size, dst_offset, src_offset)


def reshape(tensor: Tensor, shape: ShapeLike) -> Tensor:
    """A Tensor with the elements in another shape; not differentiated."""
    return from_raw_tensor(singa.Reshape(tensor.data, shape))


def contiguous(tensor: Tensor) -> Tensor:
    """A Tensor whose elements lie in row-major order; not differentiated."""
    return from_raw_tensor(singa.Contiguous(tensor.data))


def transpose(t: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """A view with the axes in another order, reversed by default."""
    return from_raw_tensor(singa.DefaultTranspose(t.data) if axes is None
                           else singa.Transpose(t.data, axes))


def repeat(t: Tensor, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """NumPy's repeat; without an axis, of the elements in a row."""
    return t.detach().repeat(repeats, axis)


def concatenate(tensors: Iterable[Tensor], axis: int) -> Tensor:
    """Tensors joined along `axis`; not differentiated (autograd.cat is)."""
    return from_raw_tensor(singa.ConcatOn(singa.VecTensor(t.data for t in tensors), axis))


# ---- elements ----

def _named(function: F, name: str, doc: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _unary(name: str, func: Callable[..., CTensor]) -> UnaryFunction:
    def function(t: Tensor) -> Tensor:
        return from_raw_tensor(func(t.data))
    return _named(function, name, f"{name} of each element.")


abs: UnaryFunction = _unary("abs", singa.Abs)
exp: UnaryFunction = _unary("exp", singa.Exp)
ceil: UnaryFunction = _unary("ceil", singa.Ceil)
floor: UnaryFunction = _unary("floor", singa.Floor)
log: UnaryFunction = _unary("log", singa.Log)
relu: UnaryFunction = _unary("relu", singa.ReLU)
sigmoid: UnaryFunction = _unary("sigmoid", singa.Sigmoid)
sign: UnaryFunction = _unary("sign", singa.Sign)
sqrt: UnaryFunction = _unary("sqrt", singa.Sqrt)
square: UnaryFunction = _unary("square", singa.Square)
tanh: UnaryFunction = _unary("tanh", singa.Tanh)


def _into(raw: CTensor, out: Tensor | None) -> Tensor:
    """A new Tensor, or the one given for the result."""
    if out is None:
        return from_raw_tensor(raw)
    out.data.put(raw.handle)
    return out


def _binary(name: str, func: Callable[..., CTensor], doc: str) -> BinaryFunction:
    def function(lhs: Operand, rhs: Operand, ret: Tensor | None = None) -> Tensor:
        return _into(func(_raw(lhs), _raw(rhs)), ret)
    return _named(function, name, doc)


def _comparison(name: str, func: Callable[..., CTensor], doc: str) -> Comparison:
    def function(t: Operand, x: Operand, ret: Tensor | None = None) -> Tensor:
        return _into(func(_raw(t), _raw(x)), ret)
    return _named(function, name, doc)


add: BinaryFunction = _binary(
    "add", singa.Add, "lhs + rhs; rhs may be a number, ret the place of the result.")
sub: BinaryFunction = _binary("sub", singa.Sub, "lhs - rhs")
eltwise_mult: Comparison = _comparison(
    "eltwise_mult", singa.EltwiseMult, "lhs rhs, element by element")
div: BinaryFunction = _binary("div", singa.Div, "lhs / rhs")
lt: Comparison = _comparison("lt", singa.LT, "1 where t < x, else 0")
le: Comparison = _comparison("le", singa.LE, "1 where t <= x, else 0")
gt: Comparison = _comparison("gt", singa.GT, "1 where t > x, else 0")
ge: Comparison = _comparison("ge", singa.GE, "1 where t >= x, else 0")
eq: Comparison = _comparison("eq", singa.EQ, "1 where t == x, else 0")


def pow(t: Tensor, x: Operand, out: Tensor | None = None) -> Tensor:
    """t to the power x, a Tensor or a number."""
    return _into(singa.Pow(t.data, _raw(x)), out)


def softmax(t: Tensor, out: Tensor | None = None) -> Tensor:
    """Softmax of each row; of a vector, of all its elements."""
    return _into(singa.SoftMax(t.data), out)


# ---- reductions ----

def sum(t: Tensor, axis: Axes | None = None, out: Tensor | None = None) -> Tensor:
    """Sum along an axis, several, or all: then of shape (1,)."""
    return _into(singa.Sum(t.data, axis), out)


def average(t: Tensor, axis: Axes | None = None) -> Tensor | float:
    """Mean along an axis; without one a Python number."""
    if axis is not None:
        return from_raw_tensor(singa.Average(t.data, axis))
    return singa.AverageAsFloat(t.data)


def sum_columns(M: Tensor) -> Tensor:
    """The sum of the columns, (rows, 1)."""
    if M.ndim() != 2:
        raise ShapeError(f"sum_columns: M has shape {M.shape}, must have 2 axes")
    ret = Tensor((M.shape[0], 1), M.device)
    singa.SumColumns(M.data, ret.data)
    return ret


def sum_rows(M: Tensor) -> Tensor:
    """The sum of the rows, (1, columns)."""
    if M.ndim() != 2:
        raise ShapeError(f"sum_rows: M has shape {M.shape}, must have 2 axes")
    ret = Tensor((1, M.shape[1]), M.device)
    singa.SumRows(M.data, ret.data)
    return ret


# ---- matrices ----

def mult(A: Tensor, B: Tensor, C: Tensor | None = None, alpha: float = 1.0,
         beta: float = 0.0) -> Tensor:
    """alpha A B, or C = alpha A B + beta C in place."""
    if C is not None:
        singa.MultWithScale(alpha, A.data, B.data, beta, C.data)
        return C
    raw = singa.Mult(A.data, B.data)
    return from_raw_tensor(raw if alpha == 1 else singa.MultFloat(raw, alpha))


def axpy(alpha: Operand, x: Tensor, y: Tensor) -> Tensor:
    """y += alpha x, in place; alpha is a number or a Tensor of one element."""
    singa.Axpy(_raw(alpha), x.data, y.data)
    return y


def tensordot(A: Tensor, B: Tensor, axes: int | Sequence[Axes] = 2) -> Tensor:
    """NumPy's tensordot: the last `axes` axes of A with the first of B, or pairs of axes. Of all
    axes the shape is (1,)."""
    return from_raw_tensor(singa.TensorDot(A.data, B.data, axes))


def einsum(ops: str, *args: Tensor) -> Tensor:
    """NumPy's einsum of two Tensors, with an explicit "->"."""
    if len(args) != 2:
        raise TypeError(f"einsum: {len(args)} operands given, expected 2")
    return from_raw_tensor(singa.Einsum(ops, args[0].data, args[1].data))


# ---- fills and rows, in place ----

def bernoulli(p: float, t: Tensor) -> Tensor:
    """1 with probability p, else 0."""
    return t.bernoulli(p)


def gaussian(mean: float, std: float, t: Tensor) -> Tensor:
    """Fills t with normal numbers, in place; returns t."""
    return t.gaussian(mean, std)


def uniform(low: float, high: float, t: Tensor) -> Tensor:
    """Numbers in [low, high)."""
    return t.uniform(low, high)


def add_column(alpha: float, v: Tensor, beta: float, M: Tensor) -> Tensor:
    """Each column of M becomes alpha v + beta column."""
    singa.AddColumnWithScale(float(alpha), float(beta), v.data, M.data)
    return M


def add_row(alpha: float, v: Tensor, beta: float, M: Tensor) -> Tensor:
    """Each row of M becomes alpha v + beta row."""
    singa.AddRowWithScale(float(alpha), float(beta), v.data, M.data)
    return M
