"""elementwise - operators that work element by element."""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from weir import _capi as capi
from weir import core
from ..asserted import InvalidError, ShapeError
from ..raw import arith
from ..tape import Core
from ..taping import is_training
from .base import (BinaryFunction, NoGradient, UnaryFunction, binary, comparison, define, floating,
                   out, rounding, unary)
from weir.typing import Handle
from ..raw.tensor import CTensor
from ..tensor import Tensor

# The classes and the functions below, of which each pair is made by one call.
ReLU: type[Core]
relu: UnaryFunction
Sigmoid: type[Core]
sigmoid: UnaryFunction
Tanh: type[Core]
tanh: UnaryFunction
Exp: type[Core]
exp: UnaryFunction
Log: type[Core]
log: UnaryFunction
Sqrt: type[Core]
sqrt: UnaryFunction
Abs: type[Core]
abs: UnaryFunction
Negative: type[Core]
negative: UnaryFunction
Reciprocal: type[Core]
reciprocal: UnaryFunction
Erf: type[Core]
erf: UnaryFunction
Sin: type[Core]
sin: UnaryFunction
Cos: type[Core]
cos: UnaryFunction
Tan: type[Core]
tan: UnaryFunction
Asin: type[Core]
asin: UnaryFunction
Acos: type[Core]
acos: UnaryFunction
Atan: type[Core]
atan: UnaryFunction
Sinh: type[Core]
sinh: UnaryFunction
Cosh: type[Core]
cosh: UnaryFunction
Asinh: type[Core]
asinh: UnaryFunction
Acosh: type[Core]
acosh: UnaryFunction
Atanh: type[Core]
atanh: UnaryFunction
Sign: type[Core]
sign: UnaryFunction
Ceil: type[Core]
ceil: UnaryFunction
Floor: type[Core]
floor: UnaryFunction
Round: type[Core]
round: UnaryFunction
Rounde: type[Core]
rounde: UnaryFunction
SoftPlus: type[Core]
softplus: UnaryFunction
SoftSign: type[Core]
softsign: UnaryFunction
ReLU6: type[Core]
relu6: UnaryFunction
Gelu: type[Core]
gelu: UnaryFunction
Silu: type[Core]
silu: UnaryFunction
HardSwish: type[Core]
hardswish: UnaryFunction
LogSigmoid: type[Core]
log_sigmoid: UnaryFunction
Mish: type[Core]
mish: UnaryFunction
GeluTanh: type[Core]
gelu_tanh: UnaryFunction
Add: type[Core]
add: BinaryFunction
Sub: type[Core]
sub: BinaryFunction
Mul: type[Core]
mul: BinaryFunction
Div: type[Core]
div: BinaryFunction
Pow: type[Core]
pow: BinaryFunction
Less: type[Core]
less: BinaryFunction
Greater: type[Core]
greater: BinaryFunction
Equal: type[Core]
equal: BinaryFunction
And: type[Core]
_and: BinaryFunction
Or: type[Core]
_or: BinaryFunction
Xor: type[Core]
_xor: BinaryFunction
Not: type[Core]
_not: UnaryFunction

ReLU, relu = define("ReLU", "relu", lambda self, x: out(arith.relu(x), x), "max(x, 0).",
                    call=capi.weir_relu)
Sigmoid, sigmoid = unary("Sigmoid", "sigmoid", capi.weir_sigmoid, "1 / (1 + exp(-x)).")
Tanh, tanh = unary("Tanh", "tanh", capi.weir_tanh, "Hyperbolic tangent.")
Exp, exp = unary("Exp", "exp", capi.weir_exp, "e to the power x.")
Log, log = unary("Log", "log", capi.weir_log, "Natural logarithm.")
Sqrt, sqrt = unary("Sqrt", "sqrt", capi.weir_sqrt, "Square root.")
Abs, abs = unary("Abs", "abs", capi.weir_abs, "Absolute value; slope 0 at 0.", keeps=True)
Negative, negative = unary("Negative", "negative", capi.weir_neg, "-x.", keeps=True)
Reciprocal, reciprocal = unary("Reciprocal", "reciprocal", capi.weir_reciprocal, "1 / x.")
Erf, erf = unary("Erf", "erf", capi.weir_erf,
                 "The error function. Its slope is that at x; SINGA takes that at dy.")

