"""shapes - operators that move elements: shapes, parts, joins, indices, types."""
from __future__ import annotations
from collections.abc import Sequence
from typing import cast as typed

import numpy as np
from numpy.typing import NDArray

from weir import _capi as capi, _swig
from weir import core
from ..asserted import InvalidError, ShapeError
from ..raw import arith
from ..tape import Core
from ..tensor import Tensor
from .base import (HostData, NoGradient, TO_END, axis_of, constant, host, index, out, shape_of)
from weir.dtypes import DType
from weir.typing import Axes, Desc, DTypeLike, Handle, Shape as Sizes
from ..raw.tensor import CTensor, result
from ..tape import Gradient


def _list(values: Axes) -> list[int]:
    """A list of ints of one int or several."""
    if isinstance(values, (int, np.integer)):
        return [int(values)]
    return [int(value) for value in values]


def _product(sizes: Sequence[int]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


class Flatten(Core):
    """Two axes: the product of those before `axis`, and of the rest."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: CTensor) -> CTensor:
        shape = x.shape()
        if not -len(shape) <= self.axis <= len(shape):
            raise ValueError(f"{self.name}: axis {self.axis} is out of range for {len(shape)} axes")
        axis = self.axis + len(shape) if self.axis < 0 else self.axis
        return out(capi.weir_reshape(x.handle, (_product(shape[:axis]), _product(shape[axis:]))), x)


def flatten(x: Tensor, axis: int = 1) -> Tensor:
    """Two axes: the product of the axes before `axis`, and that of the others."""
    return Flatten(axis)(x)[0]


class Reshape(Core):
    """Other dims for the same elements: 0 copies that of x, -1 is what is left."""

    def __init__(self, shape: Axes) -> None:
        super().__init__()
        self.shape: list[int] = _list(shape)

    def forward(self, x: CTensor) -> CTensor:
        shape = [x.shape(i) if size == 0 and i < x.nDim() else size
                 for i, size in enumerate(self.shape)]
        return out(capi.weir_reshape(x.handle, shape), x)


def reshape(x: Tensor, shape: Axes) -> Tensor:
    """x in another shape of as many elements; one size may be -1."""
    return _swig.quick_reshape(Reshape, x, shape)


class Transpose(Core):
    """Axis i of the result is axis perm[i] of x; None reverses all."""

    def __init__(self, perm: Sequence[int] | None = None) -> None:
        super().__init__()
        self.perm: tuple[int, ...] | None = None if perm is None else tuple(perm)

    def forward(self, x: CTensor) -> CTensor:
        if self.perm is not None and sorted(self.perm) != list(range(x.nDim())):
            raise ValueError(f"{self.name}: {self.perm} is not a permutation of {x.nDim()} axes")
        return out(capi.weir_transpose(x.handle, self.perm), x)


def transpose(x: Tensor, shape: Sequence[int] | None) -> Tensor:
    """The axes of x in the order that `shape` lists."""
    return _swig.quick_transpose(Transpose, x, shape)


class Squeeze(Core):
    """Without the given axes of size 1; without all of them if none is given."""

    def __init__(self, axis: Axes = []) -> None:
        super().__init__()
        self.axis: list[int] = _list(axis)

    def forward(self, x: CTensor) -> CTensor:
        shape = x.shape()
        axes = {axis_of(axis, len(shape), self.name) for axis in self.axis}
        for axis in axes:
            if shape[axis] != 1:
                raise ShapeError(f"{self.name}: axis {axis} of shape {shape} has size "
                                 f"{shape[axis]}, must be 1")
        kept = [size for i, size in enumerate(shape) if (i not in axes if axes else size != 1)]
        return out(capi.weir_reshape(x.handle, kept), x)


def squeeze(x: Tensor, axis: Axes = []) -> Tensor:
    """Without the axes listed, which must have size 1; []: without all of size 1."""
    return Squeeze(axis)(x)[0]


class Unsqueeze(Core):
    """With new axes of size 1 at these places of the result."""

    def __init__(self, axis: Axes) -> None:
        super().__init__()
        self.axis: list[int] = _list(axis)

    def forward(self, x: CTensor) -> CTensor:
        ndim = x.nDim() + len(self.axis)
        axes = {axis_of(axis, ndim, self.name) for axis in self.axis}
        if len(axes) != len(self.axis):
            raise ValueError(f"{self.name}: {self.axis} names an axis twice")
        sizes = iter(x.shape())
        shape = [1 if i in axes else next(sizes) for i in range(ndim)]
        return out(capi.weir_reshape(x.handle, shape), x)


def unsqueeze(x: Tensor, axis: Axes = -1) -> Tensor:
    """With new axes of size 1 at the places listed, a number or a list."""
    return Unsqueeze(axis)(x)[0]


class Expand(Core):
    """x broadcast together with the shape (as ONNX: an axis of 1 keeps the size of x)."""

    def __init__(self, shape: Axes) -> None:
        super().__init__()
        self.shape: list[int] = _list(shape)

    def forward(self, x: CTensor) -> CTensor:
        shape = np.broadcast_shapes(x.shape(), tuple(self.shape))
        return out(capi.weir_expand(x.handle, shape), x)


def expand(x: Tensor, shape: Axes) -> Tensor:
    """x repeated along axes of size 1 to the given shape, as ONNX's Expand."""
    return Expand(shape)(x)[0]


class Concat(Core):
    """The inputs one after the other along an axis."""

    single = False

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, *xs: CTensor) -> CTensor:
        return out(capi.weir_concat([x.handle for x in xs], self.axis), xs[0])


