"""recurrent - recurrent layers over whole sequences: what operators and SINGA's handles share.

The weights lie in one vector: for each layer and direction (w_ih, w_hh), then, with a bias, for
each (b_ih, b_hh), with PyTorch's order of gates, which is cuDNN's.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, cast

from weir import _capi as capi
from weir import core
from weir.typing import Handle, Shape
from ..asserted import InvalidError, StateError
from . import arith
from .shape import CopyDataToFrom
from .tensor import Tensor, result


class RecurrentHandle(Protocol):
    """Sizes of recurrent layers: CudnnRNNHandle's, and a layer's own."""

    hidden_size: int
    mode: int
    num_layers: int
    bidirectional: bool


RELU, TANH, LSTM, GRU = range(4)
_GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}


def _has_bias(handle: RecurrentHandle) -> bool:
    """A handle need not tell its bias (True) and dropout (0): those of scripts often do not."""
    return bool(getattr(handle, "bias", True))


def weight_shapes(handle: RecurrentHandle, features: int) -> list[Shape]:
    """Shapes of the parts of the weight vector, in order; features: size of x's last axis."""
    if handle.mode not in _GATES:
        raise InvalidError(f"_RNN: the handle has mode {handle.mode}, must be 0 (ReLU), 1 (tanh), "
                           "2 (LSTM) or 3 (GRU)")
    ways = 2 if handle.bidirectional else 1
    rows, hidden = _GATES[handle.mode] * handle.hidden_size, handle.hidden_size
    matrices: list[Shape] = []
    biases: list[Shape] = []
    for layer in range(handle.num_layers):
        for _ in range(ways):
            matrices += [(rows, features if layer == 0 else ways * hidden), (rows, hidden)]
            if _has_bias(handle):
                biases += [(rows,), (rows,)]
    return matrices + biases


def split_weights(handle: RecurrentHandle, w: Handle, features: int) -> list[Handle | None]:
    """Handles in the core's order: matrices and biases of each layer and direction together; None
    for biases that there are not."""
    flat, parts, begin = capi.weir_reshape(w, (-1,)), [], 0
    for shape in weight_shapes(handle, features):
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        parts.append(capi.weir_reshape(capi.weir_narrow(flat, 0, begin, size), shape))
        begin += size
    if not _has_bias(handle):
        return [part for i in range(0, len(parts), 2) for part in (*parts[i:i + 2], None, None)]
    half = len(parts) // 2
    return [part for i in range(0, half, 2) for part in (*parts[i:i + 2],
                                                         *parts[half + i:half + i + 2])]


def run_layers(handle: RecurrentHandle, x: Handle, weights: list[Handle | None], hx: Handle | None,
               cx: Handle | None, mask: Handle | None, training: bool) -> tuple[Handle, ...]:
    """(outputs, last h[, last c]) of all layers. In training, with dropout, the outputs of each
    layer but the last pass a dropout."""
    ratio = float(getattr(handle, "dropout", 0.0))
    dropped = ratio > 0 and handle.num_layers > 1 and training
    if handle.mode in (LSTM, GRU) and not dropped:
        return tuple(capi.rnn(handle.mode == LSTM, x, weights, hx, cx, handle.num_layers,
                              bool(handle.bidirectional), mask))
    ways = 2 if handle.bidirectional else 1
    last = []
    for layer in range(handle.num_layers):
        if layer and dropped:
            x = capi.weir_dropout(x, ratio)
        h, c = (None if s is None else capi.weir_narrow(s, 0, layer * ways, ways) for s in (hx, cx))
        mine = weights[4 * ways * layer:4 * ways * (layer + 1)]
        if handle.mode in (LSTM, GRU):
            x, *states = capi.rnn(handle.mode == LSTM, x, mine, h, c, 1, bool(handle.bidirectional),
                                  mask)
        else:
            x, *states = _plain_layer(handle, x, mine, h, mask)
        last.append(states)
    return x, *(capi.weir_concat(list(states), 0) for states in zip(*last))


