"""scaler - LossScaler, the scale of losses in half precision; tensors of zeros for states."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir import _capi as capi
from weir import core
from weir.typing import Handle, Shape
from .. import singa_wrap as singa
from ..tensor import Tensor, float32


def zeros_state(shape: Shape, device: core.Device, dtype: int) -> Tensor:
    """A Tensor of zeros that no graph records the making of."""
    with device.at_once():
        raw = singa.Tensor(shape, device, dtype)
        raw.SetFloatValue(0.0)
    return Tensor(data=raw, requires_grad=False)


class LossScaler:
    """Multiplies losses by a scale, so that gradients in float16 do not vanish, and divides the
    gradients by it: SGD(..., scaler=LossScaler()).

    After `interval` steps in a row whose gradients were finite the scale is multiplied by growth;
    after one that was not by backoff, and that step updates nothing. fixed: the scale stays.
    bfloat16 needs none of it. All of it is done by the device, within a graph, too.
    """

    def __init__(self, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5,
                 interval: int = 2000, fixed: bool = False) -> None:
        if not 0 < scale <= 2.0**100:
            raise ValueError(f"LossScaler: scale is {scale}, must be above 0 and at most 2^100")
        if not (1 <= growth <= 2.0**100 and 0 < backoff < 1 and 1 <= interval <= 2**24):
            raise ValueError(f"LossScaler: growth {growth} must be 1 or more, backoff {backoff} "
                             f"between 0 and 1, interval {interval} 1 to 2^24")
        self.growth: float = float(growth)
        self.backoff: float = float(backoff)
        self.interval: int = int(interval)
        self.fixed: bool = bool(fixed)
        device = core.default_device()
        self.scale_value: Tensor = zeros_state((1,), device, float32)
        self.scale_value.data.SetFloatValue(float(scale))
        self.good_steps: Tensor = zeros_state((1,), device, float32)
        self.skipped_steps: Tensor = zeros_state((1,), device, core.kDouble)

    @property
    def scale(self) -> float:
        """The scale of the next step, a number."""
        return float(self.scale_value.data.to_numpy()[0])

    @property
    def skipped(self) -> int:
        """How many steps were skipped so far."""
        return int(self.skipped_steps.data.to_numpy()[0])

    def unscale(self, params: Sequence[Handle],
                grads: Sequence[Handle]) -> tuple[list[Handle], Handle]:
        """Handles of gradients, divided; that of whether all are finite."""
        return capi.unscale(params, grads, self.scale_value.data.handle)

    def adjust(self, finite: Handle) -> None:
        """The scale of the next step, as this one's gradients were finite or not."""
        if not self.fixed:
            capi.weir_scale_adjust(self.scale_value.data.value.state(),
                                   self.good_steps.data.value.state(), finite, self.growth,
                                   self.backoff, self.interval)
        capi.weir_accumulate(self.skipped_steps.data.value.state(),
                             capi.weir_cast(capi.weir_logical_not(finite), capi.WEIR_F64))

    def get_states(self) -> dict[str, float]:
        """Scale, steps in a row, steps skipped, by name."""
        return {name: float(getattr(self, name).data.to_numpy()[0])
                for name in ("scale_value", "good_steps", "skipped_steps")}

    def set_states(self, states: Mapping[str, float]) -> None:
        """Takes over what get_states gave."""
        for name, value in states.items():
            getattr(self, name).data.SetFloatValue(float(value))
