"""shape - SINGA's low-level functions that move elements of raw tensors: shapes, parts, joins.

Transpose, Reshape and Broadcast look at the elements of their input (weir.raw.view); Reshape of a
transposed tensor and all others give elements of their own.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from weir import _capi as capi
from weir.errors import ShapeError
from . import arith
from . import view
from .tensor import Tensor, result, to_shape
from weir.typing import Axes, Number, Shape, ShapeLike


def Product(shape: Iterable[int], start: int = 0, count: int = 0) -> int:
    """Product of `count` sizes from `start` on (0: all of them); 1 of none."""
    product = 1
    for size in list(shape)[start:start + count if count else None]:
        product *= int(size)
    return product


def Reshape(t: Tensor, shape: ShapeLike) -> Tensor:
    """The elements of t in another shape, in which one size may be -1."""
    shape = to_shape(shape)
    if shape.count(-1) == 1:
        known = -Product(shape)
        shape = tuple((t.Size() // known if known else 0) if s == -1 else s for s in shape)
    if any(s < 0 for s in shape) or Product(shape) != t.Size():
        raise ShapeError(f"Reshape: {t.shape()} cannot become {shape}")
    return Tensor.over(view.reshaped(t.value, shape))


def Contiguous(t: Tensor) -> Tensor:
    """t itself, or a copy in the order of its shape if it is transposed."""
    return t.Clone() if t.transpose() else Tensor(t)


def Transpose(t: Tensor, axes: Iterable[int]) -> Tensor:
    """A view whose axis i is axis axes[i] of t."""
    axes = tuple(int(a) for a in axes)
    ndim = t.nDim()
    if sorted(a + ndim if a < 0 else a for a in axes) != list(range(ndim)):
        raise ValueError(f"Transpose: {axes} is not a permutation of the axes of shape {t.shape()}")
    return Tensor.over(view.transposed(t.value, tuple(a % ndim for a in axes)))


def DefaultTranspose(t: Tensor) -> Tensor:
    """A view with all axes reversed."""
    return Transpose(t, tuple(reversed(range(t.nDim()))))


def Broadcast(t: Tensor, shape: ShapeLike) -> Tensor:
    """A tensor that repeats t along axes of size 1 or missing ones; not to be written to."""
    dtype = capi.weir_tensor_desc(t.handle)[0]
    return result(capi.weir_broadcast_to(t.handle, (dtype, to_shape(shape))), t.device())


def ConcatOn(tensors: Iterable[Tensor], axis: int) -> Tensor:
    """Tensors one after the other along an axis."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("ConcatOn: no tensors")
    return result(capi.weir_concat([t.handle for t in tensors], axis), tensors[0].device())


def ConcatRows(tensors: Iterable[Tensor]) -> Tensor:
    """Matrices one below the other."""
    return ConcatOn(tensors, 0)


def ConcatColumns(tensors: Iterable[Tensor]) -> Tensor:
    """Matrices side by side."""
    return ConcatOn(tensors, 1)


def SliceOn(t: Tensor, start: int, end: int, axis: int) -> Tensor:
    """A copy of the elements start to end (exclusive) of an axis."""
    if not 0 <= start <= end <= t.shape(axis):
        raise ValueError(f"SliceOn: {start} to {end} is not a range of {t.shape(axis)} elements")
    part = capi.weir_narrow(t.handle, axis, int(start), int(end - start))
    return result(capi.weir_copy(part), t.device())


def Slice(t: Tensor, begin: Sequence[int], end: Sequence[int], step: Sequence[int]) -> Tensor:
    """A copy of elements begin to end (exclusive) by step of every axis, as Python's slices."""
    least = -(1 << 63)
    end = [least if e < 0 else e for e in end]      # before the first element, not from the end
    return result(capi.weir_copy(capi.weir_slice(t.handle, begin, end, step)), t.device())


def AssignSlice(t: Tensor, begin: Sequence[int], end: Sequence[int],
                value: Tensor | Number) -> None:
    """Elements begin to end (exclusive) of every axis become value, in place: a number, or a raw
    tensor that broadcasts to the part or has as many elements."""
    if all(b < e for b, e in zip(begin, end)):
        t.put(WithSlice(t, begin, end, value).handle)


