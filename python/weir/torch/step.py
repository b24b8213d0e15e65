"""step - a training step of a PyTorch model that runs in Weir: one graph, one budget."""
from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

import torch
from torch import dtype as TorchType

from .. import _capi as capi
from .. import core
from ..errors import GraphWarning, InvalidError
from ..graph import Graph, Stats
from ..typing import Budget, Handle
from . import memory
from .capture import Captured, Loss, Node, WithLoss, capture, in_mode
from .inference import Module
from .scaling import LossScale, Sums
from .table import half_type, type_of
from .translate import Translation, UnsupportedError, problems, refuse, warn_eager
from .updates import Rule, groups_of, rule_of

Signature = tuple[tuple[tuple[int, ...], TorchType], ...]
Batch = Union[torch.Tensor, Sequence[torch.Tensor]]


@dataclass
class Plan:
    """A recorded step for batches of one signature."""

    graph: Graph
    inputs: list[Handle | None]         # None: the step does not read it
    loss: Handle
    gradients: dict[str, Handle] = field(default_factory=dict)
    finite: Handle | None = None        # of a scaled loss: whether the update was made


class Tensors:
    """Parameters and buffers of a model in the core; several names may mean one tensor."""

    def __init__(self, model: torch.nn.Module, trained: set[torch.Tensor], device: core.Device,
                 views: bool) -> None:
        self.handles: dict[str, Handle] = {}
        self.tensors: dict[str, torch.Tensor] = {}      # of the model, by their first names
        self.first: dict[str, str] = {}
        known: dict[torch.Tensor, str] = {}
        named = [*model.named_parameters(remove_duplicate=False),
                 *model.named_buffers(remove_duplicate=False)]
        for name, t in named:
            self.first[name] = known.setdefault(t, name)
            if self.first[name] != name:
                continue
            make = memory.new_param if t in trained else memory.new_state
            self.tensors[name] = t
            self.handles[name] = make(device, t, name)
            if views:
                t.data = memory.view(self.handles[name])

    def handle(self, name: str) -> Handle:
        """The core's tensor of a parameter or buffer."""
        return self.handles[self.first[name]]


