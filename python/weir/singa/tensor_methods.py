"""tensor_methods - what users of NumPy and PyTorch expect of a Tensor beyond SINGA's names.

Methods here and the operators of Tensor go through `call`, which records them as an operator of
autograd if a gradient flows through an operand.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, TypeVar, Union, cast


import numpy as np

from weir import _capi as capi, _swig
from weir import core
from weir.errors import ShapeError, StateError
from .raw import arith, mask
from . import singa_wrap as singa
from .raw.tensor import CTensor, plain_array
from .tape import Core, backward, no_gradient, stored
from .taping import Taped, is_training
from weir.typing import Array, Axes, DTypeLike, Handle, Number, ShapeLike

if TYPE_CHECKING:
    from typing_extensions import TypeIs
    from .tensor_class import Tensor


def _taped(x: Taped) -> bool:
    """True if a gradient flows through results of x."""
    if not x.requires_grad or not (x._stores_grad or x._creator is not None):
        return False
    return is_training() and core.is_float(x.dtype)


Operand: TypeAlias = Union[Taped, Number, Array]         # of an operator of Tensors
Mask: TypeAlias = Union[Taped, Array, list[bool]]        # of the first axes: bool, or 0 and 1
Method: TypeAlias = Callable[[Taped, Operand], "Tensor"]
Unary: TypeAlias = Callable[[Taped], "Tensor"]
F = TypeVar("F", bound=Callable[..., object])
Nested: TypeAlias = Union[int, float, bool, list["Nested"]]


class Function(Core):
    """An operator of a function of raw tensors."""

    def __init__(self, function: Callable[..., CTensor]) -> None:
        super().__init__()
        self.forward: Callable[..., CTensor] = function


def call(function: Callable[..., CTensor], *xs: Taped) -> Tensor:
    """function(*raw tensors) of Tensors as a Tensor, differentiated where a gradient is wanted."""
    for x in xs:
        if _taped(x):
            return Function(function)(*cast("tuple[Tensor, ...]", xs))[0]
    return xs[0].made(data=function(*[x.data for x in xs]))


def _is_number(x: object) -> TypeIs[Number]:
    return isinstance(x, (int, float, np.number, np.bool_)) or \
        isinstance(x, np.ndarray) and x.ndim == 0


def operand(x: object, like: Taped) -> Taped | Number | None:
    """A Tensor as it is, a number as one of Python, an array as a Tensor of the other's device, in
    64 bits if the other is; else None."""
    if isinstance(x, Taped):
        return x
    if _is_number(x):
        return x.item() if isinstance(x, (np.generic, np.ndarray)) else x
    if isinstance(x, np.ndarray):
        wide = like.dtype in (core.kDouble, core.kInt64) and x.dtype in (np.int64, np.float64)
        return like.made(data=raw_of(x if wide else plain_array(x), like.device),
                         requires_grad=False)
    return None


def raw_of(array: Array, device: core.Device) -> CTensor:
    """A new raw tensor with the array's elements and type."""
    raw = CTensor(array.shape, device, core.dtype_number(array.dtype))
    raw.from_numpy(array)
    return raw


def operator(function: Callable[..., CTensor],
             core_call: Callable[..., Handle] | None = None) -> Method:
    """A binary operator of Tensors from a function of raw tensors, which is this call of the core
    where types are equal and real."""
    def method(self: Taped, value: Operand) -> Tensor:
        other = operand(value, self)
        if other is None:
            return cast("Tensor", NotImplemented)
        if _is_number(other):
            return call(lambda x: function(x, other), self)
        return call(function, self, other)
    return method if core_call is None else quick(core_call, "operator", "", method, function)


def quick(core_call: Callable[..., Handle], name: str, doc: str, method: F,
          function: Callable[..., CTensor]) -> F:
    """The method of Tensor behind a builtin that makes plain calls at once: with the graph off,
    on Tensors of real numbers and of one type, for which the method is this call of the core and of
    this function of raw tensors."""
    return _swig.quick_method(core_call.__name__, name, doc, method, (Function, function))


