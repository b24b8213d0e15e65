"""layer - SINGA's module of layers; those of images, sequences and our own are in weir.layers."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Self

from weir import core
from .operators import elementwise, loss, matrix, reduce, shapes
from . import tensor
from .layers.base import Layer, LayerMeta, copy_into, param  # noqa: F401
from .layers.containers import LayerList, Sequential  # noqa: F401
from .layers.functions import (  # noqa: F401
    ELU, GELU, SELU, Dropout2d, GlobalAvgPool2d, Hardsigmoid, Hardswish, Hardtanh, Identity,
    LeakyReLU, LogSigmoid, LogSoftmax, Mish, PReLU, ReLU6, SiLU, Softplus, Softsign, Upsample)
from .layers.image import (  # noqa: F401
    AvgPool1d, AvgPool2d, BatchNorm2d, Conv2d, ConvTranspose2d, GroupNorm, MaxPool1d, MaxPool2d,
    Pooling2d, SeparableConv2d)
from .layers.sequence import (  # noqa: F401
    GRU, LSTM, RNN, CudnnRNN, LayerNorm, MultiHeadAttention, RMSNorm, RNN_Base)
from weir.typing import ArrayLike, Axes, DTypeLike
from .tensor import Tensor

__all__ = ["Add", "AvgPool1d", "AvgPool2d", "BatchNorm2d", "BinaryCrossEntropy", "Cat", "Conv2d",
           "ConvTranspose2d", "copy_into", "CrossEntropy", "CudnnRNN", "Dropout", "Dropout2d",
           "ELU", "Embedding", "Flatten", "GELU", "Gemm", "GlobalAvgPool2d", "GroupNorm", "GRU",
           "Hardsigmoid", "Hardswish", "Hardtanh", "Identity", "Layer", "LayerList", "LayerMeta",
           "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "LSTM", "MaxPool1d",
           "MaxPool2d", "MeanSquareError", "Mish", "MultiHeadAttention", "param", "Pooling2d",
           "PReLU", "ReLU", "ReLU6", "Reshape", "RMSNorm", "RNN", "RNN_Base", "SELU",
           "SeparableConv2d", "Sequential", "Sigmoid", "SiLU", "SoftMax", "SoftMaxCrossEntropy",
           "Softplus", "Softsign", "Tanh", "Upsample"]


class Linear(Layer):
    """x W + b: W (in, out), b (out). Linear(out), or as in older scripts Linear(in, out[, bias]).
    """

    def __init__(self, out_features: int, *args: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features: int | None = None
        self.out_features: int = out_features
        if args:
            self.in_features = out_features
            self.out_features = args[0]
        self.bias: int | bool = args[1] if len(args) > 1 else bias

    def initialize(self, x: Tensor) -> None:
        size = x.shape[-1]
        if self.in_features not in (None, size):
            raise ValueError(f"Linear: x has {size} columns, the layer was made for "
                             f"{self.in_features}")
        self.in_features = size
        self.W = param((size, self.out_features), x, math.sqrt(2.0 / (size + self.out_features)))
        self.b: Tensor | None = param((self.out_features,), x) if self.bias else None

    def forward(self, x: Tensor) -> Tensor:
        self.device_check(x, self.W)
        y = matrix.matmul(x, self.W)
        if self.b is None:
            return y
        return matrix.add_bias(y, self.b) if len(y.shape) == 2 else elementwise.add(y, self.b)


class Gemm(Layer):
    """alpha x W + beta b, x and W transposed where asked: W (nb, in) by default, b (1, nb)."""

    def __init__(self, nb_kernels: int, alpha: float = 1.0, beta: float = 1.0, transA: bool = False,
                 transB: bool = True, bias: bool = True,
                 bias_shape: Sequence[int] | None = None) -> None:
        super().__init__()
        self.nb_kernels = nb_kernels
        self.alpha: float = alpha
        self.beta: float = beta
        self.transA: int = int(bool(transA))
        self.transB: int = int(bool(transB))
        self.bias: bool = bias
        self.bias_shape: Sequence[int] | None = bias_shape

    def initialize(self, x: Tensor) -> None:
        size = x.shape[-2 if self.transA else -1]
        self.W = param((self.nb_kernels, size) if self.transB else (size, self.nb_kernels), x,
                       math.sqrt(2.0 / (size + self.nb_kernels)))
        shape = self.bias_shape or (1, self.nb_kernels)
        self.b: Tensor | None = param(shape, x) if self.bias else None

    def forward(self, x: Tensor) -> Tensor:
        return matrix.gemm(x, self.W, self.b, self.alpha, self.beta, self.transA, self.transB)


class Embedding(Layer):
    """Rows of W (input_dim, output_dim) by number; dtype: the element type of W."""

    def __init__(self, input_dim: int, output_dim: int, initializer: str = "gaussian",
                 dtype: DTypeLike = "float32") -> None:
        super().__init__()
        self.dtype: int = core.dtype_number(dtype)
        if not core.is_float(self.dtype):
            raise TypeError(f"Embedding: dtype is {dtype!r} but must be a float type")
        if initializer not in ("gaussian", "uniform"):
            raise ValueError(f"Embedding: unknown initializer {initializer!r} (expected "
                             "gaussian or uniform)")
        self.input_dim: int = input_dim
        self.output_dim: int = output_dim
        self.initializer = initializer

    def _make(self, device: core.Device | None) -> None:
        self.W = tensor.Tensor((self.input_dim, self.output_dim), device, self.dtype,
                               requires_grad=True, stores_grad=True)

    def initialize(self, x: Tensor) -> None:
        self._make(x.device)
        if self.initializer == "uniform":
            self.W.uniform(-1.0 / self.input_dim, 1.0 / self.input_dim)
        else:
            self.W.gaussian(0.0, 1.0 / self.input_dim)

    def from_pretrained(self, W: Tensor | ArrayLike, freeze: bool = True) -> Self:
        """Takes over a table (Tensor or array); frozen, it gets no gradient."""
        if not self._initialized:
            self._make(W.device if isinstance(W, tensor.Tensor) else None)
            vars(self)["_initialized"] = True
        copy_into(self.W, W)
        self.W.requires_grad = not freeze
        self.W.stores_grad = not freeze
        return self

    @property
    def state_names(self) -> tuple[str, ...]:       # type: ignore[override]
        """Attributes saved as states: W if it is not trained, for then it is no parameter."""
        return () if self.W.stores_grad else ("W",)

    def forward(self, x: Tensor) -> Tensor:
        return shapes.embedding(x, self.W)


# ---- functions as layers ----

class ReLU(Layer):
    """max(x, 0) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.relu(x)


