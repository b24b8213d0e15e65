"""fit - the largest batch of a model whose training step fits in a memory."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, Unpack

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
    """A batch that was tried: by its smallest plan, or by a plan within the memory."""

    batch: int
    planned_peak_bytes: int | None      # None: it does not fit, or no such plan was made
    least_bytes: int | None             # of its smallest plan; None: not known


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


class _Needs(Recording):
    """A training step that is recorded only to find what memory it needs."""

    def _end(self, plan: capi.weir_plan_options) -> tuple[capi.weir_graph, list[object]]:
        self.needs = capi.weir_graph_needs()
        return self.device.end_graph(plan, functools.partial(capi.weir_graph_end_needs,
                                                             needs=self.needs))


R = TypeVar("R", bound=Recording)


class _Steps:
    """The training steps of a model, which are recorded and planned; nothing is computed."""

    def __init__(self, model: Model, make_batch: Callable[[int], Sequence[Tensor]],
                 options: PlanOptions) -> None:
        self.model, self.make_batch, self.options = model, make_batch, options
        self.tried: list[Tried] = []
        self.peaks: dict[int, int] = {}
        self.refusal: BudgetError | OutOfMemoryError | None = None

    def _recorded(self, kind: type[R], n: int) -> R:
        method = getattr(type(self.model).train_one_batch, "__wrapped__",
                         type(self.model).train_one_batch)
        batch = self.make_batch(n)
        tensors = [t for t in batch if isinstance(t, Tensor)]
        return kind(tensors[0].device, functools.partial(self.model._recorded, method),
                    tuple(batch), {}, tensors, [], plan_options(**self.options))

    def needs(self, n: int) -> capi.weir_graph_needs | None:
        """What a step needs; None if that is too much to tell."""
        try:
            found = self._recorded(_Needs, n).needs
        except (BudgetError, OutOfMemoryError):
            found = None
        self.tried.append(Tried(n, None, found.least_bytes if found else None))
        return found

    def fits(self, n: int) -> bool:
        """Whether a step can be planned within the memory."""
        try:
            recording = self._recorded(Recording, n)
            graph = Graph.planned(recording.device, recording.graph, recording.held)
            self.peaks[n] = graph.stats["planned_peak_bytes"]
        except (BudgetError, OutOfMemoryError) as error:
            self.refusal = error
        self.tried.append(Tried(n, self.peaks.get(n), None))
        return n in self.peaks


def largest_batch(model: Model, make_batch: Callable[[int], Sequence[Tensor]],
                  memory: Budget = "auto", first: int = 1, most: int = 65536,
                  **plan: Unpack[PlanOptions]) -> LargestBatch:
    """The largest batch whose training step fits in the memory, found by planning alone.

    Its step is planned within the memory; for the next larger batch the planner found no plan, or a
    lower bound proves that no plan fits. The smallest plans of a few batches lead there.

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
    steps = _Steps(model, make_batch, options)
    try:
        best = capi.largest_batch(steps.fits, steps.needs, budget, first, most)
    finally:
        capi.weir_device_set_random(device.handle, random)
    if best == 0 and steps.refusal is not None:
        raise steps.refusal
    return LargestBatch(best, steps.peaks[best], budget, steps.tried)
