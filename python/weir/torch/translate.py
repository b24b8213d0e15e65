"""translate - records a captured graph: each node by its row of the table.

All nodes that the table lacks or refuses are reported together, each with the line of the model.
"""
from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from . import (elementwise, grouped, image, indexing, interpolation,          # noqa: F401
               layers, order, reduce, shapes, table)
from .. import _capi as capi
from .. import errors
from ..core import Device
from ..typing import Handle
from .capture import Captured, Node, overload
from .memory import new_state
from .table import Call, Refused, Value, rules, type_of

FOLDER = re.compile(r"[/\\](site-packages|dist-packages)[/\\]torch[/\\]")


class UnsupportedError(errors.NoKernelError):
    """Operators of a model that are outside the table: each with its line."""


@dataclass(frozen=True)
class Unsupported:
    """An operator that cannot be translated: where it stands in the model, and why."""

    overload: str
    why: str
    line: str

    def __str__(self) -> str:
        library = "" if self.overload.count(".") > 1 else "aten."   # others stand in the name
        return f"{library}{self.overload}: {self.why}" + \
            (f"\n    {self.line}" if self.line else "")


def line_of(node: Node) -> str:
    """The innermost line of the model, outside of torch's own files, that made a node."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n\s*([^\n]*)',
                        node.meta.get("stack_trace") or "")
    own = [f for f in frames if not FOLDER.search(f[0])] or frames
    if not own:
        return ""
    path, line, function, text = own[-1]
    return f"{path}:{line}, in {function}: {text}"


def problems(graph: Captured) -> list[Unsupported]:
    """The nodes whose overload is not in the table."""
    return [Unsupported(overload(node), "not in the table", line_of(node)) for node in graph.nodes
            if overload(node) != "getitem" and overload(node) not in rules()]


def refuse(found: list[Unsupported]) -> None:
    """Raises UnsupportedError unless the list is empty; equal ones count once."""
    if found:
        lines = list(dict.fromkeys(map(str, found)))
        raise UnsupportedError(f"the model has {len(lines)} uses of operators that Weir does not "
                               "translate:\n  " + "\n  ".join(lines))


def warn_eager(error: UnsupportedError) -> None:
    """Warns that a model, or a piece of one, runs in torch from now on (fallback=True)."""
    warnings.warn(f"it runs in torch, outside of any budget: {error}", errors.GraphWarning,
                  stacklevel=4)


class Translation:
    """A recording of a captured graph: the handles of its nodes."""

    def __init__(self, graph: Captured, device: Device,
                 tensor_of: Callable[[str], Handle]) -> None:
        self.graph = graph
        self.device = device
        self.tensor_of = tensor_of
        self.values: dict[Node, Value] = {}
        self.updated: set[Node] = set()         # results that are in their buffer already
        self.found: list[Unsupported] = []

    def run(self, inputs: Mapping[Node, Handle], half: int | None = None) -> None:
        """Records all nodes, products in a half type if one is given. UnsupportedError lists those
        that could not be recorded."""
        if half is not None:
            capi.weir_autocast_begin(self.device.handle, half)
        try:
            self._record(inputs)
        finally:
            if half is not None:
                capi.weir_autocast_end(self.device.handle)

    def _record(self, inputs: Mapping[Node, Handle]) -> None:
        self.values.update(inputs)
        for node in self.graph.nodes:
            if overload(node) == "getitem":
                self._take(node)
                continue
            try:
                self.values[node] = self._call(node)
            except (Refused, errors.Error) as error:
                self.found.append(Unsupported(overload(node), str(error), line_of(node)))
                self.values[node] = self._placeholder(node)
        refuse(self.found)

    def value(self, node: Node) -> Value:
        """What a node is worth; parameters, buffers and constants are made at their first use."""
        if node not in self.values:
            if node in self.graph.names:
                self.values[node] = self.tensor_of(self.graph.names[node])
            else:
                self.values[node] = new_state(self.device, self.graph.constants[node])
        return self.values[node]

    def argument(self, x: object) -> object:
        """An argument of a node with handles in the place of nodes."""
        if isinstance(x, torch.fx.Node):
            return self.value(x)
        if isinstance(x, (list, tuple)):
            return [self.argument(item) for item in x]
        return x

    def _call(self, node: Node) -> Value:
        meta = [a.meta.get("val") if isinstance(a, torch.fx.Node) else a for a in node.args]
        at = Call(self.device, node.meta.get("val"), meta)
        args = [self.argument(a) for a in node.args]
        kwargs = {key: self.argument(a) for key, a in node.kwargs.items()}
        result = table.call(overload(node), at, args, kwargs)
        if isinstance(result, tuple):
            for user in node.users:
                if overload(user) == "getitem" and user.args[1] in at.updated:
                    self.updated.add(user)
        return result

    def _take(self, node: Node) -> None:
        whole, index = node.args[0], node.args[1]
        if not isinstance(whole, torch.fx.Node) or not isinstance(index, int):
            raise errors.InvalidError(f"capture: {node.format_node()} is not understood")
        parts = self.value(whole)
        value = parts[index] if isinstance(parts, (tuple, list)) else None
        if value is None and node.users:
            self.found.append(Unsupported(overload(whole), f"its result {index} is read",
                                          line_of(node)))
            value = self._of(node.meta.get("val"))
        self.values[node] = value

    def _placeholder(self, node: Node) -> Value:
        """Something of the node's shape, so that what follows can be looked at, too."""
        meta = node.meta.get("val")
        if isinstance(meta, (tuple, list)):
            return tuple(self._of(m) for m in meta)
        return self._of(meta)

    def _of(self, meta: object) -> Handle | None:
        if not isinstance(meta, torch.Tensor):
            return None
        try:
            shape = tuple(int(n) for n in meta.shape)
            return capi.weir_fill(self.device.handle, (type_of(meta.dtype), shape), 0.0)
        except (Refused, errors.Error):
            return None

    def assign_buffers(self) -> None:
        """Records that buffers take what the graph says they become."""
        for node, name in self.graph.changed:
            if node in self.updated:
                continue
            value = self.value(node)
            if not isinstance(value, (tuple, list)) and value is not None:
                capi.weir_assign(self.tensor_of(name), value)