Sin, sin = unary("Sin", "sin", capi.weir_sin, "Sine.")
Cos, cos = unary("Cos", "cos", capi.weir_cos, "Cosine.")
Tan, tan = unary("Tan", "tan", capi.weir_tan, "Tangent.")
Asin, asin = unary("Asin", "asin", capi.weir_asin, "Inverse sine.")
Acos, acos = unary("Acos", "acos", capi.weir_acos, "Inverse cosine.")
Atan, atan = unary("Atan", "atan", capi.weir_atan, "Inverse tangent.")
Sinh, sinh = unary("Sinh", "sinh", capi.weir_sinh, "Hyperbolic sine.")
Cosh, cosh = unary("Cosh", "cosh", capi.weir_cosh, "Hyperbolic cosine.")
Asinh, asinh = unary("Asinh", "asinh", capi.weir_asinh, "Inverse hyperbolic sine.")
Acosh, acosh = unary("Acosh", "acosh", capi.weir_acosh, "Inverse hyperbolic cosine.")
Atanh, atanh = unary("Atanh", "atanh", capi.weir_atanh, "Inverse hyperbolic tangent.")

Sign, sign = unary("Sign", "sign", capi.weir_sign, "-1, 0 or 1; slope 0.", keeps=True)
Ceil, ceil = rounding("Ceil", "ceil", capi.weir_ceil, "Rounded up; slope 0.")
Floor, floor = rounding("Floor", "floor", capi.weir_floor, "Rounded down; slope 0.")
Round, round = rounding("Round", "round", capi.weir_round, "Rounded, half away from zero; slope 0.")
Rounde, rounde = rounding("Rounde", "rounde", capi.weir_round_even,
                          "Rounded, half to even; slope 0.")

SoftPlus, softplus = unary("SoftPlus", "softplus", capi.weir_softplus, "log(1 + exp(x)).")
SoftSign, softsign = unary("SoftSign", "softsign", capi.weir_softsign, "x / (1 + |x|).")
ReLU6, relu6 = unary("ReLU6", "relu6", capi.weir_relu6, "min(max(x, 0), 6).")
Gelu, gelu = unary("Gelu", "gelu", capi.weir_gelu, "x/2 (1 + erf(x / sqrt 2)).")
Silu, silu = unary("Silu", "silu", capi.weir_silu, "x sigmoid(x).")
HardSwish, hardswish = unary("HardSwish", "hardswish", capi.weir_hardswish,
                             "x clamp(x / 6 + 1/2, 0, 1).")
LogSigmoid, log_sigmoid = unary("LogSigmoid", "log_sigmoid", capi.weir_log_sigmoid,
                                "-log(1 + exp(-x)), without overflow.")


def _mish(x: Handle) -> Handle:
    return capi.weir_mul(x, capi.weir_tanh(capi.weir_softplus(x)))


def _gelu_tanh(x: Handle) -> Handle:
    """x/2 (1 + tanh(u)) = x sigmoid(2 u)."""
    square = capi.weir_mul(x, x)
    u2 = capi.weir_mul(x, capi.weir_affine(square, 2 * GELU_SCALE * 0.044715, 2 * GELU_SCALE))
    return capi.weir_mul(x, capi.weir_sigmoid(u2))


GELU_SCALE = math.sqrt(2 / math.pi)
Mish, mish = unary("Mish", "mish", _mish, "x tanh(log(1 + exp(x))).")
GeluTanh, gelu_tanh = unary(
    "GeluTanh", "gelu_tanh", _gelu_tanh,
    "x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is close to gelu.")


class Identity(Core):
    """x itself, as a view."""

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_reshape(x.handle, x.shape()), x)


def identity(x: Tensor) -> Tensor:
    """x itself, as an operator's result."""
    return Identity()(x)[0]


class Elu(Core):
    """x > 0 ? x : alpha (exp(x) - 1)."""

    def __init__(self, alpha: float = 1.) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_elu(floating(x), self.alpha), x)


def elu(x: Tensor, alpha: float = 1) -> Tensor:
    """x where it is positive, else alpha (exp(x) - 1)."""
    return Elu(alpha)(x)[0]


class SeLU(Core):
    """gamma (x > 0 ? x : alpha (exp(x) - 1))."""

    def __init__(self, alpha: float = 1.67326, gamma: float = 1.0507) -> None:
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_affine(capi.weir_elu(floating(x), self.alpha), self.gamma, -0.0), x)


