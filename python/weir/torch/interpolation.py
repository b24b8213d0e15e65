"""interpolation - rows of the table: images of other sizes, patches as columns and back.

An axis is interpolated by a product with a matrix of weights, or by indices where each place is one
of the places before. Both are torch's own: what its operator makes of the unit vectors, or of the
places' numbers, once, when the step is recorded.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from .. import _capi as capi
from ..typing import Handle
from .memory import new_state
from .indexing import index_select
from .shapes import bounds, padded
from .table import Call, aten, cast, dtype_of, require, shape_of, torch_type

# (input, sizes, further arguments, scale or None for each axis) -> images
Resize = Callable[..., torch.Tensor]


def _scales(at: Call, scales: Sequence[object]) -> list[float | None]:
    """One for each axis: from one list, or one argument each; None is the ratio of the sizes."""
    each = scales[0] if scales and isinstance(scales[0], (list, tuple)) else scales
    if all(s is None for s in each):
        return [None] * (len(at.shape) - 2)
    return [float(s) if isinstance(s, (int, float)) else None for s in each]


def _along(resize: Resize, basis: torch.Tensor, axis: int, axes: int, size: int,
           how: Sequence[object], scale: float | None) -> torch.Tensor:
    """What torch makes of one axis: (rows, n) -> (rows, size). Other axes have two equal places:
    with one, PyTorch's antialiased operators are wrong (2.13 to 2.15)."""
    shape, sizes = [2] * axes, [2] * axes
    shape[axis], sizes[axis] = basis.shape[1], size
    scales: list[float | None] = [None] * axes
    scales[axis] = scale
    line = basis.reshape(1, basis.shape[0], *[-1 if i == axis else 1 for i in range(axes)])
    made = resize(line.expand(1, basis.shape[0], *shape).contiguous(), sizes, *how, *scales)
    for other in range(axes):
        if other != axis:
            made = made.narrow(2 + other, 0, 1)
    return made.reshape(basis.shape[0], size)


def _weighted(at: Call, x: Handle, resize: Resize, how: Sequence[object],
              scales: Sequence[object]) -> Handle:
    """Weighted means of places along each axis behind the channels."""
    axes, kind = len(at.shape) - 2, torch_type(dtype_of(x))
    exact = torch.float64 if kind == torch.float64 else torch.float32
    for axis, scale in enumerate(_scales(at, scales)):
        n, size = shape_of(x)[2 + axis], at.shape[2 + axis]
        weights = _along(resize, torch.eye(n, dtype=exact), axis, axes, size, how, scale)
        if size == n and torch.equal(weights, torch.eye(n, dtype=exact)):
            continue
        last = axis == axes - 1
        table = new_state(at.device, (weights if last else weights.t()).to(kind).contiguous())
        x = capi.weir_matmul(x, table) if last else capi.weir_matmul(table, x)
    return x


def _picked(at: Call, x: Handle, resize: Resize, scales: Sequence[object]) -> Handle:
    """One of the places for each place of the result, along each axis behind the channels."""
    axes = len(at.shape) - 2
    for axis, scale in enumerate(_scales(at, scales)):
        n, size = shape_of(x)[2 + axis], at.shape[2 + axis]
        numbers = torch.arange(n, dtype=torch.float64).reshape(1, n)
        places = _along(resize, numbers, axis, axes, size, (), scale).reshape(size).long()
        if not torch.equal(places, torch.arange(n)):
            x = index_select(at, x, 2 + axis, new_state(at.device, places))
    return x


