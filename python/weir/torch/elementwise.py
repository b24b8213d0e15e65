"""elementwise - rows of the table: arithmetic, comparisons, activations, casts."""
from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import dtype as TorchType

from .. import _capi as capi
from ..typing import Handle, Number
from .table import (FLOATS, Call, Refused, aten, axis_of, cast, dtype_of, filled, operand, require,
                    shape_of, type_of)

UNARY = {"relu": capi.weir_relu, "relu6": capi.weir_relu6, "sigmoid": capi.weir_sigmoid,
         "tanh": capi.weir_tanh, "exp": capi.weir_exp, "log": capi.weir_log,
         "sqrt": capi.weir_sqrt, "rsqrt": capi.weir_rsqrt, "abs": capi.weir_abs,
         "neg": capi.weir_neg, "square": capi.weir_square, "silu": capi.weir_silu,
         "hardsigmoid": capi.weir_hardsigmoid, "hardswish": capi.weir_hardswish,
         "log_sigmoid": capi.weir_log_sigmoid, "selu": capi.weir_selu,
         "floor": capi.weir_floor, "ceil": capi.weir_ceil, "round": capi.weir_round_even,
         "sign": capi.weir_sign, "reciprocal": capi.weir_reciprocal, "erf": capi.weir_erf,
         "sin": capi.weir_sin, "cos": capi.weir_cos, "tan": capi.weir_tan,
         "asin": capi.weir_asin, "acos": capi.weir_acos, "atan": capi.weir_atan,
         "sinh": capi.weir_sinh, "cosh": capi.weir_cosh, "asinh": capi.weir_asinh,
         "acosh": capi.weir_acosh, "atanh": capi.weir_atanh, "log1p": capi.weir_log1p,
         "expm1": capi.weir_expm1, "exp2": capi.weir_exp2}


def _unary(name: str, function: Callable[[Handle], Handle]) -> None:
    def rule(at: Call, self: Handle) -> Handle:
        return function(cast(self, at.dtype))
    aten(f"{name}.default")(rule)


for _name, _function in UNARY.items():
    _unary(_name, _function)

BINARY = {"mul": capi.weir_mul, "maximum": capi.weir_max, "minimum": capi.weir_min,
          "remainder": capi.weir_remainder, "pow": capi.weir_pow}


def _binary(name: str, function: Callable[[Handle, Handle], Handle], second: str) -> None:
    def rule(at: Call, self: Handle | Number, other: Handle | Number) -> Handle:
        return function(operand(at, self, at.dtype), operand(at, other, at.dtype))
    aten(f"{name}.{second}")(rule)


_binary("maximum", capi.weir_max, "default")
_binary("minimum", capi.weir_min, "default")
_binary("max", capi.weir_max, "other")
_binary("min", capi.weir_min, "other")
_binary("remainder", capi.weir_remainder, "Tensor")
_binary("remainder", capi.weir_remainder, "Scalar")


@aten("mul.Tensor", "mul.Scalar")
def mul(at: Call, self: Handle, other: Handle | Number) -> Handle:
    """self * other."""
    if isinstance(other, (int, float)) and at.dtype in FLOATS:
        return capi.weir_affine(cast(self, at.dtype), 1.0 * other, 0.0)
    return capi.weir_mul(cast(self, at.dtype), operand(at, other, at.dtype))


def _plus(at: Call, self: Handle | Number, other: Handle | Number, factor: Number) -> Handle:
    dtype = at.dtype
    if isinstance(other, (int, float)) and dtype in FLOATS:
        return capi.weir_affine(operand(at, self, dtype), 1.0,
                                float(1.0 * other * factor))
    b = operand(at, other, dtype)
    if factor == -1:
        return capi.weir_sub(operand(at, self, dtype), b)
    if factor != 1:
        b = capi.weir_affine(b, float(factor), 0.0) if dtype in FLOATS else \
            capi.weir_mul(b, filled(at, factor, dtype))
    return capi.weir_add(operand(at, self, dtype), b)


@aten("add.Tensor", "add.Scalar")
def add(at: Call, self: Handle, other: Handle | Number, alpha: Number = 1) -> Handle:
    """self + alpha other; of bools: or."""
    if at.dtype == capi.WEIR_BOOL:
        return capi.weir_logical_or(self, operand(at, other, at.dtype))
    return _plus(at, self, other, alpha)


@aten("sub.Tensor", "sub.Scalar")
def sub(at: Call, self: Handle, other: Handle | Number, alpha: Number = 1) -> Handle:
    """self - alpha other."""
    return _plus(at, self, other, -alpha)       # type: ignore[operator]


@aten("rsub.Scalar", "rsub.Tensor")
def rsub(at: Call, self: Handle, other: Handle | Number, alpha: Number = 1) -> Handle:
    """other - alpha self."""
    if isinstance(other, (int, float)) and at.dtype in FLOATS:
        return capi.weir_affine(cast(self, at.dtype), -float(alpha), 1.0 * other)
    return _plus(at, operand(at, other, at.dtype), self, -alpha)    # type: ignore[operator]


