"""order - rows of the table: elements of an axis in the order of their values."""
from __future__ import annotations

from .. import _capi as capi
from ..typing import Handle
from .table import Call, aten, axis_of, filled, shape_of


def _first(at: Call, x: Handle, dim: int, count: int, descending: bool) -> tuple[Handle, Handle]:
    """The first elements of the axis in order, and their places."""
    if not shape_of(x):
        return x, filled(at, 0, capi.WEIR_I64)
    return capi.topk(x, count, dim, descending)


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
