"""handles - SINGA's convolution, pooling and batch normalisation of raw tensors, and gradients.

A handle holds what an operator is called with; shapes are those of the tensors it is called with.
Each gradient is the core's: the forward call is made once more on the tape, and its vector-Jacobian
product taken. The operators of weir.autograd remember their calls instead and repeat nothing.
"""
from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import cast

from weir import _capi as capi
from weir import core
from ..asserted import InvalidError
from .tensor import result
from .math import softmax_rows
from weir.typing import Handle
from .tensor import Tensor


def _of(handle: Handle, like: Tensor) -> Tensor:
    return result(handle, like.device())


def vjp(device: core.Device, forward: Callable[..., Handle], xs: Sequence[Handle],
        dy: Handle) -> list[Handle]:
    """Gradients of the handles xs, given the handle of that of y = forward(*xs)."""
    xs = [capi.weir_detach(x) for x in xs]      # handles of our own
    with device.taped():
        for x in xs:
            capi.weir_tensor_set_needs_grad(x, True)
        y = forward(*xs)
    dxs = capi.vjp([y], [capi.weir_reshape(dy, capi.weir_tensor_desc(y)[1])], xs)
    return cast("list[Handle]", dxs)


def ReLUBackward(dy: Tensor, x: Tensor) -> Tensor:
    """dy where x is above 0, else 0."""
    return _of(vjp(x.device(), capi.weir_relu, [x.handle], dy.handle)[0], x)


def SoftMaxBackward(dy: Tensor, axis: int, y: Tensor) -> Tensor:
    """Gradient of SoftMax's input, given its result y: taken at log y, whose softmax y is."""
    dx = vjp(y.device(), lambda x: capi.weir_softmax(x, 1), [capi.weir_log(softmax_rows(y, axis))],
             softmax_rows(dy, axis))[0]
    return _of(capi.weir_reshape(dx, y.shape()), y)


# ---- convolution ----