def reflected(function: Callable[..., CTensor]) -> Method:
    """The operator with the operands exchanged: a number or an array before it."""
    def method(self: Taped, value: Operand) -> Tensor:
        other = operand(value, self)
        if other is None:
            return cast("Tensor", NotImplemented)
        if _is_number(other):
            return call(lambda x: function(other, x), self)
        return call(function, other, self)
    return method


def in_place(function: Callable[..., CTensor]) -> Method:
    """An operator that changes its Tensor; it keeps shape and type.

    Where no gradient flows it changes the elements, for all that share them. Where one does it
    becomes, by itself, the result of an operator of autograd: see _become.
    """
    def method(self: Taped, value: Operand) -> Tensor:
        other = operand(value, self)
        if other is None:
            return cast("Tensor", NotImplemented)
        if _taped(self) and self._creator is not None or not _is_number(other) and _taped(other):
            return _become(self, operator(function)(self, other))
        if _is_number(other) and arith.is_whole(other) and not core.is_float(self.dtype):
            other = self.made(data=singa.Scalar(other, self.data))      # integers stay exact
        self.data.put(function(self.data, other if _is_number(other) else other.data).handle)
        return cast("Tensor", self)
    return method


def _become(x: Taped, y: Tensor) -> Tensor:
    """x is what y, a result of autograd, is: its elements, in x's type, and its creator. Elements
    that gradients need are not written over: those that shared x's stay as they are."""
    if x._stores_grad:
        raise StateError(f"{x.name} stores its gradient: a change in place by what has a gradient "
                         "itself would lose one of them; make a new Tensor")
    if y.shape != x.shape:
        raise ShapeError(f"a result of shape {y.shape} does not fit a tensor of shape {x.shape}")
    if y.dtype != x.dtype:
        y = y.as_type(x.dtype)
    x.data, x._creator = y.data, y._creator
    y.creator.y_id2idx = {id(x): 0}
    x.requires_grad = y.requires_grad
    x._describe()
    return cast("Tensor", x)


def replace(x: Taped, function: Callable[[CTensor, CTensor], CTensor], value: Taped) -> None:
    """x becomes function(x, value), of its own shape and type, in place."""
    if _taped(value) or _taped(x) and x._creator is not None:
        _become(x, call(function, x, value))
    else:
        x.data.put(function(x.data, value.data).handle)


def is_mask(key: object) -> TypeIs[Mask]:
    """True if the key of x[key] selects by elements, not by positions of axes."""
    return isinstance(key, (Taped, list)) or isinstance(key, np.ndarray) and key.ndim > 0


def _flags(x: Taped, key: Mask) -> CTensor:
    return mask.Flags(key.data if isinstance(key, Taped) else np.asarray(key), x.data)


def selected(x: Taped, key: Mask) -> Tensor:
    """x[mask]: where the mask of the first axes is true; they become one axis."""
    flags = _flags(x, key)
    places = mask.Places(flags)
    return call(lambda t: mask.Selected(t, flags, places), x)


def set_masked(x: Taped, key: Mask, value: Taped | Number) -> None:
    """What the mask selects becomes a number, which a recording takes too, or the elements of a
    Tensor with a row for each place, in place."""
    flags = _flags(x, key)
    if not isinstance(value, Taped):
        value = x.made(data=singa.Scalar(value, x.data), requires_grad=False)
    elif value.shape != (1,):
        want = (*mask.Places(flags).shape(), *x.shape[flags.nDim():])
        if value.shape != want:
            raise ShapeError(f"x[mask] = y: y has shape {value.shape}, must be {want} or one "
                             "element")
        if not value.size():
            return
    replace(x, lambda t, new: mask.Assigned(t, flags, new), value)


def set_part(x: Taped, begin: Sequence[int], end: Sequence[int], value: Taped | Number) -> Taped:
    """Elements begin to end of every axis of x become a number or a Tensor, in place."""
    if _is_number(value):
        if _taped(x) and x._creator is not None:
            return _become(x, call(lambda t: singa.WithSlice(t, begin, end, value), x))
        singa.AssignSlice(x.data, begin, end, value)
    elif _taped(value) or _taped(x) and x._creator is not None:
        _become(x, call(lambda t, v: singa.WithSlice(t, begin, end, v), x, value))
    else:
        singa.AssignSlice(x.data, begin, end, value.data)
    return x


