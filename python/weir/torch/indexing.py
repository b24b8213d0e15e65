"""indexing - rows of the table: elements by indices, and the scatter family."""
from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _capi as capi
from ..typing import Handle, Number
from .table import (Call, aten, axis_of, cast, dtype_of, filled, line, operand, require,
                    shape_of)


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


def _inside(at: Call, index: Handle, size: int, rows: int) -> Handle:
    """An index as i64; far below 0 where it is outside of its axis: else the place of an element
    among all `rows` could be that of another one, and no kernel would notice."""
    index = cast(index, capi.WEIR_I64)
    good = capi.weir_logical_and(capi.weir_ge(index, filled(at, 0, capi.WEIR_I64)),
                                 capi.weir_lt(index, filled(at, size, capi.WEIR_I64)))
    return capi.weir_where(good, index, filled(at, -rows, capi.WEIR_I64))


class _Rows:
    """The rows that indices name, once the axes of the indices are one in front."""

    def __init__(self, at: Call, self_: Handle, indices: Sequence[Handle | None]) -> None:
        at_axes = [i for i, x in enumerate(indices) if x is not None]
        given = [x for x in indices if x is not None]
        require(all(dtype_of(x) in (capi.WEIR_I32, capi.WEIR_I64) for x in given),
                "a mask as an index")
        shape, n = shape_of(self_), len(given)
        # In the result their axes are where the first one was; in front if they are apart.
        together = at_axes == list(range(at_axes[0], at_axes[0] + n))
        self.first = at_axes[0] if together else 0
        self.order = [*at_axes, *[i for i in range(len(shape)) if i not in at_axes]]
        self.moved = self.order != sorted(self.order)
        self.front = [shape[i] for i in self.order[:n]]
        self.rest = [shape[i] for i in self.order[n:]]
        self.count = math.prod(self.front)
        self.flat = self._number(at, given)

    def _number(self, at: Call, given: Sequence[Handle]) -> Handle:
        if len(given) == 1:
            return cast(_counted(given[0], self.count, at), capi.WEIR_I64)
        flat = None
        for size, one in zip(self.front, given):
            where = _inside(at, _counted(one, size, at), size, self.count)
            flat = where if flat is None else capi.weir_add(
                capi.weir_mul(flat, filled(at, size, capi.WEIR_I64)), where)
        return flat         # type: ignore[return-value]

    def table(self, x: Handle) -> Handle:
        """The tensor as rows."""
        x = capi.weir_transpose(x, self.order) if self.moved else x
        return capi.weir_reshape(x, (self.count, *self.rest))

    def tensor(self, table: Handle) -> Handle:
        """The rows as the tensor that they came from."""
        x = capi.weir_reshape(table, (*self.front, *self.rest))
        return capi.weir_transpose(x, _back(self.order)) if self.moved else x

    def move(self, there: bool) -> list[int]:
        """The order of axes that puts those of the indices where the first one was, or back."""
        n, first = len(shape_of(self.flat)), self.first
        if there:
            return [*range(n, n + first), *range(n), *range(n + first, n + len(self.rest))]
        return [*range(first, first + n), *range(first), *range(first + n, n + len(self.rest))]

    def update(self, values: Handle) -> Handle:
        """Values, which may be broadcast, as a row for each index: (indices, rest...)."""
        front, first = shape_of(self.flat), self.first
        whole = [*self.rest[:first], *front, *self.rest[first:]]
        every = capi.weir_broadcast_to(values, (dtype_of(values), whole))
        every = capi.weir_transpose(every, self.move(False)) if first else every
        return capi.weir_reshape(every, (math.prod(front), *self.rest))


@aten("index.Tensor")
def index(at: Call, self: Handle, indices: Sequence[Handle | None]) -> Handle:
    """self[..., i, j, ...]: elements by indices that are broadcast to one shape."""
    rows = _Rows(at, self, indices)
    y = capi.weir_gather(rows.table(self), rows.flat)
    return capi.weir_transpose(y, rows.move(True)) if rows.first else y


def _places(at: Call, shape: Sequence[int], dim: int, index: Handle) -> Handle:
    """Places in the flat tensor: index along an axis, each other axis at its own place."""
    sizes = shape_of(index)
    axis = axis_of(dim, len(shape))
    flat, stride = None, 1
    for i in reversed(range(len(shape))):
        at_i = line(at, sizes[i], len(shape), i) if i != axis else \
            _inside(at, index, shape[i], math.prod(shape)) if len(shape) > 1 else \
            cast(index, capi.WEIR_I64)
        part = capi.weir_mul(at_i, filled(at, stride, capi.WEIR_I64)) if stride != 1 else at_i
        flat = part if flat is None else capi.weir_add(flat, part)
        stride *= shape[i]
    return flat         # type: ignore[return-value]


def _cut(src: Handle, sizes: Sequence[int]) -> Handle:
    """The front part of a tensor."""
    for axis, size in enumerate(sizes):
        if size != shape_of(src)[axis]:
            src = capi.weir_narrow(src, axis, 0, size)
    return src


def along(x: Handle, dim: int, index: Handle) -> Handle:
    """x at index along an axis, each other axis at its own place; index may be smaller there."""
    sizes, shape = list(shape_of(index)), shape_of(x)
    if not sizes:
        return capi.weir_gather(x, index) if shape else x
    if not shape:
        return capi.weir_reshape(x, sizes)
    axis = axis_of(dim, len(shape))
    sizes[axis] = shape[axis]
    return capi.weir_take_along(_cut(x, sizes), index, axis)