class ConvHandle:
    """Numbers of a 2-D convolution of images (n, c, h, w)."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int

    def __init__(self, x: Tensor, kernel_size: tuple[int, int], stride: tuple[int, int],
                 padding: tuple[int, int], in_channels: int, out_channels: int, bias: bool = True,
                 groups: int = 1) -> None:
        self.batchsize: int = x.shape(0)
        self.kernel_h, self.kernel_w = kernel_size
        self.stride_h, self.stride_w = stride
        self.pad_h, self.pad_w = padding
        self.channels = in_channels
        self.num_filters = out_channels
        self.bias_term: bool = bool(bias)
        self.group = groups
        self.height: int = x.shape(2)
        self.width: int = x.shape(3)
        self.conv_height: int = _positions(self.height, self.kernel_h, self.stride_h, self.pad_h)
        self.conv_width: int = _positions(self.width, self.kernel_w, self.stride_w, self.pad_w)

    def options(self) -> capi.weir_conv2d_options:
        """Stride, padding and groups as the core takes them."""
        return core.options(capi.weir_conv2d_options, stride=(self.stride_h, self.stride_w),
                            pad=(self.pad_h, self.pad_w), groups=self.group)


def _positions(size: int, kernel: int, stride: int, pad: int) -> int:
    """How many windows there are along an axis."""
    return (size + 2 * pad - kernel) // stride + 1


def CpuConvForward(x: Tensor, W: Tensor, b: Tensor, handle: ConvHandle) -> Tensor:
    """Convolution with W (out, in / groups, kh, kw) and, if the handle has a bias, b (out)."""
    bias = capi.weir_reshape(b.handle, (-1,)) if handle.bias_term else None
    return _of(capi.weir_conv2d(x.handle, W.handle, bias, handle.options()), x)


def _conv_gradients(dy: Tensor, x: Tensor, W: Tensor, handle: ConvHandle) -> list[Handle]:
    options = handle.options()
    return vjp(x.device(), lambda x, w: capi.weir_conv2d(x, w, None, options),
               [x.handle, W.handle], dy.handle)


def CpuConvBackwardx(dy: Tensor, W: Tensor, x: Tensor, handle: ConvHandle) -> Tensor:
    """The gradient of x (n, c, h, w), given that of the result."""
    return _of(_conv_gradients(dy, x, W, handle)[0], x)


def CpuConvBackwardW(dy: Tensor, x: Tensor, W: Tensor, handle: ConvHandle) -> Tensor:
    """The gradient of the filters W, given that of the result."""
    return _of(_conv_gradients(dy, x, W, handle)[1], W)


def CpuConvBackwardb(dy: Tensor, b: Tensor, handle: ConvHandle) -> Tensor:
    """Gradient of the bias, in its shape. (SINGA computes it in CpuConvBackwardW.)"""
    del handle
    desc = capi.weir_tensor_desc(dy.handle)
    return _of(vjp(dy.device(), lambda b: capi.weir_broadcast_to(
        capi.weir_reshape(b, (1, -1, 1, 1)), desc), [b.handle], dy.handle)[0], b)


# ---- pooling ----

class PoolingHandle:
    """Numbers of a 2-D pooling of images (n, c, h, w)."""

    batchsize: int
    channels: int
    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int

    def __init__(self, x: Tensor, kernel_size: tuple[int, int], stride: tuple[int, int],
                 padding: tuple[int, int], is_max: bool = True) -> None:
        self.batchsize, self.channels, self.height, self.width = x.shape()
        self.kernel_h, self.kernel_w = kernel_size
        self.stride_h, self.stride_w = stride
        self.pad_h, self.pad_w = padding
        self.is_max_pooling: bool = bool(is_max)
        self.pooled_height: int = _positions(self.height, self.kernel_h, self.stride_h, self.pad_h)
        self.pooled_width: int = _positions(self.width, self.kernel_w, self.stride_w, self.pad_w)

    def pool(self, x: Handle) -> Handle:
        """Pools the handle x; the mean is that of the cells inside the image."""
        options = core.options(capi.weir_pool2d_options, kernel=(self.kernel_h, self.kernel_w),
                               stride=(self.stride_h, self.stride_w), pad=(self.pad_h, self.pad_w),
                               exclude_pad=True)
        pool = capi.weir_max_pool2d if self.is_max_pooling else capi.weir_avg_pool2d
        return pool(x, options)


def CpuPoolingForward(handle: PoolingHandle, x: Tensor) -> Tensor:
    """The pooled x (n, c, h, w), by the handle's windows."""
    return _of(handle.pool(x.handle), x)


