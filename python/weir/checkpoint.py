"""checkpoint - trades time for memory: a function is recomputed when its gradient is needed.

In training the core runs the function once, keeps its inputs and results only, and runs it again
when the gradient comes (Chen et al. 2016), with the same random numbers and without updates of
running statistics: all bits are those of a plain call.
"""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar, Union, cast, overload

from . import _capi as capi
from . import core
from .raw.tensor import CTensor, result
from .tape import Core, stored
from .taping import prepare, taping
from .tensor import Tensor
from .typing import Handle

Results: TypeAlias = Union[Tensor, Sequence[Tensor]]
Function: TypeAlias = Callable[..., Results]
R = TypeVar("R", bound=Results)

MOST = 4        # results of a function


class _Part:
    """What the core calls, with handles; knows nothing of the operator, whom the core's owner must
    not keep alive."""

    def __init__(self, function: Function, xs: Sequence[Tensor]) -> None:
        self.function = function
        self.device = xs[0].device
        self.wanted = [x.requires_grad for x in xs]
        # The Tensors of the first run, until the operator has read them.
        self.first: Results | None = None

    def __call__(self, handles: list[Handle]) -> list[Handle]:
        xs = [Tensor(data=result(handle, self.device), requires_grad=wanted)
              for handle, wanted in zip(handles, self.wanted)]
        if self.first is None:
            self.first = ys = self.function(*xs)
        else:
            ys = self._again(xs)
        return [y.data.handle for y in _checked(ys)]


    def _again(self, xs: Sequence[Tensor]) -> Results:
        """The function, without statistics of batches, which the first run has kept."""
        before, self.device.statistics = self.device.statistics, None
        try:
            return self.function(*xs)
        finally:
            self.device.statistics = before


def _checked(ys: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Returns the results of a function as a tuple."""
    ys = tuple(ys) if isinstance(ys, (tuple, list)) else (cast("Tensor", ys),)
    if not 1 <= len(ys) <= MOST:
        raise ValueError(f"checkpoint: the function returned {len(ys)} results, "
                         f"but must return 1 to {MOST}")
    for y in ys:
        if not isinstance(y, Tensor):
            raise TypeError(f"checkpoint: the function must return Tensors, not {type(y)}")
    return ys


class Checkpoint(Core):
    """The call of a function, as one operator. Tensors that the function reads besides its inputs
    and that store gradients get theirs."""

    single = False

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def _run(self, xs: Sequence[Tensor]) -> tuple[CTensor, ...]:
        part = _Part(self.function, xs)
        device = xs[0].device
        with device.taped():
            handles = [prepare(x) for x in xs]
        self._owner, found = capi.checkpoint(part, handles)
        device.hold((self._owner, self))
        self.many: bool = isinstance(part.first, (tuple, list))
        ys, part.first = _checked(() if part.first is None else part.first), ()
        self.requires_grad: bool = any(y.requires_grad for y in ys)
        inside = {id(t): t for y in ys for t in stored(y.creator)}
        self.src += [(t.creator, id(t), t, True) for t in inside.values()]
        results = tuple(result(handle, device) for handle in found[:len(ys)])
        self._remember(device, handles, results if self.requires_grad else None)
        return results


@contextlib.contextmanager
def _region() -> Iterator[None]:
    device = core.default_device()
    capi.weir_region_begin(device.handle)
    try:
        yield
    finally:
        capi.weir_region_end(device.handle)


@overload
def checkpoint() -> AbstractContextManager[None]: ...
@overload
def checkpoint(function: Callable[..., R], *tensors: Tensor) -> R: ...
def checkpoint(function: Function | None = None,
               *tensors: Tensor) -> Results | AbstractContextManager[None]:
    """function(*tensors), which gives a Tensor or up to 4 of them, in less memory: of what it
    computes only the results stay, and it runs again when the gradient comes.

    It must compute the same both times. Other results that it reads must be among the tensors;
    parameters need not.

    `with weir.checkpoint():` marks the lines inside in the same sense, in a graph being recorded
    only: what they compute is dropped after the forward pass and computed again for the gradient,
    but for what lines outside read.
    """
    if function is None and not tensors:
        return _region()
    if not callable(function):
        raise TypeError("checkpoint: the first argument must be a function: weir.checkpoint(f, x)")
    if not tensors:
        raise ValueError("checkpoint: the function needs at least one Tensor as input")
    if not taping():
        return function(*tensors)
    part = Checkpoint(function)
    ys = part(*tensors)
    return ys[0] if len(ys) == 1 and not part.many else ys
