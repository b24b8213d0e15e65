"""order - rows of the table: elements of an axis in the order of their values."""
from __future__ import annotations

from .. import _capi as capi
from ..typing import Handle
from .indexing import along
from .table import FLOATS, Call, aten, axis_of, cast, dtype_of, require, shape_of

RANKED = 1024       # most elements of an axis, since each is compared with each


def _line(at: Call, count: int, axes: int, axis: int) -> Handle:
    """0, 1, ... along one of `axes` axes."""
    line = capi.weir_arange(at.device.handle, capi.WEIR_I64, count, 0.0, 1.0)
    return capi.weir_reshape(line, [count if i == axis else 1 for i in range(axes)])


def _above(a: Handle, b: Handle) -> Handle:
    """Whether a is larger than b; a NaN is larger than every number, as in PyTorch."""
    if dtype_of(a) not in FLOATS:
        return capi.weir_gt(a, b)
    nan = capi.weir_logical_and(capi.weir_ne(a, a), capi.weir_eq(b, b))
    return capi.weir_logical_or(capi.weir_gt(a, b), nan)


def _ranks(at: Call, x: Handle, axis: int, descending: bool) -> Handle:
    """How many elements of the axis come before each; of equal ones those in front do."""
    axes, n = len(shape_of(x)), shape_of(x)[axis]
    require(n <= RANKED, f"an axis of {n} elements, more than {RANKED}")
    one, other = capi.weir_unsqueeze(x, axis + 1), capi.weir_unsqueeze(x, axis)
    more, less = _above(other, one), _above(one, other)
    same = capi.weir_logical_not(capi.weir_logical_or(more, less))
    front = capi.weir_lt(_line(at, n, axes + 1, axis + 1), _line(at, n, axes + 1, axis))
    before = capi.weir_logical_or(more if descending else less, capi.weir_logical_and(same, front))
    return capi.weir_sum(capi.weir_cast(before, capi.WEIR_I64), 1 << (axis + 1), False)


def _first(at: Call, x: Handle, dim: int, count: int, descending: bool) -> tuple[Handle, Handle]:
    """The first elements of the axis in order, and their places."""
    shape = shape_of(x)
    if not shape:
        return x, capi.weir_fill_int(at.device.handle, (capi.WEIR_I64, ()), 0)
    axis = axis_of(dim, len(shape))
    still = capi.weir_detach(x)
    still = cast(still, capi.WEIR_U8) if dtype_of(x) == capi.WEIR_BOOL else still
    rank = capi.weir_unsqueeze(_ranks(at, still, axis, descending), axis)
    hit = capi.weir_eq(rank, _line(at, count, len(shape) + 1, axis))
    places = capi.weir_argmax(capi.weir_cast(hit, capi.WEIR_U8), axis + 1, False)
    return along(at, x, axis, places), places


@aten("topk.default")
def topk(at: Call, self: Handle, k: int, dim: int = -1, largest: bool = True,
         sorted: bool = True) -> tuple[Handle, Handle]:
    """The k largest or smallest elements of an axis in order, and their places."""
    return _first(at, self, dim, k, largest)


@aten("sort.default")
def sort(at: Call, self: Handle, dim: int = -1,
         descending: bool = False) -> tuple[Handle, Handle]:
    """The elements of an axis in order, and their places; equal ones as they were."""
    shape = shape_of(self)
    return _first(at, self, dim, shape[axis_of(dim, len(shape))] if shape else 1, descending)


@aten("sort.stable")
def stable_sort(at: Call, self: Handle, *, stable: bool | None, dim: int = -1,
                descending: bool = False) -> tuple[Handle, Handle]:
    """The same."""
    return sort(at, self, dim, descending)


@aten("argsort.default")
def argsort(at: Call, self: Handle, dim: int = -1, descending: bool = False) -> Handle:
    """Their places."""
    return sort(at, self, dim, descending)[1]


@aten("argsort.stable")
def stable_argsort(at: Call, self: Handle, *, stable: bool, dim: int = -1,
                   descending: bool = False) -> Handle:
    """The same."""
    return sort(at, self, dim, descending)[1]
