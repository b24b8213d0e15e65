"""base - what the families of operators share: results, constants, simple classes.

A class whose forward is one call of the core comes from unary or binary, with its function.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from weir import _capi as capi, _swig
from weir import core
from ..asserted import StateError
from ..raw import arith
from ..tape import Core
from ..tensor import Tensor
from weir.typing import Array, BinaryCall, Handle, Shape, UnaryCall
from ..raw.tensor import CTensor, result
from ..tape import Gradient, Gradients

HostData: TypeAlias = ArrayLike         # numbers, nested lists of them, arrays


class UnaryFunction(Protocol):
    """An operator of one Tensor, which SINGA calls x or a."""

    __name__: str

    @overload
    def __call__(self, x: Tensor) -> Tensor: ...
    @overload
    def __call__(self, *, a: Tensor) -> Tensor: ...


class BinaryFunction(Protocol):
    """An operator of two Tensors, which SINGA calls a and b or x and y."""

    __name__: str

    @overload
    def __call__(self, a: Tensor, b: Tensor) -> Tensor: ...
    @overload
    def __call__(self, *, x: Tensor, y: Tensor) -> Tensor: ...
    @overload
    def __call__(self, a: Tensor, *, y: Tensor) -> Tensor: ...


Unary: TypeAlias = tuple[type[Core], UnaryFunction]
Binary: TypeAlias = tuple[type[Core], BinaryFunction]

F = TypeVar("F", bound=Callable[..., object])
TO_END = 2**63 - 1          # as the end of a slice


def out(handle: Handle, like: CTensor) -> CTensor:
    """The raw result of a core call on the device of the raw tensor `like`; of one axis or more."""
    if not capi.weir_tensor_desc(handle)[1]:
        handle = capi.weir_reshape(handle, (1,))
    return result(handle, like.device())


def shape_of(handle: Handle) -> Shape:
    """The shape of a handle, a tuple."""
    return capi.weir_tensor_desc(handle)[1]


def floating(x: CTensor) -> Handle:
    """The handle of a raw tensor for functions of real numbers: integers become float32."""
    return x.handle if core.is_float(x.data_type()) else arith.cast(x, core.kFloat32)


def constant(values: HostData, number: int, device: core.Device) -> Handle:
    """The handle of host data as a tensor of the device."""
    array = np.asarray(values)
    raw = CTensor(array.shape, device, number)
    raw.from_numpy(array)
    return raw.handle


def host(values: HostData | Tensor) -> Array:
    """Host data of a list, an array or a Tensor; reading one fails while the device records."""
    return values.data.to_numpy() if isinstance(values, Tensor) else np.asarray(values)


def index(values: HostData | Tensor | CTensor, size: int, device: core.Device) -> Handle:
    """The handle of positions on an axis of this size; negative ones count from its end."""
    if isinstance(values, Tensor):
        values = values.data
    if isinstance(values, CTensor):
        handle = arith.index(values)
        zero, shift = arith.number(0, handle), arith.number(size, handle)
        return capi.weir_where(capi.weir_lt(handle, zero), capi.weir_add(handle, shift), handle)
    array = np.asarray(values).astype(np.int64)
    if array.size and (array.min() < -size or array.max() >= size):
        raise ValueError(f"indices from {array.min()} to {array.max()} are out of range for an "
                         f"axis of size {size}")
    return constant(np.where(array < 0, array + size, array), core.kInt, device)


def axis_of(axis: int, ndim: int, who: str) -> int:
    """The axis counted from the front."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"{who}: axis {axis} is out of range for {ndim} axes")
    return axis % ndim


def bits(axes: Iterable[int]) -> int:
    """Axes as the core's set."""
    return sum(1 << axis for axis in set(axes))


class NoGradient(Core):
    """An operator that no gradient passes."""

    def _run(self, xs: Sequence[Tensor]) -> Sequence[CTensor]:
        self.requires_grad = False
        return self._results(self.forward(*[x.data for x in xs]))

    def backward(self, *dys: Gradient) -> Gradients:
        raise StateError(f"{self.name} has no gradient")