@aten("addcmul.default")
def addcmul(at: Call, self: Handle, tensor1: Handle, tensor2: Handle, *, value: Number = 1
            ) -> Handle:
    """self + value tensor1 tensor2."""
    return _plus(at, self, capi.weir_mul(cast(tensor1, at.dtype), cast(tensor2, at.dtype)), value)


@aten("addcdiv.default")
def addcdiv(at: Call, self: Handle, tensor1: Handle, tensor2: Handle, *, value: Number = 1
            ) -> Handle:
    """self + value tensor1 / tensor2."""
    require(at.dtype in FLOATS, "integers")
    return _plus(at, self, capi.weir_div(cast(tensor1, at.dtype), cast(tensor2, at.dtype)), value)


@aten("div.Tensor", "div.Scalar")
def div(at: Call, self: Handle, other: Handle | Number) -> Handle:
    """self / other."""
    return capi.weir_div(operand(at, self, at.dtype), operand(at, other, at.dtype))


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(at: Call, self: Handle, other: Handle | Number,
             rounding_mode: str | None = None) -> Handle:
    """self / other, rounded down or towards 0."""
    functions = {None: capi.weir_div, "floor": capi.weir_div_floor, "trunc": capi.weir_div_trunc}
    return functions[rounding_mode](operand(at, self, at.dtype), operand(at, other, at.dtype))


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(at: Call, self: Handle, other: Handle | Number) -> Handle:
    """self / other, rounded down."""
    return div_mode(at, self, other, "floor")


@aten("pow.Tensor_Scalar")
def pow_scalar(at: Call, self: Handle, exponent: Number) -> Handle:
    """self to a power that is a number."""
    x = cast(self, at.dtype)
    if at.dtype in FLOATS and exponent in (0.5, 1, 2, 3, -0.5, -1):
        if exponent == 3:
            return capi.weir_mul(capi.weir_square(x), x)
        functions = {0.5: capi.weir_sqrt, 2: capi.weir_square, -0.5: capi.weir_rsqrt,
                     -1: capi.weir_reciprocal}
        return x if exponent == 1 else functions[float(exponent)](x)
    return capi.weir_pow(x, filled(at, exponent, at.dtype))