def _plain_layer(handle: RecurrentHandle, x: Handle, weights: list[Handle | None],
                 hx: Handle | None, mask: Handle | None) -> tuple[Handle, Handle]:
    """One layer of h = f(x w_ih + b_ih + h w_hh + b_hh), f tanh or ReLU: (outputs, last h)."""
    activation = capi.weir_tanh if handle.mode == TANH else capi.weir_relu
    dtype, (steps, n, features) = capi.weir_tensor_desc(x)
    zero = capi.weir_fill(capi.weir_tensor_device(x), (dtype, (n, handle.hidden_size)), 0.0)
    outputs, last = [], []
    for way in range(2 if handle.bidirectional else 1):
        w_ih, w_hh, b_ih, b_hh = weights[4 * way:4 * way + 4]
        from_x = capi.weir_matmul(capi.weir_reshape(x, (steps * n, features)),
                                  capi.weir_transpose(w_ih, None))
        if b_ih is not None:
            from_x = capi.weir_add(from_x, capi.weir_add(b_ih, b_hh))
        from_x = capi.weir_reshape(from_x, (steps, n, handle.hidden_size))
        w_hh = capi.weir_transpose(w_hh, None)
        h = zero if hx is None else capi.weir_squeeze(capi.weir_narrow(hx, 0, way, 1), 0)
        ys: list[Handle] = [zero] * steps
        for t in range(steps) if way == 0 else reversed(range(steps)):
            new = activation(capi.weir_add(capi.weir_squeeze(capi.weir_narrow(from_x, 0, t, 1), 0),
                                           capi.weir_matmul(h, w_hh)))
            if mask is None:
                ys[t] = h = new
            else:       # a sequence that has ended keeps its state, its outputs are 0
                goes_on = capi.weir_reshape(capi.weir_narrow(mask, 0, t, 1), (n, 1))
                ys[t], h = capi.weir_where(goes_on, new, zero), capi.weir_where(goes_on, new, h)
        outputs.append(capi.weir_stack(ys, 0))
        last.append(h)
    return capi.weir_concat(outputs, 2), capi.weir_stack(last, 0)


def mask_of(lengths: Tensor, x: Handle) -> Handle:
    """(steps, n) of bool: does sequence i, of lengths[i] steps, still last? x (steps, n, ...)."""
    steps = capi.weir_arange(capi.weir_tensor_device(x), capi.WEIR_I32,
                             capi.weir_tensor_desc(x)[1][0], 0.0, 1.0)
    row = capi.weir_reshape(arith.cast(lengths, core.kInt), (1, -1))
    return capi.weir_lt(capi.weir_reshape(steps, (-1, 1)), row)


# ---- SINGA's handle and functions for cards: here for every device ----

