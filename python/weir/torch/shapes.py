"""shapes - rows of the table: views, parts, joins, new tensors."""
from __future__ import annotations

from collections.abc import Sequence

from torch import dtype as TorchType

from .. import _capi as capi
from ..typing import Handle, Number
from .table import (Call, Refused, aten, axis_of, cast, dtype_of, filled, operand, require,
                    shape_of)

LAST = 2 ** 63 - 1


@aten("view.default", "reshape.default", "_unsafe_view.default", "flatten.using_ints",
      "unflatten.int", "view_as.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
      "unsqueeze.default", "_reshape_copy.default")
def reshaped(at: Call, self: Handle, *how: object) -> Handle:
    """The same elements in another shape."""
    return capi.weir_reshape(self, at.shape)


@aten("permute.default")
def permute(at: Call, self: Handle, dims: Sequence[int]) -> Handle:
    """Axes in another order."""
    return capi.weir_transpose(self, [axis_of(d, len(dims)) for d in dims])


@aten("transpose.int", "swapaxes.default")
def transpose(at: Call, self: Handle, dim0: int, dim1: int) -> Handle:
    """Two axes exchanged."""
    axes = list(range(len(shape_of(self))))
    if axes:
        a, b = axis_of(dim0, len(axes)), axis_of(dim1, len(axes))
        axes[a], axes[b] = axes[b], axes[a]
    return capi.weir_transpose(self, axes)


@aten("t.default")
def t(at: Call, self: Handle) -> Handle:
    """A matrix transposed."""
    return self if len(shape_of(self)) < 2 else capi.weir_transpose(self, (1, 0))


@aten("expand.default", "expand_as.default")
def expand(at: Call, self: Handle, *how: object, implicit: bool = False) -> Handle:
    """Repeated as a view."""
    return capi.weir_broadcast_to(self, (dtype_of(self), at.shape))


@aten("broadcast_tensors.default")
def broadcast_tensors(at: Call, tensors: Sequence[Handle]) -> tuple[Handle, ...]:
    """All in their common shape."""
    shapes = [tuple(t.shape) for t in at.result or ()]      # type: ignore[union-attr]
    return tuple(capi.weir_broadcast_to(x, (dtype_of(x), shape))
                 for x, shape in zip(tensors, shapes))


@aten("repeat.default")
def repeat(at: Call, self: Handle, repeats: Sequence[int]) -> Handle:
    """The whole several times along each axis."""
    shape = shape_of(self)
    x = capi.weir_reshape(self, (1,) * (len(repeats) - len(shape)) + shape)
    return capi.weir_tile(x, tuple(repeats))


@aten("repeat_interleave.self_int")
def repeat_interleave(at: Call, self: Handle, repeats: int, dim: int | None = None, *,
                      output_size: int | None = None) -> Handle:
    """Each place of an axis several times; of all elements in their order without an axis."""
    axes = len(shape_of(self))
    x = self if dim is not None else capi.weir_reshape(self, (-1,))
    shape = list(shape_of(x))
    axis = axis_of(dim or 0, axes)
    spread = capi.weir_broadcast_to(capi.weir_unsqueeze(x, axis + 1),
                                    (dtype_of(x), (*shape[:axis + 1], repeats, *shape[axis + 1:])))
    return capi.weir_reshape(spread, at.shape)


@aten("tile.default")
def tile(at: Call, self: Handle, dims: Sequence[int]) -> Handle:
    """The same; with fewer numbers than axes they are those of the last ones."""
    return repeat(at, self, [1] * (len(shape_of(self)) - len(dims)) + list(dims))


def bounds(x: Handle) -> tuple[list[int], list[int], list[int]]:
    """(begins, ends, steps) of the whole, as weir_slice takes them."""
    axes = len(shape_of(x))
    return [0] * axes, [LAST] * axes, [1] * axes


@aten("slice.Tensor")
def slice_(at: Call, self: Handle, dim: int = 0, start: int | None = None,
           end: int | None = None, step: int = 1) -> Handle:
    """A part of one axis."""
    begin, until, by = bounds(self)
    axis = axis_of(dim, len(begin))
    begin[axis], until[axis], by[axis] = start or 0, LAST if end is None else end, step
    if capi.weir_tensor_desc(self)[1] == at.shape and step == 1:
        return self
    return capi.weir_slice(self, begin, until, by)


@aten("select.int")
def select(at: Call, self: Handle, dim: int, index: int) -> Handle:
    """One place of an axis."""
    shape = shape_of(self)
    axis = axis_of(dim, len(shape))
    return capi.weir_squeeze(
        capi.weir_narrow(self, axis, index + shape[axis] if index < 0 else index, 1), axis)


