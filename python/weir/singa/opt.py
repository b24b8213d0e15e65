"""opt - optimisers and schedules: SINGA's names over the core's updates.

An update is one call of the core for each parameter. Rates and other numbers that change from step
to step are tensors that step() renews, so they go on changing inside a recorded graph. State is
kept by a parameter's name; of several parameters with one name each has its own ("W", "W#2").
"""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias, TypeVar, Union, cast

from weir import _capi as capi
from weir import core
from .asserted import DtypeError, ShapeError, StateError
from . import singa_wrap as singa
from .tape import backward, no_gradient
from .raw.tensor import CTensor
from .updates.distributed import DistOpt, set_usual  # noqa: F401
from .updates.ema import EMA  # noqa: F401
from .updates.groups import Group, Rate, Share, Where, is_constant  # noqa: F401
from .updates.scaler import LossScaler, zeros_state  # noqa: F401
from .updates.schedules import (  # noqa: F401
    Constant, CosineDecay, DecayScheduler, ExponentialDecay, LinearDecay, MultiStepDecay, OneCycle,
    PolynomialDecay, SequentialSchedule, StepDecay, WarmUp, f64_of, schedule, value_at)
from .tensor import Tensor, float32
from weir.typing import Array, Handle

__all__ = ["AdaGrad", "Adam", "AdamW", "Constant", "CosineDecay", "DecayScheduler", "DistOpt",
           "EMA", "ExponentialDecay", "Group", "LinearDecay", "LossScaler", "MultiStepDecay",
           "OneCycle", "Optimizer", "PolynomialDecay", "Rate", "RMSProp", "SequentialSchedule",
           "SGD", "Share", "StepDecay", "WarmUp", "Where"]

State: TypeAlias = Union[float, Tensor, Array, Mapping[str, Union[Tensor, Array]]]
Pair: TypeAlias = tuple[Tensor, Tensor]                 # a parameter, its gradient
Exchange: TypeAlias = Callable[[Iterable[Pair]], Iterable[Pair]]
Fields: TypeAlias = tuple[tuple[str, str], ...]         # attribute, the core's field
O = TypeVar("O")


# ---- optimisers ----

