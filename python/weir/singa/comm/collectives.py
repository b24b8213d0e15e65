"""collectives - the operators of a communicator, whose gradients are the core's."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weir import _capi as capi
from weir.typing import Desc, Handle
from ..operators.base import out
from ..raw.tensor import CTensor, result
from ..tape import Core
from ..tensor import Tensor

if TYPE_CHECKING:
    from . import Communicator


class Collective(Core):
    """A call of the core on a communicator with one tensor, and with numbers such as a rank."""

    def __init__(self, comm: Communicator, function: Callable[..., Handle],
                 numbers: tuple[int, ...]) -> None:
        super().__init__()
        self.comm = comm            # it lives as long as what needs its gradients, and as graphs
        self.function = function
        self.numbers = numbers

    def forward(self, x: CTensor) -> CTensor:
        self.comm.device.hold(self.comm)
        return out(self.function(self.comm.handle, x.handle, *self.numbers), x)


class Receive(Core):
    """What another rank sends; the gradient goes back if it flows to `through`."""

    def __init__(self, comm: Communicator, desc: Desc, source: int) -> None:
        super().__init__()
        self.comm = comm
        self.desc = desc
        self.source = source

    def forward(self, through: CTensor) -> CTensor:
        self.comm.device.hold(self.comm)
        scalar = capi.weir_reshape(through.handle, ())
        return out(capi.weir_recv_from(self.comm.handle, self.desc, self.source, scalar), through)


def apply(comm: Communicator, function: Callable[..., Handle], x: Tensor, *numbers: int,
          alone: bool = False) -> Tensor:
    """function(comm, x, numbers); x itself in a world of one, unless it fails there (alone)."""
    if comm.world == 1 and not alone:
        return x
    return Collective(comm, function, numbers)(x)[0]


def received(comm: Communicator, desc: Desc, source: int, through: Tensor | None) -> Tensor:
    """The Tensor that rank `source` sends."""
    if through is not None:
        return Receive(comm, desc, source)(through)[0]
    comm.device.hold(comm)
    raw = result(capi.weir_recv_from(comm.handle, desc, source, None), comm.device)
    return Tensor(data=raw, requires_grad=False)