class CudnnRNNHandle:
    """Sizes of recurrent layers over x (steps, n, features); mode 0 ReLU, 1 tanh, 2 LSTM, 3 GRU.

    weights_size: elements of the vector W of all weights. dropout: of the outputs of each layer but
    the last, in training. A forward call in training is kept here until the next, as SINGA keeps
    its reserve space: the backward functions are of that call.
    """

    def __init__(self, x: Tensor, hidden_size: int, mode: int = 0, num_layers: int = 1,
                 bias: int | bool = 1, dropout: float = 0.0,
                 bidirectional: int | bool = 0) -> None:
        if x.nDim() != 3:
            raise InvalidError(f"CudnnRNNHandle: x must be (steps, n, features), not "
                               f"{tuple(x.shape())}")
        if not 0 <= dropout < 1:
            raise InvalidError(f"CudnnRNNHandle: dropout {dropout!r} must be at least 0 and below "
                               "1")
        self.feature_size: int = x.shape(2)
        self.batch_size: int = x.shape(1)
        self.hidden_size: int = int(hidden_size)
        self.mode: int = int(mode)
        self.num_layers: int = int(num_layers)
        self.bias: bool = bool(bias)
        self.bidirectional: bool = bool(bidirectional)
        self.dropout: float = float(dropout)
        self.weights_size: int = sum(math.prod(s) for s in weight_shapes(self, self.feature_size))
        self._inputs: list[Handle] = []         # x, hx, cx, W of the last forward call in training
        self._outputs: tuple[Handle, ...] = ()
        self._dw: Handle | None = None

    def run(self, xs: Sequence[Handle], lengths: Tensor | None,
            training: bool) -> tuple[Handle, ...]:
        """(y, hy[, cy]), given the handles of x, hx, cx and W."""
        x, hx, cx, w = xs
        weights = split_weights(self, w, self.feature_size)
        mask = None if lengths is None else mask_of(lengths, x)
        return run_layers(self, x, weights, hx, cx if self.mode == LSTM else None, mask, training)

    def remember(self, xs: Sequence[Handle], lengths: Tensor | None,
                 device: core.Device) -> tuple[Handle, ...]:
        """run, in training, on a tape of its own."""
        self._inputs = [capi.weir_detach(x) for x in xs]
        self._dw = None
        with device.taped():
            for x in self._inputs:
                capi.weir_tensor_set_needs_grad(x, True)
            self._outputs = self.run(self._inputs, lengths, True)
        return self._outputs

    def gradients(self, dys: Sequence[Tensor]) -> tuple[Handle, Handle, Handle | None]:
        """Those of x, hx and cx (None unless an LSTM), given those of y, hy and cy."""
        if not self._outputs:
            raise StateError("GpuRNNBackwardx: call GpuRNNForwardTraining with this handle first")
        lstm = self.mode == LSTM
        given = [capi.weir_reshape(dy.handle, capi.weir_tensor_desc(y)[1])
                 for y, dy in zip(self._outputs, dys)]
        wrt = [x for i, x in enumerate(self._inputs) if lstm or i != 2]
        dxs = capi.vjp(list(self._outputs), given, wrt)
        self._dw = dxs[-1]
        dx, dhx = cast("tuple[Handle, Handle]", dxs[:2])
        return dx, dhx, dxs[2] if lstm else None

    def weight_gradient(self) -> Handle:
        """That of W, of the last call of gradients."""
        if self._dw is None:
            raise StateError("GpuRNNBackwardW: call GpuRNNBackwardx with this handle first")
        return self._dw

    def part(self, lin_layer: int, pseudo_layer: int, is_bias: bool) -> tuple[int, Shape]:
        """Where a part of one gate lies in W, in elements, and its shape."""
        gates = _GATES[self.mode]
        ways = 2 if self.bidirectional else 1
        if not 0 <= lin_layer < 2 * gates:
            raise InvalidError(f"GpuRNNSetParam: linLayerID {lin_layer} must be 0 to "
                               f"{2 * gates - 1}")
        if not 0 <= pseudo_layer < self.num_layers * ways:
            raise InvalidError(f"GpuRNNSetParam: pseudoLayer {pseudo_layer} must be 0 to "
                               f"{self.num_layers * ways - 1}")
        if is_bias and not self.bias:
            raise InvalidError("GpuRNNSetParam: these layers have no bias")
        shapes = weight_shapes(self, self.feature_size)
        index = 2 * pseudo_layer + lin_layer // gates
        if is_bias:
            index += len(shapes) // 2
        whole = shapes[index]
        shape = (self.hidden_size, *whole[1:])
        begin = sum(math.prod(s) for s in shapes[:index])
        return begin + lin_layer % gates * math.prod(shape), shape


def _forward(x: Tensor, hx: Tensor, cx: Tensor, W: Tensor, lengths: Tensor | None,
             h: CudnnRNNHandle, training: bool) -> tuple[Tensor, Tensor, Tensor]:
    device = x.device()
    xs = [x.handle, hx.handle, cx.handle, W.handle]
    outs = h.remember(xs, lengths, device) if training else h.run(xs, lengths, False)
    y, hy = (result(out, device) for out in outs[:2])
    return y, hy, result(outs[2], device) if len(outs) > 2 else cx


