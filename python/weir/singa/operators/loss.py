"""loss - losses, each a tensor of one element, and similarities."""
from __future__ import annotations

from weir import _capi as capi
from weir import core
from ..asserted import ShapeError
from ..raw import arith
from ..raw.tensor import CTensor
from ..tape import Core, Loss
from .base import bits, floating, out
from weir.typing import Handle
from ..tensor import Tensor

_LEAST = 2.0**-126          # what logarithms are taken of at least


class _Target(Loss):
    """A loss with a target that has no gradient."""

    def __init__(self, t: Tensor) -> None:
        super().__init__()
        self.t: CTensor = t.data

    def target(self, x: CTensor) -> Handle:
        """The target's handle in the type of the raw tensor x."""
        return arith.cast(self.t, x.data_type())


def _scalar(handle: Handle) -> Handle:
    return capi.weir_reshape(handle, (1,))


class SoftMaxCrossEntropy(_Target):
    """Mean cross entropy of the rows of x with class numbers (n) or (n, 1), or rows of weights.

    A row of weights is divided by its sum; one of zeros counts nothing. Labels of float types are
    numbers; SINGA takes their bits for integers. Rows of the class ignore_index do not count.
    """

    def __init__(self, t: Tensor, ignore_index: int = -100) -> None:
        super().__init__(t)
        self.ignore_index: int = int(ignore_index)

    def forward(self, x: CTensor) -> CTensor:
        if self.t.nDim() == 2 and (self.t.shape(1) != 1 or x.shape(1) == 1):
            t = self.target(x)
            total = capi.weir_clamp(capi.weir_sum(t, bits([1]), True), _LEAST, float("inf"))
            return out(capi.weir_cross_entropy(x.handle, capi.weir_div(t, total)), x)
        return out(capi.weir_cross_entropy_ignore(x.handle, _classes(self.t), self.ignore_index), x)


def _classes(t: CTensor) -> Handle:
    """The handle of class numbers (n)."""
    handle = t.handle if t.data_type() == core.kInt64 else arith.cast(t, core.kInt)
    return handle if t.nDim() == 1 else capi.weir_reshape(handle, (-1,))


def softmax_cross_entropy(x: Tensor, t: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean loss of logits x (n, c) with class numbers t (n,) or probabilities t (n, c); rows of
    class ignore_index do not count. Shape (1,)."""
    if len(x.shape) != 2:
        raise ShapeError(f"softmax_cross_entropy: x has shape {x.shape}, must have 2 axes")
    if len(t.shape) > 2:
        raise ShapeError(f"softmax_cross_entropy: t has shape {t.shape}, may have at most 2 axes")
    return SoftMaxCrossEntropy(t, ignore_index)(x)[0]


class CrossEntropy(_Target):
    """-sum(t log x) / n of probabilities x (n, c) with weights (n, c) or class numbers (n)."""

    def forward(self, x: CTensor) -> CTensor:
        if self.t.nDim() < x.nDim():
            t = capi.weir_one_hot(_classes(self.t), x.shape(1), core.core_dtype(x.data_type()))
        else:
            t = self.target(x)
        logs = capi.weir_log(capi.weir_clamp(x.handle, _LEAST, float("inf")))
        total = capi.weir_sum(capi.weir_mul(t, logs), 0, False)
        return out(_scalar(capi.weir_affine(total, -1.0 / x.shape(0), 0.0)), x)


def cross_entropy(x: Tensor, t: Tensor) -> Tensor:
    """-sum(t log x) / n of probabilities x (n, c), t class numbers (n,) or weights (n, c). Shape
    (1,)."""
    return CrossEntropy(t)(x)[0]


class BinaryCrossEntropy(_Target):
    """-sum(t log(x + 1e-4) + (1 - t) log(1 - x + 1e-4)) / n, n the size of the first axis."""

    def forward(self, x: CTensor) -> CTensor:
        t = self.target(x)
        hits = capi.weir_mul(t, capi.weir_log(capi.weir_affine(x.handle, 1.0, 1e-4)))
        misses = capi.weir_mul(capi.weir_affine(t, -1.0, 1.0),
                               capi.weir_log(capi.weir_affine(x.handle, -1.0, 1.0 + 1e-4)))
        total = capi.weir_sum(capi.weir_add(hits, misses), 0, False)
        return out(_scalar(capi.weir_affine(total, -1.0 / x.shape(0), 0.0)), x)


def _same_shape(who: str, a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"{who}: shapes {a.shape} and {b.shape} differ")


def binary_cross_entropy(x: Tensor, t: Tensor) -> Tensor:
    """Summed binary cross entropy of probabilities x and targets t of one shape, divided by their
    rows. Shape (1,)."""
    _same_shape("binary_cross_entropy", x, t)
    return BinaryCrossEntropy(t)(x)[0]


class MeanSquareError(_Target):
    """Mean of (x - t)^2 over all elements."""

    def forward(self, x: CTensor) -> CTensor:
        return out(_scalar(capi.weir_mse_loss(x.handle, self.target(x))), x)


def mse_loss(x: Tensor, t: Tensor) -> Tensor:
    """The mean of (x - t)^2 over all elements; x and t have one shape. Shape (1,)."""
    _same_shape("mse_loss", x, t)
    return MeanSquareError(t)(x)[0]


class RankingLoss(Loss):
    """Mean of max(0, M - pos + neg)."""

    def __init__(self, M: float = 0.2) -> None:
        super().__init__()
        self.M = M

    def forward(self, pos: CTensor, neg: CTensor) -> CTensor:
        return out(_scalar(capi.weir_ranking_loss(pos.handle, neg.handle, self.M)), pos)


def ranking_loss(pos: Tensor, neg: Tensor, M: float = 0.2) -> Tensor:
    """The mean of max(0, M - (pos - neg)); both have one shape. Shape (1,)."""
    _same_shape("ranking_loss", pos, neg)
    return RankingLoss(M)(pos, neg)[0]


class CosSim(Core):
    """Cosine of the angle between the rows of a and b (n, c): (n)."""

    def forward(self, a: CTensor, b: CTensor) -> CTensor:
        return out(capi.weir_cosine_similarity(floating(a), floating(b), 0.0), a)

    @classmethod
    def dot(cls, a: CTensor, b: CTensor) -> CTensor:
        """The products of rows of the raw tensors a and b (n, c): (n)."""
        return out(capi.weir_sum(capi.weir_mul(floating(a), floating(b)), bits([1]), False), a)


def cossim(a: Tensor, b: Tensor) -> Tensor:
    """The cosine of the angle between rows of a and b, both (n, k): shape (n,)."""
    _same_shape("cossim", a, b)
    if len(a.shape) != 2:
        raise ShapeError(f"cossim: a has shape {a.shape}, must have 2 axes")
    return CosSim()(a, b)[0]
