"""statistics - batch statistics of all ranks: kept in the forward pass, applied to running ones.

Each rank normalises its batch by the batch's own statistics. Those of all ranks are gathered at the
end of a step and applied in the order of ranks, on each rank, so all have the same running
statistics, as weir_data_parallel does in C.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from weir import _capi as capi
from weir import core
from weir.typing import Handle
from ..comm import Communicator
from ..raw.handles import BatchNormHandle
from ..raw.tensor import CTensor
from ..tensor import Tensor, float32
from .scaler import zeros_state

HALVES = (capi.WEIR_F16, capi.WEIR_BF16)


class _Place:
    """The statistics of one call of a layer in a step."""

    def __init__(self, mean: CTensor, var: CTensor, factor: float) -> None:
        self.mean = mean            # running, of the layer
        self.var = var
        self.factor = factor        # weight of a batch's
        self.taken = False          # by a call of this step
        self.new: tuple[Tensor, Tensor] = (_zeros(mean), _zeros(var))   # of the latest batch

    def is_of(self, mean: CTensor) -> bool:
        """Is it a place of the layer with this running mean?"""
        return self.mean.value is mean.value


class _Layer(NamedTuple):
    """The gathered statistics of a layer, one row for each call and rank."""

    place: _Place
    mean: Handle
    var: Handle


def _zeros(like: CTensor) -> Tensor:
    return zeros_state((like.value.count,), like.device(), like.data_type())


def _columns(t: Handle, rows: int, begin: int, end: int) -> Handle:
    return capi.weir_slice(t, (0, begin), (rows, end), (1, 1))


def _line(state: Handle) -> Handle:
    """A state of channels as (c,)."""
    return state if len(capi.weir_tensor_desc(state)[1]) == 1 else capi.weir_reshape(state, (-1,))


class BatchStatistics:
    """What batch norm computes on a rank until the end of a step; see operators.image.Keeper."""

    def __init__(self, ranks: Communicator) -> None:
        self.ranks = ranks
        self.places: list[_Place] = []      # in the order of their first calls

    def keep(self, handle: BatchNormHandle, mean: CTensor,
             var: CTensor) -> tuple[Handle, Handle]:
        """States that get the statistics of a batch, in place of the layer's running ones."""
        place = next((p for p in self.places if p.is_of(mean) and not p.taken), None)
        if place is None:
            place = _Place(mean, var, handle.factor)
            self.places.append(place)
        place.taken = True
        states = [t.data.state() for t in place.new]
        for state in states:        # from 0, since 0 times an infinity of the last batch is NaN
            capi.weir_reset(state, 0.0)
        return states[0], states[1]

    def forget(self) -> None:
        """Ends a step without its statistics."""
        for place in self.places:
            place.taken = False

    def apply(self) -> None:
        """Applies the statistics of all ranks, which must have called the same layers."""
        taken = [p for p in self.places if p.taken]
        self.forget()
        for kind in sorted({p.mean.data_type() for p in taken}):
            for found in self._gathered([p for p in taken if p.mean.data_type() == kind]):
                _move(found)

    def _gathered(self, places: Sequence[_Place]) -> list[_Layer]:
        """The layers of the places, with the rows of all ranks in their order."""
        world, at = self.ranks.world, 0
        flat = capi.weir_concat([t.data.handle for p in places for t in p.new], 0)
        self.ranks.device.hold(self.ranks)
        every = capi.weir_all_gather(self.ranks.handle, capi.weir_reshape(flat, (1, -1)))
        parts: list[tuple[_Place, Handle, Handle]] = []
        for p in places:
            c = p.mean.value.count
            parts.append((p, _columns(every, world, at, at + c),
                          _columns(every, world, at + c, at + 2 * c)))
            at += 2 * c
        firsts = [p for i, p in enumerate(places) if not any(o.is_of(p.mean) for o in places[:i])]
        return [self._layer(first, [part for part in parts if part[0].is_of(first.mean)])
                for first in firsts]

    def _layer(self, first: _Place, parts: Sequence[tuple[_Place, Handle, Handle]]) -> _Layer:
        shape = (self.ranks.world * len(parts), first.mean.value.count)
        mean = capi.weir_concat([mean for _, mean, _ in parts], 1)
        var = capi.weir_concat([var for _, _, var in parts], 1)
        return _Layer(first, capi.weir_reshape(mean, shape), capi.weir_reshape(var, shape))


def _move(found: _Layer) -> None:
    """Moves the running statistics of a layer on by the rows."""
    p = found.place
    if core.core_dtype(p.mean.data_type()) not in HALVES:
        capi.weir_running_update(_line(p.mean.state()), _line(p.var.state()), found.mean, found.var,
                                 p.factor)
        return
    wide = [zeros_state((p.mean.value.count,), p.mean.device(), float32) for _ in range(2)]
    states = [t.data.state() for t in wide]
    for state, running in zip(states, (p.mean, p.var)):
        capi.weir_assign(state, capi.weir_cast(_line(running.handle), capi.WEIR_F32))
    capi.weir_running_update(states[0], states[1], capi.weir_cast(found.mean, capi.WEIR_F32),
                             capi.weir_cast(found.var, capi.WEIR_F32), p.factor)
    for t, running in zip(wide, (p.mean, p.var)):
        capi.weir_assign(_line(running.state()),
                         capi.weir_cast(t.data.handle, core.core_dtype(running.data_type())))
