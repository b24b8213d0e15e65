"""reduce - rows of the table: sums, means, extremes, softmax, running sums, losses."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import dtype as TorchType

from .. import _capi as capi
from ..typing import Handle, Number
from .indexing import along
from .table import Call, aten, bits, cast, dtype_of, filled, require, shape_of

NONE, MEAN, SUM = 0, 1, 2           # ATen's reduction


def _reduce(name: str, function: Callable[[Handle, int, bool], Handle]) -> None:
    def some(at: Call, self: Handle, dim: Sequence[int] | int | None = None, keepdim: bool = False,
             dtype: TorchType | None = None) -> Handle:
        return function(cast(self, at.dtype), bits(dim, len(shape_of(self))), keepdim)

    def every(at: Call, self: Handle, dtype: TorchType | None = None) -> Handle:
        return function(cast(self, at.dtype), 0, False)
    aten(f"{name}.dim", f"{name}.dim_IntList", f"{name}.dim_int")(some)
    aten(f"{name}.default")(every)


_reduce("sum", capi.weir_sum)
_reduce("mean", capi.weir_mean)
_reduce("prod", capi.weir_prod)


@aten("amax.default")
def amax(at: Call, self: Handle, dim: Sequence[int] = (), keepdim: bool = False) -> Handle:
    """The maximum. Equal maxima share the gradient in PyTorch, which the core gives the first."""
    return _shared_extreme(self, capi.weir_amax(self, bits(dim, len(shape_of(self))), True), dim,
                           keepdim)


@aten("amin.default")
def amin(at: Call, self: Handle, dim: Sequence[int] = (), keepdim: bool = False) -> Handle:
    """The minimum; see amax."""
    return _shared_extreme(self, capi.weir_amin(self, bits(dim, len(shape_of(self))), True), dim,
                           keepdim)


def _shared_extreme(x: Handle, extreme: Handle, dim: Sequence[int], keepdim: bool) -> Handle:
    axes = bits(dim, len(shape_of(x)))
    if capi.weir_tensor_needs_grad(x):      # the mean of the equal ones: gradient in equal shares
        equal = cast(capi.weir_eq(x, extreme), dtype_of(x))
        count = capi.weir_sum(equal, axes, True)
        value = capi.weir_where(capi.weir_eq(x, extreme), x,
                                capi.weir_broadcast_to(capi.weir_detach(extreme),
                                                       (dtype_of(x), shape_of(x))))
        share = capi.weir_div(equal, count)
        moved = capi.weir_sum(capi.weir_mul(capi.weir_sub(value, capi.weir_detach(value)),
                                            capi.weir_detach(share)), axes, True)
        extreme = capi.weir_add(capi.weir_detach(extreme), moved)
    if keepdim:
        return extreme
    axes = axes or (1 << len(shape_of(x))) - 1
    return capi.weir_reshape(extreme, [n for i, n in enumerate(shape_of(x)) if not axes >> i & 1])


def _with_index(name: str, place: Callable[[Handle, int, bool], Handle]) -> None:
    def extreme(at: Call, self: Handle, dim: int, keepdim: bool = False) -> tuple[Handle, Handle]:
        require(bool(shape_of(self)), "a tensor without axes")
        index = place(self, dim, True)
        value = along(self, dim, index)
        shape = [tuple(int(n) for n in t.shape) for t in at.result or ()]
        return capi.weir_reshape(value, shape[0]), capi.weir_reshape(index, shape[1])
    aten(f"{name}.dim")(extreme)


# The gradient goes to the first of equal ones, as in PyTorch.
_with_index("max", capi.weir_argmax)
_with_index("min", capi.weir_argmin)


def _index_alone(name: str, place: Callable[[Handle, int, bool], Handle]) -> None:
    def index(at: Call, self: Handle, dim: int | None = None, keepdim: bool = False) -> Handle:
        if dim is None:
            flat = capi.weir_reshape(self, (math.prod(shape_of(self)),))
            return capi.weir_reshape(place(flat, 0, False), at.shape)
        return place(self, dim, keepdim)
    aten(f"{name}.default")(index)


_index_alone("argmax", capi.weir_argmax)
_index_alone("argmin", capi.weir_argmin)


@aten("var.correction")
def var(at: Call, self: Handle, dim: Sequence[int] | None = None, *,
        correction: Number | None = None, keepdim: bool = False) -> Handle:
    """The variance."""
    by = 1 if correction is None else correction
    require(by in (0, 1), f"correction={by}")
    return capi.weir_var(self, bits(dim, len(shape_of(self))), int(by), keepdim)


@aten("std.correction")
def std(at: Call, self: Handle, dim: Sequence[int] | None = None, *,
        correction: Number | None = None, keepdim: bool = False) -> Handle:
    """The standard deviation."""
    return capi.weir_sqrt(var(at, self, dim, correction=correction, keepdim=keepdim))


@aten("var_mean.correction")
def var_mean(at: Call, self: Handle, dim: Sequence[int] | None = None, *,
             correction: Number | None = None, keepdim: bool = False) -> tuple[Handle, Handle]:
    """The variance and the mean."""
    return (var(at, self, dim, correction=correction, keepdim=keepdim),
            capi.weir_mean(self, bits(dim, len(shape_of(self))), keepdim))


@aten("std_mean.correction")
def std_mean(at: Call, self: Handle, dim: Sequence[int] | None = None, *,
             correction: Number | None = None, keepdim: bool = False) -> tuple[Handle, Handle]:
    """The standard deviation and the mean."""
    variance, mean = var_mean(at, self, dim, correction=correction, keepdim=keepdim)
    return capi.weir_sqrt(variance), mean


@aten("var_mean.dim")
def var_mean_dim(at: Call, self: Handle, dim: Sequence[int] | None, unbiased: bool = True,
                 keepdim: bool = False) -> tuple[Handle, Handle]:
    """The variance and the mean."""
    return var_mean(at, self, dim, correction=int(unbiased), keepdim=keepdim)


@aten("std_mean.dim")
def std_mean_dim(at: Call, self: Handle, dim: Sequence[int] | None, unbiased: bool = True,
                 keepdim: bool = False) -> tuple[Handle, Handle]:
    """The standard deviation and the mean."""
    return std_mean(at, self, dim, correction=int(unbiased), keepdim=keepdim)


@aten("var.dim")
def var_dim(at: Call, self: Handle, dim: Sequence[int] | None = None, unbiased: bool = True,
            keepdim: bool = False) -> Handle:
    """The variance."""
    return var(at, self, dim, correction=int(unbiased), keepdim=keepdim)


@aten("var.default")
def var_whole(at: Call, self: Handle, unbiased: bool = True) -> Handle:
    """The variance of all elements."""
    return var(at, self, None, correction=int(unbiased))


@aten("std.dim")
def std_dim(at: Call, self: Handle, dim: Sequence[int] | None = None, unbiased: bool = True,
            keepdim: bool = False) -> Handle:
    """The standard deviation."""
    return capi.weir_sqrt(var_dim(at, self, dim, unbiased, keepdim))


@aten("std.default")
def std_whole(at: Call, self: Handle, unbiased: bool = True) -> Handle:
    """The standard deviation of all elements."""
    return capi.weir_sqrt(var_whole(at, self, unbiased))


@aten("linalg_vector_norm.default")
def vector_norm(at: Call, self: Handle, ord: Number = 2, dim: Sequence[int] | None = None,
                keepdim: bool = False, dtype: TorchType | None = None) -> Handle:
    """The sum of absolute values, or the root of the sum of squares."""
    require(ord in (1, 2), f"ord={ord}")
    return capi.weir_norm(cast(self, at.dtype), int(ord), bits(dim, len(shape_of(self))), keepdim)


@aten("softmax.int", "_softmax.default")
def softmax(at: Call, self: Handle, dim: int,
            half_to_float: object = None, dtype: TorchType | None = None) -> Handle:
    """exp(x) / sum(exp(x))."""
    return capi.weir_softmax(cast(self, at.dtype), dim)


@aten("log_softmax.int", "_log_softmax.default")
def log_softmax(at: Call, self: Handle, dim: int, half_to_float: object = None,
                dtype: TorchType | None = None) -> Handle:
    """The logarithm of softmax."""
    return capi.weir_log_softmax(cast(self, at.dtype), dim)


@aten("logsumexp.default")
def logsumexp(at: Call, self: Handle, dim: Sequence[int], keepdim: bool = False) -> Handle:
    """log(sum(exp(x))), without overflow."""
    axes = bits(dim, len(shape_of(self)))
    top = capi.weir_detach(capi.weir_amax(self, axes, True))
    y = capi.weir_add(capi.weir_log(capi.weir_sum(capi.weir_exp(capi.weir_sub(self, top)), axes,
                                                  True)), top)
    return capi.weir_reshape(y, at.shape)


@aten("cumsum.default")
def cumsum(at: Call, self: Handle, dim: int, dtype: TorchType | None = None) -> Handle:
    """Running sums."""
    return capi.weir_cumsum(cast(self, at.dtype), dim, False)


@aten("cumprod.default")
def cumprod(at: Call, self: Handle, dim: int, dtype: TorchType | None = None) -> Handle:
    """Running products."""
    return capi.weir_cumprod(cast(self, at.dtype), dim, False)


@aten("histc.default")
def histc(at: Call, self: Handle, bins: int = 100, min: Number = 0, max: Number = 0) -> Handle:
    """How many elements are in each of equal parts of a range, the elements' own if min is max. The
    last part has both of its ends."""
    kind, whole = dtype_of(self), capi.WEIR_I64
    require(kind in (capi.WEIR_F32, capi.WEIR_F64), "elements other than float32 and float64")
    x = capi.weir_reshape(capi.weir_detach(self), (math.prod(shape_of(self)),))
    require(shape_of(x) != (0,), "no elements")
    if min == max:
        low, high = capi.weir_amin(x, 0, False), capi.weir_amax(x, 0, False)
    else:
        low, high = filled(at, min, kind), filled(at, max, kind)
    empty = capi.weir_eq(low, high)
    low = capi.weir_where(empty, capi.weir_affine(low, 1.0, -1.0), low)
    high = capi.weir_where(empty, capi.weir_affine(high, 1.0, 1.0), high)
    inside = capi.weir_logical_and(capi.weir_ge(x, low), capi.weir_le(x, high))
    part = capi.weir_div(capi.weir_mul(capi.weir_sub(x, low), filled(at, bins, kind)),
                         capi.weir_sub(high, low))
    part = capi.weir_min(capi.weir_cast(part, whole), filled(at, bins - 1, whole))
    # What is outside is counted behind the last part.
    part = capi.weir_where(inside, part, filled(at, bins, whole))
    counts = capi.weir_scatter_add(filled(at, 0, whole, (bins + 1,)), part,
                                   filled(at, 1, whole, shape_of(x)))
    return capi.weir_cast(capi.weir_narrow(counts, 0, 0, bins), kind)


# ---- losses ----

def _reduced(x: Handle, reduction: int) -> Handle:
    if reduction == NONE:
        return x
    return (capi.weir_mean if reduction == MEAN else capi.weir_sum)(x, 0, False)


def _classes_last(x: Handle, target: Handle) -> tuple[Handle, Handle]:
    """(n,c,...) and (n,...) as (n ...,c) and (n ...)."""
    shape = shape_of(x)
    if len(shape) == 1:
        return capi.weir_reshape(x, (1, *shape)), capi.weir_reshape(target, (1,))
    rows = 1
    for i, n in enumerate(shape):
        rows *= n if i != 1 else 1
    if len(shape) > 2:
        x = capi.weir_transpose(x, (0, *range(2, len(shape)), 1))
    return capi.weir_reshape(x, (rows, *shape[1:2])), capi.weir_reshape(target, (rows,))


@aten("cross_entropy_loss.default")
def cross_entropy(at: Call, self: Handle, target: Handle, weight: Handle | None = None,
                  reduction: int = MEAN, ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Handle:
    """Softmax cross-entropy with classes or probabilities."""
    require(weight is None, "weights of classes")
    require(reduction != NONE, "reduction='none'")
    shape = shape_of(self)
    if shape_of(target) == shape:
        return _with_probabilities(self, target, reduction, label_smoothing)
    rows, classes = _classes_last(self, target)
    loss = capi.weir_cross_entropy_ignore(rows, classes, ignore_index)
    used = capi.weir_ne(classes, filled(at, ignore_index, dtype_of(classes)))
    count = cast(capi.weir_sum(used, 0, False), dtype_of(rows))
    if label_smoothing:
        logs = capi.weir_neg(capi.weir_mean(capi.weir_log_softmax(rows, 1), 2, False))
        smooth = capi.weir_sum(capi.weir_where(used, logs, filled(at, 0, dtype_of(rows))), 0, False)
        loss = capi.weir_add(capi.weir_affine(loss, 1 - label_smoothing, 0.0), capi.weir_affine(
            capi.weir_div(smooth, count), label_smoothing, 0.0))
    return capi.weir_mul(loss, count) if reduction == SUM else loss


def _with_probabilities(x: Handle, target: Handle, reduction: int, smoothing: float) -> Handle:
    shape = shape_of(x)
    require(len(shape) == 2, "probabilities of other than two axes")
    if smoothing:
        target = capi.weir_affine(target, 1 - smoothing, smoothing / shape[1])
    logs = capi.weir_mul(capi.weir_log_softmax(x, 1), target)
    total = capi.weir_neg(capi.weir_sum(logs, 0, False))
    return total if reduction == SUM else capi.weir_affine(total, 1 / shape[0], 0.0)


@aten("nll_loss_nd.default", "nll_loss.default", "nll_loss_forward.default")
def nll_loss(at: Call, self: Handle, target: Handle, weight: Handle | None = None,
             reduction: int = MEAN, ignore_index: int = -100) -> tuple[Handle, None] | Handle:
    """Negative log-likelihood of log-probabilities."""
    require(weight is None, "weights of classes")
    require(reduction != NONE, "reduction='none'")
    rows, classes = _classes_last(self, target)
    used = capi.weir_ne(classes, filled(at, ignore_index, dtype_of(classes)))
    zero = filled(at, 0, dtype_of(classes))
    picked = capi.weir_one_hot(capi.weir_where(used, classes, zero), shape_of(rows)[1],
                               dtype_of(rows))
    kept = capi.weir_mul(picked, capi.weir_unsqueeze(cast(used, dtype_of(rows)), 1))
    none = filled(at, 0, dtype_of(rows))
    chosen = capi.weir_where(cast(kept, capi.WEIR_BOOL), rows, none)
    total = capi.weir_neg(capi.weir_sum(chosen, 0, False))
    if reduction == MEAN:
        total = capi.weir_div(total, cast(capi.weir_sum(used, 0, False), dtype_of(rows)))
    return total if isinstance(at.result, torch.Tensor) else (total, None)


@aten("mse_loss.default")
def mse_loss(at: Call, self: Handle, target: Handle, reduction: int = MEAN) -> Handle:
    """Squared differences."""
    if reduction == MEAN and shape_of(self) == shape_of(target):
        return capi.weir_mse_loss(cast(self, at.dtype), cast(target, at.dtype))
    return _reduced(capi.weir_square(capi.weir_sub(cast(self, at.dtype), cast(target, at.dtype))),
                    reduction)


@aten("l1_loss.default")
def l1_loss(at: Call, self: Handle, target: Handle, reduction: int = MEAN) -> Handle:
    """Absolute differences."""
    return _reduced(capi.weir_abs(capi.weir_sub(cast(self, at.dtype), cast(target, at.dtype))),
                    reduction)


@aten("smooth_l1_loss.default")
def smooth_l1_loss(at: Call, self: Handle, target: Handle, reduction: int = MEAN,
                   beta: float = 1.0) -> Handle:
    """Squared differences below beta, absolute ones above."""
    if beta == 0:
        return l1_loss(at, self, target, reduction)
    far = capi.weir_abs(capi.weir_sub(cast(self, at.dtype), cast(target, at.dtype)))
    near = capi.weir_affine(capi.weir_square(far), 0.5 / beta, 0.0)
    below = capi.weir_lt(far, filled(at, beta, at.dtype))
    return _reduced(capi.weir_where(below, near, capi.weir_affine(far, 1.0, -0.5 * beta)),
                    reduction)


@aten("huber_loss.default")
def huber_loss(at: Call, self: Handle, target: Handle, reduction: int = MEAN,
               delta: float = 1.0) -> Handle:
    """smooth_l1_loss times delta."""
    y = smooth_l1_loss(at, self, target, reduction, delta)
    return capi.weir_affine(y, float(delta), 0.0)


@aten("binary_cross_entropy_with_logits.default")
def bce_with_logits(at: Call, self: Handle, target: Handle, weight: Handle | None = None,
                    pos_weight: Handle | None = None, reduction: int = MEAN) -> Handle:
    """Binary cross-entropy of logits."""
    require(weight is None and pos_weight is None, "weights")
    if reduction == MEAN:
        return capi.weir_bce_logits_loss(self, target)
    one = capi.weir_affine(target, -1.0, 1.0)
    return _reduced(capi.weir_sub(capi.weir_mul(one, self), capi.weir_log_sigmoid(self)), reduction)


@aten("binary_cross_entropy.default")
def bce(at: Call, self: Handle, target: Handle, weight: Handle | None = None,
        reduction: int = MEAN) -> Handle:
    """Binary cross-entropy of probabilities."""
    require(weight is None and reduction == MEAN, "weights, or a reduction other than 'mean'")
    return capi.weir_bce_loss(self, target)


@aten("kl_div.default")
def kl_div(at: Call, self: Handle, target: Handle, reduction: int = MEAN,
           log_target: bool = False) -> Handle:
    """Kullback-Leibler divergence of log-probabilities."""
    if log_target:
        y = capi.weir_mul(capi.weir_exp(target), capi.weir_sub(target, self))
    else:
        none = filled(at, 0, dtype_of(target))
        some = capi.weir_gt(target, none)
        safe = capi.weir_where(some, target, filled(at, 1, dtype_of(target)))
        y = capi.weir_mul(target, capi.weir_sub(capi.weir_log(safe), self))
    return _reduced(y, reduction)
