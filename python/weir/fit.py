"""fit - the largest batch of a model whose training step fits in a memory."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Unpack, cast

from . import _capi as capi
from .capture import Recording
from .core import Device
from .errors import BudgetError, InvalidError, OutOfMemoryError, StateError
from .graph import Graph
from .layers.base import first_tensor
from .model import Model
from .options import PlanOptions, budget_text, plan_options
from .tensor import Tensor
from .typing import Budget


class Tried(NamedTuple):
    """A batch that was planned."""

    batch: int
    planned_peak_bytes: int | None      # None: it does not fit


class LargestBatch(NamedTuple):
    """The largest batch that fits, and what was tried on the way."""

    batch: int
    planned_peak_bytes: int             # of its step
    memory_bytes: int                   # the most that it may take
    tried: list[Tried]


def _memory(device: Device, memory: Budget) -> int:
    """The memory in bytes; "auto": what is free on the device."""
    if memory != "auto":
        return capi.weir_bytes(budget_text(memory))
    found = capi.weir_memory()
    capi.weir_device_memory(device.handle, found)
    return found.auto_budget


def _planned_peak(model: Model, batch: Sequence[Tensor], options: PlanOptions) -> int:
    """Records a training step and plans it; nothing is computed."""
    method = getattr(type(model).train_one_batch, "__wrapped__", type(model).train_one_batch)
    tensors = [t for t in batch if isinstance(t, Tensor)]
    device = tensors[0].device
    recording = Recording(device, functools.partial(model._recorded, method), tuple(batch), {},
                          tensors, [], plan_options(**options))
    return Graph.planned(device, recording.graph, recording.held).stats["planned_peak_bytes"]


def _sizes(first: int, most: int, fits: dict[int, bool]) -> Iterator[int]:
    """What to try next, by what was found: doubles, then halves the interval."""
    low, high = 0, most + 1
    n = first
    while high - low > 1:
        yield n
        low, high = (n, high) if fits[n] else (low, n)
        n = min(2 * n, most) if high > most else low + (high - low) // 2


def largest_batch(model: Model, make_batch: Callable[[int], Sequence[Tensor]],
                  memory: Budget = "auto", first: int = 1, most: int = 65536,
                  **plan: Unpack[PlanOptions]) -> LargestBatch:
    """The largest batch whose training step fits in the memory, found by planning alone.

    make_batch(n) returns the arguments of train_one_batch for n samples; their elements are not
    read. memory: bytes as a number or a text ("8GB"), or "auto", what is free now. plan: policy,
    placement, ..., as weir.Graph takes them. The model is compiled and has its optimiser; its
    parameters, states and the random stream stay as they are. BudgetError, with the smallest memory
    that works, if one sample does not fit.

        found = weir.largest_batch(net, lambda n: (weir.empty((n, 3, 32, 32), "float32"),
                                                   weir.empty((n,), "int32")), memory="2GB")
    """
    if not 1 <= first <= most:
        raise InvalidError(f"largest_batch: first is {first}, must be 1 to most, {most}")
    if not model.get_params():
        raise StateError("largest_batch: the model has no parameters yet, compile() it first")
    tensor = first_tensor(list(make_batch(1)))
    if tensor is None:
        raise InvalidError("largest_batch: make_batch(1) returned no Tensor")
    device = tensor.device
    budget = _memory(device, memory)
    options: PlanOptions = {**plan, "budget": budget}
    random = capi.weir_device_random(device.handle)
    peaks: dict[int, int | None] = {}
    fits: dict[int, bool] = {}
    try:
        for n in _sizes(first, most, fits):
            try:
                peaks[n] = _planned_peak(model, make_batch(n), options)
            except (BudgetError, OutOfMemoryError):
                if n == 1:
                    raise
                peaks[n] = None
            fits[n] = peaks[n] is not None
    finally:
        capi.weir_device_set_random(device.handle, random)
    best = max(n for n in fits if fits[n])
    return LargestBatch(best, cast("int", peaks[best]), budget,
                        [Tried(n, peak) for n, peak in peaks.items()])
