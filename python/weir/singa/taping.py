"""taping - the switch that has calls remembered for gradients, and what the tape needs of a tensor.

Tensors and operators use each other: an operator makes Tensors, a Tensor's methods are operators.
This module has what both build on, so that neither imports the other.
"""
from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from weir import _capi as capi, _swig
from weir import core
from weir.typing import DTypeLike, Handle, Shape, ShapeLike

if TYPE_CHECKING:
    from .raw.tensor import CTensor
    from .tape import Dummy, Operator
    from .tensor_class import Index, Tensor
    from .tensor_methods import Operand

_training = False       # autograd.training, which scripts assign


def is_training() -> bool:
    """The value of autograd.training."""
    return _training


def set_training(on: bool) -> None:
    """Sets autograd.training."""
    global _training
    _training = on
    _swig.set_taping(taping())


_no_grad_blocks = 0     # open blocks of no_grad


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """Inside, no call is remembered for gradients, whatever autograd.training is; what else
    that decides (dropout, batch statistics) does not change."""
    _open_no_grad(1)
    try:
        yield
    finally:
        _open_no_grad(-1)


def _open_no_grad(more: int) -> None:
    global _no_grad_blocks
    _no_grad_blocks += more
    _swig.set_taping(taping())


def taping() -> bool:
    """True if calls are remembered for gradients."""
    return _training and not _no_grad_blocks


class Taped(_swig.TensorBase):
    """What a Tensor is to the tape: raw elements (data), a creator, flags. Tensor derives from it.
    """

    made: type[Tensor]      # the class itself: x.made(data=...) is a new one
    data: CTensor
    shape: Shape
    device: core.Device
    dtype: int
    requires_grad: bool
    _stores_grad: bool
    _name: str | None
    _creator: Operator | _swig.Call | None      # a Call becomes an Operator when asked for
    _leaf: weakref.ref[Dummy] | None
    # What made it at once: a class of operators, or a tuple of it and its arguments.
    _made_by: type[Operator] | tuple[object, ...] | None

    if TYPE_CHECKING:       # what Tensor has, for the methods that it inherits
        @property
        def name(self) -> str: ...
        @name.setter
        def name(self, name: str) -> None: ...
        def size(self) -> int: ...
        def clone(self) -> Tensor: ...
        def as_type(self, dtype: DTypeLike) -> Tensor: ...
        def reshape(self, *shape: ShapeLike) -> Tensor: ...
        def __getitem__(self, keys: Index) -> Tensor: ...
        def __pow__(self, other: Operand, /) -> Tensor: ...
        def __matmul__(self, other: Operand, /) -> Tensor: ...
        def _describe(self) -> None: ...


def prepare(x: Taped) -> Handle:
    """The handle of an input of a taped call, watched by the core if x wants a gradient."""
    handle = x.data.handle
    if x.requires_grad:
        if not capi.weir_tensor_needs_grad(handle) and core.is_float(x.dtype):
            capi.weir_tensor_set_needs_grad(handle, True)
    elif capi.weir_tensor_needs_grad(handle):
        return capi.weir_detach(handle)
    return handle
