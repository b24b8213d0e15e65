"""table - the one table from overloads of ATen to functions that call the core.

A function gets a Call and the arguments under ATen's names. Attributes that it does not name are
refused; so is what it raises Refused for. It never approximates: what is not the same is refused.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, Union

import torch
from torch import dtype as TorchType

from .. import _capi as capi
from ..core import Device
from ..errors import InvalidError
from ..typing import Handle, Number, Shape

# What a node of the captured graph is worth: a tensor, several, or nothing that is read.
Value: TypeAlias = Union[Handle, tuple[Union[Handle, None], ...], None]
Rule: TypeAlias = Callable[..., Value]
R = TypeVar("R", bound=Rule)

TYPES: dict[TorchType, int] = {
    torch.float32: capi.WEIR_F32, torch.float64: capi.WEIR_F64, torch.float16: capi.WEIR_F16,
    torch.bfloat16: capi.WEIR_BF16, torch.int32: capi.WEIR_I32, torch.int64: capi.WEIR_I64,
    torch.uint8: capi.WEIR_U8, torch.bool: capi.WEIR_BOOL}
FLOATS = frozenset({capi.WEIR_F32, capi.WEIR_F64, capi.WEIR_F16, capi.WEIR_BF16})
# Arguments that say where and how memory lies, which is the core's matter.
PLACES = ("device", "pin_memory", "layout", "memory_format")


class Refused(ValueError):
    """An overload, or one of its attributes, that is outside the table: why."""


@dataclass
class Call:
    """A call of an operator while it is recorded."""

    device: Device
    result: torch.Tensor | tuple[torch.Tensor, ...] | None      # shapes and types alone
    inputs: Sequence[object]                                # the same of positional arguments
    updated: set[int] = field(default_factory=set)          # results that a state has already

    @property
    def dtype(self) -> int:
        """The core's type of the result, or of the first of several."""
        if isinstance(self.result, torch.Tensor):
            return type_of(self.result.dtype)
        if not self.result:
            raise Refused("its result is no tensor")
        return type_of(self.result[0].dtype)

    @property
    def shape(self) -> Shape:
        """The shape of the result."""
        if not isinstance(self.result, torch.Tensor):
            raise Refused("its result is no tensor")
        return tuple(int(n) for n in self.result.shape)


_RULES: dict[str, Rule] = {}


def aten(*overloads: str) -> Callable[[R], R]:
    """Enters a function into the table: @aten("add.Tensor")."""
    def enter(rule: R) -> R:
        for name in overloads:
            if name in _RULES:
                raise ValueError(f"{name} is in the table twice")
            _RULES[name] = rule
        return rule
    return enter


def rules() -> Mapping[str, Rule]:
    """The table."""
    return _RULES


def call(name: str, at: Call, args: Sequence[object], kwargs: Mapping[str, object]) -> Value:
    """The result of an overload of the table. Refused for an attribute that it does not know."""
    rule = _RULES[name]
    known = {key: value for key, value in kwargs.items() if key not in PLACES}
    try:
        inspect.signature(rule).bind(at, *args, **known)
    except TypeError as error:
        raise Refused(f"arguments outside the table ({error})") from None
    return rule(at, *args, **known)


def type_of(dtype: TorchType) -> int:
    """The core's type."""
    if dtype not in TYPES:
        raise Refused(f"the element type {dtype} does not exist in Weir")
    return TYPES[dtype]


def torch_type(kind: int) -> TorchType:
    """torch's type of the core's."""
    return next(t for t, number in TYPES.items() if number == kind)


def half_type(precision: str | None) -> int | None:
    """The core's type of "bf16" and "f16"; None for f32."""
    types = {None: None, "f32": None, "bf16": capi.WEIR_BF16, "f16": capi.WEIR_F16}
    if precision not in types:
        raise InvalidError(f"precision {precision!r}: must be None, 'f32', 'bf16' or 'f16'")
    return types[precision]


def shape_of(x: Handle) -> Shape:
    """The shape of a tensor of the core."""
    return capi.weir_tensor_desc(x)[1]


def dtype_of(x: Handle) -> int:
    """The type of a tensor of the core."""
    return capi.weir_tensor_desc(x)[0]


def cast(x: Handle, dtype: int) -> Handle:
    """The tensor in a type; itself if it has it."""
    return x if dtype_of(x) == dtype else capi.weir_cast(x, dtype)


def filled(at: Call, value: Number, dtype: int, shape: Sequence[int] = ()) -> Handle:
    """One value everywhere."""
    if dtype in FLOATS or isinstance(value, float):
        return capi.weir_fill(at.device.handle, (dtype, tuple(shape)), float(value))
    return capi.weir_fill_int(at.device.handle, (dtype, tuple(shape)), int(value))


def line(at: Call, count: int, axes: int, axis: int) -> Handle:
    """0, 1, ... along one of `axes` axes, i64."""
    numbers = capi.weir_arange(at.device.handle, capi.WEIR_I64, count, 0.0, 1.0)
    return capi.weir_reshape(numbers, [count if i == axis else 1 for i in range(axes)])


def operand(at: Call, x: Handle | Number, dtype: int) -> Handle:
    """A tensor or a number as a tensor of a type."""
    if isinstance(x, (bool, int, float)):
        return filled(at, x, dtype)
    return cast(x, dtype)       # type: ignore[arg-type]


def axis_of(dim: int, axes: int) -> int:
    """An axis counted from the front."""
    return dim + axes if dim < 0 else dim


def bits(dims: Sequence[int] | int | None, axes: int) -> int:
    """A set of axes as the core takes it; 0, all, for None and ()."""
    if dims is None:
        return 0
    every = [dims] if isinstance(dims, int) else dims
    return sum(1 << axis_of(d, axes) for d in every)


def require(condition: bool, why: str) -> None:
    """Refuses unless the condition holds."""
    if not condition:
        raise Refused(why)
