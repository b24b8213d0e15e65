"""layers - rows of the table: products, normalisation, attention, dropout, recurrent networks."""
from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import dtype as TorchType

from .. import _capi as capi
from ..options import options
from ..typing import Handle, Number
from .table import Call, Refused, aten, cast, dtype_of, filled, require, shape_of

SWAP = (0, 2, 1, 3)
ALL, FROM_FIRST = 0, 1


@aten("linear.default")
def linear(at: Call, input: Handle, weight: Handle, bias: Handle | None = None) -> Handle:
    """x w^T + bias over the last axis."""
    shape = shape_of(input)
    rows = math.prod(shape[:-1])
    x = input if len(shape) == 2 else capi.weir_reshape(input, (rows, shape[-1]))
    y = capi.weir_linear(x, weight, bias)
    return y if len(shape) == 2 else capi.weir_reshape(y, at.shape)


@aten("addmm.default", "baddbmm.default")
def addmm(at: Call, self: Handle, mat1: Handle, mat2: Handle, beta: Number = 1,
          alpha: Number = 1) -> Handle:
    """beta self + alpha mat1 mat2."""
    return capi.weir_gemm(mat1, mat2, self, float(alpha), float(beta), False, False)


@aten("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def matmul(at: Call, self: Handle, other: Handle) -> Handle:
    """The product of matrices."""
    return capi.weir_matmul(self, other)


@aten("einsum.default")
def einsum(at: Call, equation: str, tensors: Sequence[Handle], path: object = None) -> Handle:
    """Einstein's summation of one or two operands."""
    require(len(tensors) in (1, 2), f"{len(tensors)} operands")
    return capi.weir_einsum(equation.replace(" ", ""), tensors[0],
                            tensors[1] if len(tensors) == 2 else None)


@aten("_native_batch_norm_legit_functional.default")
def batch_norm(at: Call, input: Handle, weight: Handle | None, bias: Handle | None,
               running_mean: Handle, running_var: Handle, training: bool, momentum: float,
               eps: float) -> tuple[Handle | None, ...]:
    """Batch normalisation, which updates the running statistics."""
    how = options(capi.weir_batch_norm_options, eps=eps, momentum=momentum, train=training,
                  exact=True)
    at.updated.update((3, 4))
    y = capi.weir_batch_norm(input, *_scale(at, weight, bias, input), running_mean, running_var,
                             how)
    return y, None, None, running_mean, running_var


@aten("batch_norm.default")
def whole_batch_norm(at: Call, input: Handle, weight: Handle | None, bias: Handle | None,
                     running_mean: Handle | None, running_var: Handle | None, training: bool,
                     momentum: float, eps: float, cudnn_enabled: bool = True) -> Handle:
    """Batch normalisation by running statistics, or of a batch without them."""
    if running_mean is not None and running_var is not None:
        require(not training, "training with statistics that are updated unseen")
        how = options(capi.weir_batch_norm_options, eps=eps, momentum=momentum, exact=True)
        return capi.weir_batch_norm(input, *_scale(at, weight, bias, input), running_mean,
                                    running_var, how)
    axes = len(shape_of(input))
    others = sum(1 << i for i in range(axes) if i != 1)
    mean = capi.weir_mean(input, others, True)
    spread = capi.weir_rsqrt(capi.weir_affine(capi.weir_var(input, others, 0, True), 1.0, eps))
    y = capi.weir_mul(capi.weir_sub(input, mean), spread)
    return _affine(y, weight, bias, (1, -1, *[1] * (axes - 2)))


@aten("_native_batch_norm_legit_no_training.default")
def batch_norm_inference(at: Call, input: Handle, weight: Handle | None, bias: Handle | None,
                         running_mean: Handle, running_var: Handle, momentum: float,
                         eps: float) -> tuple[Handle | None, ...]:
    """Batch normalisation by running statistics."""
    return whole_batch_norm(at, input, weight, bias, running_mean, running_var, False, momentum,
                            eps), None, None


def _scale(at: Call, weight: Handle | None, bias: Handle | None,
           x: Handle) -> tuple[Handle, Handle]:
    """Scale and bias, 1 and 0 where there are none."""
    channels, dtype = (shape_of(x)[1],), dtype_of(x)
    return (filled(at, 1, dtype, channels) if weight is None else weight,
            filled(at, 0, dtype, channels) if bias is None else bias)


def _affine(y: Handle, weight: Handle | None, bias: Handle | None,
            shape: Sequence[int]) -> Handle:
    if weight is not None:
        y = capi.weir_mul(y, capi.weir_reshape(weight, shape))
    return y if bias is None else capi.weir_add(y, capi.weir_reshape(bias, shape))


@aten("layer_norm.default", "native_layer_norm.default")
def layer_norm(at: Call, input: Handle, normalized_shape: Sequence[int],
               weight: Handle | None = None, bias: Handle | None = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Handle | tuple[Handle | None, ...]:
    """Layer normalisation."""
    require(eps > 0, "eps=0")
    shape, dtype = tuple(normalized_shape), dtype_of(input)
    y = capi.weir_layer_norm(input, filled(at, 1, dtype, shape) if weight is None else weight,
                             filled(at, 0, dtype, shape) if bias is None else bias, eps)
    return y if isinstance(at.result, torch.Tensor) else (y, None, None)


@aten("group_norm.default")
def group_norm(at: Call, input: Handle, num_groups: int, weight: Handle | None = None,
               bias: Handle | None = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Handle:
    """Group normalisation."""
    require(eps > 0, "eps=0")
    shape, x = shape_of(input), input
    if len(shape) not in (2, 4):
        x = capi.weir_reshape(input, (*shape[:2], math.prod(shape[2:]), 1))
    y = capi.weir_group_norm(x, num_groups, *_scale(at, weight, bias, input), eps)
    return y if x is input else capi.weir_reshape(y, shape)


@aten("instance_norm.default")
def instance_norm(at: Call, input: Handle, weight: Handle | None, bias: Handle | None,
                  running_mean: Handle | None, running_var: Handle | None, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool) -> Handle:
    """Each channel of each sample normalised: groups of one channel."""
    require(use_input_stats and running_mean is None and running_var is None, "running statistics")
    require(len(shape_of(input)) > 2, "no axis behind the channels")
    return group_norm(at, input, shape_of(input)[1], weight, bias, eps)


@aten("native_group_norm.default")
def native_group_norm(at: Call, input: Handle, weight: Handle | None, bias: Handle | None, n: int,
                      c: int, hxw: int, group: int, eps: float) -> tuple[Handle | None, ...]:
    """Group normalisation with the statistics, which are not read."""
    return group_norm(at, input, group, weight, bias, eps), None, None


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_alone(at: Call, input: Handle, weight: Handle | None, bias: Handle | None,
                     training: bool, momentum: float, eps: float) -> tuple[Handle | None, ...]:
    """Batch normalisation without running statistics: channels of the whole batch as groups."""
    require(training, "evaluation without running statistics")
    shape = shape_of(input)
    order = (1, 0, *range(2, len(shape)))
    rows = capi.weir_reshape(capi.weir_transpose(input, order), (1, shape[1], -1))
    y = group_norm(at, rows, shape[1], weight, bias, eps)
    swapped = (shape[1], shape[0], *shape[2:])
    return capi.weir_transpose(capi.weir_reshape(y, swapped), order), None, None


@aten("rms_norm.default")
def rms_norm(at: Call, input: Handle, normalized_shape: Sequence[int],
             weight: Handle | None = None, eps: float | None = None) -> Handle:
    """RMS normalisation."""
    dtype = dtype_of(input)
    least = {capi.WEIR_F64: 2.0 ** -52, capi.WEIR_F32: 2.0 ** -23, capi.WEIR_BF16: 2.0 ** -7,
             capi.WEIR_F16: 2.0 ** -10}
    by = least[dtype] if eps is None else eps
    require(by > 0, "eps=0")
    if weight is None:
        weight = filled(at, 1, dtype, tuple(normalized_shape))
    return capi.weir_rms_norm(input, weight, by)


def _of_heads(x: Handle) -> Handle:
    """(t,d) as (1,1,t,d), (b,t,d) as (b,1,t,d), (a,b,n,t,d) as (a b,n,t,d)."""
    shape = shape_of(x)
    if len(shape) > 4:
        return capi.weir_reshape(x, (math.prod(shape[:-3]), *shape[-3:]))
    return x if len(shape) == 4 else capi.weir_reshape(x, (1,) * (3 - len(shape)) + (
        *shape[:-2], 1, *shape[-2:]))


def _side_by_side(x: Handle) -> Handle:
    b, heads, rows, columns = shape_of(x)
    return capi.weir_reshape(capi.weir_transpose(x, SWAP), (b, rows, heads * columns))


@aten("scaled_dot_product_attention.default")
def attention(at: Call, query: Handle, key: Handle, value: Handle, attn_mask: Handle | None = None,
              dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
              enable_gqa: bool = False) -> Handle:
    """softmax(scale q k^T + mask) v."""
    axes = len(shape_of(query))
    require(axes >= 2, f"{axes} axes")
    require(all(shape_of(x)[:-3] == shape_of(query)[:-3] for x in (key, value)),
            "batches that are broadcast")
    q, k, v = (_of_heads(x) for x in (query, key, value))
    (b, n, t, _), (kb, kv, _, _) = shape_of(q), shape_of(k)
    require(kb == b and shape_of(v)[:2] == (b, kv), "batches or heads that are broadcast")
    require(n == kv or kv == 1 or enable_gqa, "fewer heads of keys without enable_gqa")
    if attn_mask is not None:
        more = len(shape_of(attn_mask))
        require(more <= 2 or more <= axes <= 4, f"a mask of {more} axes, of queries of {axes}")
        if axes == 3 == more:
            attn_mask = capi.weir_unsqueeze(attn_mask, 1)
        if dtype_of(attn_mask) not in (capi.WEIR_BOOL, dtype_of(q)):
            attn_mask = cast(attn_mask, capi.WEIR_F32)
    by = 0.0 if scale is None else float(scale) or -0.0
    y, = capi.attention(_side_by_side(q), _side_by_side(k), _side_by_side(v), n, kv,
                        FROM_FIRST if is_causal else ALL, by, float(dropout_p), attn_mask, None)
    y = capi.weir_transpose(capi.weir_reshape(y, (b, t, n, shape_of(v)[3])), SWAP)
    return y if axes == 4 else capi.weir_reshape(y, at.shape)


@aten("native_dropout.default")
def native_dropout(at: Call, input: Handle, p: float,
                   train: bool | None = True) -> tuple[Handle, None]:
    """Dropout; the mask is not read."""
    return (input if train is False or p == 0 else capi.weir_dropout(input, float(p))), None


@aten("dropout.default", "feature_dropout.default")
def dropout(at: Call, input: Handle, p: float, train: bool) -> Handle:
    """Dropout; of whole channels it is refused."""
    if not train or p == 0:
        return input
    raise Refused("training")


@aten("bernoulli.p")
def bernoulli(at: Call, self: Handle, p: float = 0.5) -> Handle:
    """1 with probability p, else 0."""
    return capi.weir_bernoulli(at.device.handle, (at.dtype, at.shape), float(p))


@aten("rand.default", "rand_like.default")
def rand(at: Call, size: object, *more: object, dtype: TorchType | None = None) -> Handle:
    """Uniform in [0, 1)."""
    return capi.weir_uniform(at.device.handle, (at.dtype, at.shape), 0.0, 1.0)


@aten("randn.default", "randn_like.default")
def randn(at: Call, size: object, *more: object, dtype: TorchType | None = None) -> Handle:
    """Normal with mean 0 and deviation 1."""
    return capi.weir_normal(at.device.handle, (at.dtype, at.shape), 0.0, 1.0)


def _recurrent(at: Call, lstm: bool, x: Handle, h0: Handle, c0: Handle | None,
               weights: Sequence[Handle], biases: bool, layers: int, dropout_p: float,
               train: bool, bidirectional: bool, batch_first: bool) -> tuple[Handle, ...]:
    require(len(shape_of(x)) == 3, "a sequence without a batch")
    require(layers == 1 or dropout_p == 0 or not train, "dropout between layers")
    each = 4 if biases else 2
    cells = [weights[i:i + each] for i in range(0, len(weights), each)]
    require(len(cells) == layers * (2 if bidirectional else 1) and
            shape_of(cells[0][1])[1] == shape_of(h0)[2], "a projection")
    every = [w for cell in cells for w in (*cell, *[None] * (4 - each))]
    if batch_first:
        x = capi.weir_transpose(x, (1, 0, 2))
    y, *last = capi.rnn(lstm, x, every, h0, c0, layers, bidirectional, None)
    return (capi.weir_transpose(y, (1, 0, 2)) if batch_first else y, *last)


@aten("lstm.input")
def lstm(at: Call, input: Handle, hx: Sequence[Handle], params: Sequence[Handle],
         has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
         batch_first: bool) -> tuple[Handle, ...]:
    """Long short-term memory: outputs, last states."""
    return _recurrent(at, True, input, hx[0], hx[1], params, has_biases, num_layers, dropout,
                      train, bidirectional, batch_first)


@aten("gru.input")
def gru(at: Call, input: Handle, hx: Handle, params: Sequence[Handle], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool,
        batch_first: bool) -> tuple[Handle, ...]:
    """Gated recurrent units: outputs, last state."""
    return _recurrent(at, False, input, hx, None, params, has_biases, num_layers, dropout, train,
                      bidirectional, batch_first)