@aten("gather.default")
def gather(at: Call, self: Handle, dim: int, index: Handle, sparse_grad: bool = False) -> Handle:
    """The elements at index along an axis."""
    return along(self, dim, index)


# ---- the scatter family ----

def _marked(at: Call, rows: int, flat: Handle) -> Handle:
    """(rows) bool: which rows an index names."""
    none = filled(at, 0, capi.WEIR_I32, (rows,))
    counts = capi.weir_scatter_add(none, flat, filled(at, 1, capi.WEIR_I32, shape_of(flat)))
    return capi.weir_gt(counts, filled(at, 0, capi.WEIR_I32))


def _last(at: Call, rows: int, flat: Handle) -> Handle:
    """(n) bool: which of n indices is the last that names its row. Digit by digit from the highest
    of their positions: an index without the digit is beaten where one with it names the row."""
    n = shape_of(flat)[0]
    position, alive = line(at, n, 1, 0), filled(at, True, capi.WEIR_BOOL, (n,))
    none, zero = filled(at, 0, capi.WEIR_I32, (rows,)), filled(at, 0, capi.WEIR_I32)
    for digit in reversed(range((n - 1).bit_length())):
        has = capi.weir_ne(capi.weir_bitwise_and(position, filled(at, 1 << digit, capi.WEIR_I64)),
                           filled(at, 0, capi.WEIR_I64))
        counts = capi.weir_scatter_add(
            none, flat, capi.weir_cast(capi.weir_logical_and(alive, has), capi.WEIR_I32))
        alone = capi.weir_eq(capi.weir_gather(counts, flat), zero)
        alive = capi.weir_logical_and(alive, capi.weir_logical_or(has, alone))
    return alive


def _replaced(at: Call, table: Handle, flat: Handle, update: Handle) -> Handle:
    """A table whose rows at n indices are those of the update, the last one's where several name
    a row. The gradient of an update that is not used is 0."""
    rows, n = shape_of(table)[0], shape_of(flat)[0]
    if n == 0 or rows == 0:
        return table
    position = capi.weir_where(_last(at, rows, flat), line(at, n, 1, 0),
                               filled(at, 0, capi.WEIR_I64))
    chosen = capi.weir_scatter_add(filled(at, 0, capi.WEIR_I64, (rows,)), flat, position)
    marked = capi.weir_reshape(_marked(at, rows, flat), (rows, *[1] * len(shape_of(table)[1:])))
    return capi.weir_where(marked, capi.weir_gather(update, chosen), table)


@aten("scatter_add.default")
def scatter_add(at: Call, self: Handle, dim: int, index: Handle, src: Handle) -> Handle:
    """self plus src at index along an axis; src may be larger than index."""
    shape = shape_of(self)
    require(bool(shape), "a tensor without axes")
    flat = capi.weir_reshape(self, (math.prod(shape),))
    return capi.weir_reshape(capi.weir_scatter_add(flat, _places(at, shape, dim, index),
                                                   _cut(src, shape_of(index))), shape)


@aten("scatter.src")
def scatter_src(at: Call, self: Handle, dim: int, index: Handle, src: Handle) -> Handle:
    """self with src at index along an axis; src may be larger than index."""
    shape, n = shape_of(self), math.prod(shape_of(index))
    require(bool(shape), "a tensor without axes")
    new = _replaced(at, capi.weir_reshape(self, (math.prod(shape),)),
                    capi.weir_reshape(_places(at, shape, dim, index), (n,)),
                    capi.weir_reshape(_cut(src, shape_of(index)), (n,)))
    return capi.weir_reshape(new, shape)


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


def _put_where(self: Handle, axis: int, mask: Handle, values: Handle, accumulate: bool) -> Handle:
    """self with values where a mask of the axes from `axis` on is true, one value for all or one
    for each place of the other axes."""
    axes = len(shape_of(mask))
    behind = len(shape_of(self)) - axis - axes
    sizes = list(shape_of(values))
    if len(sizes) > behind:
        at = len(sizes) - behind - 1        # of the values by the number of true elements
        require(sizes[at] == 1, "values for each element where a mask is true")
        values = capi.weir_reshape(values, [*sizes[:at], *[1] * axes, *sizes[at + 1:]])
    mask = capi.weir_reshape(mask, [*shape_of(mask), *[1] * behind])
    return capi.weir_where(mask, capi.weir_add(self, values) if accumulate else values, self)


@aten("index_put.default")
def index_put(at: Call, self: Handle, indices: Sequence[Handle | None], values: Handle,
              accumulate: bool = False) -> Handle:
    """self with values, which may be broadcast, at the indexed places, or plus them. Of several
    values for a place the last one stays."""
    kind = dtype_of(self)
    values = cast(values, kind)
    given = [(i, x) for i, x in enumerate(indices) if x is not None]
    require(kind != capi.WEIR_BOOL or not accumulate, "sums of bools")
    if len(given) == 1 and dtype_of(given[0][1]) == capi.WEIR_BOOL:
        return _put_where(self, *given[0], values, accumulate)
    rows = _Rows(at, self, indices)
    if math.prod(shape_of(values)) == 1 and not accumulate:
        marked = _marked(at, rows.count, rows.flat)
        marked = capi.weir_reshape(marked, (rows.count, *[1] * len(rows.rest)))
        return rows.tensor(capi.weir_where(marked, capi.weir_reshape(values, ()),
                                           rows.table(self)))
    flat = capi.weir_reshape(rows.flat, (math.prod(shape_of(rows.flat)),))
    put = capi.weir_scatter_add(rows.table(self), flat, rows.update(values)) if accumulate else \
        _replaced(at, rows.table(self), flat, rows.update(values))
    return rows.tensor(put)
