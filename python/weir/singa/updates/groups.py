"""groups - parameters of an optimiser with numbers of their own: Optimizer.add_group makes them."""
from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias, Union

from weir import _capi as capi
from ..layers.base import Layer
from ..tensor import Tensor
from .schedules import Constant, DecayScheduler, value_at

if TYPE_CHECKING:
    from ..opt import Optimizer

Rate: TypeAlias = Union[float, DecayScheduler]          # a number, or one that changes
# Which parameters: a path or a pattern, a layer, a parameter, a function of name and parameter, or
# several of them.
Where: TypeAlias = Union[str, Layer, Tensor, Callable[[str, Tensor], bool],
                         Iterable[Union[str, Layer, Tensor]]]


class Share(DecayScheduler):
    """The rate of another optimiser times a number, whatever that rate becomes."""

    def __init__(self, of: Optimizer, scale: float) -> None:
        self.of: Optimizer = of
        self.scale: float = scale

    @property
    def init_value(self) -> float:      # type: ignore[override]
        """The other's first value times the number."""
        return self.of.lr.init_value * self.scale

    def wide(self, step: Tensor) -> capi.weir_tensor:
        """The handle of the rate in f64."""
        value = value_at(self.of.lr, step)
        return value if self.scale == 1 else capi.weir_affine(value, self.scale, 0.0)


def is_constant(of: DecayScheduler) -> bool:
    """True for a number that no step changes."""
    return isinstance(of.of.lr if isinstance(of, Share) else of, Constant)


class Group:
    """Parameters with a rate and other numbers of their own. frozen: they are not updated."""

    def __init__(self, where: Where, member: Optimizer, frozen: bool) -> None:
        self.where: Where = where
        self.member: Optimizer = member
        self.frozen: bool = frozen

    @property
    def lr(self) -> DecayScheduler:
        """The schedule of the rate; a number or a schedule may be assigned."""
        return self.member.lr

    @lr.setter
    def lr(self, lr: Rate) -> None:
        self.member.lr = lr

    def has(self, param: Tensor) -> bool:
        """True if the parameter is one of the group."""
        return _is_at(self.where, param)


def _is_at(where: Where, param: Tensor) -> bool:
    if isinstance(where, str):
        return fnmatch.fnmatchcase(param.name, where) or param.name.startswith(where + Layer.sep)
    if isinstance(where, Tensor):
        return where is param
    if isinstance(where, Layer):
        return any(param is p for p in where.parameters())
    if isinstance(where, Iterable):
        return any(_is_at(w, param) for w in where)
    if callable(where):
        return bool(where(param.name, param))
    raise TypeError(f"add_group: where is {where!r}, must be a path, a pattern, a Layer, a "
                    "parameter, a function of (name, parameter) or a list of them")
