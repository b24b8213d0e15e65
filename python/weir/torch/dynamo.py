"""dynamo - the backend of torch.compile: forward and backward pass of each part that Dynamo finds.

    model = torch.compile(model, backend="weir", options={"budget": "512MB"})

Dynamo calls `backend` with a part of the model (a GraphModule without parameters of its own) and
runs what it returns, guarding it as it guards any backend's. A part is captured and planned when
it first runs with tensors of a signature: one graph with a stop, whose halves are the forward and
the backward pass of a torch.autograd.Function. What torch passes as nn.Parameter becomes a view of
Weir's memory, as in Step, unless views=False or its strides differ; all else is copied in and out.
"""
from __future__ import annotations

import contextlib
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Union, cast

import torch

from .. import _capi as capi
from .. import core
from ..errors import Error, InvalidError, StateError
from ..graph import Graph
from ..typing import Budget, Handle
from . import memory
from .capture import Captured, Node, capture
from .table import half_type, type_of
from .translate import Translation, UnsupportedError, problems, refuse, warn_eager

Argument = Union[torch.Tensor, int, float, bool, None]
Signature = tuple[object, ...]


class Options(TypedDict, total=False):
    """The options of torch.compile(..., backend="weir", options={...})."""

    budget: Budget      # of all parts, shared: parameters, inputs, results, arenas
    policy: str
    precision: str      # "bf16", "f16": products in that type
    views: bool         # parameters become views of Weir's memory (True), or are copied in each run
    fallback: bool      # a part that Weir does not translate runs in torch, with one warning
    max_plans: int      # signatures of a part; 8


# ---- parameters in Weir's memory, shared by all parts ----

_shared: dict[int, tuple[weakref.ref[torch.Tensor], Handle]] = {}


def _parameter(device: core.Device, p: torch.Tensor) -> Handle | None:
    """The core's tensor of a parameter, whose data becomes its memory; None if that would change
    its strides, upon which Dynamo compiles again: convolutions not in channels_last."""
    key = id(p)
    if key in _shared and _shared[key][0]() is p:
        return _shared[key][1]
    handle = memory.new_param(device, p, f"parameter{len(_shared)}")
    view = memory.view(handle)
    if any(n > 1 and a != b for n, a, b in zip(p.shape, p.stride(), view.stride())):
        return None
    p.data = view.as_strided(p.size(), p.stride())
    _shared[key] = (weakref.ref(p, lambda _: _shared.pop(key, None)), handle)
    return handle


_numbers = itertools.count()
_parts: weakref.WeakSet[Part] = weakref.WeakSet()


def compiled_graphs() -> list[Graph]:
    """The graphs that the backend has planned, of all parts that are still in use: for their
    texts, stats and measure(). None after torch.compiler.reset()."""
    return [plan.graph for part in sorted(_parts, key=lambda p: p.number)
            for plans in part.plans.values() for plan in plans]


# ---- one plan of a part ----

@dataclass
class Plan:
    """A part recorded and planned for tensors of one signature; one run of it is under way at a
    time."""

    graph: Graph
    inputs: list[Handle | None]                 # of the tensor arguments; None: not read
    views: list[bool]                           # which of them torch's parameters view
    results: list[object]                       # what a call gives, in order: see Part._result
    kept: list[Handle] = field(default_factory=list)
    flows: list[bool] = field(default_factory=list)     # which kept results have a gradient
    dy: list[Handle | None] = field(default_factory=list)
    dx: list[Handle | None] = field(default_factory=list)       # of the tensor arguments
    changed: list[tuple[int, Handle]] = field(default_factory=list)     # arguments that change
    waits: bool = False                         # the second half is still to run


class Waiting:
    """Held by the autograd graph between the halves; gives the second half up when it is freed."""

    def __init__(self, plan: Plan) -> None:
        self.plan: Plan | None = plan
        plan.waits = True

    def run(self) -> Plan:
        """Runs the second half."""
        plan, self.plan = self.plan, None
        if plan is None:
            raise StateError("backward: the second half of this forward pass has run already; "
                             "the backend \"weir\" does not retain it (retain_graph)")
        plan.waits = False
        plan.graph.run_rest()
        return plan

    def __del__(self) -> None:
        if self.plan is not None:
            self.plan.waits = False
            with contextlib.suppress(Error):        # the device may be closed by now
                self.plan.graph.drop_rest()


