"""image - convolution, pooling and batch normalisation of images (n, c, h, w).

Their handles are ConvHandle, PoolingHandle and BatchNormHandle of singa_wrap. odd_padding is (top,
bottom, left, right), what a "same" padding has more on one side.
"""
from __future__ import annotations
from collections.abc import Sequence
from typing import Protocol, cast

from weir import _capi as capi
from weir.typing import Handle
from ..asserted import ShapeError
from ..tape import Core
from ..taping import is_training
from .base import floating, out, shape_of
from ..raw.handles import BatchNormHandle, ConvHandle, PoolingHandle
from ..raw.tensor import CTensor
from ..tensor import Tensor


class _Conv2d(Core):
    """Convolution with w (out, c / groups, kh, kw) and, if given, b (out)."""

    def __init__(self, handle: ConvHandle, odd_padding: Sequence[int] = (0, 0, 0, 0)) -> None:
        super().__init__()
        self.handle = handle
        self.odd_padding = tuple(odd_padding)

    def forward(self, x: CTensor, W: CTensor, b: CTensor | None = None) -> CTensor:
        if x.nDim() != 4:
            raise ShapeError(f"{self.name}: x has shape {x.shape()}, must have 4 axes")
        handle = self.handle
        top, bottom, left, right = self.odd_padding
        options = handle.options()
        options.asymmetric = True
        options.pad = handle.pad_h + top, handle.pad_w + left
        options.pad_end = handle.pad_h + bottom, handle.pad_w + right
        bias = None if b is None else capi.weir_reshape(floating(b), (-1,))
        return out(capi.weir_conv2d(floating(x), floating(W), bias, options), x)


def conv2d(handle: ConvHandle, x: Tensor, W: Tensor, b: Tensor | None = None,
           odd_padding: Sequence[int] = (0, 0, 0, 0)) -> Tensor:
    """Cross-correlation of x (n, c, h, w) with W (out, c / groups, kh, kw), plus b (out,): the
    handle has stride, padding and groups; odd_padding is (left, right, top, bottom) more."""
    xs = (x, W) if b is None else (x, W, b)
    return _Conv2d(handle, odd_padding)(*xs)[0]


class _Pooling2d(Core):
    """The largest, or the mean of the cells inside the image, of each window.

    Odd padding repeats the outermost rows and columns.
    """

    def __init__(self, handle: PoolingHandle, odd_padding: Sequence[int] = (0, 0, 0, 0)) -> None:
        super().__init__()
        self.handle = handle
        self.odd_padding = tuple(odd_padding)

    def forward(self, x: CTensor) -> CTensor:
        top, bottom, left, right = self.odd_padding
        cells = floating(x)
        if any(self.odd_padding):
            cells = capi.weir_pad(cells, (0, 0, top, left), (0, 0, bottom, right),
                                  capi.WEIR_PAD_EDGE, 0.0)
        return out(self.handle.pool(cells), x)


def pooling_2d(handle: PoolingHandle, x: Tensor,
               odd_padding: Sequence[int] = (0, 0, 0, 0)) -> Tensor:
    """The largest or the mean of each window of x (n, c, h, w), as the handle says."""
    return _Pooling2d(handle, odd_padding)(x)[0]


class Keeper(Protocol):
    """What a device has as `statistics` during a step of several ranks."""

    def keep(self, handle: BatchNormHandle, mean: CTensor, var: CTensor) -> tuple[Handle, Handle]:
        """States for the mean and variance of a batch, of a layer with these running ones."""
        ...


class _BatchNorm2d(Core):
    """Batch normalisation; in training the running statistics move on by the handle's factor, or,
    in a step of several ranks, at its end by those of all (updates.statistics).

    The factor is the weight of the new batch, 0.9 by default of the layer, as in SINGA.
    """

    def __init__(self, handle: BatchNormHandle, running_mean: Tensor, running_var: Tensor,
                 name: str | None = None) -> None:
        super().__init__(name)
        self.handle = handle
        self.running_mean = running_mean.data
        self.running_var = running_var.data

    def forward(self, x: CTensor, scale: CTensor, bias: CTensor) -> CTensor:
        train = is_training()
        kept = cast("Keeper | None", x.device().statistics) if train else None
        running = self.running_mean, self.running_var
        statistics = (kept.keep(self.handle, *running) if kept is not None
                      else [v.state() if train else v.handle for v in running])
        scales, biases, mean, var = (v if len(shape_of(v)) == 1 else capi.weir_reshape(v, (-1,))
                                     for v in (scale.handle, bias.handle, *statistics))
        return out(capi.weir_batch_norm(floating(x), scales, biases, mean, var,
                                        self.handle.options(train, kept is not None)), x)


def batchnorm_2d(handle: BatchNormHandle, x: Tensor, scale: Tensor, bias: Tensor,
                 running_mean: Tensor, running_var: Tensor) -> Tensor:
    """x (n, c) or (n, c, h, w) normalised by channel, times scale (c,), plus bias (c,). In training
    the running statistics, (c,), change in place."""
    return _BatchNorm2d(handle, running_mean, running_var)(x, scale, bias)[0]