# What SINGA calls the inputs of some operators (exp(a=...), mul(x=..., y=...)): its names and ours
# are taken by all.
_OTHER_NAMES = {("x",): ("a",), ("a", "b"): ("x", "y")}


def _in_order(who: str, names: tuple[str, ...], xs: Sequence[Tensor],
              named: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
    """The inputs of a call in their order, those given by name too; TypeError as Python's own."""
    other = dict(zip(_OTHER_NAMES[names], names))
    given = dict(zip(names, xs))
    for key, x in named.items():
        name = other.get(key, key)
        if name not in names:
            raise TypeError(f"{who}: unknown argument {key!r} (expected {', '.join(names)})")
        if name in given:
            raise TypeError(f"{who}: argument {name!r} is given twice")
        given[name] = x
    return tuple(given[name] for name in names if name in given)


def _function(kind: type[Core], name: str, names: tuple[str, ...],
              core_name: str = "") -> Callable[..., Tensor]:
    def function(*xs: Tensor, **named: Tensor) -> Tensor:
        if named:
            xs = _in_order(name, names, xs, named)
        if len(xs) != len(names):
            raise TypeError(f"{name}: {len(xs)} inputs are given, expected {len(names)} "
                            f"({', '.join(names)})")
        return kind()(*xs)[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = kind.__doc__
    setattr(function, "__signature__", inspect.Signature(
        [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names]))
    return quick(core_name, kind, function)


def quick(core_name: str, kind: type[Core], function: F) -> F:
    """The function of an operator, by itself or behind a builtin that makes plain calls: with
    the graph off, on Tensors of real numbers and of one type, for which the operator is a call of
    this function of the core."""
    signature, doc = inspect.signature(function), function.__doc__
    plain = signature.replace(parameters=[
        p.replace(annotation=p.empty) for p in signature.parameters.values()],
        return_annotation=signature.empty)
    return _swig.quick_function(core_name, function.__name__,
                                f"{function.__name__}{plain}\n--\n\n{doc}", function, kind,
                                "weir.autograd")


def define(name: str, function: str, forward: Callable[..., CTensor], doc: str,
           base: type[Core] = Core, names: tuple[str, ...] = ("x",),
           call: Callable[..., Handle] | None = None) -> tuple[type[Core], Callable[..., Tensor]]:
    """(class, function) of an operator without parameters; names: of its inputs; call: what it
    calls with real numbers of one type, if that is one function of the core."""
    kind = type(name, (base,), {"forward": forward, "__doc__": doc, "__module__": __name__})
    return kind, _function(kind, function, names, "" if call is None else call.__name__)


def unary(name: str, function: str, call: UnaryCall, doc: str,
          keeps: bool = False) -> Unary:
    """One call of the core on one input; keeps: the result of integers is of their type."""
    def forward(self: Core, x: CTensor) -> CTensor:
        return out(arith.unary(call, x, keeps), x)

    return define(name, function, forward, doc, call=call)


def rounding(name: str, function: str, call: UnaryCall,
             doc: str) -> Unary:
    """One call that rounds to whole numbers: integers stay as they are."""
    def forward(self: Core, x: CTensor) -> CTensor:
        return out(arith.rounded(call, x), x)

    return define(name, function, forward, doc, call=call)


def binary(name: str, function: str, call: BinaryCall,
           doc: str) -> Binary:
    """One call on two inputs that broadcast; types by the rule of arith."""
    def forward(self: Core, a: CTensor, b: CTensor) -> CTensor:
        return out(arith.binary(call, a, b), a)

    return define(name, function, forward, doc, names=("a", "b"), call=call)


def comparison(name: str, function: str, call: BinaryCall,
               doc: str) -> Binary:
    """The class and the function of a comparison: float32, 0 or 1, without a gradient."""
    def forward(self: Core, a: CTensor, b: CTensor) -> CTensor:
        return out(arith.compare(call, a, b), a)

    return define(name, function, forward, doc, NoGradient, ("a", "b"))
