"""saved_graph - a graph from a file, run by the names of its inputs and outputs.

    g = weir.load_graph("net.safetensors", budget="64MB")
    y = g.run(x=batch)["out0"]

The file has all that is needed: no code of the model is.
"""
from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from . import _capi as capi
from . import core
from .capture import Result
from .errors import DtypeError, GraphWarning, InvalidError, ShapeError
from .graph import Graph, Stats
from .interop import Data, array
from .options import PlanOptions, plan_options
from .singa_wrap import CTensor
from .tensor import Tensor
from .typing import Handle, Path, Shape


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor of a saved graph is: its shape, and its element type by name ("float32")."""

    shape: Shape
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


def _tensor(handle: Handle, device: core.Device) -> Tensor:
    """A Tensor over memory of the graph."""
    return Tensor(data=CTensor.over(core.Value.of(handle, device)), device=device,
                  requires_grad=False)


def _spec(t: Tensor) -> TensorSpec:
    return TensorSpec(tuple(t.shape), core.dtype_name(t.dtype))


class SavedGraph:
    """A graph of load_graph: `inputs` and `outputs` say what run() takes and gives, by name."""

    def __init__(self, device: core.Device, handle: capi.weir_graph) -> None:
        self.device = device
        self._graph = Graph.planned(device, handle)
        self._input: dict[str, Tensor] = {}
        self._result: dict[str, Result] = {}
        for name, role, tensor in capi.graph_bindings(handle):
            if role == capi.WEIR_ROLE_INPUT:
                self._input[name] = _tensor(tensor, device)
            elif role == capi.WEIR_ROLE_OUTPUT:
                self._result[name] = Result(_tensor(tensor, device))
        self.inputs: dict[str, TensorSpec] = {name: _spec(t) for name, t in self._input.items()}
        self.outputs: dict[str, TensorSpec] = {name: _spec(result.tensor)
                                               for name, result in self._result.items()}

    def __repr__(self) -> str:
        def listed(specs: Mapping[str, TensorSpec]) -> str:
            return ", ".join(f"{name}: {spec}" for name, spec in specs.items())
        return f"<weir.SavedGraph ({listed(self.inputs)}) -> ({listed(self.outputs)})>"

    def run(self, inputs: Mapping[str, Data | Tensor] | None = None, /,
            **named: Data | Tensor) -> dict[str, Tensor]:
        """Runs the graph once on these inputs, by name, and returns its outputs by name.

        Inputs are arrays, Tensors or lists of numbers of the shape and element type that `inputs`
        of the graph says; lists are converted. Names that are no words of Python go into the
        mapping. All must be given, except single numbers, such as a learning rate, which keep what
        they were. A training step updates the parameters and states that this object holds.
        """
        given = dict(inputs or {}, **named)
        for name in given:
            if name not in self._input:
                raise InvalidError(f"run: unknown input {name!r} (expected "
                                   f"{', '.join(self._input) or 'none'})")
        for name, spec in self.inputs.items():
            if name not in given and spec.shape != ():
                raise InvalidError(f"run: the input {name!r}, {spec}, is missing")
        ready = {name: self._as_input(name, data) for name, data in given.items()}
        for name, t in ready.items():
            capi.weir_assign(self._input[name].data.value.handle, t.data.value.handle)
        for result in self._result.values():
            result.before_run()
        self._graph.run()
        return {name: result.new() for name, result in self._result.items()}

    __call__ = run

    def _as_input(self, name: str, data: Data | Tensor) -> Tensor:
        """The input as a Tensor of the device."""
        spec, into = self.inputs[name], self._input[name]
        numbers = isinstance(data, (int, float, list, tuple))
        t = data if isinstance(data, Tensor) else array(
            np.asarray(data, core.numpy_dtype(into.dtype)) if numbers else data,
            device=self.device)
        if tuple(t.shape) != spec.shape:
            raise ShapeError(f"run: the input {name!r} is {spec}, not {_spec(t)}")
        if numbers and t.dtype != into.dtype:       # bfloat16, which NumPy lacks
            t = t.as_type(into.dtype)
        if t.dtype != into.dtype:
            raise DtypeError(f"run: the input {name!r} is {spec}, not {_spec(t)}")
        return t if t.device is self.device else t.clone().to_device(self.device)

    @property
    def stats(self) -> Stats:
        """Numbers of the graph, as weir.Graph has them: planned bytes, times, runs."""
        return self._graph.stats

    @property
    def graph(self) -> Graph:
        """The weir.Graph: texts, pictures, find_nonfinite and measure."""
        return self._graph

    def export(self, path: Path, keep_previous: bool = False) -> None:
        """Writes the graph with the values that its parameters and states have now; load_graph goes
        on from there. keep_previous: a file that is replaced stays as PATH.bak."""
        capi.graph_save(self._graph.handle, os.fspath(path), keep_previous)


def load_graph(path: Path, device: core.Device | None = None,
               **plan: Unpack[PlanOptions]) -> SavedGraph:
    """The graph in a file of Model.export, Graph.export or weir_graph_save in C, planned for this
    device (default: weir's default device) with these options of weir.options.plan_options, such
    as budget="64MB". FileError for anything else; the file may come from anywhere. A GraphWarning
    if it is for inference but was recorded in training mode (Graph.remark)."""
    device = core.default_device() if device is None else device
    loaded = SavedGraph(device, capi.weir_graph_load(device.handle, os.fspath(path),
                                                     plan_options(**plan)))
    if loaded.graph.remark:
        warnings.warn(f"load_graph: {os.fspath(path)} was {loaded.graph.remark}; without gradients "
                      "it should be recorded in evaluation", GraphWarning, stacklevel=2)
    return loaded