class Optimizer:
    """What all optimisers share: the rate, the count of steps, state by name.

    clip_norm, clip_value limit the gradients first: the root of the sum of all their squares, and
    each element. scaler: a LossScaler, for models with products in float16. dtype: that of the
    parameters; the rate and all numbers behind it are float64 for parameters in float64.
    """

    numbers: Fields = ()            # that may be schedules, in the core's order
    tables: tuple[str, ...] = ()    # of state tensors, by the names of get_states

    def __init__(self, lr: Rate, dtype: int = float32, clip_norm: float | None = None,
                 clip_value: float | None = None, scaler: LossScaler | None = None) -> None:
        self._lr = schedule(lr, f"{type(self).__name__}: lr")
        self.groups: list[Group] = []
        self.dtype = dtype
        self.clip_norm = clip_norm
        self.clip_value = clip_value
        self.scaler = scaler
        self.exchange: Exchange | None = None       # what DistOpt does with gradients first
        self._finite: Handle | None = None         # for a scaled step: may this step be applied?
        self._rate_if: Handle | None = None     # the rate, or NaN: then the core skips the update
        device = core.default_device()
        self.step_counter: Tensor = zeros_state((1,), device, core.kDouble)
        with device.at_once():
            rate = singa.result(self._rate_now(), device)
            self.lr_value: Tensor = Tensor(data=rate, requires_grad=False)
            self.lr_value.data.value.state()        # the device owns its memory from now on
        self._schedules: list[DecayScheduler] = []
        # arguments of _set_numbers
        self._options_made_of: tuple[Callable[[], object], Sequence[str],
                                     dict[str, bool]] | None = None
        self._vector: CTensor | None = None     # rate and numbers, which the core reads at each run
        # (name, id of a parameter's value) -> key of its state.
        self._keys: dict[tuple[str, int], str] = {}
        # key -> that value, which lives as long as the state.
        self._owners: dict[str, core.Value] = {}
        self._chosen: dict[str, Group | None] = {}      # key -> the group that the parameter is in
        for table in self.tables:
            setattr(self, table, {})

    @property
    def lr(self) -> DecayScheduler:
        """The schedule of the rate. A number or a schedule may be assigned; graphs recorded with a
        constant rate take the new one."""
        return self._lr

    @lr.setter
    def lr(self, lr: Rate) -> None:
        """Sets a new learning rate, also for graphs recorded with a constant one."""
        self._lr = schedule(lr, f"{type(self).__name__}: lr")
        self._renew(everything=True)

    def _set_numbers(self, kind: Callable[[], O], presets: Sequence[str] = (), **flags: bool) -> O:
        """The core's options of this kind. presets: fields whose 0 the core takes for its own."""
        self._options_made_of = kind, presets, flags
        self._schedules = [schedule(getattr(self, name), f"{type(self).__name__}: {name}")
                           for name, _ in self.numbers]
        values = {field: float(s.init_value)
                  for (_, field), s in zip(self.numbers, self._schedules)}
        if not self._constant or any(values[field] == 0 for field in presets):
            with self.step_counter.device.at_once():
                self._vector = singa.result(self._numbers_now(), self.step_counter.device)
                self._vector.value.state()
        return core.options(kind, **values, **flags)

    def __getstate__(self) -> dict[str, object]:
        """For copies and pickle: the state by name, without the parameters that own it. A copy
        takes them by name at its next update, as after set_states."""
        return self.__dict__ | {"_options": None, "_vector": None, "_finite": None,
                                "_rate_if": None, "_keys": {}, "_owners": {}, "_chosen": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.lr_value.data.value.state()
        if self._options_made_of is not None:
            kind, presets, flags = self._options_made_of
            setattr(self, "_options", self._set_numbers(kind, presets, **flags))

    @property
    def _constant(self) -> bool:
        return all(isinstance(s, Constant) for s in self._schedules)

    def _numbers_now(self) -> Handle:
        """The rate and the numbers behind it, as the core reads them: f64."""
        device = self.step_counter.device
        parts = [capi.weir_cast(self.lr_value.data.handle, capi.WEIR_F64)]
        for s in self._schedules:
            if isinstance(s, Constant):
                parts.append(f64_of(s.init_value, device))
            else:
                parts.append(value_at(s, self.step_counter))
        return capi.weir_concat(parts, 0)

    def _rate_now(self) -> Handle:
        """The rate, in the type in which parameters are updated by it."""
        kind = capi.WEIR_F64 if self.dtype == core.kDouble else capi.WEIR_F32
        return capi.weir_cast(value_at(self._lr, self.step_counter), kind)

    def _renew(self, everything: bool = False) -> None:
        """Renews the rate and the numbers that change from step to step, for the next step."""
        changes = everything or not is_constant(self._lr)
        if changes:
            self.lr_value.data.value.put(self._rate_now())
        if self._vector is not None and (changes or not self._constant):
            self._vector.value.put(self._numbers_now())
        for group in self.groups:
            group.member._renew(everything)

    # -- groups of parameters --

    def add_group(self, where: Where, lr: Rate | None = None, lr_scale: float = 1.0,
                  frozen: bool = False, **numbers: Rate) -> Group:
        """Gives some parameters numbers of their own, before the first step. A parameter belongs to
        the first group that has it.

        where: a path ("block1"), a pattern ("*.b"), a Layer, a parameter, a function of (name,
        parameter), or a list of them. lr: their rate; None: lr_scale times the optimiser's.
        numbers: others of the optimiser by name (weight_decay=0). frozen: no updates; their
        gradients do not count for clip_norm.
        """
        who = f"{type(self).__name__}.add_group"
        known = [name for name, _ in self.numbers]
        for name in numbers:
            if name not in known:
                raise TypeError(f"{who}: unknown number {name!r} (expected {', '.join(known)})")
        self._check_numbers(who, numbers)
        rate = (schedule(lr, f"{who}: lr") if lr is not None
                else Share(self, schedule(lr_scale, f"{who}: lr_scale").init_value))
        member = copy.copy(self)
        member.groups = []
        member._take_numbers(rate, numbers)
        group = Group(where, member, bool(frozen))
        self.groups.append(group)
        self._chosen.clear()
        return group

    def _check_numbers(self, who: str, numbers: Mapping[str, Rate]) -> None:
        """Refuses numbers that a group of this optimiser cannot have."""

    def _take_numbers(self, rate: DecayScheduler, numbers: Mapping[str, Rate]) -> None:
        """Makes a copy of an optimiser a group's: it shares its states and its count of steps."""
        self._lr = rate
        device = self.step_counter.device
        with device.at_once():
            self.lr_value = Tensor(data=singa.result(self._rate_now(), device), requires_grad=False)
            self.lr_value.data.value.state()
        for name, value in numbers.items():
            setattr(self, name, value)
        kind, presets, flags = cast("tuple[Callable[[], object], Sequence[str], dict[str, bool]]",
                                    self._options_made_of)
        self._vector = None
        setattr(self, "_options", self._set_numbers(kind, presets, **flags))

    def _group_of(self, key: str, param: Tensor) -> Group | None:
        if key not in self._chosen:
            self._chosen[key] = next((g for g in self.groups if g.has(param)), None)
        return self._chosen[key]

    def _is_frozen(self, param: Tensor) -> bool:
        if not self.groups:
            return False
        group = self._group_of(self._key(param.name, param), param)
        return group is not None and group.frozen

    @property
    def rate(self) -> Handle:
        """What the core reads: the rate, alone or with numbers behind it."""
        if self._rate_if is not None:
            return self._rate_if
        return (self.lr_value.data if self._vector is None else self._vector).handle

    # -- a step --

    def __call__(self, loss: Tensor) -> None:
        """Gradients of loss, an update of every parameter it depends on, and step()."""
        if self.scaler is not None:
            self._scaled(loss)
        else:
            self.call(loss)
            self.step()

    def call(self, loss: Tensor) -> None:
        """The gradients of loss and the updates, without step(). StateError with a scaler, whose
        update is a whole step."""
        if self.scaler is not None:
            raise StateError(f"{type(self).__name__}.call: a loss scaler scales a whole step: call "
                             "the optimiser itself")
        some = False
        for param, grad in self._pairs(loss):
            self.apply(param.name, param, grad)
            some = True
        if not some:
            raise no_gradient(loss)

    def _scaled(self, loss: Tensor) -> None:
        """The same of the scaled loss, in so far as the gradients are finite."""
        scaler, rate = cast("LossScaler", self.scaler), self.rate
        kind = capi.weir_tensor_desc(rate)[0]
        scale = capi.weir_cast(scaler.scale_value.data.handle, core.core_dtype(loss.dtype))
        seed = Tensor(data=singa.result(capi.weir_reshape(scale, loss.shape), loss.device),
                      requires_grad=False)
        pairs = [pair for pair in self._exchanged(backward(loss, seed, retain_graph=False))
                 if not self._is_frozen(pair[0])]
        if not pairs:
            raise no_gradient(loss)
        params = [param for param, _ in pairs]
        grads, finite = scaler.unscale([p.data.handle for p in params],
                                            [grad.data.handle for _, grad in pairs])
        pairs.clear()
        nan = capi.weir_fill(loss.device.handle, (kind, (1,)), float("nan"))
        self._finite, self._rate_if = finite, capi.weir_where(finite, rate, nan)
        for group in self.groups:
            group.member._rate_if = capi.weir_where(finite, group.member.rate, nan)
        try:
            for param, grad in self._limited(params, grads):
                self.apply(param.name, param, grad)
            self.step()
        finally:
            self._finite = self._rate_if = None
            for group in self.groups:
                group.member._rate_if = None
        scaler.adjust(finite)

    def backward_and_update(self, loss: Tensor) -> None:
        """SINGA's older name of the call."""
        self(loss)

    def _exchanged(self, pairs: Iterable[Pair]) -> Iterable[Pair]:
        return pairs if self.exchange is None else self.exchange(pairs)

    def _pairs(self, loss: Tensor) -> Iterable[Pair]:
        pairs = self._exchanged(backward(loss, retain_graph=False))
        if self.clip_norm is None and self.clip_value is None:
            return pairs
        return self._clip([pair for pair in pairs if not self._is_frozen(pair[0])])

    def _clip(self, pairs: list[Pair]) -> Iterable[Pair]:
        params = [param for param, _ in pairs]
        grads = [grad.data.handle for _, grad in pairs]
        pairs.clear()
        return self._limited(params, grads)

    def _limited(self, params: Sequence[Tensor], grads: list[Handle]) -> Iterator[Pair]:
        for limit, norm in ((self.clip_value, False), (self.clip_norm, True)):
            if limit is not None and grads:
                grads, _ = capi.clip([p.data.handle for p in params], grads, float(limit), norm)
        grads.reverse()
        for param in params:
            yield param, Tensor(data=singa.result(grads.pop(), param.device), requires_grad=False,
                                name=f"{param.name}_g")

    def apply(self, param_name: str | Tensor, param_value: Tensor, param_grad: Tensor) -> None:
        """Updates param_value in place, now or in the graph being recorded."""
        for name, t in (("param_value", param_value), ("param_grad", param_grad)):
            if not isinstance(t, Tensor):
                raise TypeError(f"{type(self).__name__}.apply: {name} is a {type(t).__name__}, "
                                "must be a Tensor; the order is (param_name, param_value, "
                                "param_grad)")
        if param_value.shape != param_grad.shape:
            raise ShapeError(f"{type(self).__name__}: {param_name} has shape {param_value.shape}, "
                             f"its gradient {param_grad.shape}")
        if param_value.dtype != self.dtype:
            raise DtypeError(f"{type(self).__name__}: {param_name} has element type "
                             f"{core.dtype_name(param_value.dtype)}, the optimiser's is "
                             f"{core.dtype_name(self.dtype)}")
        key = self._key(param_name, param_value)
        group = self._group_of(key, param_value) if self.groups else None
        if group is None:
            self._update(key, param_value, param_grad.data.handle)
        elif not group.frozen:
            group.member._update(key, param_value, param_grad.data.handle)

    def update(self, param: Tensor, grad: Tensor) -> None:
        """SINGA's older form of apply."""
        self.apply(param.name, param, grad)

    def _update(self, key: str, param: Tensor, grad: Handle) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def step(self) -> None:
        """Counts a step and renews what depends on the count. Updates no parameter: calling the
        optimiser with the loss does."""
        counter = self.step_counter.data.value.state()
        if self._finite is None:
            capi.weir_increment(counter, 1.0)
        else:
            capi.weir_accumulate(counter, capi.weir_cast(self._finite, capi.WEIR_F64))
        self._renew()

    def device_check(self, *tensors: Tensor) -> None:
        """Moves tensors to the device of the first."""
        for t in tensors[1:]:
            if t.device is not tensors[0].device:
                t.to_device(tensors[0].device)

    # -- state --

    def _key(self, name: str | Tensor, param: Tensor) -> str:
        if isinstance(name, Tensor):        # SINGA takes the parameter in place of its name, too
            name = name.name
        value = param.data.value
        key = self._keys.get((name, id(value)))
        if key is None:
            key, n = name, 1
            while key in self._owners:
                n += 1
                key = f"{name}#{n}"
            self._owners[key] = value
            self._keys[name, id(value)] = key
        return key

    def _state(self, table: str, key: str, param: Tensor) -> Handle:
        """The handle of a state tensor of param's shape, zero at first."""
        found: Tensor | None = getattr(self, table).get(key)
        if found is None or found.shape != param.shape:
            found = zeros_state(param.shape, param.device, param.dtype)
            getattr(self, table)[key] = found
        return found.data.value.state()

    def state_of(self, table: str, param: Tensor, make: bool = False) -> Tensor | None:
        """The state Tensor of a parameter in a table, zero if `make` makes it; None if no update
        has made it yet."""
        key = self._key(param.name, param)
        if make:
            self._state(table, key, param)
        found: Tensor | None = getattr(self, table).get(key)
        return found

    def resume(self, steps: float, rate: float) -> None:
        """Continues after this number of steps. A constant rate becomes `rate`; a schedule follows
        from the steps."""
        self.step_counter.data.SetFloatValue(steps)
        if isinstance(self._lr, Constant):
            self._lr = Constant(rate)
        self._renew(everything=True)

    def get_states(self) -> dict[str, State]:
        """{"step_counter": number, table: {name: Tensor}}: the Tensors are the optimiser's own."""
        states: dict[str, State] = {"step_counter": float(self.step_counter.data.to_numpy()[0])}
        states.update((table, dict(getattr(self, table))) for table in self.tables
                      if getattr(self, table))
        return states

    def set_states(self, states: Mapping[str, State]) -> None:
        """Takes over what get_states gave; Tensors or arrays are copied. Tables may be flat, as
        Model.load_states returns them: {"moments/fc1.W": Tensor}."""
        if "step_counter" in states:
            count = states["step_counter"]
            self.step_counter.data.SetFloatValue(
                count.item() if isinstance(count, Tensor) else float(cast("float", count)))
        for table in self.tables:
            flat = {name.removeprefix(table + "/"): value for name, value in states.items()
                    if name.startswith(table + "/")}
            whole = cast("Mapping[str, Tensor | Array]", states.get(table, {}))
            for key, source in {**whole, **cast("Mapping[str, Tensor]", flat)}.items():
                array = source.data.to_numpy() if isinstance(source, Tensor) else source
                mine = getattr(self, table)
                if key not in mine or mine[key].shape != tuple(array.shape):
                    mine[key] = zeros_state(array.shape, self.step_counter.device, self.dtype)
                mine[key].data.from_numpy(array)
        self._renew(everything=True)


class SGD(Optimizer):
    """g += weight_decay p; b = momentum b + (1 - dampening) g; p -= lr b, or with nesterov
    p -= lr (g + momentum b). b starts at 0."""

    numbers: Fields = (("momentum", "momentum"), ("weight_decay", "weight_decay"),
                       ("dampening", "dampening"))
    tables: tuple[str, ...] = ("moments",)

    def __init__(self, lr: Rate = 0.1, momentum: Rate = 0, dampening: Rate = 0,
                 weight_decay: Rate = 0, nesterov: bool = False, dtype: int = float32,
                 clip_norm: float | None = None, clip_value: float | None = None,
                 scaler: LossScaler | None = None) -> None:
        super().__init__(lr, dtype, clip_norm, clip_value, scaler)
        for name, value in (("momentum", momentum), ("weight_decay", weight_decay)):
            if isinstance(value, (int, float)) and value < 0:
                raise ValueError(f"SGD: {name} is {value}, must not be negative")
        self.momentum: Rate = momentum
        self.dampening: Rate = dampening
        self.weight_decay: Rate = weight_decay
        self.nesterov: bool = bool(nesterov)
        self._buffered = isinstance(momentum, DecayScheduler) or momentum != 0
        if self.nesterov and (not self._buffered or dampening != 0):
            raise ValueError("SGD: nesterov needs a momentum and no dampening")
        self._options = self._set_numbers(capi.weir_sgd_options, nesterov=self.nesterov)

    def _check_numbers(self, who: str, numbers: Mapping[str, Rate]) -> None:
        if not self._buffered and numbers.get("momentum", 0) != 0:
            raise ValueError(f"{who}: momentum is {numbers['momentum']}, but the optimiser has "
                             "none: give the optimiser a momentum, and 0 to other groups")
        if self.nesterov and numbers.get("dampening", 0) != 0:
            raise ValueError(f"{who}: nesterov needs no dampening")

    def _update(self, key: str, param: Tensor, grad: Handle) -> None:
        buffer = self._state("moments", key, param) if self._buffered else None
        capi.weir_sgd_update(param.data.value.state(), grad, buffer, self.rate, self._options)


class RMSProp(Optimizer):
    """r = rho r + (1 - rho) g^2; p -= lr g / sqrt(r + epsilon).

    SINGA's formula: epsilon is within the root; PyTorch adds it to the root."""

    numbers: Fields = (("rho", "alpha"), ("epsilon", "eps"), ("weight_decay", "weight_decay"),
                       ("momentum", "momentum"))
    tables: tuple[str, ...] = ("running_average",)
    momentum = 0

    def __init__(self, lr: Rate = 0.1, rho: Rate = 0.9, epsilon: Rate = 1e-8,
                 weight_decay: Rate = 0, dtype: int = float32, clip_norm: float | None = None,
                 clip_value: float | None = None, scaler: LossScaler | None = None) -> None:
        super().__init__(lr, dtype, clip_norm, clip_value, scaler)
        self.rho: Rate = rho
        self.epsilon: Rate = epsilon
        self.weight_decay: Rate = weight_decay
        self._options = self._set_numbers(capi.weir_rmsprop_options, ("alpha", "eps"),
                                          eps_inside=True)

    def _update(self, key: str, param: Tensor, grad: Handle) -> None:
        capi.weir_rmsprop_update(param.data.value.state(), grad,
                                 self._state("running_average", key, param), None, None, self.rate,
                                 self._options)


class AdaGrad(Optimizer):
    """h += g^2; p -= lr g / sqrt(h + epsilon).

    SINGA's formula: epsilon is within the root; PyTorch adds it to the root (and takes 1e-10)."""

    numbers: Fields = (("epsilon", "eps"), ("weight_decay", "weight_decay"))
    tables: tuple[str, ...] = ("history",)

    def __init__(self, lr: Rate = 0.1, epsilon: Rate = 1e-8, weight_decay: Rate = 0,
                 dtype: int = float32, clip_norm: float | None = None,
                 clip_value: float | None = None, scaler: LossScaler | None = None) -> None:
        super().__init__(lr, dtype, clip_norm, clip_value, scaler)
        self.epsilon: Rate = epsilon
        self.weight_decay: Rate = weight_decay
        self._options = self._set_numbers(capi.weir_adagrad_options, ("eps",), eps_inside=True)

    def _update(self, key: str, param: Tensor, grad: Handle) -> None:
        capi.weir_adagrad_update(param.data.value.state(), grad,
                                 self._state("history", key, param), self.rate, self._options)


class Adam(Optimizer):
    """m, v: running means of g and g^2, corrected for their start at 0; weight_decay is added to
    the gradient. p -= lr m / (sqrt(v) + epsilon)."""

    numbers: Fields = (("beta_1", "beta1"), ("beta_2", "beta2"), ("epsilon", "eps"),
                       ("weight_decay", "weight_decay"))
    tables: tuple[str, ...] = ("m", "v")
    core_update: ClassVar[Callable[..., None]] = staticmethod(capi.weir_adam_update)

    def __init__(self, lr: Rate = 0.1, beta_1: Rate = 0.9, beta_2: Rate = 0.999,
                 epsilon: Rate = 1e-8, weight_decay: Rate = 0, dtype: int = float32,
                 clip_norm: float | None = None, clip_value: float | None = None,
                 scaler: LossScaler | None = None) -> None:
        super().__init__(lr, dtype, clip_norm, clip_value, scaler)
        self.beta_1: Rate = beta_1
        self.beta_2: Rate = beta_2
        self.epsilon: Rate = epsilon
        self.weight_decay: Rate = weight_decay
        self._options = self._set_numbers(capi.weir_adam_options, ("beta1", "beta2", "eps"))

    def _update(self, key: str, param: Tensor, grad: Handle) -> None:
        step = capi.weir_affine(self.step_counter.data.handle, 1.0, 1.0)    # this one included
        self.core_update(param.data.value.state(), grad, self._state("m", key, param),
                         self._state("v", key, param), step, self.rate, self._options)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter, not by gradient: p *= 1 - lr weight_decay."""

    core_update: ClassVar[Callable[..., None]] = staticmethod(capi.weir_adamw_update)

    def __init__(self, lr: Rate = 1e-3, beta_1: Rate = 0.9, beta_2: Rate = 0.999,
                 epsilon: Rate = 1e-8, weight_decay: Rate = 0.01, dtype: int = float32,
                 clip_norm: float | None = None, clip_value: float | None = None,
                 scaler: LossScaler | None = None) -> None:
        super().__init__(lr, beta_1, beta_2, epsilon, weight_decay, dtype, clip_norm, clip_value,
                         scaler)


set_usual(SGD)
