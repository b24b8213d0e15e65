"""indexing - rows of the table: elements by indices, and the scatter family."""
from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _capi as capi
from ..typing import Handle, Number
from .table import Call, aten, axis_of, cast, dtype_of, filled, operand, require, shape_of


@aten("embedding.default")
def embedding(at: Call, weight: Handle, indices: Handle, padding_idx: int = -1,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Handle:
    """Rows of a table. The row of padding_idx gets no gradient."""
    require(not scale_grad_by_freq, "scale_grad_by_freq")
    rows = capi.weir_gather(weight, indices)
    if padding_idx < 0:
        return rows
    padding = capi.weir_eq(indices, filled(at, padding_idx, dtype_of(indices)))
    return capi.weir_where(capi.weir_unsqueeze(padding, -1), capi.weir_detach(rows), rows)


def _counted(index: Handle, rows: int, at: Call) -> Handle:
    """An index whose negative values count from the end."""
    return capi.weir_where(capi.weir_lt(index, filled(at, 0, dtype_of(index))),
                           capi.weir_add(index, filled(at, rows, dtype_of(index))), index)


def _in_front(axes: int, axis: int) -> list[int]:
    """The order of axes with one of them first."""
    return [axis, *[i for i in range(axes) if i != axis]]


def _back(order: Sequence[int]) -> list[int]:
    """The order that undoes an order of axes."""
    return [order.index(i) for i in range(len(order))]


@aten("index_select.default")
def index_select(at: Call, self: Handle, dim: int, index: Handle) -> Handle:
    """Places of an axis by a vector of indices."""
    axes = len(shape_of(self))
    axis = axis_of(dim, axes)
    if axis == 0:
        return capi.weir_gather(self, index)
    order = _in_front(axes, axis)
    rows = capi.weir_gather(capi.weir_transpose(self, order), index)
    return capi.weir_transpose(rows, _back(order))


class _Rows:
    """The rows that indices of neighbouring axes name, once those axes are one in front."""

    def __init__(self, at: Call, self_: Handle, indices: Sequence[Handle | None]) -> None:
        at_axes = [i for i, x in enumerate(indices) if x is not None]
        given = [x for x in indices if x is not None]
        require(at_axes == list(range(at_axes[0], at_axes[-1] + 1)),
                "indices of axes that are apart")
        require(all(dtype_of(x) != capi.WEIR_BOOL for x in given), "a mask as an index")
        shape, self.first, n = shape_of(self_), at_axes[0], len(given)
        self.order = [*at_axes, *range(self.first), *range(self.first + n, len(shape))]
        self.front = [shape[i] for i in self.order[:n]]
        self.rest = [shape[i] for i in self.order[n:]]
        self.count = math.prod(self.front)
        self.flat = self._number(at, given)

    def _number(self, at: Call, given: Sequence[Handle]) -> Handle:
        flat = None
        for size, one in zip(self.front, given):
            where = cast(_counted(one, size, at), capi.WEIR_I64)
            flat = where if flat is None else capi.weir_add(
                capi.weir_mul(flat, filled(at, size, capi.WEIR_I64)), where)
        return flat         # type: ignore[return-value]

    def table(self, x: Handle) -> Handle:
        """The tensor as rows."""
        x = capi.weir_transpose(x, self.order) if self.first else x
        return capi.weir_reshape(x, (self.count, *self.rest))

    def tensor(self, table: Handle) -> Handle:
        """The rows as the tensor that they came from."""
        x = capi.weir_reshape(table, (*self.front, *self.rest))
        return capi.weir_transpose(x, _back(self.order)) if self.first else x

    def move(self, there: bool) -> list[int]:
        """The order of axes that puts those of the indices where the first one was, or back."""
        n, first = len(shape_of(self.flat)), self.first
        if there:
            return [*range(n, n + first), *range(n), *range(n + first, n + len(self.rest))]
        return [*range(first, first + n), *range(first), *range(first + n, n + len(self.rest))]


@aten("index.Tensor")
def index(at: Call, self: Handle, indices: Sequence[Handle | None]) -> Handle:
    """self[..., i, j, ...]: neighbouring axes by indices that are broadcast to one shape."""
    rows = _Rows(at, self, indices)
    y = capi.weir_gather(rows.table(self), rows.flat)
    return capi.weir_transpose(y, rows.move(True)) if rows.first else y


def _places(at: Call, shape: Sequence[int], dim: int, index: Handle) -> Handle:
    """Places in the flat tensor: index along an axis, each other axis at its own place."""
    sizes = shape_of(index)
    axis = axis_of(dim, len(shape))
    flat, stride = None, 1
    for i in reversed(range(len(shape))):
        if i == axis:
            at_i = cast(index, capi.WEIR_I64)
        else:
            line = capi.weir_arange(at.device.handle, capi.WEIR_I64, sizes[i], 0.0, 1.0)
            at_i = capi.weir_reshape(line, [sizes[i] if k == i else 1 for k in range(len(shape))])
        part = capi.weir_mul(at_i, filled(at, stride, capi.WEIR_I64)) if stride != 1 else at_i
        flat = part if flat is None else capi.weir_add(flat, part)
        stride *= shape[i]
    return flat         # type: ignore[return-value]


def along(at: Call, x: Handle, dim: int, index: Handle) -> Handle:
    """x at index along an axis, each other axis at its own place."""
    shape = shape_of(x)
    if not shape:
        return capi.weir_reshape(x, shape_of(index))
    return capi.weir_gather(capi.weir_reshape(x, (math.prod(shape),)),
                            _places(at, shape, dim, index))


@aten("gather.default")
def gather(at: Call, self: Handle, dim: int, index: Handle, sparse_grad: bool = False) -> Handle:
    """The elements at index along an axis."""
    return along(at, self, dim, index)


# ---- the scatter family ----

def _marked(at: Call, rows: int, flat: Handle) -> Handle:
    """(rows) bool: which rows an index names."""
    none = filled(at, 0, capi.WEIR_I32, (rows,))
    counts = capi.weir_scatter_add(none, flat, filled(at, 1, capi.WEIR_I32, shape_of(flat)))
    return capi.weir_gt(counts, filled(at, 0, capi.WEIR_I32))


@aten("scatter_add.default")
def scatter_add(at: Call, self: Handle, dim: int, index: Handle, src: Handle) -> Handle:
    """self plus src at index along an axis; src may be larger than index."""
    shape, sizes = shape_of(self), shape_of(index)
    require(bool(shape), "a tensor without axes")
    for axis, size in enumerate(sizes):
        if size != shape_of(src)[axis]:
            src = capi.weir_narrow(src, axis, 0, size)
    flat = capi.weir_reshape(self, (math.prod(shape),))
    return capi.weir_reshape(capi.weir_scatter_add(flat, _places(at, shape, dim, index), src),
                             shape)


@aten("scatter.value")
def scatter_value(at: Call, self: Handle, dim: int, index: Handle, value: Number) -> Handle:
    """self with a number at index along an axis."""
    shape = shape_of(self)
    require(bool(shape), "a tensor without axes")
    marked = _marked(at, math.prod(shape), _places(at, shape, dim, index))
    return capi.weir_where(capi.weir_reshape(marked, shape), filled(at, value, dtype_of(self)),
                           self)


@aten("index_add.default")
def index_add(at: Call, self: Handle, dim: int, index: Handle, source: Handle, *,
              alpha: Number = 1) -> Handle:
    """self plus alpha times source at places of an axis."""
    axes = len(shape_of(self))
    axis = axis_of(dim, axes)
    if alpha != 1:
        source = capi.weir_mul(source, filled(at, alpha, dtype_of(source)))
    order = _in_front(axes, axis)
    x = capi.weir_scatter_add(capi.weir_transpose(self, order), index,
                              capi.weir_transpose(source, order))
    return capi.weir_transpose(x, _back(order))


@aten("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(at: Call, self: Handle, dim: int, index: Handle, value: Handle | Number) -> Handle:
    """self with one value at places of an axis."""
    shape = shape_of(self)
    require(bool(shape), "a tensor without axes")
    axis = axis_of(dim, len(shape))
    marked = _marked(at, shape[axis], _counted(index, shape[axis], at))
    marked = capi.weir_reshape(marked, [n if i == axis else 1 for i, n in enumerate(shape)])
    return capi.weir_where(marked, operand(at, value, dtype_of(self)), self)


@aten("index_put.default")
def index_put(at: Call, self: Handle, indices: Sequence[Handle | None], values: Handle,
              accumulate: bool = False) -> Handle:
    """self with one value at the indexed places, or plus values, which may be broadcast."""
    rows = _Rows(at, self, indices)
    if not accumulate:
        require(math.prod(shape_of(values)) == 1, "several values where an index may come twice")
        marked = _marked(at, rows.count, rows.flat)
        marked = capi.weir_reshape(marked, (rows.count, *[1] * len(rows.rest)))
        one = capi.weir_reshape(cast(values, dtype_of(self)), ())
        return rows.tensor(capi.weir_where(marked, one, rows.table(self)))
    front, first = list(shape_of(rows.flat)), rows.first
    whole = [*rows.rest[:first], *front, *rows.rest[first:]]
    update = capi.weir_broadcast_to(cast(values, dtype_of(self)), (dtype_of(self), whole))
    update = capi.weir_transpose(update, rows.move(False)) if first else update
    return rows.tensor(capi.weir_scatter_add(rows.table(self), rows.flat, update))
