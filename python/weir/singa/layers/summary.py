"""summary - what each layer of a network gives, holds and costs: what Model.summary returns.

Nothing is computed: the network is recorded in evaluation and forgotten. Operations count for the
innermost layer that calls them and parameters for the layer that has them, at its first call, so
that every column adds up to its total.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field

from weir import _capi as capi
from weir import core
from weir.errors import InvalidError
from weir.typing import Shape
from ..tensor import Tensor
from .base import Layer, first_tensor


@dataclass
class SummaryRow:
    """A layer: parameters and states as numbers of elements and bytes, costs of one forward."""

    depth: int = 0              # 0: the model; a layer has one more than the layer that calls it
    name: str = ""              # the path: "block.conv1"
    kind: str = ""              # the class: "Conv2d"
    dtype: str = ""             # of the result, or of its first Tensor; "": none
    output: Shape | None = None     # its shape; None: the layer is not applied
    shared: bool = False        # called before: parameters and states are counted there
    parameters: int = 0
    trainable: int = 0          # of them, those that are not frozen
    parameter_bytes: int = 0
    states: int = 0
    state_bytes: int = 0
    flops: float = 0.0          # floating-point operations, by the formulas of Graph.text("cost")
    multiply_adds: float = 0.0  # in convolutions, products and recurrent layers


@dataclass(frozen=True)
class Summary:
    """What Model.summary returns: `rows` of layers in the order of their calls, and `total`, their
    sum. str() is a table, which print and notebooks show."""

    rows: list[SummaryRow]
    total: SummaryRow
    input: Tensor = field(repr=False)
    levels: int = 0

    def __str__(self) -> str:
        rows: list[tuple[object, ...]] = [
            (r.depth, r.name, r.kind,
             None if r.output is None else
             (core.core_dtype(core.dtype_number(r.dtype)), r.output), r.shared,
             *astuple(r)[6:]) for r in self.rows]
        return capi.summary_text(rows, self.input.data.value.desc, self.levels)

    __repr__ = __str__


class _Watch:
    """Rows of the layers that are called while a graph is recorded."""

    def __init__(self, device: core.Device) -> None:
        self.device = device
        self.rows: list[SummaryRow] = []
        self._open: list[SummaryRow] = []
        self._seen: set[int] = set()
        self._flops = self._multiply_adds = 0.0

    def _settle(self) -> None:
        """What was recorded since the last call counts for the innermost layer."""
        cost = capi.weir_graph_cost()
        capi.weir_graph_cost_of(self.device._model_graph, cost)
        if self._open:
            self._open[-1].flops += cost.flops - self._flops
            self._open[-1].multiply_adds += cost.multiply_adds - self._multiply_adds
        self._flops, self._multiply_adds = cost.flops, cost.multiply_adds

    def _count(self, row: SummaryRow, layer: Layer) -> None:
        for attribute, t in vars(layer).items():
            if not isinstance(t, Tensor) or id(t) in self._seen:
                continue
            n = math.prod(t.shape)
            size = n * core.numpy_dtype(t.dtype).itemsize
            if t.stores_grad:
                row.parameters += n
                row.trainable += n if t.requires_grad else 0
                row.parameter_bytes += size
            elif attribute in layer.state_names:
                row.states += n
                row.state_bytes += size
            else:
                continue
            self._seen.add(id(t))

    def _row(self, layer: Layer) -> SummaryRow:
        row = SummaryRow(len(self._open), layer.name or "", type(layer).__name__,
                         shared=id(layer) in self._seen)
        self._seen.add(id(layer))
        self._count(row, layer)
        self.rows.append(row)
        return row

    def call(self, layer: Layer, forward: Callable[..., object], *xs: object,
             **kwargs: object) -> object:
        """A layer's forward, with its row."""
        self._settle()
        row = self._row(layer)
        self._open.append(row)
        try:
            result = forward(*xs, **kwargs)
        finally:
            self._settle()
            self._open.pop()
        first = first_tensor([result])
        if first is not None:
            row.dtype, row.output = core.dtype_name(first.dtype), tuple(first.shape)
        return result

    def rest(self, top: Layer) -> None:
        """Rows of layers with parameters or states that no call reached."""
        for _, layer in top.named_layers():
            if id(layer) not in self._seen:
                row = self._row(layer)
                if row.parameters + row.states == 0:
                    self.rows.pop()

    @contextmanager
    def over(self, top: Layer) -> Iterator[None]:
        """Inside, calls of the layer and of those below it make rows."""
        layers = [layer for _, layer in top.named_layers() if "forward" not in vars(layer)]
        for layer in layers:
            def call(*xs: object, layer: Layer = layer, forward: Callable[..., object]
                     = layer.forward, **kwargs: object) -> object:
                return self.call(layer, forward, *xs, **kwargs)
            vars(layer)["forward"] = call
        try:
            yield
        finally:
            for layer in layers:
                del vars(layer)["forward"]


def summary_of(top: Layer, inputs: Sequence[object], forward: Callable[..., object],
               levels: int) -> Summary:
    """The summary of forward(*inputs), which calls top.forward; levels: how many of layers the
    table shows, 0: all."""
    first = first_tensor(inputs)
    if first is None:
        raise InvalidError("summary: inputs has no Tensor")
    watch = _Watch(first.device)
    for noted in (False, True):             # parameters are made by the first call
        first.device.begin_graph()
        try:
            if noted:
                with watch.over(top):
                    forward(*inputs)
                watch.rest(top)
            else:
                forward(*inputs)
        finally:
            first.device.drop_graph()
    total = SummaryRow(name="total")
    for name in ("parameters", "trainable", "parameter_bytes", "states", "state_bytes", "flops",
                 "multiply_adds"):
        setattr(total, name, sum(getattr(row, name) for row in watch.rows))
    return Summary(watch.rows, total, first, levels)