def selu(x: Tensor, alpha: float = 1.67326, gamma: float = 1.0507) -> Tensor:
    """gamma x where x is positive, else gamma alpha (exp(x) - 1)."""
    return SeLU(alpha, gamma)(x)[0]


class LeakyRelu(Core):
    """x > 0 ? x : a x."""

    def __init__(self, a: float) -> None:
        super().__init__()
        self.a = a

    def forward(self, x: CTensor) -> CTensor:
        return out(capi.weir_leaky_relu(floating(x), self.a), x)


def leakyrelu(x: Tensor, a: float = 0.01) -> Tensor:
    """x where it is not negative, else a x."""
    return LeakyRelu(a)(x)[0]


class HardSigmoid(Core):
    """alpha x + gamma, limited to [0, 1]."""

    def __init__(self, alpha: float = 0.2, gamma: float = 0.5) -> None:
        super().__init__()
        self.alpha = alpha
        self.gamma = gamma

    def forward(self, x: CTensor) -> CTensor:
        line = capi.weir_affine(floating(x), self.alpha, self.gamma)
        return out(capi.weir_clamp(line, 0.0, 1.0), x)


def hardsigmoid(x: Tensor, alpha: float = 0.2, gamma: float = 0.5) -> Tensor:
    """alpha x + gamma, limited to 0..1."""
    return HardSigmoid(alpha, gamma)(x)[0]


class PRelu(Core):
    """x > 0 ? x : slope x; the slope broadcasts to x."""

    def forward(self, x: CTensor, slope: CTensor) -> CTensor:
        x_handle, slope_handle = floating(x), floating(slope)
        positive = capi.weir_gt(x_handle, arith.number(0, x_handle))
        return out(capi.weir_where(positive, x_handle, capi.weir_mul(x_handle, slope_handle)), x)


def prelu(x: Tensor, slope: Tensor) -> Tensor:
    """x where it is not negative, else slope x; slope is a Tensor that broadcasts to x."""
    return PRelu()(x, slope)[0]


class Clip(Core):
    """x limited to [min, max]; None is no limit."""

    def __init__(self, min: float | None = None, max: float | None = None) -> None:
        super().__init__()
        self.min: float | None = min
        self.max: float | None = max

    def forward(self, x: CTensor) -> CTensor:
        return out(arith.clamp(x, self.min, self.max), x)


