"""ema - EMA, running means of a model's parameters, which often do better than the last ones."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator

from weir import _capi as capi
from weir import core
from ..asserted import StateError
from ..layers.base import Layer, copy_into
from ..tensor import Tensor
from .scaler import zeros_state


class EMA:
    """Exponential moving averages of the parameters: mean = decay mean + (1 - decay) parameter.

    Call update() after the optimiser, also in a step that is recorded as a graph; the first update
    copies the parameters. `with ema.averaged():` the model has the means. As an attribute of the
    model it is saved by save_run. PyTorch's AveragedModel with get_ema_multi_avg_fn.
    """

    def __init__(self, model: Layer, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"EMA: decay is {decay}, must be from 0 to 1")
        self.model: Layer = model
        self.decay: float = float(decay)
        self.count: Tensor = zeros_state((1,), core.default_device(), core.kDouble)     # of updates
        self._means: dict[str, Tensor] = {}

    def _mean(self, path: str, param: Tensor) -> Tensor:
        found = self._means.get(path)
        if found is None or found.shape != param.shape:
            found = self._means[path] = zeros_state(param.shape, param.device, param.dtype)
        return found

    def update(self) -> None:
        """Moves the means towards the parameters as they are now, or in the graph at hand."""
        count = self.count.data.value.state()
        device = self.count.device.handle
        one, rest = (capi.weir_fill(device, (capi.WEIR_F64, (1,)), number)
                     for number in (1.0, 1 - self.decay))
        weight = capi.weir_where(capi.weir_lt(count, one), one, rest)
        for path, param in self.model.named_parameters():
            mean = self._mean(path, param).data.value.state()
            way = capi.weir_sub(param.data.handle, mean)
            kind = capi.weir_tensor_desc(way)[0]
            capi.weir_accumulate(mean, capi.weir_mul(way, capi.weir_cast(weight, kind)))
        capi.weir_increment(count, 1.0)

    @property
    def updates(self) -> int:
        """How many updates there were."""
        return int(self.count.data.to_numpy()[0])

    def state_dict(self) -> dict[str, Tensor]:
        """{path: mean} of the parameters and "count", of updates: the EMA's own Tensors, zero
        before the first update."""
        means = {path: self._mean(path, param) for path, param in self.model.named_parameters()}
        return {"count": self.count, **means}

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """The model's parameters are the means, until the end of the with block. StateError before
        the first update."""
        self._check()
        before = [(param, param.data.to_numpy()) for param in self.model.parameters()]
        try:
            self.copy_to_model()
            yield
        finally:
            for param, array in before:
                copy_into(param, array)

    def copy_to_model(self) -> None:
        """Writes the means into the model's parameters."""
        self._check()
        for path, param in self.model.named_parameters():
            copy_into(param, self._mean(path, param))

    def _check(self) -> None:
        if self.updates == 0:
            raise StateError("EMA: there was no update yet, so there are no means")
