"""image - rows of the table: convolutions and pools."""
from __future__ import annotations

from collections.abc import Sequence

from .. import _capi as capi
from ..options import options
from ..typing import Handle
from .table import Call, aten, require, shape_of


def two(x: int | Sequence[int], default: Sequence[int] = (1, 1)) -> tuple[int, int]:
    """(height, width) of a number or one or two."""
    both = [x] if isinstance(x, int) else list(x)
    if not both:
        both = list(default)
    return (both[0], both[-1])


def _as_image(x: Handle) -> Handle:
    """(n,c,l) as (n,c,1,l)."""
    return capi.weir_unsqueeze(x, 2)


@aten("conv2d.default", "conv2d.padding")
def conv2d(at: Call, input: Handle, weight: Handle, bias: Handle | None = None,
           stride: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1) -> Handle:
    """Cross-correlation of images; padding "same" and "valid", too."""
    spread, kernel = two(dilation), shape_of(weight)[2:]
    extra: dict[str, object] = {}
    if isinstance(padding, str):
        total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(spread, kernel)]
        extra = {"pad": [n // 2 for n in total], "asymmetric": True,
                 "pad_end": [n - n // 2 for n in total]}
    else:
        extra = {"pad": two(padding)}
    require(len(shape_of(input)) == 4, "an image without a batch")
    how = options(capi.weir_conv2d_options, stride=two(stride), dilation=spread, groups=groups,
                  **extra)
    return capi.weir_conv2d(input, weight, bias, how)


@aten("conv1d.default")
def conv1d(at: Call, input: Handle, weight: Handle, bias: Handle | None = None,
           stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1) -> Handle:
    """Cross-correlation along one axis."""
    require(len(shape_of(input)) == 3, "a sequence without a batch")
    how = options(capi.weir_conv1d_options, stride=two(stride)[0], pad=two(padding)[0],
                  dilation=two(dilation)[0], groups=groups)
    return capi.weir_conv1d(input, weight, bias, how)


@aten("conv_transpose2d.input")
def conv_transpose2d(at: Call, input: Handle, weight: Handle, bias: Handle | None = None,
                     stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
                     output_padding: int | Sequence[int] = 0, groups: int = 1,
                     dilation: int | Sequence[int] = 1) -> Handle:
    """Transposed convolution of images."""
    how = options(capi.weir_conv_transpose2d_options, stride=two(stride), pad=two(padding),
                  output_pad=two(output_padding), groups=groups, dilation=two(dilation))
    return capi.weir_conv_transpose2d(input, weight, bias, how)


@aten("convolution.default")
def convolution(at: Call, input: Handle, weight: Handle, bias: Handle | None,
                stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
                transposed: bool, output_padding: Sequence[int], groups: int) -> Handle:
    """Any convolution of sequences and images."""
    axes = len(shape_of(weight)) - 2
    require(axes in (1, 2), f"{axes} axes")
    if transposed:
        require(axes == 2, "a transposed convolution of a sequence")
        return conv_transpose2d(at, input, weight, bias, stride, padding, output_padding, groups,
                                dilation)
    return (conv2d if axes == 2 else conv1d)(at, input, weight, bias, stride, padding, dilation,
                                             groups)


def _ceil_end(size: int, kernel: int, stride: int, pad: int) -> int:
    """Padding at the end with which floor gives as many windows as ceil_mode."""
    windows = -(-(size + 2 * pad - kernel) // stride) + 1
    if (windows - 1) * stride >= size + pad:        # a window may not begin in the padding
        windows -= 1
    return max((windows - 1) * stride + kernel - size - pad, pad if windows else 0)


def _pool(x: Handle, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int],
          ceil: bool) -> dict[str, object]:
    how: dict[str, object] = {"kernel": kernel, "stride": stride, "pad": pad}
    if ceil:
        size = shape_of(x)[-2:]
        how["asymmetric"] = True
        ends = [_ceil_end(*each) for each in zip(size, kernel, stride, pad)]
        how["pad_end"] = ends
        require(all(e < k for e, k in zip(ends, kernel)),
                "ceil_mode with a window that holds padding alone")
    return how


@aten("max_pool2d.default")
def max_pool2d(at: Call, self: Handle, kernel_size: int | Sequence[int],
               stride: int | Sequence[int] = (), padding: int | Sequence[int] = 0,
               dilation: int | Sequence[int] = 1, ceil_mode: bool = False) -> Handle:
    """The largest of each window."""
    require(two(dilation) == (1, 1), "dilation")
    require(len(shape_of(self)) == 4, "an image without a batch")
    kernel = two(kernel_size)
    how = _pool(self, kernel, two(stride, kernel), two(padding), ceil_mode)
    return capi.weir_max_pool2d(self, options(capi.weir_pool2d_options, **how))


@aten("max_pool2d_with_indices.default")
def max_pool2d_with_indices(at: Call, self: Handle, kernel_size: int | Sequence[int],
                            stride: int | Sequence[int] = (), padding: int | Sequence[int] = 0,
                            dilation: int | Sequence[int] = 1,
                            ceil_mode: bool = False) -> tuple[Handle, None]:
    """The same; indices are not read."""
    return max_pool2d(at, self, kernel_size, stride, padding, dilation, ceil_mode), None


@aten("avg_pool2d.default")
def avg_pool2d(at: Call, self: Handle, kernel_size: int | Sequence[int],
               stride: int | Sequence[int] = (), padding: int | Sequence[int] = 0,
               ceil_mode: bool = False, count_include_pad: bool = True,
               divisor_override: int | None = None) -> Handle:
    """The mean of each window."""
    require(divisor_override is None, "divisor_override")
    require(len(shape_of(self)) == 4, "an image without a batch")
    kernel, pad = two(kernel_size), two(padding)
    how = _pool(self, kernel, two(stride, kernel), pad, ceil_mode)
    if ceil_mode:
        require(pad == (0, 0) or not count_include_pad, "ceil_mode with padding that counts")
    exclude = not count_include_pad or ceil_mode
    return capi.weir_avg_pool2d(self, options(capi.weir_pool2d_options, exclude_pad=exclude, **how))


@aten("adaptive_avg_pool2d.default", "_adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(at: Call, self: Handle, output_size: Sequence[int]) -> Handle:
    """Means of windows that make up a size."""
    shape, size = shape_of(self), two(output_size)
    require(len(shape) == 4, "an image without a batch")
    if size == (1, 1):
        return capi.weir_global_avg_pool2d(self)
    if shape[2:] == size:
        return self
    if shape[2] % size[0] == 0 and shape[3] % size[1] == 0:
        kernel = (shape[2] // size[0], shape[3] // size[1])
        return capi.weir_avg_pool2d(self, options(capi.weir_pool2d_options, kernel=kernel,
                                                  stride=kernel))
    return _means(_means(self, 2, size[0]), 3, size[1])


def _means(x: Handle, axis: int, size: int) -> Handle:
    """Means of `size` windows along an axis, which may overlap."""
    n = shape_of(x)[axis]
    parts = []
    for i in range(size):
        begin, end = i * n // size, -(-(i + 1) * n // size)
        parts.append(capi.weir_mean(capi.weir_narrow(x, axis, begin, end - begin), 1 << axis, True))
    return capi.weir_concat(parts, axis)


@aten("pixel_shuffle.default")
def pixel_shuffle(at: Call, self: Handle, upscale_factor: int) -> Handle:
    """(n, c r r, h, w) -> (n, c, h r, w r)."""
    n, c, h, w = shape_of(self)
    r = upscale_factor
    x = capi.weir_reshape(self, (n, c // (r * r), r, r, h, w))
    return capi.weir_reshape(capi.weir_transpose(x, (0, 1, 4, 2, 5, 3)), at.shape)


@aten("pixel_unshuffle.default")
def pixel_unshuffle(at: Call, self: Handle, downscale_factor: int) -> Handle:
    """(n, c, h r, w r) -> (n, c r r, h, w)."""
    n, c, h, w = shape_of(self)
    r = downscale_factor
    x = capi.weir_reshape(self, (n, c, h // r, r, w // r, r))
    return capi.weir_reshape(capi.weir_transpose(x, (0, 1, 3, 5, 2, 4)), at.shape)


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(at: Call, self: Handle, groups: int) -> Handle:
    """(n, g k, ...) -> (n, k g, ...): channels of the groups in turn."""
    n, c, *rest = shape_of(self)
    x = capi.weir_reshape(self, (n, groups, c // groups, *rest))
    return capi.weir_reshape(capi.weir_transpose(x, (0, 2, 1, *range(3, 3 + len(rest)))), at.shape)


@aten("adaptive_avg_pool1d.default")
def adaptive_avg_pool1d(at: Call, self: Handle, output_size: Sequence[int]) -> Handle:
    """Means of windows of a sequence that make up a size."""
    require(len(shape_of(self)) == 3, "a sequence without a batch")
    return _means(self, 2, output_size[0])


@aten("avg_pool1d.default")
def avg_pool1d(at: Call, self: Handle, kernel_size: Sequence[int], stride: Sequence[int] = (),
               padding: Sequence[int] = (0,), ceil_mode: bool = False,
               count_include_pad: bool = True) -> Handle:
    """The mean of each window of a sequence."""
    require(len(shape_of(self)) == 3, "a sequence without a batch")
    step = stride[0] if stride else kernel_size[0]
    y = avg_pool2d(at, _as_image(self), (1, kernel_size[0]), (1, step), (0, padding[0]), ceil_mode,
                   count_include_pad)
    return capi.weir_reshape(y, at.shape)


@aten("max_pool1d.default")
def max_pool1d(at: Call, self: Handle, kernel_size: Sequence[int], stride: Sequence[int] = (),
               padding: Sequence[int] = (0,), dilation: Sequence[int] = (1,),
               ceil_mode: bool = False) -> Handle:
    """The largest of each window of a sequence."""
    require(len(shape_of(self)) == 3, "a sequence without a batch")
    step = stride[0] if stride else kernel_size[0]
    y = max_pool2d(at, _as_image(self), (1, kernel_size[0]), (1, step), (0, padding[0]),
                   (1, dilation[0]), ceil_mode)
    return capi.weir_reshape(y, at.shape)
