"""image - layers of images (n, channels, height, width)."""
from __future__ import annotations

import math
from typing import TypeAlias, Union, cast

from weir import _capi as capi
from weir import core
from ..asserted import ShapeError
from ..operators import elementwise, image
from .. import singa_wrap as singa
from .. import utils
from ..tape import Core
from .base import Layer, param, state
from weir.typing import Shape
from ..raw.handles import BatchNormHandle, ConvHandle, PoolingHandle
from ..raw.tensor import CTensor
from ..tensor import Tensor


Pair: TypeAlias = Union[int, tuple[int, int], list[int]]       # (height, width), or both
Padding: TypeAlias = Union[Pair, tuple[int, int, int, int]]     # (top, bottom, left, right)


def pair(value: Pair, what: str) -> tuple[int, int]:
    """(height, width) of a number or two of them."""
    if isinstance(value, int):
        return (value, value)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return int(value[0]), int(value[1])
    raise TypeError(f"{what} must be an integer or two of them, it is {value!r}")


def padding_of(value: Padding) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    """((height, width), odd padding (top, bottom, left, right)) of a number, 2 or 4 of them."""
    if isinstance(value, (tuple, list)) and len(value) == 4:
        top, bottom, left, right = (int(v) for v in value)
        if top == bottom and left == right:
            return (top, left), (0, 0, 0, 0)
        return (0, 0), (top, bottom, left, right)
    return pair(value, "padding"), (0, 0, 0, 0)


def four_axes(layer: Layer, x: Tensor) -> None:
    """Refuses an input that is no batch of images."""
    if len(x.shape) != 4:
        raise ShapeError(f"{type(layer).__name__}: x has shape {x.shape}, must have four axes: "
                         "images, channels, height, width")


class _Windows(Layer):
    """What convolution and pooling share: padding, and a handle of the shape at hand."""

    def _geometry(self, kernel_size: Pair, stride: Pair | None, padding: Padding,
                  pad_mode: str) -> None:
        if pad_mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
            raise ValueError(f"unknown pad_mode {pad_mode!r} (expected NOTSET, VALID, "
                         "SAME_UPPER or SAME_LOWER)")
        self.kernel_size: tuple[int, int] = pair(kernel_size, "kernel_size")
        self.stride: tuple[int, int] = (self.kernel_size if stride is None else
                                        pair(stride, "stride"))
        self.padding: tuple[int, int]
        self.odd_padding: tuple[int, ...]
        self.padding, self.odd_padding = padding_of(padding)
        self.pad_mode = pad_mode
        self.handle: ConvHandle | PoolingHandle | None = None
        self._handle_for: Shape | None = None

    def _prepare(self, x: Tensor) -> ConvHandle | PoolingHandle:
        """The handle for x; a new one when the shape is another."""
        if self._handle_for != x.shape:
            four_axes(self, x)
            if self.pad_mode.startswith("SAME"):
                pads, self.odd_padding = utils.get_padding_shape(
                    self.pad_mode, x.shape[2:], self.kernel_size, self.stride)
                self.padding = (pads[0], pads[2])
            self.handle = self._new_handle(x)
            self._handle_for = x.shape
        return self.handle              # type: ignore[return-value]     # made by now

    def _new_handle(self, x: Tensor) -> ConvHandle | PoolingHandle:
        raise NotImplementedError


