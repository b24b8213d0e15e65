"""graph_file - writes a planned graph to a file that runs without the code that recorded it."""
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from . import _capi as capi
from .errors import InvalidError
from .typing import Handle, Path


def export(graph: capi.weir_graph, path: Path, inputs: Mapping[str, Handle],
           outputs: Mapping[str, Handle], states: Iterable[tuple[str, int, Handle]] = (),
           keep_previous: bool = False) -> None:
    """Gives names as name_tensors does, and saves the graph with all values."""
    name_tensors(graph, inputs, outputs, states)
    capi.graph_save(graph, os.fspath(path), keep_previous)


def export_onnx(graph: capi.weir_graph, path: Path, inputs: Mapping[str, Handle],
                outputs: Mapping[str, Handle], states: Iterable[tuple[str, int, Handle]] = (),
                opset: int = 0, external: bool = False) -> None:
    """Gives names as name_tensors does, and writes an ONNX file of what these outputs need."""
    name_tensors(graph, inputs, outputs, states)
    capi.graph_save_onnx(graph, os.fspath(path), opset, ",".join(outputs), external)


def name_tensors(graph: capi.weir_graph, inputs: Mapping[str, Handle],
                 outputs: Mapping[str, Handle],
                 states: Iterable[tuple[str, int, Handle]] = ()) -> None:
    """Names the graph's inputs and outputs, and those of the states (name, role, tensor) that it
    has. Outputs are results that are alive. InvalidError for an input that the step does not read,
    an output that is no result, and a name given twice."""
    for name, handle in inputs.items():
        _bind(graph, handle, capi.WEIR_ROLE_INPUT, name,
              f"export: the step does not read the input {name!r}")
    for name, handle in outputs.items():
        _bind(graph, handle, capi.WEIR_ROLE_OUTPUT, name,
              f"export: the output {name!r} is no result of the step")
    _name_states(graph, states)


def _bind(graph: capi.weir_graph, handle: Handle, role: int, name: str, problem: str) -> None:
    try:
        capi.weir_graph_bind(graph, handle, role, name)
    except InvalidError as error:
        raise InvalidError(f"{problem} ({error})") from None


def _name_states(graph: capi.weir_graph, states: Iterable[tuple[str, int, Handle]]) -> None:
    """States that the step does not use, and those whose name is taken, stay as they are."""
    for name, role, handle in states:
        try:
            capi.weir_graph_bind(graph, handle, role, name)
        except InvalidError:
            pass