class Sigmoid(Layer):
    """1 / (1 + exp(-x)) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.sigmoid(x)


class Tanh(Layer):
    """tanh(x) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.tanh(x)


class Add(Layer):
    """a + b, broadcast to each other."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return elementwise.add(a, b)


class Flatten(Layer):
    """Two axes: the product of those before `axis`, and of the others."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return shapes.flatten(x, self.axis)


class SoftMax(Layer):
    """Softmax over `axis` and all axes after it, as autograd.softmax."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return reduce.softmax(x, self.axis)


class SoftMaxCrossEntropy(Layer):
    """The mean loss of logits (n, c) with class numbers (n,) or probabilities (n, c): shape (1,).
    """

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return loss.softmax_cross_entropy(x, t)


class MeanSquareError(Layer):
    """The mean of (x - t)^2 over all elements, for x and t of one shape: shape (1,)."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return loss.mse_loss(x, t)


class CrossEntropy(Layer):
    """-sum(t log x) / n of probabilities x (n, c), t class numbers (n,) or weights (n, c): shape
    (1,)."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return loss.cross_entropy(x, t)


class BinaryCrossEntropy(Layer):
    """The binary cross entropy of probabilities x and targets t, summed and divided by their rows:
    shape (1,)."""

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return loss.binary_cross_entropy(x, t)


class Dropout(Layer):
    """In training an element is 0 with probability `ratio`, else x / (1 - ratio); in evaluation x.
    """

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__()
        elementwise.Dropout(0, ratio)     # refuses an invalid ratio
        self.ratio = ratio

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.dropout(x, ratio=self.ratio)


class Cat(Layer):
    """Joins a list of Tensors along `axis`."""

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, xs: Sequence[Tensor]) -> Tensor:
        return shapes.cat(xs, self.axis)


class Reshape(Layer):
    """reshape(x, shape), with at most one -1 in the shape."""

    def forward(self, x: Tensor, shape: Axes) -> Tensor:
        return shapes.reshape(x, shape)