def WithSlice(t: Tensor, begin: Sequence[int], end: Sequence[int],
              value: Tensor | Number) -> Tensor:
    """t with other elements from begin to end: see AssignSlice."""
    full, dtype = t.shape(), capi.weir_tensor_desc(t.handle)[0]
    part = tuple(max(0, e - b) for b, e in zip(begin, end))
    if 0 in part:
        return t.Clone()
    after = [size - b - n for size, b, n in zip(full, begin, part)]
    if isinstance(value, Tensor):
        source = capi.weir_cast(value.handle, dtype)
        source = capi.weir_reshape(source, part) if value.Size() == Product(part) else source
    else:
        source = arith.number(value, t.handle)
    new = capi.weir_pad(capi.weir_broadcast_to(source, (dtype, part)), begin, after,
                        capi.WEIR_PAD_CONSTANT, 0.0)
    inside = capi.weir_pad(capi.weir_fill(t.device().handle, (capi.WEIR_F32, part), 1.0), begin,
                           after, capi.WEIR_PAD_CONSTANT, 0.0)
    return result(capi.weir_where(capi.weir_cast(inside, capi.WEIR_BOOL), new, t.handle),
                  t.device())


def squeezed(shape: Shape, axis: Axes | None = None) -> Shape:
    """The shape without axes of size 1: one, several or all."""
    given = [a for a, size in enumerate(shape) if size == 1] if axis is None else axis
    axes = given if isinstance(given, (tuple, list)) else (cast("int", given),)
    for a in axes:
        if not -len(shape) <= a < len(shape) or shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} is out of range for shape {shape}")
    dropped = {a % len(shape) for a in axes}
    return tuple(size for a, size in enumerate(shape) if a not in dropped)


def SliceRows(t: Tensor, start: int, end: int) -> Tensor:
    """A copy of the rows from start to end, exclusive."""
    return SliceOn(t, start, end, 0)


def SliceColumns(t: Tensor, start: int, end: int) -> Tensor:
    """A copy of the columns from start to end, exclusive."""
    return SliceOn(t, start, end, 1)


def CopyRows(t: Tensor, start: int, end: int) -> Tensor:
    """SliceRows under its older name."""
    return SliceOn(t, start, end, 0)


def CopyDataToFrom(dst: Tensor, src: Tensor, num: int, dst_offset: int = 0,
                   src_offset: int = 0) -> None:
    """num elements of src from src_offset on to dst from dst_offset on, in row-major order."""
    num, to, at = int(num), int(dst_offset), int(src_offset)
    total = dst.Size()
    if min(num, to, at) < 0 or to + num > total or at + num > src.Size():
        raise ShapeError(f"CopyDataToFrom: {num} elements do not fit: src has {src.Size()}, read "
                         f"from {at} on; dst has {total}, written from {to} on")
    if num == 0:
        return
    src = src.Clone(dst.device()) if src.device() is not dst.device() else src
    part = capi.weir_narrow(capi.weir_reshape(src.handle, (-1,)), 0, at, num)
    part = capi.weir_cast(part, capi.weir_tensor_desc(dst.handle)[0])
    if num < total:
        old = capi.weir_reshape(dst.handle, (-1,))
        pieces = [capi.weir_narrow(old, 0, 0, to), part,
                  capi.weir_narrow(old, 0, to + num, total - to - num)]
        whole = capi.weir_concat([p for p in pieces if capi.weir_tensor_desc(p)[1] != (0,)], 0)
    else:
        whole = capi.weir_copy(part)
    dst.put(capi.weir_reshape(whole, dst.shape()))


def RepeatDataToFrom(broadcast_flag: bool, repeats: int | Sequence[int], axis: int | None, num: int,
                     dst: Tensor, src: Tensor) -> None:
    """dst takes the elements of src, repeated along an axis (9999: of all in a row).

    broadcast_flag and num say what repeats and the shapes say already.
    """
    del broadcast_flag
    dst.RepeatData(repeats, axis, num, src)
