"""schedules - numbers that change from step to step: rates and others of an optimiser.

Their values are tensors computed from the count of steps, so they go on changing inside a recorded
graph.
"""
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


def value_at(of: DecayScheduler, step: Tensor) -> capi.weir_tensor:
    """The handle of a schedule's number at this step, in f64: what a script's own gives widened."""
    if hasattr(of, "wide"):
        wide: capi.weir_tensor = of.wide(step)
        return wide
    return capi.weir_cast(of(step).data.handle, capi.WEIR_F64)


def schedule(value: "DecayScheduler | float", what: str) -> DecayScheduler:
    """A schedule of a number or of itself; TypeError, which says what it is for, for others."""
    if isinstance(value, DecayScheduler):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return Constant(value)
    raise TypeError(f"{what} must be a number or a DecayScheduler, it is {value!r}")