class Step:
    """A training step: forward, loss, gradients and update, planned and run by Weir.

        step = weir.torch.Step(model, loss_fn, optimizer, (x, y), budget="512MB")
        for x, y in loader:
            loss = step(x, y)

    model: captured in training mode; layers of a model in that mode that are in evaluation stay
    so. loss_fn(model(*inputs), *targets); the last
    `targets` tensors (1) of the example are its targets. loss_fn None: the model is given the whole
    batch and returns the loss, or an object with `loss`. optimizer: SGD, Adam, AdamW, RMSprop and
    Adagrad of torch.optim are computed by Weir with the numbers of param_groups at each step;
    for any other Weir computes gradients and the optimiser runs in torch, with a warning.

    budget, policy: of the whole step, as in weir.Graph. precision: "bf16" or "f16" runs products in
    that type; "f16" wants a scaler, a torch.amp.GradScaler whose numbers are taken over: the loss
    is scaled, and updates that are not finite are left out. clip_norm, clip_value: limits of
    gradients. accumulate: calls that make one update, of the mean of their losses. views:
    parameters, buffers and the optimiser's states are tensors over Weir's memory, so torch sees
    each update at once; False lets a budget move them elsewhere, and sync() copies them back.
    gradients: keep the gradients of each step, for gradients(). A batch of another signature is
    captured and planned at its first use, at most max_plans of them, in one arena. fallback: a
    model with operators that Weir does not translate runs in torch, with one warning; graph and
    stats then raise an InvalidError.
    """

    def __init__(self, model: torch.nn.Module, loss_fn: Loss | None,
                 optimizer: torch.optim.Optimizer, example: Batch, budget: Budget | None = None,
                 policy: str | None = None, precision: str | None = None, *, targets: int = 1,
                 views: bool = True, clip_norm: float = 0.0, clip_value: float = 0.0,
                 gradients: bool = False, max_plans: int = 8, fallback: bool = False,
                 accumulate: int = 1, scaler: torch.amp.GradScaler | None = None,
                 device: core.Device | None = None) -> None:
        self.model: torch.nn.Module = model
        self.optimizer: torch.optim.Optimizer = optimizer
        self._loss, self._views, self._max_plans = loss_fn, views, max_plans
        self._budget, self._policy = budget, policy
        self._precision, self._half = precision, half_type(precision)
        self._clip = (clip_norm, clip_value)
        self._accumulate, self._pending = operator.index(accumulate), 0
        if self._accumulate < 1:
            raise InvalidError(f"accumulate is {accumulate}: must be 1 or more")
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self.device: core.Device = core.cpu() if device is None else device
        batch = _batch(example)
        self._targets = targets if loss_fn is not None else 0
        self._rule = rule_of(optimizer)
        if self._rule is None:
            warnings.warn(f"torch.optim.{type(optimizer).__name__} with these settings runs in "
                          "torch, behind the step: its memory is outside the budget", GraphWarning,
                          stacklevel=2)
            if self._scaler:
                raise InvalidError("a scaler needs an optimiser that Weir computes: torch.optim."
                                   f"{type(optimizer).__name__} with these settings runs in torch")
        self._keep = gradients or self._rule is None
        self._plans: dict[Signature, Plan] = {}
        self._evaluations: dict[Signature, Module] = {}
        self._last: Plan | None = None
        self.eager: bool = False        # fallback: it runs in torch
        try:
            captured = self._capture(batch)
        except UnsupportedError as error:
            if not fallback:
                raise
            warn_eager(error)
            self.eager = True
            return
        trained = {p for group in optimizer.param_groups for p in group["params"]
                   if p.requires_grad}
        self.tensors: Tensors = Tensors(model, trained, self.device, views)
        self._states = States(self, self._rule)
        self._scale = LossScale(self.device, self._scaler) if self._scaler else None
        self._sums = Sums(self.device, {name: t for name, t in self.tensors.tensors.items()
                                        if t in trained}) \
            if self._accumulate > 1 and self._rule else None
        self._update: tuple[Graph, Handle | None] | None = None
        self._last = self._plan(batch, captured)
        self._planned_update()

    def _capture(self, batch: Sequence[torch.Tensor]) -> Captured:
        whole = WithLoss(self.model, self._loss, len(batch) - self._targets)
        with in_mode(self.model, True):
            captured = capture(whole, batch)
        refuse(problems(captured))
        return captured

    # -- recording --

    def _plan(self, batch: Sequence[torch.Tensor], captured: Captured) -> Plan:
        inputs: dict[Node, Handle] = {}
        for node, t in zip(captured.inputs, batch):
            if node.users:
                inputs[node] = capi.weir_input(self.device.handle,
                                               (type_of(t.dtype), tuple(t.shape)))
        graph = self._graph()
        translation = Translation(captured, self.device, self.tensors.handle)
        with graph, self.device.taped():
            loss, kept, finite = self._record(translation, inputs)
            translation.values.clear()      # what is alive at the end of the block would be kept
        plan = Plan(graph, [inputs.get(node) for node in captured.inputs], loss, kept, finite)
        self._plans[_signature(batch)] = plan
        return plan

    def _graph(self) -> Graph:
        return Graph(self.device, budget=self._budget, policy=self._policy,
                     shared_budget=self._budget is not None)

    def _record(self, translation: Translation, inputs: dict[Node, Handle]
                ) -> tuple[Handle, dict[str, Handle], Handle | None]:
        translation.run(inputs, self._half)
        result = translation.argument(translation.graph.outputs[0])
        if not isinstance(result, capi.weir_tensor) or \
                capi.weir_tensor_desc(result)[1] not in ((), (1,)):
            raise InvalidError("the loss must be one tensor of one element")
        loss = capi.weir_reshape(result, ())
        found = self._gradients(loss)
        translation.assign_buffers()
        finite = None
        if self._sums:
            kept = self._scale.unscaled(found, self.tensors.handles)[0] \
                if self._scale and self._keep else found
            known = set(self._sums.names)
            self._sums.add(found)
            if self._sums.names != known:
                self._update = None
        else:
            kept, finite = self._finished(found)
        return (capi.weir_keep(loss),
                {name: capi.weir_keep(g) for name, g in kept.items()} if self._keep else {}, finite)

    def _gradients(self, loss: Handle) -> dict[str, Handle]:
        """Of the loss, divided by the number of calls for an update and times the scale."""
        names = [name for name, h in self.tensors.handles.items() if capi.weir_tensor_needs_grad(h)]
        if self._accumulate > 1:
            share = 1 / self._accumulate
            loss = capi.weir_affine(loss, share, 0.0)
        if self._scale:
            loss = self._scale.scaled(loss)
        grads = capi.gradients(loss, None, [self.tensors.handles[name] for name in names])
        return {n: g for n, g in zip(names, grads) if g is not None}

    def _finished(self, grads: dict[str, Handle]) -> tuple[dict[str, Handle], Handle | None]:
        """Records the updates. Returns the gradients of the loss itself before clipping, and
        whether all are finite, if it was scaled."""
        if not self._scale:
            self._states.record(self._clipped(grads), None)
            return grads, None
        grads, finite = self._scale.unscaled(grads, self.tensors.handles)
        self._states.record(self._clipped(grads), finite)
        self._scale.adjust(finite)
        return grads, capi.weir_keep(finite)

    def _planned_update(self) -> tuple[Graph, Handle | None] | None:
        """The graph that updates from the sums, if there are any, and its mark of finite ones."""
        if self._update is None and self._sums:
            graph = self._graph()
            with graph:
                finite = self._finished(self._sums.all())[1]
                self._sums.reset()
            self._update = graph, finite
        return self._update

    def _clipped(self, grads: dict[str, Handle]) -> dict[str, Handle]:
        norm, value = self._clip
        for limit, by_norm in ((value, False), (norm, True)):
            if limit > 0:
                params = [self.tensors.handles[name] for name in grads]
                limited, _ = capi.clip(params, list(grads.values()), limit, by_norm)
                grads = dict(zip(grads, limited))
        return grads

    # -- running --

    def __call__(self, *batch: torch.Tensor) -> torch.Tensor:
        """Runs one step on a batch and returns its loss, a tensor of its own."""
        if self.eager:
            return self._run_eager(batch)
        plan = self._plans.get(_signature(batch))
        if plan is None:
            if len(self._plans) >= self._max_plans:
                raise InvalidError(f"a batch of another signature, {_signature(batch)}: there are "
                                   f"{self._max_plans} plans already (max_plans)")
            plan = self._plan(batch, self._capture(batch))
        for handle, t in zip(plan.inputs, batch):
            if handle is not None:
                memory.write(handle, t)
        if self._accumulate == 1:
            self._before()
        plan.graph.run()
        self._last = plan
        if self._accumulate == 1:
            self._after(plan.finite)
        self._states.hand_over(plan, self._pending == 0)
        self._pending += 1
        if self._pending == self._accumulate:
            self.update()
        return memory.read(plan.loss)

    def update(self) -> None:
        """With accumulate: updates from the gradients of the calls since the last update, however
        few they are, as at the end of an epoch. It is called by itself once there are enough."""
        if self._pending == 0:
            return
        self._pending = 0
        planned = None if self.eager else self._planned_update()
        if self.eager:
            self._update_eager()
        elif planned:
            self._before()
            planned[0].run()
            self._after(planned[1])
        elif self._rule is None:
            self._states.update_in_torch()

    def _before(self) -> None:
        """Before updates run: what they read of the optimiser and the scaler."""
        if self._scale:
            self._scale.load()
        self._states.before()

    def _after(self, finite: Handle | None) -> None:
        """Behind updates: counts them."""
        if self._scale and finite is not None:
            self._scale.sync()
        if finite is None or memory.read(finite):
            self._states.after()

    def predict(self, *inputs: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """The model's results in evaluation, planned at the first inputs of a signature, in the
        arena and the budget of the step: a tensor, or a tuple of those among the results."""
        if self.eager:
            with in_mode(self.model, False), torch.no_grad():
                return self.model(*inputs)      # type: ignore[no-any-return]
        signature = _signature(inputs)
        if signature not in self._evaluations:
            if len(self._evaluations) >= self._max_plans:
                raise InvalidError(f"inputs of another signature, {signature}: there are "
                                   f"{self._max_plans} plans for evaluation already (max_plans)")
            self._evaluations[signature] = Module(
                self.model, inputs, self._budget, self._policy, self._precision, self.device,
                tensor_of=self.tensors.handle, shared_budget=self._budget is not None)
        return self._evaluations[signature](*inputs)

    def _run_eager(self, batch: Sequence[torch.Tensor]) -> torch.Tensor:
        if self._pending == 0:
            self.optimizer.zero_grad()
        with in_mode(self.model, True):
            loss = WithLoss(self.model, self._loss, len(batch) - self._targets)(*batch)
            share = loss / self._accumulate if self._accumulate > 1 else loss
            (self._scaler.scale(share) if self._scaler else share).backward()
        self._pending += 1
        if self._pending == self._accumulate:
            self.update()
        return loss.detach()

    def _update_eager(self) -> None:
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        norm, value = self._clip
        if self._scaler:
            self._scaler.unscale_(self.optimizer)
        if value > 0:
            torch.nn.utils.clip_grad_value_(parameters, value)
        if norm > 0:
            torch.nn.utils.clip_grad_norm_(parameters, norm)
        if self._scaler:
            self._scaler.step(self.optimizer)
            self._scaler.update()
        else:
            self.optimizer.step()

    def _planned(self) -> Plan:
        if self._last is None:
            raise InvalidError("the step runs in torch (fallback): it has no graph")
        return self._last

    def gradients(self) -> dict[str, torch.Tensor]:
        """The gradients of the last step by the names of parameters, before clipping."""
        if not self._planned().gradients:
            raise InvalidError("gradients are not kept: Step(..., gradients=True)")
        return {name: memory.read(h) for name, h in self._planned().gradients.items()}

    def sync(self) -> None:
        """Writes parameters, buffers and the optimiser's states back into torch's tensors. With
        views they are there already, but for the optimiser's numbers of steps."""
        if self.eager:
            return
        if not self._views:
            for name, t in self.tensors.tensors.items():
                with torch.no_grad():
                    t.copy_(memory.read(self.tensors.handles[name]))
        self._states.sync()

    def load(self) -> None:
        """The other way: takes over what torch's tensors of model and optimiser hold now. Not
        needed for parameters and buffers that are views, whose changes Weir sees."""
        if self.eager:
            return
        if not self._views:
            for name, t in self.tensors.tensors.items():
                memory.write(self.tensors.handles[name], t)
        self._states.load()

    @property
    def graph(self) -> Graph:
        """The graph of the batch that ran last: texts, pictures, measure()."""
        return self._planned().graph

    @property
    def stats(self) -> Stats:
        """Its numbers: nodes, planned bytes, times; see weir_graph_stats. Persistent bytes, arena
        and planned peak are the largest of this graph and, with accumulate, that of updates: each
        may keep in a file what only the other one reads."""
        found = self._planned().graph.stats
        if self._update is not None:
            other = self._update[0].stats
            found["persistent_bytes"] = max(found["persistent_bytes"], other["persistent_bytes"])
            found["arena_bytes"] = max(found["arena_bytes"], other["arena_bytes"])
            found["planned_peak_bytes"] = max(found["planned_peak_bytes"],
                                              other["planned_peak_bytes"])
        return found


class States:
    """An optimiser's states in the core, and the vectors of numbers of its groups."""

    def __init__(self, step: Step, rule: Rule | None) -> None:
        self._device, self._optimizer, self._rule = step.device, step.optimizer, rule
        self._tensors, self._views = step.tensors, step._views
        self._count = 0
        self._handles: dict[str, dict[str, Handle]] = {}
        self._groups: list[Handle] = []
        self._written: list[list[float]] = []
        if rule is None:
            return
        self._step = capi.weir_state(self._device.handle, (capi.WEIR_F64, ()), "step")
        self._names = {t: name for name, t in step.tensors.tensors.items()}
        for group in groups_of(self._optimizer):
            numbers = rule.numbers(group, 1)
            self._groups.append(capi.weir_input(self._device.handle,
                                                (capi.WEIR_F64, (len(numbers),))))
            self._written.append([])
            for p in group["params"]:
                if p.requires_grad and p in self._names:
                    self._make(p, rule.states(group))
        self._fixed = self._settings()
        self.load()
        self.before()           # all that a graph of updates reads is in memory, and counted
        self._optimizer.register_state_dict_pre_hook(lambda *_: self.sync())
        self._optimizer.register_load_state_dict_post_hook(lambda *_: self.load())

    def _make(self, p: torch.Tensor, names: list[str]) -> None:
        handles = {}
        for state in names:
            handles[state] = capi.weir_state(self._device.handle,
                                             (type_of(p.dtype), tuple(p.shape)),
                                             f"{self._names[p]}.{state}")
            capi.weir_write_fill(handles[state], 0.0)
            if self._views:         # before the step is planned, which then leaves it in its place
                capi.memory(handles[state])
        self._handles[self._names[p]] = handles

    def _settings(self) -> list[object]:
        rule = self._rule
        return [] if rule is None else [
            ([group.get(name) for name in rule.fixed], rule.states(group), len(group["params"]))
            for group in groups_of(self._optimizer)]

    def record(self, grads: dict[str, Handle], finite: Handle | None) -> None:
        """Records an update of each parameter that has a gradient, where `finite` is true."""
        if self._rule is None:
            return
        if finite is None:
            capi.weir_increment(self._step, 1.0)
        else:
            capi.weir_accumulate(self._step, capi.weir_cast(finite, capi.WEIR_F64))
        for group, given in zip(groups_of(self._optimizer), self._groups):
            numbers = given if finite is None else _if_finite(self._device, finite, given)
            for p in group["params"]:
                name = self._names.get(p)
                if name in grads:
                    self._rule.update(self._tensors.handles[name], grads[name],
                                      self._handles[name], self._step, numbers, group)

    def before(self) -> None:
        """Writes the numbers of the groups that changed."""
        rule = self._rule
        if rule is None:
            return
        if self._settings() != self._fixed:
            raise InvalidError("settings of the optimiser changed that the step has recorded: "
                               "make another Step")
        for i, group in enumerate(groups_of(self._optimizer)):
            numbers = rule.numbers(group, self._count + 1)
            if numbers != self._written[i]:
                memory.write(self._groups[i], torch.tensor(numbers, dtype=torch.float64))
                self._written[i] = numbers

    def after(self) -> None:
        """Counts an update."""
        self._count += 1
        # What step() of torch's optimisers leaves behind; without it schedulers warn.
        setattr(self._optimizer, "_opt_called", True)

    def hand_over(self, plan: Plan, first: bool) -> None:
        """Where torch updates: hands it the gradients, or adds them to those that it has."""
        if self._rule is not None:
            return
        for name, handle in plan.gradients.items():
            t = self._tensors.tensors[name]
            found = memory.read(handle)
            t.grad = found if first or t.grad is None else t.grad.add_(found)

    def update_in_torch(self) -> None:
        """Runs the update that the core does not know."""
        self._optimizer.step()
        if not self._views:
            for name, t in self._tensors.tensors.items():
                memory.write(self._tensors.handles[name], t)

    def sync(self) -> None:
        """The optimiser's state has torch's names and this step's values."""
        if self._rule is None or self._count == 0:
            return
        sgd = isinstance(self._optimizer, torch.optim.SGD)
        for p, name in self._names.items():
            if name not in self._handles:
                continue
            entry = self._optimizer.state[p]
            for state, handle in self._handles[name].items():
                if not self._views:
                    entry[state] = memory.read(handle)
                elif state not in entry or not memory.same(entry[state], handle):
                    entry[state] = memory.view(handle)
            if not sgd:
                entry["step"] = torch.tensor(float(self._count))

    def load(self) -> None:
        """Takes over the state that the optimiser has in torch."""
        if self._rule is None:
            return
        count = 0
        sgd = isinstance(self._optimizer, torch.optim.SGD)
        for p, name in self._names.items():
            entry = self._optimizer.state.get(p, {})
            for state, handle in self._handles.get(name, {}).items():
                value = entry.get(state)
                if isinstance(value, torch.Tensor) and not memory.same(value, handle):
                    memory.write(handle, value)
                    count = max(count, int(sgd))    # it counts no steps: this is not the first
            count = max(count, int(entry.get("step", 0)))
        self._count = count
        capi.weir_write_fill(self._step, float(count))
        self.sync()


def _if_finite(device: core.Device, finite: Handle, numbers: Handle) -> Handle:
    """The numbers of a group, or NaN: updates with a rate of NaN change nothing."""
    return capi.weir_where(finite, numbers, capi.weir_fill(
        device.handle, capi.weir_tensor_desc(numbers), math.nan))


def _batch(example: Batch) -> tuple[torch.Tensor, ...]:
    return (example,) if isinstance(example, torch.Tensor) else tuple(example)


def _signature(batch: Sequence[torch.Tensor]) -> Signature:
    return tuple((tuple(t.shape), t.dtype) for t in batch)


