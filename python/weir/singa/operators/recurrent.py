"""recurrent - recurrent layers over whole sequences: LSTM and GRU are the core's.

SINGA has this operator on GPUs only. The handle (CudnnRNNHandle) tells sizes: hidden_size, mode (0
ReLU, 1 tanh, 2 LSTM, 3 GRU), num_layers, bidirectional, bias, dropout. The weights lie in one
vector: for each layer and direction (w_ih, w_hh), then, with a bias, for each (b_ih, b_hh).
"""
from __future__ import annotations
from typing import Protocol


from weir import _capi as capi
from weir import core
from ..asserted import ArgumentError, InvalidError
from ..raw import arith
from ..tape import Core
from ..taping import is_training
from ..tensor import Tensor
from .base import out
from weir.typing import Handle, Shape
from ..raw.tensor import CTensor

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


def _weights(handle: RecurrentHandle, w: CTensor, features: int) -> list[Handle | None]:
    """Handles in the core's order: matrices and biases of each layer and direction together; None
    for biases that there are not."""
    flat, parts, begin = capi.weir_reshape(w.handle, (-1,)), [], 0
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
               cx: Handle | None, mask: Handle | None) -> tuple[Handle, ...]:
    """(outputs, last h[, last c]) of all layers. In training, with dropout, the outputs of each
    layer but the last pass a dropout."""
    ratio = float(getattr(handle, "dropout", 0.0))
    dropped = ratio > 0 and handle.num_layers > 1 and is_training()
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


class _RNN(Core):
    """x (steps, n, features), hx and cx (layers, n, hidden): all outputs, or the last.

    seq_lengths (n) with use_mask: a sequence that has ended keeps its state, its outputs are 0.
    """

    def __init__(self, handle: RecurrentHandle, return_sequences: bool = False,
                 use_mask: bool = False, seq_lengths: Tensor | None = None) -> None:
        super().__init__()
        self.handle = handle
        self.return_sequences = return_sequences
        if use_mask and not isinstance(seq_lengths, Tensor):
            raise ArgumentError("_RNN: use_mask needs seq_lengths, a Tensor, which is a "
                                f"{type(seq_lengths).__name__}")
        self.lengths = seq_lengths.data if use_mask and seq_lengths is not None else None

    weight_shapes = staticmethod(weight_shapes)

    def _mask(self, x: CTensor) -> Handle | None:
        if self.lengths is None:
            return None
        lengths = capi.weir_reshape(arith.cast(self.lengths, core.kInt), (1, -1))
        steps = capi.weir_arange(x.device().handle, capi.WEIR_I32, x.shape(0), 0.0, 1.0)
        return capi.weir_lt(capi.weir_reshape(steps, (-1, 1)), lengths)

    def _last(self, y: Handle, x: CTensor) -> Handle:
        """(n, hidden): the output at the last step of each sequence, 0 for one without steps."""
        steps, n = x.shape(0), x.shape(1)
        if self.lengths is None:
            return capi.weir_squeeze(capi.weir_narrow(y, 0, steps - 1, 1), 0)
        i32, device = capi.WEIR_I32, x.device().handle
        lengths = capi.weir_reshape(arith.cast(self.lengths, core.kInt), (-1,))
        lengths = capi.weir_clamp(lengths, 1.0, float(steps))
        before = capi.weir_sub(lengths, capi.weir_fill(device, (i32, ()), 1))
        rows = capi.weir_mul(before, capi.weir_fill(device, (i32, ()), n))
        rows = capi.weir_add(rows, capi.weir_arange(device, i32, n, 0.0, 1.0))
        return capi.weir_gather(capi.weir_reshape(y, (steps * n, -1)), rows)

    def forward(self, x: CTensor, hx: CTensor, cx: CTensor, w: CTensor) -> CTensor:
        lstm = self.handle.mode == LSTM
        weights = _weights(self.handle, w, x.shape(2))
        y = run_layers(self.handle, x.handle, weights, hx.handle, cx.handle if lstm else None,
                       self._mask(x))[0]
        return out(y if self.return_sequences else self._last(y, x), x)