class Conv2d(_Windows):
    """Convolution: W (nb_kernels, in / group, kh, kw), b (nb_kernels).

    Conv2d(nb_kernels, kernel_size), or as in older scripts Conv2d(in, out, kernel[, stride[,
    padding]]).
    """

    def __init__(self, nb_kernels: int, kernel_size: Pair, *args: Pair, stride: Pair = 1,
                 padding: Padding = 0, dilation: Pair = 1, group: int = 1, bias: bool = True,
                 pad_mode: str = "NOTSET", activation: str = "NOTSET", **kwargs: object) -> None:
        super().__init__()
        self.in_channels: int | None = None
        if args:
            self.in_channels, nb_kernels = nb_kernels, cast("int", kernel_size)
            kernel_size = args[0]
            stride = args[1] if len(args) > 1 else stride
            padding = args[2] if len(args) > 2 else padding
        unknown = set(kwargs) - {"cudnn_prefer", "workspace_MB_limit"}
        if unknown:
            raise TypeError(f"Conv2d: unknown argument {sorted(unknown)[0]!r}")
        if pair(dilation, "dilation") != (1, 1):
            raise ValueError(f"Conv2d: dilation {dilation}, only 1 is supported")
        if activation not in ("NOTSET", "RELU"):
            raise ValueError(f"Conv2d: unknown activation {activation!r} (expected RELU or NOTSET)")
        self._geometry(kernel_size, stride, padding, pad_mode)
        self.nb_kernels: int = nb_kernels
        self.group: int = group
        self.bias: bool = bias
        self.dilation: Pair = dilation
        self.activation = activation

    def initialize(self, x: Tensor) -> None:
        four_axes(self, x)
        channels = x.shape[1]
        if self.in_channels not in (None, channels):
            raise ValueError(f"Conv2d: x has {channels} channels, the layer was made for "
                             f"{self.in_channels}")
        if channels % self.group or self.nb_kernels % self.group:
            raise ValueError(f"Conv2d: {self.group} groups do not divide {channels} channels and "
                             f"{self.nb_kernels} kernels")
        self.in_channels = channels
        shape = (self.nb_kernels, channels // self.group) + self.kernel_size
        self.W = param(shape, x, math.sqrt(2.0 / (math.prod(shape[1:]) + self.nb_kernels)))
        self.b: Tensor | None = param((self.nb_kernels,), x) if self.bias else None

    def _new_handle(self, x: Tensor) -> ConvHandle:
        return singa.ConvHandle(x.data, self.kernel_size, self.stride, self.padding,
                                cast("int", self.in_channels), self.nb_kernels, bool(self.bias),
                                self.group)

    def forward(self, x: Tensor) -> Tensor:
        self.device_check(x, self.W)
        y = image.conv2d(cast("ConvHandle", self._prepare(x)), x, self.W, self.b, self.odd_padding)
        return elementwise.relu(y) if self.activation == "RELU" else y


class SeparableConv2d(Layer):
    """A convolution of each channel, then one of 1 x 1 over all of them."""

    def __init__(self, nb_kernels: int, kernel_size: Pair, *args: Pair, stride: Pair = 1,
                 padding: Padding = 0, bias: bool = False) -> None:
        super().__init__()
        if args:
            nb_kernels, kernel_size = cast("int", kernel_size), args[0]
            stride = args[1] if len(args) > 1 else stride
            padding = args[2] if len(args) > 2 else padding
            bias = bool(args[3]) if len(args) > 3 else bias
        self.nb_kernels: int = nb_kernels
        self.kernel_size: Pair = kernel_size
        self.stride: Pair = stride
        self.padding: Pair | Padding = padding
        self.bias: bool = bias

    def initialize(self, x: Tensor) -> None:
        four_axes(self, x)
        channels = x.shape[1]
        self.depthwise_conv: Conv2d = Conv2d(channels, self.kernel_size, stride=self.stride,
                                             padding=self.padding, group=channels, bias=self.bias)
        self.point_conv: Conv2d = Conv2d(self.nb_kernels, 1, bias=self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.point_conv(self.depthwise_conv(x))


class BatchNorm2d(Layer):
    """Batch normalisation of x (n, c, ...), any number of axes behind the channels; momentum is the
    weight of the new batch in the running statistics.

    Positional arguments are those of older scripts (channels[, momentum]) and not looked at.
    """

    state_names: tuple[str, ...] = ("running_mean", "running_var")

    def __init__(self, *args: float, momentum: float = 0.9) -> None:
        super().__init__()
        self.channels: float | None = args[0] if args else None
        self.momentum = momentum
        self.handle: BatchNormHandle | None = None
        self._handle_for: Shape | None = None

    def initialize(self, x: Tensor) -> None:
        self.channels = x.shape[1]
        self.scale: Tensor = param((self.channels,), x).set_value(1.0)
        self.bias: Tensor = param((self.channels,), x)
        self.running_mean: Tensor = state((self.channels,), x, 0.0)
        self.running_var: Tensor = state((self.channels,), x, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != self.channels:
            raise ShapeError(f"BatchNorm2d: x has shape {x.shape}, the layer was made for "
                             f"{self.channels} channels")
        self.device_check(x, self.scale, self.bias, self.running_mean, self.running_var)
        if self.handle is None or self._handle_for != x.shape:
            self.handle = singa.BatchNormHandle(self.momentum, x.data)
            self._handle_for = x.shape
        return image.batchnorm_2d(self.handle, x, self.scale, self.bias, self.running_mean,
                                     self.running_var)


class Pooling2d(_Windows):
    """The largest or the mean of each window; stride None: the kernel."""

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Padding = 0,
                 is_max: bool = True, pad_mode: str = "NOTSET") -> None:
        super().__init__()
        self._geometry(kernel_size, stride, padding, pad_mode)
        self.is_max = is_max

    def _new_handle(self, x: Tensor) -> PoolingHandle:
        return singa.PoolingHandle(x.data, self.kernel_size, self.stride, self.padding,
                                   self.is_max)

    def forward(self, x: Tensor) -> Tensor:
        return image.pooling_2d(cast("PoolingHandle", self._prepare(x)), x, self.odd_padding)


class MaxPool2d(Pooling2d):
    """The largest element of each window: (n, c, h, w) -> (n, c, oh, ow). stride None: the kernel's
    size."""

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Padding = 0,
                 pad_mode: str = "NOTSET") -> None:
        super().__init__(kernel_size, stride, padding, True, pad_mode)


class AvgPool2d(Pooling2d):
    """The mean of each window, padding not counted: (n, c, h, w) -> (n, c, oh, ow). stride None:
    the kernel's size."""

    def __init__(self, kernel_size: Pair, stride: Pair | None = None, padding: Padding = 0,
                 pad_mode: str = "NOTSET") -> None:
        super().__init__(kernel_size, stride, padding, False, pad_mode)


def _flat(kernel_size: int, stride: int | None, padding: int) -> tuple[Pair, Pair, Pair]:
    """Windows of one row."""
    return (1, kernel_size), (1, kernel_size if stride is None else stride), (0, padding)


class MaxPool1d(Pooling2d):
    """MaxPool2d with windows of one row, along the last axis of (n, c, h, w)."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0,
                 pad_mode: str = "NOTSET") -> None:
        super().__init__(*_flat(kernel_size, stride, padding), True, pad_mode)


class AvgPool1d(Pooling2d):
    """AvgPool2d with windows of one row, along the last axis of (n, c, h, w)."""

    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0,
                 pad_mode: str = "NOTSET") -> None:
        super().__init__(*_flat(kernel_size, stride, padding), False, pad_mode)


# ---- beyond SINGA ----

class _ConvTranspose(Core):
    def __init__(self, options: capi.weir_conv_transpose2d_options) -> None:
        super().__init__()
        self.options = options

    def forward(self, x: CTensor, w: CTensor, b: CTensor | None = None) -> CTensor:
        y = capi.weir_conv_transpose2d(x.handle, w.handle, None if b is None else b.handle,
                                       self.options)
        return singa.result(y, x.device())


class ConvTranspose2d(Layer):
    """Transposed convolution: W (in, nb_kernels / group, kh, kw), b (nb_kernels)."""

    def __init__(self, nb_kernels: int, kernel_size: Pair, stride: Pair = 1, padding: Pair = 0,
                 output_padding: Pair = 0, group: int = 1, bias: bool = True) -> None:
        super().__init__()
        self.nb_kernels: int = nb_kernels
        self.group: int = group
        self.bias: bool = bias
        self.kernel_size: tuple[int, int] = pair(kernel_size, "kernel_size")
        self.stride: tuple[int, int] = pair(stride, "stride")
        self.padding: tuple[int, int] = pair(padding, "padding")
        self.output_padding: tuple[int, int] = pair(output_padding, "output_padding")

    def initialize(self, x: Tensor) -> None:
        shape = (x.shape[1], self.nb_kernels // self.group) + self.kernel_size
        self.W = param(shape, x, math.sqrt(2.0 / (math.prod(shape[1:]) + x.shape[1])))
        self.b: Tensor | None = param((self.nb_kernels,), x) if self.bias else None

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.W,) if self.b is None else (self.W, self.b)
        options = core.options(capi.weir_conv_transpose2d_options, stride=self.stride,
                               pad=self.padding, output_pad=self.output_padding, groups=self.group)
        return _ConvTranspose(options)(x, *weights)[0]


class _GroupNorm(Core):
    def __init__(self, groups: int, eps: float) -> None:
        super().__init__()
        self.groups, self.eps = groups, eps

    def forward(self, x: CTensor, scale: CTensor, bias: CTensor) -> CTensor:
        y = capi.weir_group_norm(x.handle, self.groups, scale.handle, bias.handle, self.eps)
        return singa.result(y, x.device())


class GroupNorm(Layer):
    """Normalisation of the channels of x (n, c) or (n, c, h, w) in equal groups."""

    def __init__(self, groups: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.groups: int = groups
        self.eps: float = eps

    def initialize(self, x: Tensor) -> None:
        self.scale: Tensor = param((x.shape[1],), x).set_value(1.0)
        self.bias: Tensor = param((x.shape[1],), x)

    def forward(self, x: Tensor) -> Tensor:
        return _GroupNorm(self.groups, self.eps)(x, self.scale, self.bias)[0]
