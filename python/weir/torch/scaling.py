"""scaling - what stands between gradients and updates: a scaled loss, sums over several batches."""
from __future__ import annotations

from collections.abc import Mapping

import torch

from .. import _capi as capi
from .. import core
from ..typing import Handle
from . import memory
from .table import cast, type_of


class LossScale:
    """The part of a torch.amp.GradScaler, in the core: its numbers are taken over and given back.

    The loss is multiplied by the scale (Micikevicius et al. 2018), so that gradients in f16 do not
    become 0; an update whose gradients are not all finite is left out, and the scale falls.
    """

    def __init__(self, device: core.Device, scaler: torch.amp.GradScaler) -> None:
        self._scaler = scaler
        self._scale, self._good = (capi.weir_state(device.handle, (capi.WEIR_F32, ()), name)
                                   for name in ("scaler.scale", "scaler.good"))
        self._known: tuple[float, int] | None = None
        scaler.scale(torch.zeros(()))       # until a first use it has no scale that update() sets
        self.load()

    def _numbers(self) -> tuple[float, int]:
        state = self._scaler.state_dict()
        return float(state["scale"]), int(state["_growth_tracker"])

    def load(self) -> None:
        """Takes over the scale that torch's object has, if it was changed there."""
        numbers = self._numbers()
        if numbers != self._known:
            capi.weir_write_fill(self._scale, numbers[0])
            capi.weir_write_fill(self._good, float(numbers[1]))
            self._known = numbers

    def sync(self) -> None:
        """Gives torch's object the scale that the last update left."""
        numbers = [memory.read(h).item() for h in (self._scale, self._good)]
        found = numbers[0], int(numbers[1])
        if found != self._known:
            self._scaler.load_state_dict({**self._scaler.state_dict(), "scale": found[0],
                                          "_growth_tracker": found[1]})
            self._known = found

    def scaled(self, loss: Handle) -> Handle:
        """Records the loss times the scale."""
        return capi.weir_mul(loss, cast(self._scale, capi.weir_tensor_desc(loss)[0]))

    def unscaled(self, grads: Mapping[str, Handle], params: Mapping[str, Handle]
                 ) -> tuple[dict[str, Handle], Handle]:
        """Records the gradients of the loss itself, and whether all are finite."""
        found, finite = capi.unscale([params[name] for name in grads], list(grads.values()),
                                     self._scale)
        return dict(zip(grads, found)), finite

    def adjust(self, finite: Handle) -> None:
        """Records the scale of the next update."""
        scaler = self._scaler
        capi.weir_scale_adjust(self._scale, self._good, finite, scaler.get_growth_factor(),
                               scaler.get_backoff_factor(), scaler.get_growth_interval())


class Sums:
    """Gradients summed over several calls of a step, in states of the core."""

    def __init__(self, device: core.Device, tensors: Mapping[str, torch.Tensor]) -> None:
        self._handles = {}
        for name, t in tensors.items():
            handle = capi.weir_state(device.handle, (type_of(t.dtype), tuple(t.shape)),
                                     f"{name}.sum")
            capi.weir_write_fill(handle, 0.0)
            self._handles[name] = handle
        self.names: set[str] = set()        # of those that some plan adds to

    def add(self, grads: Mapping[str, Handle]) -> None:
        """Records the sums plus these gradients."""
        for name, g in grads.items():
            capi.weir_accumulate(self._handles[name], g)
        self.names |= set(grads)

    def all(self) -> dict[str, Handle]:
        """The sums."""
        return {name: h for name, h in self._handles.items() if name in self.names}

    def reset(self) -> None:
        """Records that the sums become 0."""
        for handle in self.all().values():
            capi.weir_reset(handle, 0.0)
