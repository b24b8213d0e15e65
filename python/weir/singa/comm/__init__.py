"""comm - several processes that train one model: communicators, and the collectives between them.

    comm = weir.comm.Communicator()             # the ranks that weir launch or mpirun has started
    comm.share(model)                           # all have the parameters of rank 0
    mean = comm.all_reduce(x) / comm.world      # in a graph or at once, with a gradient

The C header weir/comm.h says which bits come out and how ranks fail. weir.opt.DistOpt trains by it.
"""
from __future__ import annotations

import atexit
import hashlib
import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import numpy as np
from numpy.typing import NDArray

from weir import _capi as capi
from weir import core
from weir.typing import DTypeLike, ShapeLike
from ..layers.base import Layer
from ..raw.tensor import to_shape
from ..tensor import Tensor
from . import collectives

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Communicator"]

STATS = ("collectives", "bytes", "wire_ms", "waited_ms")

_handles: list[capi.weir_comm] = []     # graphs may use them until the program ends


class Communicator:
    """One rank's end of a communicator, on a device (the default one).

    spec: "auto" for the ranks that weir launch, torchrun, mpirun or mpiexec has started, and a
    world of one without such a launcher; "mpi:openmpi", "mpi:mpich"; "local:NAME,rank=R,world=W"
    for processes of one machine that meet under a name which is theirs alone. timeout: seconds that
    a collective may take, then it is a CommError on every living rank. order: of sums, "serial" or
    "tree". Returns when all ranks are there; CommError if some are not.

    All ranks must call the same collectives in the same order, and record the same graphs: a graph
    that differs on a rank is a CommError on all, which names the first call that does, before
    anything runs. agree="collectives": only the collectives of a graph must be the same. In a world
    of one collectives return what they are given.
    """

    def __init__(self, spec: str = "auto", device: core.Device | None = None, timeout: float = 60.0,
                 order: str = "serial", agree: str = "graphs") -> None:
        self.device: core.Device = core.default_device() if device is None else device
        self.handle: capi.weir_comm = capi.comm_open(self.device.handle, spec, float(timeout),
                                                     order, agree)
        self.rank: int = capi.weir_comm_rank(self.handle)
        self.world: int = capi.weir_comm_world(self.handle)
        _handles.append(self.handle)
        self._leave = weakref.finalize(self, capi.weir_comm_leave, self.handle)

    def __repr__(self) -> str:
        return f"<weir.comm.Communicator {capi.weir_comm_text(self.handle)}>"

    @property
    def stats(self) -> dict[str, float]:
        """What was done since the beginning, as a dict: collectives and their bytes, wire_ms in
        which one was under way, waited_ms in which this rank waited for one; see
        weir_comm_stats."""
        numbers = capi.weir_comm_stats()
        capi.weir_comm_stats_of(self.handle, numbers)
        return {name: getattr(numbers, name) for name in STATS}

    # -- leaving --

    def close(self) -> None:
        """Leaves. Ranks that wait for this one learn it; later collectives, those of graphs too,
        are a CommError."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    # -- collectives: operators --

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum of all ranks' x, on all of them: same shape and type."""
        return collectives.apply(self, capi.weir_all_reduce, x)

    def reduce_scatter(self, x: Tensor) -> Tensor:
        """The sum of all ranks' x (n, ...), of which rank r gets rows r n / world and following.
        ShapeError unless world divides n."""
        return collectives.apply(self, capi.weir_reduce_scatter, x)

    def all_gather(self, x: Tensor) -> Tensor:
        """All ranks' x (n, ...), one behind the other along axis 0: (world n, ...)."""
        return collectives.apply(self, capi.weir_all_gather, x)

    def broadcast(self, x: Tensor, root: int = 0) -> Tensor:
        """Rank root's x on all ranks; x has the same shape and type everywhere."""
        return collectives.apply(self, capi.weir_broadcast_from, x, root)

    def send(self, x: Tensor, to: int) -> Tensor:
        """Sends x to rank `to`, which must receive it. Returns a token, one 0 of float32: add it to
        the loss, and the gradient of x comes back from the receiver."""
        return collectives.apply(self, capi.weir_send_to, x, to, alone=True)

    def receive(self, shape: ShapeLike, source: int, dtype: DTypeLike = "float32",
                through: Tensor | None = None) -> Tensor:
        """The Tensor of this shape and type that rank `source` sends. through: a Tensor of one
        float32, such as a parameter that is not used otherwise: if a gradient is taken of it, that
        of the result is sent back."""
        desc = core.core_dtype(core.dtype_number(dtype)), to_shape(shape)
        return collectives.received(self, desc, source, through)

    # -- host data, at once --

    def share(self, what: Layer | Tensor | Iterable[Tensor], root: int = 0) -> None:
        """Copies the elements of Tensors, or of a model's parameters and states, from rank `root`
        to all others, at once. They have the same shapes and types on all ranks."""
        if isinstance(what, Layer):
            what = [t for _, t in sorted(what.get_states().items())]
        for t in [what] if isinstance(what, Tensor) else what:
            with self.device.at_once():
                capi.weir_comm_share(self.handle, t.data.state(), root)

    def gather(self, data: Buffer) -> list[bytes]:
        """The bytes of every rank, as many on each, in the order of ranks."""
        both = capi.comm_gather(self.handle, data)
        size = len(both) // self.world
        return [both[r * size:(r + 1) * size] for r in range(self.world)]

    def equal(self, data: Buffer) -> bool:
        """Do all ranks give the same bytes, as many on each? The answer is the same on all."""
        return capi.comm_equal(self.handle, data)

    def equal_elements(self, t: Tensor) -> bool:
        """Has t the same elements on all ranks? Compares digests."""
        with self.device.at_once():
            array = np.ascontiguousarray(cast("NDArray[np.generic]", t.data.to_numpy()))
        return self.equal(hashlib.blake2b(array.tobytes(), digest_size=16).digest())

    def measure(self) -> tuple[float, float]:
        """(constant, per_byte): seconds of an all_reduce of n bytes are constant + n per_byte, as
        measured now, on all ranks the same. Takes some 0.1 s."""
        constant, per_byte = capi.comm_measure(self.handle)
        return constant, per_byte


@atexit.register
def _close_all() -> None:
    """Before the devices are closed, as this was registered later."""
    while _handles:
        capi.weir_comm_close(_handles.pop())