def _elementwise(function: Callable[..., CTensor], doc: str,
                 core_call: Callable[..., Handle]) -> Callable[[Taped], Tensor]:
    def method(self: Taped) -> Tensor:
        return call(function, self)
    method.__name__ = function.__name__.lower()
    method.__doc__ = doc
    return quick(core_call, method.__name__, f"{method.__name__}($self, /)\n--\n\n{doc}", method,
                 function)


class Methods(Taped):
    """The part of Tensor that SINGA has not."""

    __array_priority__ = 1000       # array + Tensor is a Tensor

    @classmethod
    def of(cls, raw: CTensor) -> Self:
        """A Tensor that shares a raw tensor."""
        return cast("Callable[..., Self]", cls)(data=raw)

    # -- host data --

    def numpy(self) -> Array:
        """A new array of the elements."""
        return self.data.to_numpy()

    def tolist(self) -> Nested:
        """The elements as nested lists of Python numbers."""
        return cast("Nested", self.data.to_numpy().tolist())

    def item(self) -> int | float | bool:
        """The one element, as a Python number."""
        if self.size() != 1:
            raise ValueError(f"item: shape {self.shape} has {self.size()} elements, not 1")
        return cast("float", self.data.to_numpy().item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        """x[0], x[1], ...: the parts along the first axis, which stays with size 1."""
        for i in range(len(self)):
            yield self[i]

    # -- elements --

    __neg__: ClassVar[Unary] = _elementwise(singa.Negative, "-x.", capi.weir_neg)

    def __pos__(self) -> Tensor:
        return self.clone()

    def __invert__(self) -> Tensor:
        return call(singa.Not, self)

    abs: ClassVar[Unary] = _elementwise(singa.Abs, "Absolute values.", capi.weir_abs)
    __abs__: ClassVar[Unary] = abs
    ceil: ClassVar[Unary] = _elementwise(singa.Ceil, "Rounded up.", capi.weir_ceil)
    floor: ClassVar[Unary] = _elementwise(singa.Floor, "Rounded down.", capi.weir_floor)
    round: ClassVar[Unary] = _elementwise(singa.RoundE, "Rounded, halves to even ones as in NumPy.",
                                          capi.weir_round_even)
    sign: ClassVar[Unary] = _elementwise(singa.Sign, "-1, 0 or 1.", capi.weir_sign)
    exp: ClassVar[Unary] = _elementwise(singa.Exp, "e to the power of each.", capi.weir_exp)
    log: ClassVar[Unary] = _elementwise(singa.Log, "Natural logarithms.", capi.weir_log)
    sqrt: ClassVar[Unary] = _elementwise(singa.Sqrt, "Square roots.", capi.weir_sqrt)
    square: ClassVar[Unary] = _elementwise(singa.Square, "Squares.", capi.weir_square)
    sin: ClassVar[Unary] = _elementwise(singa.Sin, "Sines.", capi.weir_sin)
    cos: ClassVar[Unary] = _elementwise(singa.Cos, "Cosines.", capi.weir_cos)
    tan: ClassVar[Unary] = _elementwise(singa.Tan, "Tangents.", capi.weir_tan)
    tanh: ClassVar[Unary] = _elementwise(singa.Tanh, "Hyperbolic tangents.", capi.weir_tanh)
    sigmoid: ClassVar[Unary] = _elementwise(singa.Sigmoid, "1 / (1 + e to the -x).",
                                            capi.weir_sigmoid)
    relu: ClassVar[Unary] = _elementwise(singa.ReLU, "max(x, 0).", capi.weir_relu)
    erf: ClassVar[Unary] = _elementwise(singa.Erf, "The error function.", capi.weir_erf)

    def clip(self, min: Number | None = None, max: Number | None = None,
             out: Tensor | None = None) -> Tensor:
        """Limited to [min, max]; None: no limit."""
        return self._result(call(lambda x: singa.Clip(x, min, max), self), out)

    clamp = clip

    def pow(self, x: Operand) -> Tensor:
        """self ** x."""
        return self ** x

    def matmul(self, other: Operand) -> Tensor:
        """self @ other."""
        return self @ other

    dot = matmul

    def astype(self, dtype: DTypeLike) -> Tensor:
        """A new Tensor of another type."""
        return self.as_type(dtype)

    # -- reductions: of all elements without an axis, then of shape (1,) --

    def _reduced(self, op: Callable[..., Handle], axis: Axes | None, keepdims: bool,
                 out: Tensor | None, *args: int) -> Tensor:
        y = call(lambda x: singa.reduced(op, x, axis, keepdims, *args), self)
        return self._result(y, out)

    @staticmethod
    def _result(y: Tensor, out: Tensor | None) -> Tensor:
        if out is None:
            return y
        if y._creator is not None and y.requires_grad:
            raise StateError("out= has no gradient, but what is computed has: leave it out, or "
                             "detach() the operands")
        out.data.put(y.data.handle)
        return out

    def sum(self, axis: Axes | None = None, dtype: DTypeLike | None = None,
            out: Tensor | None = None, keepdims: bool = False) -> Tensor:
        """The sum along an axis or several (None: all, of shape (1,)). Integers add up in int64.
        dtype: computed in that type."""
        return self._typed(dtype)._reduced(capi.weir_sum, axis, keepdims, out)

    def mean(self, axis: Axes | None = None, dtype: DTypeLike | None = None,
             out: Tensor | None = None, keepdims: bool = False) -> Tensor:
        """The mean along an axis or several (None: all, of shape (1,))."""
        return self._typed(dtype)._reduced(capi.weir_mean, axis, keepdims, out)

    def max(self, axis: Axes | None = None, out: Tensor | None = None,
            keepdims: bool = False) -> Tensor:
        """The largest element along an axis or several (None: all, of shape (1,))."""
        return self._reduced(capi.weir_amax, axis, keepdims, out)

    def min(self, axis: Axes | None = None, out: Tensor | None = None,
            keepdims: bool = False) -> Tensor:
        """The smallest element along an axis or several (None: all, of shape (1,))."""
        return self._reduced(capi.weir_amin, axis, keepdims, out)

    def prod(self, axis: Axes | None = None, dtype: DTypeLike | None = None,
             out: Tensor | None = None, keepdims: bool = False) -> Tensor:
        """The product along an axis or several (None: all, of shape (1,))."""
        return self._typed(dtype)._reduced(capi.weir_prod, axis, keepdims, out)

    def var(self, axis: Axes | None = None, dtype: DTypeLike | None = None,
            out: Tensor | None = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        """Mean squared distance from the mean, with n - ddof (0 or 1) as the divisor."""
        x = self._typed(dtype)
        if core.is_float(x.dtype):
            return x._reduced(capi.weir_var, axis, keepdims, out, ddof)
        y = x.as_type(core.kDouble)._reduced(capi.weir_var, axis, keepdims, None, ddof)
        return self._result(y.as_type(core.kFloat32), out)

    def std(self, axis: Axes | None = None, dtype: DTypeLike | None = None,
            out: Tensor | None = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        """The root of var; of equal elements its slope is 0, as PyTorch's."""
        x = self._typed(dtype)
        return self._result(call(lambda t: singa.Std(t, axis, keepdims, ddof), x), out)

    def argmax(self, axis: int | None = None, out: Tensor | None = None,
               keepdims: bool = False) -> Tensor:
        """The first index (int32) of the largest element, of all elements or along an axis."""
        return self._arg(capi.weir_argmax, axis, out, keepdims)

    def argmin(self, axis: int | None = None, out: Tensor | None = None,
               keepdims: bool = False) -> Tensor:
        """The int32 index of the smallest element along an axis (None: of all, row-major)."""
        return self._arg(capi.weir_argmin, axis, out, keepdims)

    def _arg(self, op: Callable[[Handle, int, bool], Handle], axis: int | None, out: Tensor | None,
             keepdims: bool) -> Tensor:
        return self._result(self.made(data=singa.ArgReduce(op, self.data, axis, keepdims)), out)

    def _typed(self, dtype: DTypeLike | None) -> Tensor:
        return cast("Tensor", self) if dtype is None else self.as_type(dtype)

    # -- shapes --

    def view(self, *shape: ShapeLike) -> Tensor:
        """reshape(*shape): the new shape, with one -1 at most."""
        return self.reshape(*shape)

    def flatten(self, start: int = 0) -> Tensor:
        """One axis instead of those from `start` on."""
        shape = self.shape[:start] + (singa.Product(self.shape[start:]),)
        return call(lambda x: singa.Reshape(x, shape), self)

    def squeeze(self, axis: Axes | None = None) -> Tensor:
        """Without one axis of size 1, or all of them."""
        shape = singa.squeezed(self.shape, axis)
        return call(lambda x: singa.Reshape(x, shape), self)

    def unsqueeze(self, axis: int) -> Tensor:
        """With a new axis of size 1."""
        at = axis + len(self.shape) + 1 if axis < 0 else axis
        if not 0 <= at <= len(self.shape):
            raise ValueError(f"unsqueeze: axis {axis} is out of range for shape {self.shape}")
        shape = self.shape[:at] + (1,) + self.shape[at:]
        return call(lambda x: singa.Reshape(x, shape), self)

    def permute(self, *axes: int | Sequence[int]) -> Tensor:
        """The axes in another order."""
        order = cast("Sequence[int]", axes[0] if len(axes) == 1 and not isinstance(axes[0], int)
                     else axes)
        return call(lambda x: singa.Transpose(x, order), self)

    def expand(self, *shape: ShapeLike) -> Tensor:
        """Repeated along axes of size 1 or new ones at the front; -1 keeps a size."""
        given = cast("Sequence[int]", shape[0] if len(shape) == 1 and not isinstance(shape[0], int)
                     else shape)
        at = len(given) - len(self.shape)
        sizes = tuple(self.shape[i - at] if s == -1 and i >= at else int(s)
                      for i, s in enumerate(given))
        return call(lambda x: singa.Broadcast(x, sizes).Clone(), self)

    # -- gradients --

    def detach(self) -> Tensor:
        """A Tensor of the same elements that gradients do not pass."""
        return cast("Callable[..., Tensor]", type(self))(data=CTensor(self.data),
                                                       requires_grad=False)

    def backward(self, dy: Tensor | Number | None = None,
                 retain_graph: bool = False) -> list[tuple[Tensor, Tensor]]:
        """Pairs (Tensor, gradient) of autograd.backward; an error if there are no pairs. A second
        call for the same tensor needs retain_graph=True in the first, as in PyTorch. Each Tensor's
        `grad` is its gradient then."""
        y = cast("Tensor", self)
        for x in stored(y.creator):
            x.grad = None
        pairs = list(backward(y, dy, retain_graph))
        if not pairs:
            raise no_gradient(y)
        for x, grad in pairs:
            x.set_grad(grad)
        return pairs

    _grad: Tensor | None = None
    _recorded_grad: weakref.ref[Tensor] | None = None

    @property
    def grad(self) -> Tensor | None:
        """The gradient that the last y.backward() gave it, or None; None frees it.

        It is replaced, not added to. In a recording it lives as long as the script keeps the pairs
        of y.backward(), so asking for it changes no plan. autograd.backward does not set it.
        """
        if self._recorded_grad is None:
            return self._grad
        found = self._recorded_grad()
        if found is None:
            raise StateError(f"grad of {self.name}: its backward was recorded, and a gradient in a "
                             "recording lives only as long as the script keeps it: use the pairs "
                             "that backward() returns")
        return found

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        self._grad = grad
        self._recorded_grad = None

    def set_grad(self, grad: Tensor) -> None:
        """What backward() tells: the gradient, held only if it was computed."""
        recording = grad.device.recording
        self._grad = None if recording else grad
        self._recorded_grad = weakref.ref(grad) if recording else None
