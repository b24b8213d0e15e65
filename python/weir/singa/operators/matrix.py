"""matrix - matrix products and biases."""
from __future__ import annotations

from weir import _capi as capi
from weir import core
from ..asserted import InvalidError, ShapeError
from ..tape import Core
from .base import floating, out, quick
from ..raw.tensor import CTensor
from ..tensor import Tensor


class Matmul(Core):
    """Matrices, or batches of them that broadcast."""

    def forward(self, x: CTensor, w: CTensor) -> CTensor:
        return out(capi.weir_matmul(floating(x), floating(w)), x)


def matmul(x: Tensor, w: Tensor) -> Tensor:
    """The matrix product of the last two axes; axes before them broadcast."""
    return Matmul()(x, w)[0]


matmul = quick("weir_matmul", Matmul, matmul)

class AddBias(Core):
    """x (r, c) + b: (c) or (1, c) to each row with axis 0, (r) to each column with axis 1.

    SINGA adds into x and sums the gradient over the wrong axis with axis 1; x stays as it is here.
    In mixed precision the bias is in half, as a linear layer's is.
    """

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: CTensor, b: CTensor) -> CTensor:
        half = capi.weir_autocast_type(x.device().handle) == core.core_dtype(x.data_type())
        bias = capi.weir_cast(b.handle, capi.weir_tensor_desc(x.handle)[0]) if half else b.handle
        if self.axis == 0 and b.nDim() == 2:
            bias = capi.weir_reshape(bias, (-1,))
        if self.axis == 1:
            bias = capi.weir_reshape(bias, (-1, 1))
        return out(capi.weir_add(x.handle, bias), x)


def add_bias(x: Tensor, b: Tensor, axis: int = 0) -> Tensor:
    """x (n, m) + b: b (m,) to each row with axis 0, b (n,) to each column with axis 1."""
    if axis not in (0, 1):
        raise InvalidError(f"add_bias: axis {axis}, must be 0 or 1")
    if len(x.shape) != 2:
        raise ShapeError(f"add_bias: x has shape {x.shape}, must have 2 axes")
    if len(b.shape) != 1 and (axis == 1 or len(b.shape) != 2 or b.shape[0] != 1):
        raise ShapeError(f"add_bias: b has shape {b.shape}, must have 1 axis")
    return AddBias(axis)(x, b)[0]


class Gemm(Core):
    """alpha A B + beta C; transA and transB transpose A and B, C broadcasts."""

    def __init__(self, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
                 transB: int = 0) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta
        self.transA: bool = bool(transA)
        self.transB: bool = bool(transB)

    def forward(self, A: CTensor, B: CTensor, C: CTensor | None = None) -> CTensor:
        added = None if C is None else floating(C)
        return out(capi.weir_gemm(floating(A), floating(B), added, self.alpha, self.beta,
                                  self.transA, self.transB), A)


def gemm(A: Tensor, B: Tensor, C: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0,
         transA: int = 0, transB: int = 0) -> Tensor:
    """alpha A' B' + beta C for matrices, where ' transposes if transA or transB is 1."""
    xs = (A, B) if C is None else (A, B, C)
    return Gemm(alpha, beta, transA, transB)(*xs)[0]