def CpuPoolingBackward(handle: PoolingHandle, dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of x; y, the result of the forward call, is what x says already."""
    del y
    return _of(vjp(x.device(), handle.pool, [x.handle], dy.handle)[0], x)


# ---- batch normalisation ----

class BatchNormHandle:
    """Numbers of a batch normalisation: factor is the weight of the new batch's statistics."""

    def __init__(self, momentum: float, x: Tensor) -> None:
        self.factor: float = float(momentum)
        self.batchsize: int = x.shape(0)
        self.channels: int = x.shape(1)
        self.is_2d: bool = x.nDim() == 2
        sizes = tuple(x.shape())[2:]        # of (n, c, l) and (n, c, d, h, w), too
        self.height: int = sizes[0] if sizes else 1
        self.width: int = math.prod(sizes[1:])

    def options(self, train: bool, kept: bool = False) -> capi.weir_batch_norm_options:
        """Mode and weight of the new statistics as the core takes them. kept: the batch's own are
        wanted."""
        # The core takes 0 for its own default; a factor this small changes no statistics.
        return core.options(capi.weir_batch_norm_options, train=train,
                            momentum=1.0 if kept else self.factor or sys.float_info.min)


def _channels(handle: Handle) -> Handle:
    """A handle (c) of one of shape (c) or (1, c, 1, 1)."""
    return capi.weir_reshape(handle, (-1,))


def CpuBatchNormForwardTraining(handle: BatchNormHandle, x: Tensor, scale: Tensor, bias: Tensor,
                                running_mean: Tensor,
                                running_var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(y, mean, variance of the batch); the running statistics move on in place."""
    axes = sum(1 << a for a in range(x.nDim()) if a != 1)
    shape = running_mean.shape()
    mean = capi.weir_reshape(capi.weir_mean(x.handle, axes, False), shape)
    var = capi.weir_reshape(capi.weir_var(x.handle, axes, 0, False), shape)
    y = capi.weir_batch_norm(x.handle, _channels(scale.handle), _channels(bias.handle),
                             _channels(running_mean.state()), _channels(running_var.state()),
                             handle.options(True))
    return _of(y, x), _of(mean, x), _of(var, x)


def CpuBatchNormForwardInference(handle: BatchNormHandle, x: Tensor, scale: Tensor, bias: Tensor,
                                 running_mean: Tensor, running_var: Tensor) -> Tensor:
    """x normalised by the running statistics (c,), times scale (c,), plus bias (c,)."""
    return _of(capi.weir_batch_norm(x.handle, _channels(scale.handle), _channels(bias.handle),
                                    _channels(running_mean.handle), _channels(running_var.handle),
                                    handle.options(False)), x)


def CpuBatchNormBackwardx(handle: BatchNormHandle, y: Tensor | None, dy: Tensor, x: Tensor,
                          scale: Tensor, bias: Tensor, mean: Tensor,
                          var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, scale and bias; y, mean and var are what x says already."""
    del y, mean, var
    device = x.device()
    channels = (capi.weir_tensor_desc(x.handle)[0], (x.shape(1),))
    mean_state, var_state = (capi.weir_state(device.handle, channels, None) for _ in range(2))
    for statistic in (mean_state, var_state):
        capi.weir_write_fill(statistic, 0.0)
    options = handle.options(True)
    dx, dscale, dbias = vjp(
        device, lambda x, s, b: capi.weir_batch_norm(x, _channels(s), _channels(b), mean_state,
                                                     var_state, options),
        [x.handle, scale.handle, bias.handle], dy.handle)
    return _of(dx, x), _of(dscale, scale), _of(dbias, bias)


# ---- SINGA's names of the same on cards: the core's operators run where their tensors are ----

_PREFERENCES = ("fastest", "limited_workspace", "tensor_ops", "autotune")


class CudnnConvHandle(ConvHandle):
    """A ConvHandle. Which kernel runs, with how much workspace, is the planner's affair."""

    def __init__(self, x: Tensor, kernel_size: tuple[int, int], stride: tuple[int, int],
                 padding: tuple[int, int], in_channels: int, out_channels: int, bias: bool = True,
                 groups: int = 1, workspace_byte_limit: int = 1 << 30,
                 prefer: str = "fastest") -> None:
        if prefer not in _PREFERENCES:
            raise InvalidError(f"CudnnConvHandle: prefer is {prefer!r}, must be one of "
                               f"{', '.join(_PREFERENCES)}")
        del workspace_byte_limit
        super().__init__(x, kernel_size, stride, padding, in_channels, out_channels, bias, groups)


CudnnPoolingHandle = PoolingHandle
CudnnBatchNormHandle = BatchNormHandle
GpuConvForward = CpuConvForward
GpuConvBackwardx = CpuConvBackwardx
GpuConvBackwardW = CpuConvBackwardW
GpuConvBackwardb = CpuConvBackwardb
GpuPoolingForward = CpuPoolingForward
GpuPoolingBackward = CpuPoolingBackward
GpuBatchNormForwardInference = CpuBatchNormForwardInference


def GpuBatchNormForwardTraining(handle: BatchNormHandle, x: Tensor, scale: Tensor, bias: Tensor,
                                running_mean: Tensor,
                                running_var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As on the CPU, but the third result is 1 / sqrt(variance + epsilon), as cuDNN keeps it."""
    y, mean, var = CpuBatchNormForwardTraining(handle, x, scale, bias, running_mean, running_var)
    shifted = capi.weir_affine(var.handle, 1.0, 1e-5)
    return y, mean, _of(capi.weir_rsqrt(shifted), x)


def GpuBatchNormBackward(handle: BatchNormHandle, dy: Tensor, x: Tensor, scale: Tensor,
                         mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dscale, dbias), given dy and the mean and variance that training returned."""
    return CpuBatchNormBackwardx(handle, None, dy, x, scale, scale, mean, var)