class Halves(torch.autograd.Function):      # type: ignore[misc]     # Any where torch is missing
    """The two halves of a plan as forward and backward pass."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, part: Part, plan: Plan,
                *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the first half; gives the kept results."""
        part.write(plan, tensors)
        plan.graph.run_to_stop()
        setattr(ctx, "waiting", Waiting(plan))
        # torch checks that nobody changes them before the backward pass.
        ctx.save_for_backward(*(t for t in tensors if isinstance(t, torch.nn.Parameter)))
        results = _results(plan)
        ctx.mark_non_differentiable(*(t for t, flows in zip(results, plan.flows) if not flows))
        ctx.set_materialize_grads(True)
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable        # type: ignore[untyped-decorator]
    def backward(ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor
                 ) -> tuple[torch.Tensor | None, ...]:
        """Runs the second half; gives the gradients of the tensors."""
        tuple(getattr(ctx, "saved_tensors"))
        waiting: Waiting = getattr(ctx, "waiting")
        plan = waiting.plan
        for handle, grad in zip(plan.dy if plan else (), grads):
            if handle is not None:
                memory.write(handle, grad)
        plan = waiting.run()
        return None, None, *(None if h is None else memory.read(h) for h in plan.dx)


def _results(plan: Plan) -> list[torch.Tensor]:
    return [memory.read(h) for h in plan.kept]


# ---- a part of a model ----

