"""capture - a module of PyTorch, with its loss, as a functional graph of ATen calls.

The way in is torch.export of the whole forward part and run_decompositions({}), which makes it
functional: buffers that change are results. What depends on no input, parameter or buffer (position
ids, masks) is computed here, once, and is a constant of the graph.
"""
from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ..errors import InvalidError

Node: TypeAlias = torch.fx.Node
Loss: TypeAlias = Callable[..., torch.Tensor]
# Operators that draw random numbers or whose result is memory without values: never constants.
DRAWS = frozenset({"bernoulli", "dropout", "native_dropout", "rand", "rand_like", "randint",
                   "randn", "randn_like", "randperm", "normal", "uniform", "normal_functional",
                   "alpha_dropout", "feature_dropout"})


# Operators that read the shape of their operand alone, by the argument that is the value; 0 and -1
# stand for the values 0 and 1. Elements, of the largest that becomes a constant.
EVEN = {"new_zeros": 0, "zeros_like": 0, "new_ones": -1, "ones_like": -1, "full_like": 1,
        "new_full": 2}
MOST = 1 << 16


@dataclass
class Captured:
    """What torch.export made of a module."""

    nodes: list[Node]
    names: dict[Node, str] = field(default_factory=dict)        # of parameters and buffers
    inputs: list[Node] = field(default_factory=list)            # in the order of the arguments
    constants: dict[Node, torch.Tensor] = field(default_factory=dict)
    outputs: list[object] = field(default_factory=list)         # Nodes, or constants of Python
    changed: list[tuple[Node, str]] = field(default_factory=list)   # (result, buffer)
    changed_inputs: list[tuple[Node, int]] = field(default_factory=list)    # (result, input)


class WithLoss(torch.nn.Module):        # type: ignore[misc]     # Any where torch is missing
    """A model and its loss as one module: the loss of the first arguments and the others."""

    def __init__(self, model: torch.nn.Module, loss: Loss | None, taken: int) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.taken = taken

    def forward(self, *batch: torch.Tensor) -> torch.Tensor:
        """The loss of a batch."""
        out = self.model(*batch[:self.taken])
        if self.loss is not None:
            return self.loss(out, *batch[self.taken:])
        return out.loss if hasattr(out, "loss") else out    # type: ignore[no-any-return]


class Alone(torch.nn.Module):           # type: ignore[misc]
    """A model by itself under the name that WithLoss gives it."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *batch: torch.Tensor) -> object:
        """What the model gives."""
        return self.model(*batch)


def _own_name(target: str | None) -> str:
    """The name of a parameter or buffer in the model inside of WithLoss or Alone."""
    return (target or "").removeprefix("model.")


@contextlib.contextmanager
def in_mode(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """The model trains or evaluates inside; each layer is as before behind it. Layers of a model
    that is in that mode already stay as they are: frozen batch norm."""
    before = {m: m.training for m in model.modules()}
    if model.training != training:
        model.train(training)
    try:
        yield
    finally:
        for m, mode in before.items():
            m.training = mode


def capture(module: torch.nn.Module, example: Sequence[torch.Tensor],
            inputs_change: bool = False) -> Captured:
    """The graph of module(*example), in the mode that the module is in. inputs_change: it may
    write into its inputs, not only into its buffers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(module, tuple(example), strict=False)
        program = program.run_decompositions({})
    graph = Captured([n for n in program.graph.nodes if n.op not in ("placeholder", "output")])
    by_name = {node.name: node for node in program.graph.nodes}
    for spec in program.graph_signature.input_specs:
        node = by_name.get(getattr(spec.arg, "name", ""))
        if node is None:            # a constant of Python among the arguments
            continue
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            graph.names[node] = _own_name(spec.target)
        elif spec.kind == InputKind.CONSTANT_TENSOR:
            graph.constants[node] = program.constants[spec.target]
        elif spec.kind == InputKind.USER_INPUT:
            graph.inputs.append(node)
        else:
            raise InvalidError(f"capture: an input of kind {spec.kind.name} ({spec.target}) is not "
                               "supported")
    output = next(node for node in program.graph.nodes if node.op == "output")
    for spec, value in zip(program.graph_signature.output_specs, output.args[0]):
        if spec.kind == OutputKind.USER_OUTPUT or spec.kind == OutputKind.LOSS_OUTPUT:
            graph.outputs.append(value)
        elif spec.kind == OutputKind.BUFFER_MUTATION:
            graph.changed.append((value, _own_name(spec.target)))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION and inputs_change:
            graph.changed_inputs.append((value, graph.inputs.index(by_name[spec.target])))
        else:
            raise InvalidError(f"capture: the model changes {spec.target!r} "
                               f"({spec.kind.name}): only buffers may change")
    _fold(graph)
    return graph


def base_name(node: Node) -> str:
    """"add" for a call of aten.add.Tensor, "getitem" for one of operator.getitem."""
    packet = getattr(node.target, "overloadpacket", None)
    return getattr(node.target, "__name__", "") if packet is None else packet.__name__


def overload(node: Node) -> str:
    """"add.Tensor"; "getitem"."""
    name = getattr(node.target, "name", None)
    if callable(name) and getattr(node.target, "overloadpacket", None) is not None:
        full = str(node.target)         # aten.add.Tensor
        return full.removeprefix("aten.")
    return "getitem" if node.target is operator.getitem else str(node.target)


def _known(graph: Captured, value: object) -> bool:
    """True if an argument holds nothing but constants."""
    if isinstance(value, torch.fx.Node):
        return value in graph.constants
    if isinstance(value, (list, tuple)):
        return all(_known(graph, item) for item in value)
    return True


Argument = Union[object, torch.Tensor]


def _value(graph: Captured, value: object) -> Argument:
    if isinstance(value, torch.fx.Node):
        return graph.constants[value]
    if isinstance(value, (list, tuple)):
        return type(value)(_value(graph, item) for item in value)
    return value


def _even(node: Node) -> torch.Tensor | None:
    """The result of a call that reads the shape of its operand alone: one value everywhere."""
    name, meta = base_name(node), node.meta.get("val")
    if name not in EVEN or not isinstance(meta, torch.Tensor) or meta.numel() > MOST:
        return None
    at = EVEN[name]
    value = node.args[at] if at < len(node.args) and at > 0 else -at
    if not isinstance(value, (bool, int, float)):
        return None
    return torch.full(tuple(int(n) for n in meta.shape), value, dtype=meta.dtype)


def _fold(graph: Captured) -> None:
    """Computes what depends on constants alone and takes it out of the nodes."""
    left = []
    for node in graph.nodes:
        even = _even(node)
        if even is not None:
            graph.constants[node] = even
            continue
        plain = node.op == "call_function" and base_name(node) not in DRAWS and \
            str(node.target).startswith("aten.")
        if not plain or not _known(graph, [list(node.args), list(node.kwargs.values())]):
            left.append(node)
            continue
        args = [_value(graph, a) for a in node.args]
        with torch.no_grad():
            result = node.target(     # type: ignore[operator]
                *args, **{k: _value(graph, v) for k, v in node.kwargs.items()})
        if isinstance(result, torch.Tensor):
            graph.constants[node] = result
        elif result is not None:        # several results: getitem takes them apart
            left.append(node)
    graph.nodes = left