def clip(x: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """x limited to min..max; None: no limit on that side."""
    return Clip(min, max)(x)[0]


# ---- two inputs ----

Add, add = binary("Add", "add", capi.weir_add, "a + b, broadcast.")
Sub, sub = binary("Sub", "sub", capi.weir_sub, "a - b, broadcast.")
Mul, mul = binary("Mul", "mul", capi.weir_mul, "a b, broadcast.")
Div, div = binary("Div", "div", capi.weir_div, "a / b, broadcast; integers are truncated.")
Pow, pow = binary("Pow", "pow", capi.weir_pow, "a to the power b, broadcast.")

Less, less = comparison("Less", "less", capi.weir_lt, "1 where a < b, else 0.")
Greater, greater = comparison("Greater", "greater", capi.weir_gt, "1 where a > b, else 0.")
Equal, equal = comparison("Equal", "equal", capi.weir_eq, "1 where a = b, else 0.")


def add_all(*xs: Tensor) -> Tensor:
    """The sum of Tensors that broadcast."""
    if not xs:
        raise InvalidError("add_all: there is no input")
    return functools.reduce(add, xs)


def _logical(name: str, function: str, call: Callable[..., Handle], doc: str,
             names: tuple[str, ...] = ("a", "b")) -> tuple[type[Core], Callable[..., Tensor]]:
    """Of truth values: all but 0 is true, the result is 0 or 1."""
    def forward(self: Core, *xs: CTensor) -> CTensor:
        return out(capi.weir_cast(call(*[arith.flags(x) for x in xs]), capi.WEIR_F32), xs[0])

    return define(name, function, forward, doc, NoGradient, names)


And, _and = _logical("And", "_and", capi.weir_logical_and, "1 where both are not 0, else 0.")
Or, _or = _logical("Or", "_or", capi.weir_logical_or, "1 where one is not 0, else 0.")
Xor, _xor = _logical("Xor", "_xor", capi.weir_logical_xor, "1 where just one is not 0, else 0.")
Not, _not = _logical("Not", "_not", capi.weir_logical_not, "1 where x is 0, else 0.",
                     ("x",))


# ---- any number of inputs ----

def _common(xs: Sequence[CTensor], real: bool = False) -> list[Handle]:
    """Handles of raw tensors in the type of their sum; real: a float type."""
    number = functools.reduce(arith.result_type, [x.data_type() for x in xs])
    if real and not core.is_float(number):
        number = core.kFloat32
    return [arith.cast(x, number) for x in xs]


class _Fold(Core):
    """The inputs taken together from the left, two at a time."""

    def forward(self, *xs: CTensor) -> CTensor:
        if not xs:
            raise InvalidError(f"{self.name}: there is no input")
        return out(functools.reduce(self.pair, _common(xs)), xs[0])

    @staticmethod
    def pair(a: Handle, b: Handle) -> Handle:
        raise NotImplementedError


class Max(_Fold):
    """The largest, broadcast; of equal ones the first has the gradient. SINGA's ignores dy."""

    @staticmethod
    def pair(a: Handle, b: Handle) -> Handle:
        """The larger of two handles, element by element."""
        return capi.weir_where(capi.weir_lt(a, b), b, a)


class Min(_Fold):
    """The smallest, broadcast; of equal ones the first has the gradient. SINGA's ignores dy."""

    @staticmethod
    def pair(a: Handle, b: Handle) -> Handle:
        """The smaller of two handles, element by element."""
        return capi.weir_where(capi.weir_gt(a, b), b, a)


class Sum(_Fold):
    """The sum of the inputs; backward gives a tuple (SINGA: a list, which its engine refuses)."""

    single = False

    @staticmethod
    def pair(a: Handle, b: Handle) -> Handle:
        """The sum of two handles."""
        return capi.weir_add(a, b)


class Mean(_Fold):
    """The mean of the inputs; backward gives a tuple."""

    single = False

    def forward(self, *xs: CTensor) -> CTensor:
        total = functools.reduce(capi.weir_add, _common(xs, real=True))
        return out(capi.weir_affine(total, 1 / len(xs), -0.0), xs[0])


def max(*xs: Tensor) -> Tensor:
    """The largest of several Tensors, element by element, broadcast to each other."""
    return Max()(*xs)[0]


def min(*xs: Tensor) -> Tensor:
    """The smallest of several Tensors, element by element, broadcast to each other."""
    return Min()(*xs)[0]


def _same_shapes(who: str, xs: Sequence[Tensor]) -> None:
    if not xs:
        raise InvalidError(f"{who}: there is no input")
    if any(x.shape != xs[0].shape for x in xs):
        raise ShapeError(f"{who}: shapes {[x.shape for x in xs]} differ")


def sum(*xs: Tensor) -> Tensor:
    """The sum of several Tensors of one shape, element by element (reduce_sum adds up axes)."""
    _same_shapes("sum", xs)
    return Sum()(*xs)[0]


def mean(*xs: Tensor) -> Tensor:
    """The mean of several Tensors of one shape, element by element (reduce_mean is along axes)."""
    _same_shapes("mean", xs)
    return Mean()(*xs)[0]


class Dropout(Core):
    """In training each element is 0 with probability ratio, else x / (1 - ratio); otherwise x.

    The mask comes from the device's stream. SINGA scales wrongly and draws the same mask each time.
    """

    def __init__(self, seed: int = 0, ratio: float = 0.5) -> None:
        super().__init__()
        del seed
        if not 0 <= ratio <= 1:
            raise ValueError(f"dropout: ratio {ratio!r}, must be from 0 to 1")
        self.ratio = ratio

    def forward(self, x: CTensor) -> CTensor:
        if is_training() and self.ratio > 0:
            return out(capi.weir_dropout(floating(x), self.ratio), x)
        return out(capi.weir_reshape(x.handle, x.shape()), x)


def dropout(x: Tensor, seed: int = 0, ratio: float = 0.5) -> Tensor:
    """In training an element is 0 with probability ratio, else x / (1 - ratio). seed is ignored:
    the device's stream draws. ValueError for a ratio outside 0..1."""
    return Dropout(seed, ratio)(x)[0]