@aten("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(at: Call, self: Handle | Number, exponent: Handle | Number) -> Handle:
    """self to a power that is a tensor."""
    return capi.weir_pow(operand(at, self, at.dtype), operand(at, exponent, at.dtype))


COMPARED = {"eq": capi.weir_eq, "ne": capi.weir_ne, "lt": capi.weir_lt, "le": capi.weir_le,
            "gt": capi.weir_gt, "ge": capi.weir_ge}


def _common(at: Call) -> int:
    """The type in which PyTorch compares the first two arguments."""
    x, y = at.inputs[:2]
    return type_of(torch.result_type(x, y))     # type: ignore[call-overload]


def _compare(name: str, function: Callable[[Handle, Handle], Handle]) -> None:
    def rule(at: Call, self: Handle, other: Handle | Number) -> Handle:
        dtype = _common(at)
        return function(operand(at, self, dtype), operand(at, other, dtype))
    aten(f"{name}.Tensor", f"{name}.Scalar")(rule)


for _name, _compared in COMPARED.items():
    _compare(_name, _compared)


def _bools(x: Handle) -> Handle:
    return cast(x, capi.WEIR_BOOL)


@aten("logical_and.default", "bitwise_and.Tensor", "__and__.Tensor")
def logical_and(at: Call, self: Handle, other: Handle) -> Handle:
    """Both; bits of integers are refused."""
    require(at.dtype == capi.WEIR_BOOL, "bits of integers")
    return capi.weir_logical_and(_bools(self), _bools(other))


@aten("logical_or.default", "bitwise_or.Tensor", "__or__.Tensor")
def logical_or(at: Call, self: Handle, other: Handle) -> Handle:
    """Either; bits of integers are refused."""
    require(at.dtype == capi.WEIR_BOOL, "bits of integers")
    return capi.weir_logical_or(_bools(self), _bools(other))


@aten("logical_not.default", "bitwise_not.default")
def logical_not(at: Call, self: Handle) -> Handle:
    """The opposite; bits of integers are refused."""
    require(at.dtype == capi.WEIR_BOOL, "bits of integers")
    return capi.weir_logical_not(_bools(self))


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def chosen(at: Call, condition: Handle, self: Handle | Number, other: Handle | Number) -> Handle:
    """condition ? self : other."""
    return capi.weir_where(condition, operand(at, self, at.dtype), operand(at, other, at.dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(at: Call, self: Handle, mask: Handle, value: Handle | Number) -> Handle:
    """value where the mask is true."""
    return capi.weir_where(mask, operand(at, value, at.dtype), self)


@aten("clamp.default")
def clamp(at: Call, self: Handle, min: Number | None = None, max: Number | None = None) -> Handle:
    """min(max(self, lo), hi)."""
    require(at.dtype in FLOATS, "clamp of integers")
    return capi.weir_clamp(cast(self, at.dtype), -math.inf if min is None else float(min),
                           math.inf if max is None else float(max))


@aten("clamp_min.default")
def clamp_min(at: Call, self: Handle, min: Number) -> Handle:
    """max(self, lo)."""
    return clamp(at, self, min)


@aten("clamp_max.default")
def clamp_max(at: Call, self: Handle, max: Number) -> Handle:
    """min(self, hi)."""
    return clamp(at, self, None, max)


@aten("hardtanh.default")
def hardtanh(at: Call, self: Handle, min_val: Number = -1, max_val: Number = 1) -> Handle:
    """Between two values; slope 0 at both, which is relu6's and not clamp's."""
    if (min_val, max_val) == (0, 6):
        return capi.weir_relu6(self)
    inside = capi.weir_logical_and(
        capi.weir_gt(self, filled(at, min_val, at.dtype)),
        capi.weir_lt(self, filled(at, max_val, at.dtype)))
    return capi.weir_where(inside, self,
                           capi.weir_detach(clamp(at, self, min_val, max_val)))


@aten("gelu.default")
def gelu(at: Call, self: Handle, approximate: str = "none") -> Handle:
    """x Phi(x); "tanh": by a formula with tanh."""
    if approximate == "none":
        return capi.weir_gelu(self)
    if approximate != "tanh":
        raise Refused(f"approximate={approximate!r}")
    cube = capi.weir_mul(capi.weir_square(self), self)
    inner = capi.weir_add(self, capi.weir_affine(cube, 0.044715, 0.0))
    t = capi.weir_tanh(capi.weir_affine(inner, math.sqrt(2 / math.pi), 0.0))
    return capi.weir_mul(capi.weir_affine(self, 0.5, 0.0), capi.weir_affine(t, 1.0, 1.0))


@aten("leaky_relu.default")
def leaky_relu(at: Call, self: Handle, negative_slope: Number = 0.01) -> Handle:
    """x > 0 ? x : slope x."""
    return capi.weir_leaky_relu(self, float(negative_slope))


@aten("elu.default")
def elu(at: Call, self: Handle, alpha: Number = 1, scale: Number = 1,
        input_scale: Number = 1) -> Handle:
    """x > 0 ? x : alpha expm1(x)."""
    require(scale == 1 and input_scale == 1, "scale and input_scale")
    return capi.weir_elu(self, float(alpha))


@aten("softplus.default")
def softplus(at: Call, self: Handle, beta: Number = 1, threshold: Number = 20) -> Handle:
    """log(1 + exp(beta x)) / beta, x itself above the threshold."""
    require(beta == 1, "beta other than 1")
    return capi.weir_where(capi.weir_gt(self, filled(at, threshold, dtype_of(self))), self,
                           capi.weir_softplus(self))


@aten("mish.default")
def mish(at: Call, self: Handle) -> Handle:
    """x tanh(softplus(x))."""
    return capi.weir_mul(self, capi.weir_tanh(capi.weir_softplus(self)))


@aten("prelu.default", "_prelu_kernel.default")
def prelu(at: Call, self: Handle, weight: Handle) -> Handle:
    """x > 0 ? x : weight x, a weight per channel or one."""
    n = 1
    for size in capi.weir_tensor_desc(weight)[1]:
        n *= size
    return capi.weir_prelu(self, capi.weir_reshape(weight, (n,)))


@aten("_to_copy.default")
def to_copy(at: Call, self: Handle, dtype: TorchType | None = None,
            non_blocking: bool = False) -> Handle:
    """Another type."""
    return cast(self, at.dtype)


@aten("to.dtype", "to.dtype_layout", "to.device", "type_as.default")
def to(at: Call, self: Handle, *how: object, dtype: TorchType | None = None,
       non_blocking: bool = False, copy: bool = False) -> Handle:
    """Another type."""
    return cast(self, at.dtype)


@aten("alias.default", "clone.default", "contiguous.default", "lift_fresh_copy.default",
      "detach_.default", "lift_fresh.default")
def same(at: Call, self: Handle) -> Handle:
    """The same elements."""
    return self


@aten("detach.default")
def detach(at: Call, self: Handle) -> Handle:
    """The same elements, which gradients do not pass."""
    return capi.weir_detach(self)


@aten("_assert_tensor_metadata.default", "_assert_scalar.default", "sym_constrain_range.default")
def nothing(at: Call, *checked: object, **more: object) -> None:
    """A check of shapes, which torch.export has made."""
    return


@aten("glu.default")
def glu(at: Call, self: Handle, dim: int = -1) -> Handle:
    """The first half of an axis times the sigmoid of the second."""
    axis = axis_of(dim, len(shape_of(self)))
    n = shape_of(self)[axis] // 2
    first, second = (capi.weir_narrow(self, axis, begin, n) for begin in (0, n))
    return capi.weir_mul(first, capi.weir_sigmoid(second))


@aten("threshold.default")
def threshold(at: Call, self: Handle, threshold: Number, value: Number) -> Handle:
    """self where it is above a threshold, else a value."""
    dtype = dtype_of(self)
    return capi.weir_where(capi.weir_gt(self, filled(at, threshold, dtype)), self,
                           filled(at, value, dtype))
