"""schedules - numbers that change from step to step: rates and others of an optimiser.

Their values are tensors computed from the count of steps, so they go on changing inside a recorded
graph.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weir import _capi as capi
from weir import core
from .. import singa_wrap as singa
from ..tensor import Tensor


class DecayScheduler:
    """A number as a function of the steps done: called with a Tensor (1,), gives a Tensor (1,)."""

    def __init__(self, init_value: float) -> None:
        self.init_value = init_value

    def __call__(self, step: Tensor) -> Tensor:
        return self.call(step)

    def call(self, step: Tensor) -> Tensor:
        """The number after `step` steps, a Tensor (1,); a schedule of a script defines it."""
        raise NotImplementedError(f"{type(self).__name__} does not define its value")


def f64_of(value: float, device: core.Device) -> capi.weir_tensor:
    """One number in f64, shape (1,)."""
    return capi.weir_fill(device.handle, (capi.WEIR_F64, (1,)), float(value))


def _narrow(handle: capi.weir_tensor, device: core.Device) -> Tensor:
    """A Tensor (1,) of it in f32."""
    handle = capi.weir_cast(handle, capi.WEIR_F32)
    return Tensor(data=singa.result(handle, device), requires_grad=False)


class Constant(DecayScheduler):
    """The same number at every step."""

    def after(self, step: Tensor) -> Tensor:
        """The number, a Tensor (1,)."""
        return _narrow(self.wide(step), step.device)

    call = after            # SINGA's name

    def wide(self, step: Tensor) -> capi.weir_tensor:
        """The handle of the number in f64."""
        return f64_of(self.init_value, step.device)


class ExponentialDecay(DecayScheduler):
    """init_value * decay_rate ^ (step / decay_steps), of whole periods only with staircase."""

    def __init__(self, init_value: float, decay_steps: float, decay_rate: float,
                 staircase: bool = False) -> None:
        super().__init__(init_value)
        if decay_steps <= 0:
            raise ValueError(f"ExponentialDecay: decay_steps is {decay_steps}, must be above 0")
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.staircase = staircase

    def after(self, step: Tensor) -> Tensor:
        """The number after `step` steps, a Tensor (1,)."""
        return _narrow(self.wide(step), step.device)

    call = after            # SINGA's name

    def wide(self, step: Tensor) -> capi.weir_tensor:
        """The handle of the number in f64."""
        divide = capi.weir_div_floor if self.staircase else capi.weir_div
        periods = divide(capi.weir_cast(step.data.handle, capi.WEIR_F64),
                         f64_of(self.decay_steps, step.device))
        return capi.weir_affine(capi.weir_pow(f64_of(self.decay_rate, step.device), periods),
                                float(self.init_value), 0.0)


def _count(steps: int, who: str, what: str = "steps", least: int = 1) -> int:
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < least:
        raise ValueError(f"{who}: {what} is {steps!r}, must be a whole number, {least} or more")
    return steps


class _Wide(DecayScheduler):
    """A schedule that is computed in float64: `at` gives the number from the steps done."""

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        """The handle of the number in f64 from that of the steps done, in f64."""
        raise NotImplementedError(f"{type(self).__name__} does not define its value")

    def wide(self, step: Tensor) -> capi.weir_tensor:
        """The handle of the number in f64."""
        return self.at(capi.weir_cast(step.data.handle, capi.WEIR_F64), step.device)

    def after(self, step: Tensor) -> Tensor:
        """The number after `step` steps, a Tensor (1,)."""
        return _narrow(self.wide(step), step.device)

    call = after            # SINGA's name


class StepDecay(ExponentialDecay):
    """init_value * decay_rate ^ floor(step / decay_steps): PyTorch's StepLR."""

    def __init__(self, init_value: float, decay_steps: float, decay_rate: float = 0.1) -> None:
        super().__init__(init_value, decay_steps, decay_rate, staircase=True)


class MultiStepDecay(_Wide):
    """init_value * decay_rate ^ (milestones that are reached): PyTorch's MultiStepLR."""

    def __init__(self, init_value: float, milestones: Sequence[int],
                 decay_rate: float = 0.1) -> None:
        super().__init__(init_value)
        self.milestones: list[int] = [_count(m, "MultiStepDecay", "a milestone")
                                      for m in milestones]
        if self.milestones != sorted(self.milestones):
            raise ValueError(f"MultiStepDecay: milestones {self.milestones} must ascend")
        self.decay_rate = decay_rate

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        value = f64_of(self.init_value, device)
        for i, milestone in enumerate(self.milestones):
            later = f64_of(self.init_value * self.decay_rate ** (i + 1), device)
            value = capi.weir_where(capi.weir_lt(n, f64_of(milestone, device)), value, later)
        return value


class PolynomialDecay(_Wide):
    """From init_value to final_value in `steps` steps, by (1 - step / steps)^power, then
    final_value. With final_value 0: PyTorch's PolynomialLR."""

    def __init__(self, init_value: float, steps: int, final_value: float = 0.0,
                 power: float = 1.0) -> None:
        super().__init__(init_value)
        self.steps: int = _count(steps, type(self).__name__)
        self.final_value: float = final_value
        self.power: float = power

    def _left(self, n: capi.weir_tensor) -> capi.weir_tensor:
        """The share of the way that is left: 1 to 0."""
        return capi.weir_clamp(capi.weir_affine(n, -1 / self.steps, 1.0), 0.0, 1.0)

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        left = self._left(n)
        if self.power != 1:
            left = capi.weir_pow(left, f64_of(self.power, device))
        return capi.weir_affine(left, self.init_value - self.final_value, self.final_value)