def _factors(at: Call, x: Handle, scales: Sequence[object]) -> list[int] | None:
    """How many times larger each axis behind the channels becomes; None where one doesn't become a
    multiple of itself, or has another scale."""
    factors = []
    for n, size, scale in zip(shape_of(x)[2:], at.shape[2:], _scales(at, scales)):
        if size % n != 0 or scale is not None and scale * n != size:
            return None
        factors.append(size // n)
    return factors


def _nearest(name: str, resize: Resize) -> None:
    def nearest(at: Call, input: Handle, output_size: Sequence[int] | None,
                *scales: object) -> Handle:
        factors = _factors(at, input, scales)
        if name == "upsample_nearest2d" and factors:
            return capi.weir_upsample(input, *factors)
        return _picked(at, input, resize, scales)
    aten(f"{name}.vec", f"{name}.default")(nearest)


def _linear(name: str, resize: Resize) -> None:
    def linear(at: Call, input: Handle, output_size: Sequence[int] | None, align_corners: bool,
               *scales: object) -> Handle:
        factors = _factors(at, input, scales)
        if name == "upsample_bilinear2d" and not align_corners and factors:
            return capi.weir_upsample_bilinear(input, *factors)
        return _weighted(at, input, resize, (align_corners,), scales)
    aten(f"{name}.vec", f"{name}.default")(linear)


_nearest("upsample_nearest1d", torch.ops.aten.upsample_nearest1d.default)
_nearest("upsample_nearest2d", torch.ops.aten.upsample_nearest2d.default)
_nearest("_upsample_nearest_exact1d", torch.ops.aten._upsample_nearest_exact1d.default)
_nearest("_upsample_nearest_exact2d", torch.ops.aten._upsample_nearest_exact2d.default)
_linear("upsample_linear1d", torch.ops.aten.upsample_linear1d.default)
_linear("upsample_bilinear2d", torch.ops.aten.upsample_bilinear2d.default)
_linear("upsample_bicubic2d", torch.ops.aten.upsample_bicubic2d.default)
_linear("_upsample_bilinear2d_aa", torch.ops.aten._upsample_bilinear2d_aa.default)
_linear("_upsample_bicubic2d_aa", torch.ops.aten._upsample_bicubic2d_aa.default)


# ---- patches ----

def _windows(size: int, kernel: int, dilation: int, pad: int, stride: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


@aten("im2col.default")
def im2col(at: Call, self: Handle, kernel_size: Sequence[int], dilation: Sequence[int],
           padding: Sequence[int], stride: Sequence[int]) -> Handle:
    """(n,c,h,w) -> (n, c kh kw, windows): the elements of each window."""
    shape = shape_of(self)
    require(len(shape) == 4, "an image without a batch")
    x = padded(self, (padding[1], padding[1], padding[0], padding[0]))
    counts = [_windows(*each) for each in zip(shape[2:], kernel_size, dilation, padding, stride)]
    parts = []
    for i in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            begin, until, by = bounds(x)
            for axis, at_k in enumerate((i * dilation[0], j * dilation[1])):
                begin[2 + axis], by[2 + axis] = at_k, stride[axis]
                until[2 + axis] = at_k + (counts[axis] - 1) * stride[axis] + 1
            parts.append(capi.weir_slice(x, begin, until, by))
    return capi.weir_reshape(capi.weir_stack(parts, 2), at.shape)


def _spread(x: Handle, stride: Sequence[int]) -> Handle:
    """(n,c,h,w) -> (n, c, h sh, w sw): zeros behind each row and column."""
    n, c, h, w = shape_of(x)
    x = capi.weir_reshape(x, (n, c, h, 1, w, 1))
    x = padded(x, (0, stride[1] - 1, 0, 0, 0, stride[0] - 1))
    return capi.weir_reshape(x, (n, c, h * stride[0], w * stride[1]))


@aten("col2im.default")
def col2im(at: Call, self: Handle, output_size: Sequence[int], kernel_size: Sequence[int],
           dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]) -> Handle:
    """The other way: elements of windows that overlap are added."""
    require(len(shape_of(self)) == 3, "columns without a batch")
    n, rows, _ = shape_of(self)
    kh, kw = kernel_size
    counts = [_windows(*each) for each in zip(output_size, kernel_size, dilation, padding, stride)]
    x = capi.weir_reshape(self, (n, rows // (kh * kw), kh * kw, *counts))
    total = None
    for i in range(kh):
        for j in range(kw):
            part = _spread(capi.weir_squeeze(capi.weir_narrow(x, 2, i * kw + j, 1), 2), stride)
            margins: list[int] = []
            for axis, at_k in ((1, j * dilation[1]), (0, i * dilation[0])):
                before = at_k - padding[axis]
                margins += [before, output_size[axis] - before - counts[axis] * stride[axis]]
            part = padded(part, margins)
            total = part if total is None else capi.weir_add(total, part)
    return cast(total, at.dtype)        # type: ignore[arg-type]