def GpuRNNForwardTraining(x: Tensor, hx: Tensor, cx: Tensor, W: Tensor,
                          h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """(y, hy, cy) of x (steps, n, features), hx and cx (layers, n, hidden); h keeps the call."""
    return _forward(x, hx, cx, W, None, h, True)


def GpuRNNForwardInference(x: Tensor, hx: Tensor, cx: Tensor, W: Tensor,
                           h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """As GpuRNNForwardTraining, without dropout; h keeps nothing."""
    return _forward(x, hx, cx, W, None, h, False)


def GpuRNNForwardTrainingEx(x: Tensor, hx: Tensor, cx: Tensor, W: Tensor, seq_lengths: Tensor,
                            h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """As GpuRNNForwardTraining; seq_lengths (n): a sequence that has ended keeps its state, its
    outputs are 0."""
    return _forward(x, hx, cx, W, seq_lengths, h, True)


def GpuRNNForwardInferenceEx(x: Tensor, hx: Tensor, cx: Tensor, W: Tensor, seq_lengths: Tensor,
                             h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """As GpuRNNForwardTrainingEx, without dropout; h keeps nothing."""
    return _forward(x, hx, cx, W, seq_lengths, h, False)


def GpuRNNBackwardx(y: Tensor, dy: Tensor, dhy: Tensor, dcy: Tensor, W: Tensor, hx: Tensor,
                    cx: Tensor, h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """(dx, dhx, dcx) of the forward call that h keeps; dcx is 0 unless an LSTM."""
    del W, hx
    device = y.device()
    dx, dhx, dcx = h.gradients((dy, dhy, dcy))
    if dcx is None:
        dcx = capi.weir_fill(device.handle, capi.weir_tensor_desc(cx.handle), 0.0)
    return result(dx, device), result(dhx, device), result(dcx, device)


def GpuRNNBackwardW(x: Tensor, hx: Tensor, y: Tensor, h: CudnnRNNHandle) -> Tensor:
    """The gradient of W, by the gradients that the last GpuRNNBackwardx was given."""
    del hx, y
    return result(h.weight_gradient(), x.device())


def GpuRNNBackwardxEx(y: Tensor, dy: Tensor, dhy: Tensor, dcy: Tensor, W: Tensor, hx: Tensor,
                      cx: Tensor, seq_lengths: Tensor,
                      h: CudnnRNNHandle) -> tuple[Tensor, Tensor, Tensor]:
    """GpuRNNBackwardx; the forward call's lengths hold."""
    del seq_lengths
    return GpuRNNBackwardx(y, dy, dhy, dcy, W, hx, cx, h)


def GpuRNNBackwardWEx(x: Tensor, hx: Tensor, y: Tensor, seq_lengths: Tensor,
                      h: CudnnRNNHandle) -> Tensor:
    """GpuRNNBackwardW; the forward call's lengths hold."""
    del seq_lengths
    return GpuRNNBackwardW(x, hx, y, h)


def GpuRNNSetParam(linLayerID: int, pseudoLayer: int, weights: Tensor, paramValues: Tensor,
                   is_bias: bool, h: CudnnRNNHandle) -> None:
    """Writes one gate's matrix or bias into the vector of weights.

    linLayerID: the gate (LSTM: input, forget, cell, output; GRU: reset, update, new), for the
    matrices of the state after those of x; pseudoLayer: layer times directions plus direction.
    """
    begin, shape = h.part(linLayerID, pseudoLayer, is_bias)
    size = math.prod(shape)
    if math.prod(paramValues.shape()) != size:
        raise InvalidError(f"GpuRNNSetParam: paramValues of shape {tuple(paramValues.shape())} "
                           f"must have the {size} elements of {shape}")
    CopyDataToFrom(weights, paramValues, size, begin, 0)


def GpuRNNGetParamCopy(linLayerID: int, pseudoLayer: int, weights: Tensor, is_bias: bool,
                       h: CudnnRNNHandle) -> Tensor:
    """A copy of what GpuRNNSetParam writes, in its shape."""
    begin, shape = h.part(linLayerID, pseudoLayer, is_bias)
    flat = capi.weir_reshape(weights.handle, (-1,))
    part = capi.weir_reshape(capi.weir_narrow(flat, 0, begin, math.prod(shape)), shape)
    return result(capi.weir_copy(part), weights.device())