class LinearDecay(PolynomialDecay):
    """In a straight line from init_value to final_value in `steps` steps, then final_value; it may
    rise. PyTorch's LinearLR."""

    def __init__(self, init_value: float, steps: int, final_value: float = 0.0) -> None:
        super().__init__(init_value, steps, final_value)


class CosineDecay(PolynomialDecay):
    """From init_value to final_value in `steps` steps along half a cosine, then final_value
    (Loshchilov and Hutter 2017). PyTorch's CosineAnnealingLR, which rises again after that."""

    def __init__(self, init_value: float, steps: int, final_value: float = 0.0) -> None:
        super().__init__(init_value, steps, final_value)

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        cosine = capi.weir_cos(capi.weir_affine(self._left(n), -math.pi, math.pi))
        half = (self.init_value - self.final_value) / 2
        return capi.weir_affine(cosine, half, half + self.final_value)


class SequentialSchedule(DecayScheduler):
    """One schedule after the other: number i + 1 starts, at its own step 0, when `milestones[i]`
    steps are done. PyTorch's SequentialLR."""

    def __init__(self, schedules: Sequence[DecayScheduler | float],
                 milestones: Sequence[int]) -> None:
        self.schedules: list[DecayScheduler] = [schedule(s, "SequentialSchedule: a schedule")
                                                for s in schedules]
        self.milestones: list[int] = [_count(m, "SequentialSchedule", "a milestone")
                                      for m in milestones]
        if len(self.schedules) != len(self.milestones) + 1:
            raise ValueError(f"SequentialSchedule: {len(self.schedules)} schedules need "
                             f"{len(self.schedules) - 1} milestones, {len(self.milestones)} are "
                             "given")
        if self.milestones != sorted(set(self.milestones)):
            raise ValueError(f"SequentialSchedule: milestones {self.milestones} must ascend")
        super().__init__(self.schedules[0].init_value)

    def wide(self, step: Tensor) -> capi.weir_tensor:
        """The handle of the number in f64."""
        n = capi.weir_cast(step.data.handle, capi.WEIR_F64)
        value = value_at(self.schedules[0], step)
        for of, milestone in zip(self.schedules[1:], self.milestones):
            own = capi.weir_clamp(capi.weir_affine(n, 1.0, -milestone), 0.0, math.inf)
            later = value_at(of, Tensor(data=singa.result(own, step.device), requires_grad=False))
            value = capi.weir_where(capi.weir_lt(n, f64_of(milestone, step.device)), value, later)
        return value

    def after(self, step: Tensor) -> Tensor:
        """The number after `step` steps, a Tensor (1,)."""
        return _narrow(self.wide(step), step.device)

    call = after            # SINGA's name


class WarmUp(SequentialSchedule):
    """A line from start_value to the first value of another schedule (or to a number) in `steps`
    steps, then that schedule from its step 0."""

    def __init__(self, then: DecayScheduler | float, steps: int, start_value: float = 0.0) -> None:
        then = schedule(then, "WarmUp: then")
        _count(steps, "WarmUp")
        super().__init__([LinearDecay(start_value, steps, then.init_value), then], [steps])


class _Stretch(_Wide):
    """Half a cosine from init_value after `begin` steps to final_value after `end`."""

    def __init__(self, init_value: float, begin: float, end: float, final_value: float) -> None:
        super().__init__(init_value)
        self.begin, self.end, self.final_value = begin, end, final_value

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        way = self.end - self.begin
        done = capi.weir_clamp(capi.weir_affine(n, 1 / way, -self.begin / way), 0.0, 1.0)
        half = (self.init_value - self.final_value) / 2
        return capi.weir_affine(capi.weir_cos(capi.weir_affine(done, math.pi, 0.0)), half,
                                half + self.final_value)


class OneCycle(_Wide):
    """Rises from max_value / start_divisor to max_value in the first pct_start of `steps` steps and
    falls to max_value / start_divisor / final_divisor in the others, along half cosines (Smith and
    Topin 2018). PyTorch's OneCycleLR with cycle_momentum off."""

    def __init__(self, max_value: float, steps: int, pct_start: float = 0.3,
                 start_divisor: float = 25.0, final_divisor: float = 1e4) -> None:
        first = max_value / start_divisor
        super().__init__(first)
        _count(steps, "OneCycle", least=2)
        if not 0 < pct_start < 1:
            raise ValueError(f"OneCycle: pct_start is {pct_start}, must be between 0 and 1")
        self.max_value = max_value
        self.top: float = pct_start * steps - 1     # where max_value is: in general not whole
        if self.top <= 0:
            raise ValueError(f"OneCycle: {pct_start} of {steps} steps leaves no step to rise in")
        self._rise = _Stretch(first, 0.0, self.top, max_value)
        self._fall = _Stretch(max_value, self.top, steps - 1, first / final_divisor)

    def at(self, n: capi.weir_tensor, device: core.Device) -> capi.weir_tensor:
        return capi.weir_where(capi.weir_lt(n, f64_of(self.top, device)), self._rise.at(n, device),
                               self._fall.at(n, device))


def value_at(of: DecayScheduler, step: Tensor) -> capi.weir_tensor:
    """The handle of a schedule's number at this step, in f64: what a script's own gives widened."""
    wide: Callable[[Tensor], capi.weir_tensor] | None = getattr(of, "wide", None)
    return capi.weir_cast(of(step).data.handle, capi.WEIR_F64) if wide is None else wide(step)


def schedule(value: DecayScheduler | float, what: str) -> DecayScheduler:
    """A schedule of a number or of itself; TypeError, which says what it is for, for others."""
    if isinstance(value, DecayScheduler):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{what} is {value}, must be a finite number, 0 or more")
        return Constant(value)
    raise TypeError(f"{what} must be a number or a DecayScheduler, it is {value!r}")
