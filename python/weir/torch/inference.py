"""inference - a PyTorch module as a planned graph of Weir: run from torch, saved for C programs."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .. import _capi as capi
from .. import core, graph_file
from ..errors import InvalidError, ShapeError
from ..graph import Graph, Stats
from ..typing import Budget, Handle, Path
from . import memory
from .capture import Alone, Node, capture, in_mode
from .table import half_type, type_of
from .translate import Translation, UnsupportedError, problems, refuse, warn_eager


class Module:
    """A module in evaluation for inputs of the example's shapes, recorded and planned.

    Parameters and buffers are copies with all bits. It is called as the module, with tensors, and
    gives a tensor, or a tuple of the tensors among the results in the order of their structure.
    tensor_of: the core's tensor of a parameter or buffer by its name, in place of copies.
    shared_budget: as in weir.options.plan_options.
    """

    def __init__(self, module: torch.nn.Module,
                 example: torch.Tensor | Sequence[torch.Tensor], budget: Budget | None = None,
                 policy: str | None = None, precision: str | None = None,
                 device: core.Device | None = None, *,
                 tensor_of: Callable[[str], Handle] | None = None,
                 shared_budget: bool = False) -> None:
        self.device: core.Device = core.cpu() if device is None else device
        batch = [example] if isinstance(example, torch.Tensor) else list(example)
        with in_mode(module, False), torch.no_grad():
            captured = capture(Alone(module), batch)
        refuse(problems(captured))
        values = dict([*module.named_parameters(remove_duplicate=False),
                       *module.named_buffers(remove_duplicate=False)])
        made: dict[torch.Tensor, Handle] = {}
        self._names: dict[str, Handle] = {}

        def copy_of(name: str) -> Handle:
            t = values[name]
            if t not in made:
                made[t] = self._names[name] = memory.new_state(self.device, t, name)
            return made[t]
        inputs: dict[Node, Handle] = {}
        for node, t in zip(captured.inputs, batch):
            if node.users:
                inputs[node] = capi.weir_input(self.device.handle,
                                               (type_of(t.dtype), tuple(t.shape)))
        translation = Translation(captured, self.device, tensor_of or copy_of)
        self.graph: Graph = Graph(self.device, budget=budget, policy=policy,
                                  shared_budget=shared_budget)
        with self.graph:
            translation.run(inputs, half_type(precision))
            self._outputs = self._kept(translation)
            translation.values.clear()
        self._inputs = [(inputs.get(node), tuple(t.shape), t.dtype)
                        for node, t in zip(captured.inputs, batch)]

    def _kept(self, translation: Translation) -> list[Handle]:
        kept = []
        for value in translation.graph.outputs:
            handle = translation.argument(value)
            if isinstance(handle, capi.weir_tensor):
                kept.append(capi.weir_keep(capi.weir_copy(handle)))
        if not kept:
            raise InvalidError("from_module: the module returns no tensor")
        return kept

    def __call__(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The module's results for these inputs. ShapeError unless they are as the example's."""
        given = [(tuple(t.shape), t.dtype) for t in inputs]
        wanted = [(shape, dtype) for _, shape, dtype in self._inputs]
        if given != wanted:
            raise ShapeError(f"the inputs are {given}, but the module was recorded for {wanted}")
        for (handle, _, _), t in zip(self._inputs, inputs):
            if handle is not None:
                memory.write(handle, t)
        self.graph.run()
        results = [memory.read(handle) for handle in self._outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def save(self, path: Path, keep_previous: bool = False) -> None:
        """Writes the graph with all values to a file, which weir.load_graph, weir_graph_load in C
        and `weir run-graph` run. Inputs are "input0", ..., results "output0", ...; parameters and
        buffers have their names in the module."""
        graph_file.export(
            self.graph.handle, path,
            {f"input{i}": h for i, (h, _, _) in enumerate(self._inputs) if h is not None},
            {f"output{i}": h for i, h in enumerate(self._outputs)},
            [(name, capi.WEIR_ROLE_STATE, h) for name, h in self._names.items()], keep_previous)

    @property
    def stats(self) -> Stats:
        """Numbers of the plan; see weir_graph_stats."""
        return self.graph.stats


def from_module(module: torch.nn.Module, example: torch.Tensor | Sequence[torch.Tensor],
                budget: Budget | None = None, policy: str | None = None,
                precision: str | None = None, device: core.Device | None = None, *,
                fallback: bool = False) -> Module | torch.nn.Module:
    """A PyTorch module as a Module of Weir for inference, for inputs of the example's shapes.
    precision "bf16" or "f16": products in that type. UnsupportedError lists what has no
    translation; with fallback the module itself is returned then, with one warning."""
    try:
        return Module(module, example, budget, policy, precision, device)
    except UnsupportedError as error:
        if not fallback:
            raise
        warn_eager(error)
        return module