class Closed(torch.nn.Module):              # type: ignore[misc]
    """A part as a module of its tensors alone; its other arguments are numbers. It is interpreted,
    so that its nodes keep the lines of the model."""

    def __init__(self, part: torch.fx.GraphModule, arguments: Sequence[Argument]) -> None:
        super().__init__()
        self.part = part
        self.arguments = [None if isinstance(a, torch.Tensor) else a for a in arguments]
        self.at = [i for i, a in enumerate(arguments) if isinstance(a, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> object:
        """What the part gives."""
        arguments: list[Argument] = list(self.arguments)
        for i, t in zip(self.at, tensors):
            arguments[i] = t
        with torch.fx.traceback.preserve_node_meta():
            return torch.fx.Interpreter(self.part).run(*arguments)


class Part:
    """A part of a model as Dynamo found it, and its plans by signature."""

    def __init__(self, module: torch.fx.GraphModule, options: Options) -> None:
        self.module = module
        self.options = options
        self.device = core.cpu()
        self.eager = False
        self._views = options.get("views", True)
        self._half = half_type(options.get("precision"))
        self.plans: dict[Signature, list[Plan]] = {}
        self.number = next(_numbers)
        _parts.add(self)

    def __call__(self, *arguments: Argument) -> object:
        """What the part gives for these arguments."""
        if self.eager:
            return self.module(*arguments)
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        trains = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        try:
            plan = self._free_plan(arguments, tensors, trains)
        except UnsupportedError as error:
            if not self.options.get("fallback"):
                raise
            warn_eager(error)
            self.eager = True
            return self.module(*arguments)
        if trains:
            given = Halves.apply(self, plan, *tensors)
        else:
            self.write(plan, tensors)
            plan.graph.run()
            given = tuple(_results(plan))
        with torch.no_grad():
            for i, handle in plan.changed:
                tensors[i].copy_(memory.read(handle))
        return tuple(_result(r, given, tensors) for r in plan.results)

    def write(self, plan: Plan, tensors: Sequence[torch.Tensor]) -> None:
        """Copies the arguments to the core, but for parameters that are views of it."""
        for handle, view, t in zip(plan.inputs, plan.views, tensors):
            if handle is not None and not (view and memory.same(t, handle)):
                memory.write(handle, t)

    # -- recording --

    def _free_plan(self, arguments: Sequence[Argument], tensors: Sequence[torch.Tensor],
                   trains: bool) -> Plan:
        """A plan for the arguments that does not wait for its second half."""
        signature: Signature = (trains, *(
            (tuple(a.shape), a.dtype, a.requires_grad, isinstance(a, torch.nn.Parameter) and id(a))
            if isinstance(a, torch.Tensor) else a for a in arguments))
        plans = self.plans.get(signature, [])
        for plan in plans:
            if not plan.waits:
                return plan
        most = self.options.get("max_plans", 8)
        if not plans and len(self.plans) >= most:
            raise InvalidError(f"torch.compile: there are {most} plans already for other shapes of "
                               "this part of the model (option max_plans)")
        captured = capture(Closed(self.module, arguments), [t.detach() for t in tensors],
                           inputs_change=True)
        refuse(problems(captured))
        plan = self._plan(captured, tensors, trains)
        self.plans.setdefault(signature, []).append(plan)
        return plan

    def _handle(self, t: torch.Tensor, changes: bool) -> Handle:
        shared = _parameter(self.device, t) \
            if isinstance(t, torch.nn.Parameter) and self._views else None
        if shared is not None:
            return shared
        desc = (type_of(t.dtype), tuple(t.shape))
        if t.requires_grad:
            return capi.weir_param(self.device.handle, desc, None)
        return capi.weir_state(self.device.handle, desc, None) if changes \
            else capi.weir_input(self.device.handle, desc)

    def _plan(self, captured: Captured, tensors: Sequence[torch.Tensor], trains: bool) -> Plan:
        changes = {i for _, i in captured.changed_inputs}
        inputs = {node: self._handle(t, i in changes)
                  for i, (node, t) in enumerate(zip(captured.inputs, tensors))
                  if node.users or i in changes}
        budget = self.options.get("budget")
        graph = Graph(self.device, budget=budget, policy=self.options.get("policy"),
                      shared_budget=budget is not None)
        plan = Plan(graph, [inputs.get(node) for node in captured.inputs],
                    [id(t) in _shared for t in tensors], [])
        self.write(plan, tensors)           # a budget moves only what has a value
        own = dict([*self.module.named_parameters(), *self.module.named_buffers()])
        translation = Translation(captured, self.device, lambda name: memory.new_state(
            self.device, own[name.removeprefix("part.")], name))
        with graph, self.device.taped():
            translation.run(inputs, self._half)
            recorded = self._keep(plan, translation)
            for node, i in captured.changed_inputs:
                self._change(plan, translation, node, i)
            if trains:
                graph.stop()
                self._gradients(plan, recorded, tensors)
            translation.values.clear()      # what is alive at the end of the block would be kept
            recorded.clear()
        return plan

    def _keep(self, plan: Plan, translation: Translation) -> list[Handle]:
        """Keeps what the part computes; gives the values of which the kept ones are copies."""
        recorded: list[Handle] = []
        places = {node: i for i, node in enumerate(translation.graph.inputs)}
        for value in translation.graph.outputs:
            if isinstance(value, torch.fx.Node) and value in places:
                plan.results.append(Given(places[value]))
                continue
            if isinstance(value, torch.fx.Node) and value in translation.graph.constants:
                plan.results.append(translation.graph.constants[value])
                continue
            handle = translation.argument(value)
            if not isinstance(handle, capi.weir_tensor):
                plan.results.append(handle)
                continue
            plan.results.append(Kept(len(recorded)))
            plan.kept.append(capi.weir_keep(capi.weir_copy(handle)))
            recorded.append(handle)
        return recorded

    def _change(self, plan: Plan, translation: Translation, node: Node, at: int) -> None:
        target = plan.inputs[at]
        value = translation.value(node)
        if target is None or value is None or isinstance(value, (tuple, list)):
            raise InvalidError("torch.compile: an argument changes in a way that Weir does not "
                               "translate")
        if node not in translation.updated:
            capi.weir_assign(target, value)
        plan.changed.append((at, target))

    def _gradients(self, plan: Plan, recorded: list[Handle], tensors: Sequence[torch.Tensor]
                   ) -> None:
        for h in recorded:
            flows = capi.weir_tensor_needs_grad(h)
            plan.flows.append(flows)
            plan.dy.append(capi.weir_input(self.device.handle, capi.weir_tensor_desc(h))
                           if flows else None)
        wanted = [i for i, (h, t) in enumerate(zip(plan.inputs, tensors))
                  if h is not None and t.requires_grad]
        plan.dx = [None] * len(tensors)
        if not any(plan.flows):
            return
        found = capi.vjp([h for h, flows in zip(recorded, plan.flows) if flows],
                         [h for h in plan.dy if h is not None], [plan.inputs[i] for i in wanted])
        for i, gradient in zip(wanted, found):
            plan.dx[i] = None if gradient is None else capi.weir_keep(capi.weir_copy(gradient))


@dataclass(frozen=True)
class Given:
    """A result that is an argument."""

    at: int


@dataclass(frozen=True)
class Kept:
    """A result that the plan keeps."""

    at: int


def _result(value: object, given: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
            ) -> object:
    if isinstance(value, Given):
        return tensors[value.at]
    if isinstance(value, Kept):
        return given[value.at]
    return value.clone() if isinstance(value, torch.Tensor) else value


def backend(module: torch.fx.GraphModule, example: Sequence[object],
            options: Mapping[str, object] | None = None, mode: str | None = None
            ) -> Callable[..., object]:
    """The backend "weir" of torch.compile, by its contract: what runs in the place of module.

    options: see Options. Plans are made at the first run of each signature, not here: example may
    hold symbolic sizes. The optimiser, and what torch holds of results and gradients, is outside of
    the budget."""
    known = Options.__annotations__
    unknown = [name for name in options or {} if name not in known]
    if unknown or mode is not None:
        raise InvalidError(f"torch.compile: the backend \"weir\" has no option "
                           f"{unknown[0] if unknown else 'mode'!r} (it has {', '.join(known)})")
    return Part(module, cast(Options, dict(options or {})))


# Dynamo calls this when it forgets what it has compiled (torch.compiler.reset), after which no part
# is called again. Their objects may live on until Python's collector finds them.
setattr(backend, "reset", _parts.clear)