def cat(xs: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors joined along `axis`; all other axes agree."""
    return Concat(axis)(*xs)[0]


class Split(Core):
    """Parts of these sizes along an axis, or num_output equal ones; a tuple."""

    def __init__(self, axis: int, parts: Sequence[int] | None,
                 num_output: int | None = None) -> None:
        super().__init__()
        self.axis = axis
        self.parts = parts
        self.num_output = num_output
        if parts is None and num_output is None:
            raise InvalidError("split: parts or num_output is needed, both are None")

    def forward(self, x: CTensor) -> tuple[CTensor, ...]:
        axis = axis_of(self.axis, x.nDim(), self.name)
        parts = self.parts
        if parts is None and self.num_output is not None:
            if x.shape(axis) % self.num_output:
                raise ShapeError(f"{self.name}: axis {axis} of shape {x.shape()} has no "
                                 f"{self.num_output} equal parts")
            parts = [x.shape(axis) // self.num_output] * self.num_output
        if parts is None or sum(parts) != x.shape(axis):
            raise ValueError(f"{self.name}: parts {parts} do not add up to the axis of size "
                             f"{x.shape(axis)}")
        begins = np.cumsum([0] + list(parts))
        return tuple(out(capi.weir_narrow(x.handle, axis, int(begin), int(size)), x)
                     for begin, size in zip(begins, parts))


def split(x: Tensor, axis: int, parts: Sequence[int] | None,
          num_output: int | None = None) -> tuple[Tensor, ...]:
    """A tuple of Tensors: x cut along `axis` into parts of these sizes, or into num_output equal
    ones."""
    return Split(axis, parts, num_output)(x)


class Slice(Core):
    """x[start:end:step] of the given axes, by NumPy's rule; ends beyond the axis are cut."""

    def __init__(self, starts: Axes, ends: Axes, axes: Axes | None = None,
                 steps: Axes | None = None) -> None:
        super().__init__()
        self.starts: list[int] = _list(starts)
        self.ends: list[int] = _list(ends)
        self.axes: list[int] | None = None if axes is None else _list(axes)
        self.steps: list[int] | None = None if steps is None else _list(steps)

    def forward(self, x: CTensor) -> CTensor:
        begin, end, step = [0] * x.nDim(), [TO_END] * x.nDim(), [1] * x.nDim()
        axes = range(len(self.starts)) if self.axes is None else self.axes
        steps = [1] * len(self.starts) if self.steps is None else self.steps
        for first, last, axis, by in zip(self.starts, self.ends, axes, steps):
            axis = axis_of(axis, x.nDim(), self.name)
            begin[axis], end[axis], step[axis] = first, last, by
        return out(capi.weir_slice(x.handle, begin, end, step), x)


def slice(x: Tensor, starts: Axes, ends: Axes, axes: Axes | None = None,
          steps: Axes | None = None) -> Tensor:
    """x from starts to ends, exclusive, along axes (None: the first ones) with steps (None: 1)."""
    return Slice(starts, ends, axes, steps)(x)[0]


def _front(axis: int, ndim: int) -> list[int]:
    """The order of axes that brings one to the front, keeping that of the others."""
    return [axis] + [i for i in range(ndim) if i != axis]


class Gather(Core):
    """x at these indices of an axis; the axes of the indices, any number, take its place."""

    def __init__(self, axis: int, indices: HostData | Tensor) -> None:
        super().__init__()
        self.axis = axis
        self.indices = indices

    def forward(self, x: CTensor) -> CTensor:
        ndim = x.nDim()
        axis = axis_of(self.axis, ndim, self.name)
        indices = index(self.indices, x.shape(axis), x.device())
        new = len(shape_of(indices))
        table = x.handle if axis == 0 else capi.weir_transpose(x.handle, _front(axis, ndim))
        rows = capi.weir_gather(table, indices)
        if axis > 0:            # (indices, before, after) -> (before, indices, after)
            order = list(range(new, new + axis)) + list(range(new))
            rows = capi.weir_transpose(rows, order + list(range(new + axis, new + ndim - 1)))
        return out(rows, x)


def gather(x: Tensor, axis: int, indices: HostData | Tensor) -> Tensor:
    """Elements of x at integer indices along `axis`; indices below 0 count from the end."""
    return Gather(axis, indices)(x)[0]


class Tile(Core):
    """x repeated as a whole along each axis: repeats[i] times along axis i, once where there are
    fewer repeats than axes (NumPy's tile counts these from the last axis); for more repeats than
    axes x gets new ones in front."""

    def __init__(self, repeats: Axes) -> None:
        super().__init__()
        self.repeats: list[int] = _list(repeats)

    def forward(self, x: CTensor) -> CTensor:
        ndim = max(x.nDim(), len(self.repeats))
        handle = capi.weir_reshape(x.handle, (1,) * (ndim - x.nDim()) + x.shape())
        return out(capi.weir_tile(handle, self.repeats + [1] * (ndim - len(self.repeats))), x)


def tile(x: Tensor, repeats: Axes) -> Tensor:
    """x repeated: the n-th number along the n-th axis, axes beyond the list once. A number is a
    list of one."""
    return Tile(repeats)(x)[0]


_PAD_MODES = {"constant": capi.WEIR_PAD_CONSTANT, "reflect": capi.WEIR_PAD_REFLECT,
              "edge": capi.WEIR_PAD_EDGE}


def _mirrored(handle: Handle, before: list[int],
              after: list[int]) -> tuple[Handle, list[int], list[int]]:
    """(handle, pads left) after whole mirror images, as long as a pad is wider than one."""
    shape = shape_of(handle)
    one = [1 if size == 1 else 0 for size in shape]         # its own image: repeated
    if any(n for n, alone in zip(before + after, one + one) if alone):
        handle = capi.weir_pad(handle, [n * alone for n, alone in zip(before, one)],
                               [n * alone for n, alone in zip(after, one)], capi.WEIR_PAD_EDGE, 0.0)
        before = [0 if alone else n for n, alone in zip(before, one)]
        after = [0 if alone else n for n, alone in zip(after, one)]
    while any(n >= size > 0 for n, size in zip(before + after, shape + shape)):
        wide = [[size - 1 if n >= size > 0 else 0 for n, size in zip(pads, shape)]
                for pads in (before, after)]
        handle = capi.weir_pad(handle, wide[0], wide[1], capi.WEIR_PAD_REFLECT, 0.0)
        before, after = ([n - w for n, w in zip(pads, widths)]
                         for pads, widths in zip((before, after), wide))
    return handle, before, after


class Pad(Core):
    """x with pads in ONNX's order: before each axis, then behind each axis."""

    def __init__(self, mode: str | bytes, pads: Axes, constant: float = 0.) -> None:
        super().__init__()
        if isinstance(mode, bytes):
            mode = mode.decode()
        if mode not in _PAD_MODES:
            raise InvalidError(f"pad: unknown mode {mode!r} (expected one of {sorted(_PAD_MODES)})")
        self.mode = mode
        self.pads: list[int] = _list(pads)
        self.constant: float = float(constant)

    def forward(self, x: CTensor) -> CTensor:
        ndim = x.nDim()
        if len(self.pads) != 2 * ndim:
            raise ShapeError(f"{self.name}: {len(self.pads)} pads for shape {x.shape()}, must be "
                             f"{2 * ndim}")
        handle, before, after = x.handle, self.pads[:ndim], self.pads[ndim:]
        if self.mode == "reflect":
            handle, before, after = _mirrored(handle, before, after)
        return out(capi.weir_pad(handle, before, after, _PAD_MODES[self.mode], self.constant), x)


def pad(x: Tensor, mode: str | bytes, pads: Axes, constant: float = 0.) -> Tensor:
    """x with borders: pads lists the widths before each axis, then those after. mode: "constant",
    "reflect" or "edge"."""
    return Pad(mode, pads, constant)(x)[0]


class UpSample(Core):
    """Each element scales[i] times along axis i."""

    def __init__(self, mode: str | bytes, scales: HostData | Tensor) -> None:
        super().__init__()
        if isinstance(mode, bytes):
            mode = mode.decode()
        if mode != "nearest":
            raise InvalidError(f"upsample: unknown mode {mode!r} (expected nearest)")
        if any(scale != int(scale) for scale in host(scales)):
            raise ValueError(f"upsample: scales {list(host(scales))}, must be whole")
        self.scales: list[int] = [int(scale) for scale in host(scales)]

    def forward(self, x: CTensor) -> CTensor:
        if len(self.scales) != x.nDim():
            raise ShapeError(f"{self.name}: {len(self.scales)} scales for shape {x.shape()}, must "
                             f"be {x.nDim()}")
        handle = x.handle
        for axis, times in enumerate(self.scales):
            if times != 1:
                handle = capi.weir_repeat(handle, axis, times)
        return out(capi.weir_reshape(handle, shape_of(handle)), x)


def upsample(x: Tensor, mode: str | bytes, scales: HostData | Tensor) -> Tensor:
    """x with each axis repeated `scales` times; mode is "nearest"."""
    return UpSample(mode, scales)(x)[0]


class _Blocks(Core):
    """Between channels and blocks of pixels; mode: where a pixel's number stands in a channel's."""

    def __init__(self, blocksize: int, mode: str | bytes = "DCR") -> None:
        super().__init__()
        if isinstance(mode, bytes):
            mode = mode.decode()
        if mode not in ("DCR", "CRD"):
            raise InvalidError(f"{self.name}: unknown mode {mode!r} (expected DCR or CRD)")
        self.blocksize = blocksize
        self.mode = mode


class DepthToSpace(_Blocks):
    """(n, b b c, h, w) -> (n, c, b h, b w)."""

    def forward(self, x: CTensor) -> CTensor:
        b = self.blocksize
        if self.mode == "DCR":
            return out(capi.weir_depth_to_space(x.handle, b), x)
        n, c, h, w = x.shape()
        if c % (b * b):
            raise ShapeError(f"{self.name}: x has shape {x.shape()}, {c} channels must be a "
                             f"multiple of {b * b}")
        parts = capi.weir_reshape(x.handle, (n, c // (b * b), b, b, h, w))
        parts = capi.weir_transpose(parts, (0, 1, 4, 2, 5, 3))
        return out(capi.weir_reshape(parts, (n, c // (b * b), h * b, w * b)), x)


def depth_to_space(x: Tensor, blocksize: int, mode: str | bytes = "DCR") -> Tensor:
    """(n, c, h, w) -> (n, c / b^2, h b, w b) for blocks of b x b, in ONNX's order DCR or CRD."""
    return DepthToSpace(blocksize, mode)(x)[0]


class SpaceToDepth(_Blocks):
    """(n, c, b h, b w) -> (n, b b c, h, w)."""

    def forward(self, x: CTensor) -> CTensor:
        b = self.blocksize
        if self.mode == "DCR":
            return out(capi.weir_space_to_depth(x.handle, b), x)
        n, c, h, w = x.shape()
        if h % b or w % b:
            raise ShapeError(f"{self.name}: x has shape {x.shape()}, {h} x {w} pixels are no whole "
                             f"blocks of {b} x {b}")
        parts = capi.weir_reshape(x.handle, (n, c, h // b, b, w // b, b))
        parts = capi.weir_transpose(parts, (0, 1, 3, 5, 2, 4))
        return out(capi.weir_reshape(parts, (n, c * b * b, h // b, w // b)), x)


def space_to_depth(x: Tensor, blocksize: int, mode: str | bytes = "DCR") -> Tensor:
    """(n, c, h, w) -> (n, c b^2, h / b, w / b) for blocks of b x b, the inverse of depth_to_space.
    """
    return SpaceToDepth(blocksize, mode)(x)[0]


class ScatterElements(Core):
    """x with out[indices[i, j], j] = updates[i, j] for axis 0, out[i, indices[i, j]] for axis 1.

    Of two updates of one place the later counts. Indices are host data; gradients pass where x
    stays.
    """

    def __init__(self, indices: HostData | Tensor, updates: HostData | Tensor,
                 axis: int = 0) -> None:
        super().__init__()
        self.indices = indices
        self.updates = updates
        self.axis = axis

    def _sources(self, shape: Sizes) -> NDArray[np.int32]:
        """For each place of x the number of the update that it gets, or -1."""
        indices = host(self.indices).astype(np.int64)
        axis = axis_of(self.axis, len(shape), self.name)
        size = shape[axis]
        if indices.size and (indices.min() < -size or indices.max() >= size):
            raise ValueError(f"{self.name}: an index is outside an axis of size {size}")
        places = np.indices(indices.shape)
        places[axis] = np.where(indices < 0, indices + size, indices)
        sources = np.full(shape, -1, np.int32)
        sources[tuple(places)] = np.arange(indices.size, dtype=np.int32).reshape(indices.shape)
        return sources

    def forward(self, x: CTensor) -> CTensor:
        if x.nDim() != 2:
            raise ShapeError(f"{self.name}: x has shape {x.shape()}, must have 2 axes")
        sources = self._sources(x.shape())
        if isinstance(self.updates, Tensor):
            updates = capi.weir_detach(arith.cast(self.updates.data, x.data_type()))
        else:
            updates = constant(self.updates, x.data_type(), x.device())
        flat = capi.weir_reshape(updates, (-1,))
        values = capi.weir_gather(flat, constant(np.maximum(sources, 0), core.kInt, x.device()))
        stays = constant(sources < 0, core.kBool, x.device())
        return out(capi.weir_where(stays, x.handle, values), x)


def scatter_elements(x: Tensor, indices: HostData | Tensor, updates: HostData | Tensor,
                     axis: int = 0) -> Tensor:
    """x with `updates` written at `indices` along `axis`; all three have the same number of axes.
    """
    return ScatterElements(indices, updates, axis)(x)[0]


class Where(Core):
    """a where the condition (list, array or Tensor) is not 0, else b; all broadcast."""

    def __init__(self, condition: HostData | Tensor) -> None:
        super().__init__()
        self.condition = condition

    def forward(self, a: CTensor, b: CTensor) -> CTensor:
        if isinstance(self.condition, Tensor):
            condition = arith.flags(self.condition.data)
        else:
            condition = constant(np.asarray(self.condition) != 0, core.kBool, a.device())
        number = arith.result_type(a.data_type(), b.data_type())
        return out(capi.weir_where(condition, arith.cast(a, number), arith.cast(b, number)), a)


def where(x: Tensor, y: Tensor, condition: HostData | Tensor) -> Tensor:
    """x where the condition is not 0, else y; all three broadcast."""
    return Where(condition)(x, y)[0]


class Embedding(Core):
    """Rows of w at the numbers x of any shape: (..., columns)."""

    def forward(self, x: CTensor, w: CTensor) -> CTensor:
        self.x: tuple[Desc, core.Device] = (x.value.desc, x.device())
        return out(capi.weir_gather(w.handle, arith.index(x)), x)

    def backward(self, *dys: Gradient) -> tuple[CTensor | None, CTensor | None]:
        dx, dw = typed("tuple[CTensor | None, CTensor | None]", super().backward(*dys))
        if dx is None:
            desc, device = self.x
            dx = result(capi.weir_fill(device.handle, desc, 0.0), device)
        return dx, dw


def embedding(x: Tensor, w: Tensor) -> Tensor:
    """The rows of w (words, columns) at the whole numbers of x (...): (..., columns)."""
    return Embedding()(x, w)[0]


class Cast(Core):
    """x as another element type; gradients pass between float types."""

    def __init__(self, to: DTypeLike) -> None:
        super().__init__()
        self.to: DType = core.dtype_number(to)

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_cast(x.handle, core.core_dtype(self.to)), x)


def cast(x: Tensor, to: DTypeLike) -> Tensor:
    """x in another element type, given by number, name or NumPy type."""
    return Cast(to)(x)[0]


class Shape(NoGradient):
    """The dims of x, int32."""

    def forward(self, x: CTensor) -> CTensor:
        return result(constant(x.shape(), core.kInt, x.device()), x.device())

    def backward(self, dy: CTensor) -> list[int]:       # type: ignore[override]
        return list(dy.shape())


def shape(x: Tensor) -> Tensor:
    """The shape of x as an int32 Tensor, without a gradient."""
    return Shape()(x)[0]


class NonZero(NoGradient):
    """(axes, n): where x is not 0, int32. It reads x, so it fails while the device records."""

    def forward(self, x: CTensor) -> CTensor:
        places = np.asarray(np.nonzero(x.to_numpy()), np.int32)
        return result(constant(places, core.kInt, x.device()), x.device())


def nonzero(x: Tensor) -> Tensor:
    """The int32 indices of elements that are not 0, (axes, count), without a gradient. It reads x
    at once: StateError while the device records."""
    return NonZero()(x)[0]


class OneHot(NoGradient):
    """values[1] where the new axis is at the index, values[0] elsewhere; negative from the end."""

    def __init__(self, axis: int, depth: HostData | Tensor, values: HostData | Tensor) -> None:
        super().__init__()
        self.axis = axis
        self.depth: int = int(host(depth).reshape(-1)[0])
        self.values: list[float] = [float(value) for value in host(values).reshape(-1)]

    def forward(self, indices: CTensor) -> CTensor:
        axis = axis_of(self.axis, indices.nDim() + 1, self.name)
        off, on = self.values
        handle = index(indices, self.depth, indices.device())
        hot = capi.weir_one_hot(handle, self.depth, capi.WEIR_BOOL)
        one, other = (capi.weir_fill(indices.device().handle, (capi.WEIR_F32, ()), v)
                      for v in (on, off))
        rows = capi.weir_where(hot, one, other)
        order = list(range(indices.nDim()))
        order.insert(axis, indices.nDim())
        return out(capi.weir_transpose(rows, order), indices)


def onehot(axis: int, indices: Tensor, depth: HostData | Tensor,
           values: HostData | Tensor) -> Tensor:
    """values[1] at the index, values[0] elsewhere, on a new axis of size depth at `axis`."""
    return OneHot(axis, depth, values)(indices)[0]


class ConstantOfShape(NoGradient):
    """A value everywhere, float32; x holds the shape and is read at once."""

    def __init__(self, value: HostData = 0.) -> None:
        super().__init__()
        self.value: float = float(np.asarray(value).reshape(-1)[0])

    def forward(self, x: CTensor) -> CTensor:
        sizes = [int(size) for size in x.to_numpy().reshape(-1)]
        if any(size < 0 for size in sizes):
            raise InvalidError(f"{self.name}: shape {tuple(sizes)} has a negative size")
        desc = (capi.WEIR_F32, tuple(sizes))
        return out(capi.weir_fill(x.device().handle, desc, self.value), x)


def constant_of_shape(x: Tensor, value: HostData = 0) -> Tensor:
    """A Tensor whose shape is the elements of x, each element `value`."""
    return ConstantOfShape(value)(x)[0]
