"""nccl - SINGA's Communicator and NcclIdHolder: sums of raw tensors in place, over any transport.

SINGA counts elements of a buffer and picks a card by its local rank. Here a buffer has the size of
what is sent, and the ranks of one machine share its memory; there is no NCCL.
"""
from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterable, Sequence

from weir import _capi as capi
from weir import core
from weir.typing import Handle
from ..asserted import DtypeError, InvalidError
from ..raw.tensor import CTensor
from ..tensor import Tensor
from . import Communicator as Ranks
from . import sparse


class NcclIdHolder:
    """The name under which processes of one machine meet: made once, given to each of them."""

    def __init__(self) -> None:
        self.name: str = f"nccl-{os.getpid()}-{secrets.token_hex(6)}"


def _flat(handles: Sequence[Handle]) -> Handle:
    parts = [capi.weir_reshape(handle, (-1,)) for handle in handles]
    return parts[0] if len(parts) == 1 else capi.weir_concat(parts, 0)


def _apart(flat: Handle, like: Sequence[Handle]) -> list[Handle]:
    """The elements of _flat(like) in the shapes of like."""
    parts, at = [], 0
    for handle in like:
        shape = capi.weir_tensor_desc(handle)[1]
        n = math.prod(shape)
        parts.append(capi.weir_reshape(capi.weir_slice(flat, (at,), (at + n,), (1,)), shape))
        at += n
    return parts


def _float_type(handle: Handle, what: str) -> int:
    """The core's number of the type of elements, which must be floats."""
    kind = capi.weir_tensor_desc(handle)[0]
    if not core.is_float(core.singa_dtype(kind)):
        raise DtypeError(f"Communicator: {what} sums are of floats, not of "
                         f"{core.dtype_name(core.singa_dtype(kind))}")
    return kind


class Communicator:
    """One rank: Communicator(limit) of those that a launcher has started, Communicator(local_rank,
    world_size, holder, limit) of processes that got one NcclIdHolder. limit, SINGA's size of a
    buffer, changes nothing."""

    def __init__(self, local_rank: int | None = None, world_size: int | None = None,
                 holder: NcclIdHolder | None = None, limit: int | None = None) -> None:
        del limit
        if holder is None and world_size not in (None, 1):
            raise InvalidError(f"Communicator: rank {local_rank} of {world_size} needs the "
                               "NcclIdHolder that all of them got; ranks that weir launch or "
                               "mpirun has started need no numbers")
        spec = "auto"
        if holder is not None and world_size not in (None, 1):
            if not isinstance(local_rank, int) or not 0 <= local_rank < world_size:
                raise InvalidError(f"Communicator: local_rank {local_rank} is no rank in a world "
                                   f"of {world_size}")
            spec = f"local:{holder.name},rank={local_rank},world={world_size}"
        self.ranks: Ranks = Ranks(spec, core.default_device())
        self.global_rank: int = self.ranks.rank
        self.world_size: int = self.ranks.world
        self.local_rank: int = _local_rank(self.ranks.rank)

    # -- sums of handles: what DistOpt does with gradients --

    def sums(self, handles: Sequence[Handle], half: bool = False) -> list[Handle]:
        """The sums over all ranks, sent as one message. half: as float16."""
        if self.world_size == 1 or not handles:
            return list(handles)
        self.ranks.device.hold(self.ranks)
        flat = _flat(handles)
        if not half:
            return _apart(capi.weir_all_reduce(self.ranks.handle, flat), handles)
        kind = _float_type(flat, "half")
        total = capi.weir_all_reduce(self.ranks.handle, capi.weir_cast(flat, capi.WEIR_F16))
        return _apart(capi.weir_cast(total, kind), handles)

    def sparse_sums(self, handles: Sequence[Handle], residual: Tensor | None, spars: float,
                    topK: bool) -> list[Handle]:
        """The sums of the parts of all ranks that are large: elements from spars on, or, by topK,
        the share spars of all. residual: what is not sent is kept there, and added the next time.
        """
        flat = _flat(handles)
        _float_type(flat, "sparse")
        self.ranks.device.hold(self.ranks)
        if residual is not None:
            flat = capi.weir_add(flat, residual.data.handle)
        send = sparse.largest if topK else sparse.above
        total, rest = send(self.ranks, flat, spars)
        if residual is not None:
            capi.weir_assign(residual.data.value.state(), rest)
        return _apart(total, handles)

    # -- SINGA's methods: raw tensors, in place --

    def _put(self, tensors: Sequence[CTensor], sums: Iterable[Handle]) -> None:
        for raw, handle in zip(tensors, sums):
            raw.put(handle)

    def synch(self, tensor: CTensor) -> None:
        """The tensor becomes the sum over all ranks."""
        self.fusedSynch([tensor])

    def fusedSynch(self, tensors: Sequence[CTensor], send: bool = True) -> None:
        """The same of several, sent as one message. send=False, by which SINGA fills its buffer,
        does nothing."""
        if send and self.world_size > 1:
            self._put(tensors, self.sums([raw.handle for raw in tensors]))

    def synchHalf(self, tensor: CTensor) -> None:
        """As synch, sent as float16."""
        self.fusedSynchHalf([tensor])

    def fusedSynchHalf(self, tensors: Sequence[CTensor], send: bool = True) -> None:
        """As fusedSynch, sent as float16."""
        if send and self.world_size > 1:
            self._put(tensors, self.sums([raw.handle for raw in tensors], half=True))

    def sparsification(self, tensor: CTensor, accumulation: CTensor | None = None,
                       sparsThreshold: float = 0.05, topK: bool = False) -> None:
        """The tensor becomes the sum of what is large on each rank; accumulation keeps the rest."""
        self.fusedSparsification([tensor], accumulation, sparsThreshold, topK)

    def fusedSparsification(self, tensors: Sequence[CTensor], accumulation: CTensor | None = None,
                            sparsThreshold: float = 0.05, topK: bool = False) -> None:
        """The same of several, whose elements accumulation keeps one behind the other."""
        if self.world_size > 1:
            rest = None if accumulation is None else Tensor(data=accumulation, requires_grad=False)
            self._put(tensors, self.sparse_sums([raw.handle for raw in tensors], rest,
                                                sparsThreshold, topK))

    def wait(self) -> None:
        """Returns at once: what was sent has arrived."""


def _local_rank(rank: int) -> int:
    """The number on this machine, as launchers tell it."""
    if os.environ.get("WEIR_COMM", "").startswith("local:"):
        return rank
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"):
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return rank
