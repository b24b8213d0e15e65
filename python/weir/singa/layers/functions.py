"""functions - layers that are one function of a tensor, under PyTorch's names."""
from __future__ import annotations

from weir import _capi as capi
from ..asserted import ShapeError
from ..operators import elementwise, reduce
from ..operators.base import floating, out
from ..raw.tensor import CTensor
from ..tape import Core
from ..taping import is_training
from ..tensor import Tensor
from .base import Layer, param


class Identity(Layer):
    """x itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU6(Layer):
    """min(max(x, 0), 6) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.relu6(x)


class LeakyReLU(Layer):
    """x where it is positive, else negative_slope x."""

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.leakyrelu(x, self.negative_slope)


class PReLU(Layer):
    """x where it is positive, else weight x: the slopes `weight` are learnt, one (num_parameters 1)
    or one for each channel of x (n, c, ...). They start at init."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.slopes: int = num_parameters
        self.init: float = init

    def initialize(self, x: Tensor) -> None:
        channels = x.shape[1] if len(x.shape) > 1 else 1
        if self.slopes not in (1, channels):
            raise ShapeError(f"PReLU: {self.slopes} slopes for x of shape {x.shape}, must "
                             f"be 1 or its channels, {channels}")
        self.weight: Tensor = param((self.slopes,), x).set_value(self.init)

    def forward(self, x: Tensor) -> Tensor:
        slope = self.weight
        if self.slopes > 1:
            slope = slope.reshape((self.slopes, *[1] * (len(x.shape) - 2)))
        return elementwise.prelu(x, slope)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.slopes}"


class ELU(Layer):
    """x where it is positive, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.elu(x, self.alpha)


class SELU(Layer):
    """1.0507 elu(x, 1.67326), with all digits that float64 has (Klambauer et al. 2017)."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.selu(x, 1.6732632423543772848170429916717,
                                1.0507009873554804934193349852946)


class GELU(Layer):
    """x/2 (1 + erf(x / sqrt 2)); approximate="tanh": with tanh in place of erf, as in GPT-2."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: unknown approximate {approximate!r} (expected none or tanh)")
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.gelu(x) if self.approximate == "none" else elementwise.gelu_tanh(x)


class SiLU(Layer):
    """x sigmoid(x) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.silu(x)


class Mish(Layer):
    """x tanh(softplus(x)) of any shape (Misra 2019)."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.mish(x)


class Hardswish(Layer):
    """x clamp(x / 6 + 1/2, 0, 1) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.hardswish(x)


class Hardsigmoid(Layer):
    """clamp(x / 6 + 1/2, 0, 1), as in PyTorch; autograd.hardsigmoid has SINGA's numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.hardsigmoid(x, 1 / 6, 0.5)


class Hardtanh(Layer):
    """x limited to min_val..max_val."""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        super().__init__()
        if not min_val < max_val:
            raise ValueError(f"Hardtanh: min_val {min_val} must be below max_val {max_val}")
        self.min_val: float = min_val
        self.max_val: float = max_val

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.clip(x, self.min_val, self.max_val)


class Softplus(Layer):
    """log(1 + exp(beta x)) / beta of any shape."""

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        if not beta > 0:
            raise ValueError(f"Softplus: beta is {beta}, must be above 0")
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        if self.beta == 1:
            return elementwise.softplus(x)
        return elementwise.softplus(x * self.beta) * (1 / self.beta)


class Softsign(Layer):
    """x / (1 + |x|) of any shape."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.softsign(x)


class LogSigmoid(Layer):
    """-log(1 + exp(-x)) of any shape, without overflow."""

    def forward(self, x: Tensor) -> Tensor:
        return elementwise.log_sigmoid(x)


class LogSoftmax(Layer):
    """The logarithm of the softmax over one axis, without overflow."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return reduce.log_softmax(x, self.axis)


# ---- images ----

class _Dropout2d(Core):
    def __init__(self, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio

    def forward(self, x: CTensor) -> CTensor:
        handle = floating(x)
        kind, shape = capi.weir_tensor_desc(handle)
        ones = capi.weir_fill(x.device().handle, (kind, (*shape[:2], *[1] * (len(shape) - 2))), 1.0)
        return out(capi.weir_mul(handle, capi.weir_dropout(ones, self.ratio)), x)


class Dropout2d(Layer):
    """In training a whole channel of x (n, c, ...) is 0 with probability ratio, else
    x / (1 - ratio); in evaluation x."""

    def __init__(self, ratio: float = 0.5) -> None:
        super().__init__()
        elementwise.Dropout(0, ratio)     # refuses an invalid ratio
        self.ratio = ratio

    def forward(self, x: Tensor) -> Tensor:
        if len(x.shape) < 2:
            raise ShapeError(f"Dropout2d: x has shape {x.shape}, must have channels: (n, c, ...)")
        return _Dropout2d(self.ratio)(x)[0] if is_training() and self.ratio > 0 else x


class _Upsample(Core):
    def __init__(self, factors: tuple[int, int], mode: str) -> None:
        super().__init__()
        self.factors = factors
        self.call = capi.weir_upsample if mode == "nearest" else capi.weir_upsample_bilinear

    def forward(self, x: CTensor) -> CTensor:
        return out(self.call(floating(x), *self.factors), x)


class Upsample(Layer):
    """(n, c, h, w) -> (n, c, fh h, fw w) by whole factors, one or (fh, fw): each pixel repeated
    ("nearest"), or interpolated ("bilinear", PyTorch's with align_corners off)."""

    def __init__(self, scale_factor: int | tuple[int, int] = 2, mode: str = "nearest") -> None:
        super().__init__()
        both = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * 2
        if len(both) != 2 or any(not isinstance(f, int) or f < 1 for f in both):
            raise ValueError(f"Upsample: scale_factor is {scale_factor!r}, must be a whole number, "
                             "1 or more, or two of them")
        if mode not in ("nearest", "bilinear"):
            raise ValueError(f"Upsample: unknown mode {mode!r} (expected nearest or bilinear)")
        self.scale_factor: tuple[int, int] = (both[0], both[1])
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        return _Upsample(self.scale_factor, self.mode)(x)[0]


class GlobalAvgPool2d(Layer):
    """The mean of each channel: (n, c, h, w) -> (n, c, 1, 1); PyTorch's AdaptiveAvgPool2d(1)."""

    def forward(self, x: Tensor) -> Tensor:
        return reduce.globalaveragepool(x)