@aten("narrow.default")
def narrow(at: Call, self: Handle, dim: int, start: int, length: int) -> Handle:
    """A part of one axis."""
    return capi.weir_narrow(self, dim, start, length)


def _parts(self: Handle, dim: int, sizes: Sequence[int]) -> tuple[Handle, ...]:
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(capi.weir_narrow(self, dim, b, n) for b, n in zip(begins, sizes))


@aten("split.Tensor")
def split(at: Call, self: Handle, split_size: int, dim: int = 0) -> tuple[Handle, ...]:
    """Parts of a size; the last may be smaller."""
    whole = shape_of(self)[dim]
    return _parts(self, dim, [min(split_size, whole - b) for b in range(0, whole, split_size)])


@aten("split_with_sizes.default", "split.sizes")
def split_with_sizes(at: Call, self: Handle, split_sizes: Sequence[int],
                     dim: int = 0) -> tuple[Handle, ...]:
    """Parts of sizes."""
    return _parts(self, dim, split_sizes)


@aten("chunk.default")
def chunk(at: Call, self: Handle, chunks: int, dim: int = 0) -> tuple[Handle, ...]:
    """Equal parts, at most `chunks`."""
    return split(at, self, -(-shape_of(self)[dim] // chunks), dim)


@aten("unbind.int")
def unbind(at: Call, self: Handle, dim: int = 0) -> tuple[Handle, ...]:
    """Each place of an axis."""
    axis = axis_of(dim, len(shape_of(self)))
    return tuple(capi.weir_squeeze(x, axis) for x in _parts(self, axis, [1] * shape_of(self)[axis]))


@aten("unfold.default")
def unfold(at: Call, self: Handle, dimension: int, size: int, step: int) -> Handle:
    """Windows along an axis, their elements along a new last one."""
    axis = axis_of(dimension, len(shape_of(self)))
    count = at.shape[axis]
    parts = []
    for place in range(size):
        begin, until, by = bounds(self)
        begin[axis], until[axis], by[axis] = place, place + (count - 1) * step + 1, step
        parts.append(capi.weir_slice(self, begin, until, by))
    return capi.weir_stack(parts, len(shape_of(self)))


@aten("cat.default", "concat.default")
def cat(at: Call, tensors: Sequence[Handle], dim: int = 0) -> Handle:
    """One after the other; empty vectors count for nothing."""
    every = [cast(x, at.dtype) for x in tensors if shape_of(x) != (0,)]
    return capi.weir_concat(every, dim)


@aten("stack.default")
def stack(at: Call, tensors: Sequence[Handle], dim: int = 0) -> Handle:
    """Along a new axis."""
    return capi.weir_stack([cast(x, at.dtype) for x in tensors],
                           axis_of(dim, len(at.shape)))


@aten("slice_scatter.default")
def slice_scatter(at: Call, self: Handle, src: Handle, dim: int = 0, start: int | None = None,
                  end: int | None = None, step: int = 1) -> Handle:
    """self with src in the place of a part of one axis."""
    require(step == 1, f"step={step}")
    n = shape_of(self)[dim]
    begin, until, _ = slice(start, end).indices(n)
    parts = [capi.weir_narrow(self, dim, 0, begin), cast(src, at.dtype),
             capi.weir_narrow(self, dim, max(begin, until), n - max(begin, until))]
    return capi.weir_concat([x for x in parts if shape_of(x)[dim] > 0], dim)


@aten("select_scatter.default")
def select_scatter(at: Call, self: Handle, src: Handle, dim: int, index: int) -> Handle:
    """self with src in one place of an axis."""
    axis = axis_of(dim, len(shape_of(self)))
    place = axis_of(index, shape_of(self)[axis])
    return slice_scatter(at, self, capi.weir_unsqueeze(src, axis), axis, place, place + 1)


@aten("flip.default")
def flip(at: Call, self: Handle, dims: Sequence[int]) -> Handle:
    """Axes backwards."""
    begin, until, by = bounds(self)
    for d in dims:
        axis = axis_of(d, len(begin))
        begin[axis], until[axis], by[axis] = LAST, -LAST - 1, -1
    return capi.weir_slice(self, begin, until, by)


@aten("roll.default")
def roll(at: Call, self: Handle, shifts: Sequence[int], dims: Sequence[int] = ()) -> Handle:
    """Axes turned: what leaves at the end comes in at the front."""
    shape = shape_of(self)
    if not dims:
        n = 1
        for size in shape:
            n *= size
        flat = roll(at, capi.weir_reshape(self, (n,)), shifts, (0,))
        return capi.weir_reshape(flat, shape)
    x = self
    for shift, d in zip(shifts, dims):
        n = shape[d]
        by = shift % n if n else 0
        if by:
            x = capi.weir_concat([capi.weir_narrow(x, d, n - by, by),
                                  capi.weir_narrow(x, d, 0, n - by)], d)
    return x


@aten("constant_pad_nd.default")
def constant_pad(at: Call, self: Handle, pad: Sequence[int], value: Number = 0) -> Handle:
    """A margin of a value, or less than there was where a number is negative."""
    return padded(self, pad, capi.WEIR_PAD_CONSTANT, float(value))


def padded(x: Handle, pad: Sequence[int], mode: int = capi.WEIR_PAD_CONSTANT,
           value: float = 0.0) -> Handle:
    """Margins (before, after) of the last axis first; a negative one cuts."""
    axes = len(shape_of(x))
    before, after = [0] * axes, [0] * axes
    for i in range(len(pad) // 2):
        before[axes - 1 - i], after[axes - 1 - i] = pad[2 * i], pad[2 * i + 1]
    for axis, (b, a) in enumerate(zip(before, after)):
        if b < 0 or a < 0:
            n = shape_of(x)[axis]
            x = capi.weir_narrow(x, axis, max(-b, 0), n + min(b, 0) + min(a, 0))
    return capi.weir_pad(x, [max(b, 0) for b in before], [max(a, 0) for a in after], mode, value)


@aten("pad.default")
def pad(at: Call, self: Handle, pad: Sequence[int], mode: str = "constant",
        value: Number | None = None) -> Handle:
    """A margin."""
    modes = {"constant": capi.WEIR_PAD_CONSTANT, "reflect": capi.WEIR_PAD_REFLECT,
             "replicate": capi.WEIR_PAD_EDGE}
    if mode not in modes:
        raise Refused(f"mode={mode!r}")
    return padded(self, pad, modes[mode], float(value or 0))


@aten("full.default", "full_like.default", "new_full.default")
def full(at: Call, size: object, fill_value: Number | Handle, *more: object,
         dtype: TorchType | None = None) -> Handle:
    """A value everywhere."""
    if not isinstance(fill_value, (int, float)):
        raise Refused("a tensor as the value")
    return filled(at, fill_value, at.dtype, at.shape)


@aten("zeros.default", "zeros_like.default", "new_zeros.default", "empty.memory_format",
      "empty_like.default", "new_empty.default", "zero.default")
def zeros(at: Call, size: object, *more: object, dtype: TorchType | None = None) -> Handle:
    """0 everywhere; what PyTorch leaves unwritten, too."""
    return filled(at, 0, at.dtype, at.shape)


@aten("ones.default", "ones_like.default", "new_ones.default")
def ones(at: Call, size: object, *more: object, dtype: TorchType | None = None) -> Handle:
    """1 everywhere."""
    return filled(at, 1, at.dtype, at.shape)


@aten("fill.Scalar", "fill.Tensor", "copy.default")
def fill(at: Call, self: Handle, value: Handle | Number, non_blocking: bool = False) -> Handle:
    """A value, or the elements of another tensor, in the place of self."""
    return capi.weir_broadcast_to(operand(at, value, at.dtype), (at.dtype, at.shape))


def _triangle(at: Call, self: Handle, diagonal: int, lower: bool) -> Handle:
    n, m = shape_of(self)[-2:]
    line = [capi.weir_arange(at.device.handle, capi.WEIR_I64, k, 0.0, 1.0) for k in (n, m)]
    rows = capi.weir_add(capi.weir_reshape(line[0], (n, 1)), filled(at, diagonal, capi.WEIR_I64))
    kept = (capi.weir_le if lower else capi.weir_ge)(line[1], rows)
    return capi.weir_where(kept, self, filled(at, 0, dtype_of(self)))


@aten("tril.default")
def tril(at: Call, self: Handle, diagonal: int = 0) -> Handle:
    """0 above a diagonal."""
    return _triangle(at, self, diagonal, True)


@aten("triu.default")
def triu(at: Call, self: Handle, diagonal: int = 0) -> Handle:
    """0 below a diagonal."""
    return _triangle(at, self, diagonal, False)


@aten("one_hot.default")
def one_hot(at: Call, self: Handle, num_classes: int = -1) -> Handle:
    """1 at the index."""
    return capi.weir_one_hot(self, at.shape[-1], at.dtype)
