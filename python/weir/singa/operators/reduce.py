"""reduce - sums and means over axes, softmax."""
from __future__ import annotations

import math
from collections.abc import Sequence

from weir import _capi as capi, _swig
from ..raw import arith
from ..tape import Core
from .base import axis_of, bits, floating, out
from weir.typing import Axes
from ..raw.tensor import CTensor
from ..tensor import Tensor


class _Reduce(Core):
    """Over these axes (None: all); keepdims leaves them with size 1."""

    def __init__(self, axes: Axes | None = None, keepdims: int = 1) -> None:
        super().__init__()
        self.axes: Sequence[int] | None = [axes] if isinstance(axes, int) else axes
        self.keepdims: bool = bool(keepdims)

    def _dims(self, x: CTensor) -> int:
        return bits(axis_of(int(axis), x.nDim(), self.name) for axis in self.axes or ())


class ReduceSum(_Reduce):
    """The sum over axes; of integers exact."""

    def forward(self, x: CTensor) -> CTensor:
        return out(arith.reduce(capi.weir_sum, x, self._dims(x), self.keepdims), x)


def reduce_sum(x: Tensor, axes: Axes | None = None, keepdims: int = 1) -> Tensor:
    """The sum along axes (None: all), which stay with size 1 unless keepdims is 0."""
    return _swig.quick_sum(ReduceSum, x, axes, keepdims)


class ReduceMean(_Reduce):
    """The mean over axes."""

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_mean(floating(x), self._dims(x), self.keepdims), x)


def reduce_mean(x: Tensor, axes: Axes | None = None, keepdims: int = 1) -> Tensor:
    """The mean along axes (None: all), which stay with size 1 unless keepdims is 0."""
    return _swig.quick_mean(ReduceMean, x, axes, keepdims)


class GlobalAveragePool(Core):
    """Mean over all axes but the first and that of the channels: the second, or the last."""

    def __init__(self, data_format: str = "channels_first") -> None:
        super().__init__()
        self.data_format = data_format

    def forward(self, x: CTensor) -> CTensor:
        first = self.data_format == "channels_first"
        dims = bits(range(2, x.nDim()) if first else range(1, x.nDim() - 1))
        if not dims:
            return out(capi.weir_reshape(x.handle, x.shape()), x)
        return out(capi.weir_mean(floating(x), dims, True), x)


def globalaveragepool(x: Tensor, data_format: str = "channels_first") -> Tensor:
    """The mean of each channel: (n, c, h, w) -> (n, c, 1, 1), or (n, h, w, c) -> (n, 1, 1, c) with
    "channels_last"."""
    return GlobalAveragePool(data_format)(x)[0]


class SoftMax(Core):
    """exp(x) / sum(exp(x)) over all axes from `axis` on."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: CTensor) -> CTensor:
        axis = 0 if x.nDim() == 1 and self.axis == 1 else self.axis
        axis = axis_of(axis, x.nDim(), self.name)
        if axis == x.nDim() - 1:
            return out(capi.weir_softmax(floating(x), -1), x)
        rows = capi.weir_reshape(floating(x), (math.prod(x.shape()[:axis]),
                                               math.prod(x.shape()[axis:])))
        return out(capi.weir_reshape(capi.weir_softmax(rows, 1), x.shape()), x)


def softmax(x: Tensor, axis: int = 1) -> Tensor:
    """Softmax over `axis` and all axes after it together, as SINGA; -1 is the last axis alone."""
    return _swig.quick_softmax(SoftMax, x, axis)


class LogSoftMax(Core):
    """The logarithm of the softmax over one axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_log_softmax(floating(x), axis_of(self.axis, x.nDim(), self.name)), x)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """The logarithm of the softmax over one axis, without overflow."""
    return LogSoftMax(axis)(x)[0]
