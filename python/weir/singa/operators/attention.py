"""attention - scaled dot-product attention of heads, by PyTorch's names and shapes."""
from __future__ import annotations

from weir import _capi as capi
from ..asserted import InvalidError, ShapeError
from ..tape import Core
from .base import out, shape_of
from ..raw.tensor import CTensor
from ..tensor import Tensor
from weir.typing import Handle

ALL, FROM_FIRST = 0, 1          # weir_attention_causal
SWAP = (0, 2, 1, 3)


def side_by_side(x: Handle) -> Handle:
    """(b, heads, rows, columns) as (b, rows, heads * columns): a view where strides allow it."""
    b, heads, rows, columns = shape_of(x)
    return capi.weir_reshape(capi.weir_transpose(x, SWAP), (b, rows, heads * columns))


def of_heads(x: Handle) -> Handle:
    """The handle with an axis of heads: (b, rows, columns) has one."""
    shape = shape_of(x)
    return capi.weir_reshape(x, (shape[0], 1, *shape[1:])) if len(shape) == 3 else x


class ScaledDotProductAttention(Core):
    """softmax(scale q k^T + mask) v; operands q, k, v, then a mask and lengths where there are."""

    def __init__(self, causal: bool = False, scale: float | None = None, dropout: float = 0.0,
                 masked: bool = False, measured: bool = False) -> None:
        super().__init__()
        self.causal: bool = causal
        self.dropout: float = float(dropout)
        self.scale: float = 0.0 if scale is None else float(scale) or -0.0     # 0.0: the default
        self.masked: bool = masked
        self.measured: bool = measured

    def forward(self, q: CTensor, k: CTensor, v: CTensor, *more: CTensor) -> CTensor:
        heads = [of_heads(x.handle) for x in (q, k, v)]
        (b, n, t, _), kv = shape_of(heads[0]), shape_of(heads[1])[1]
        extras = [x.handle for x in more]
        mask = extras.pop(0) if self.masked else None
        if mask is not None and q.nDim() == 3:
            mask = of_heads(mask)
        rows = [side_by_side(x) for x in heads]
        y, = capi.attention(rows[0], rows[1], rows[2], n, kv, FROM_FIRST if self.causal else ALL,
                            self.scale, self.dropout, mask, extras[0] if self.measured else None)
        columns = shape_of(heads[2])[3]
        y = capi.weir_transpose(capi.weir_reshape(y, (b, t, n, columns)), SWAP)
        return out(capi.weir_reshape(y, (b, t, columns)) if q.nDim() == 3 else y, q)


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    who = "scaled_dot_product_attention"
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if {len(s) for s in shapes} not in ({3}, {4}):
        raise ShapeError(f"{who}: query {shapes[0]}, key {shapes[1]} and value {shapes[2]} must "
                         "have 3 axes or 4")
    if len(shapes[0]) == 4:
        n, kv, of_value = (s[1] for s in shapes)
        if kv != of_value or (n != kv and (not enable_gqa or kv == 0 or n % kv)):
            raise ShapeError(f"{who}: {n} heads of query, {kv} of key and {of_value} of value"
                             + ("" if enable_gqa else "; enable_gqa allows fewer of key and value"))


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor,
                                 attn_mask: Tensor | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None,
                                 enable_gqa: bool = False, *,
                                 key_lengths: Tensor | None = None) -> Tensor:
    """softmax(scale query key^T + attn_mask) value, by the names and defaults of PyTorch.

    query (b, heads, t, d), key (b, kv_heads, s, d), value (b, kv_heads, s, e) -> (b, heads, t, e);
    or all without the axis of heads. attn_mask broadcasts to (b, heads, t, s): bool, True where a
    query sees a key, or a float that is added to the scores. is_causal: query i sees keys 0 to i.
    scale: 1 / sqrt(d) by default. enable_gqa: kv_heads may be fewer, and divides heads. Weights
    are dropped with probability dropout_p, in evaluation, too. key_lengths (b,), which PyTorch
    lacks: how many keys each sample has. A query that sees no key gives 0.
    """
    _check(query, key, value, enable_gqa)
    if is_causal and attn_mask is not None:
        raise InvalidError("scaled_dot_product_attention: give is_causal or attn_mask, not both")
    more = [x for x in (attn_mask, key_lengths) if x is not None]
    op = ScaledDotProductAttention(bool(is_causal), scale, dropout_p, attn_mask is not None,
                                   key_lengths is not None)
    return op(query, key, value, *more)[0]
