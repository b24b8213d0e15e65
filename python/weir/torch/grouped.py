"""grouped - rows of the table: products of groups of rows, each group with a matrix of its own.

The sizes of groups are values, so shapes cannot depend on them. Rows are laid into blocks of equal
size, each of one group (Gale et al. 2023); the matrices are gathered for the blocks, and one
batched product multiplies all. With blocks of the average group's size there are less than twice
as many blocks as groups, and less than twice as many rows, whatever the sizes of groups.
"""
from __future__ import annotations

from torch import dtype as TorchType

from .. import _capi as capi
from ..typing import Handle
from .table import Call, aten, cast, dtype_of, filled, line, require, shape_of, type_of


def _group_of(at: Call, count: int, ends: Handle) -> Handle:
    """Which group each of 0 .. count - 1 is in, by the ends of groups; behind all of them: their
    number."""
    behind = capi.weir_ge(line(at, count, 2, 0), capi.weir_unsqueeze(ends, 0))
    return capi.weir_sum(behind, 1 << 1, False)


class _Blocks:
    """Rows in blocks, each of one group."""

    def __init__(self, at: Call, rows: int, groups: int, ends: Handle) -> None:
        def number(n: int) -> Handle:
            return filled(at, n, capi.WEIR_I64)
        self.rows = -(-rows // groups)                  # of a block
        some = min(rows, groups)                        # groups that can have a row
        self.count = some + (rows - some) // self.rows  # the most that any sizes of groups need
        sizes = capi.weir_sub(ends, _shifted(at, ends))
        blocks = capi.weir_div_floor(capi.weir_add(sizes, number(self.rows - 1)),
                                     number(self.rows))
        block_ends = capi.weir_cumsum(blocks, 0, False)
        last = number(groups - 1)
        self.group = capi.weir_min(_group_of(at, self.count, block_ends), last)
        group = _group_of(at, rows, ends)
        self.inside = capi.weir_unsqueeze(capi.weir_lt(group, number(groups)), 1)
        group = capi.weir_min(group, last)
        # What the group's place among the blocks adds to the row's own.
        moved = capi.weir_sub(capi.weir_mul(_shifted(at, block_ends), number(self.rows)),
                              _shifted(at, ends))
        self.place = capi.weir_where(capi.weir_squeeze(self.inside, 1), capi.weir_add(
            line(at, rows, 1, 0), capi.weir_gather(moved, group)), number(0))


def _shifted(at: Call, ends: Handle) -> Handle:
    """The beginnings of groups by their ends."""
    first = filled(at, 0, capi.WEIR_I64, (1,))
    return capi.weir_concat([first, capi.weir_narrow(ends, 0, 0, shape_of(ends)[0] - 1)], 0)


def _product(at: Call, x: Handle, matrices: Handle, ends: Handle | None) -> Handle:
    axes = len(shape_of(x)), len(shape_of(matrices))
    require(ends is not None and axes == (2, 3), "other than rows (n,k), matrices (groups,k,m) and "
            f"the ends of groups: operands of {axes[0]} and {axes[1]} axes")
    (n, k), (groups, _, m) = shape_of(x), shape_of(matrices)
    require(n > 0 and groups > 0, f"{n} rows in {groups} groups")
    blocks = _Blocks(at, n, groups, cast(ends, capi.WEIR_I64))      # type: ignore[arg-type]
    none = filled(at, 0, dtype_of(x))
    laid = capi.weir_scatter_add(filled(at, 0, dtype_of(x), (blocks.count * blocks.rows, k)),
                                 blocks.place, capi.weir_where(blocks.inside, x, none))
    y = capi.weir_matmul(capi.weir_reshape(laid, (blocks.count, blocks.rows, k)),
                         capi.weir_gather(matrices, blocks.group))
    y = capi.weir_gather(capi.weir_reshape(y, (blocks.count * blocks.rows, m)), blocks.place)
    return capi.weir_where(blocks.inside, y, filled(at, 0, dtype_of(y)))


@aten("_grouped_mm.default")
def grouped_mm(at: Call, self: Handle, mat2: Handle, offs: Handle | None = None,
               bias: Handle | None = None, out_dtype: TorchType | None = None) -> Handle:
    """Rows in groups that end at offs, each group times its matrix; 0 behind the last group."""
    require(bias is None, "a bias")
    require(out_dtype is None or type_of(out_dtype) == dtype_of(self), f"out_dtype={out_dtype}")
    return _product(at, self, mat2, offs)


@aten("transformers.grouped_mm_fallback.default")
def grouped_mm_fallback(at: Call, input: Handle, weight: Handle, offs: Handle) -> Handle:
    """The same, as transformers calls it where it has no kernel."""
    return _product(at, input, weight, offs)
