"""recurrent - LSTM and GRU over whole sequences, the core's.

SINGA has this operator on GPUs only. The handle (CudnnRNNHandle) tells sizes: hidden_size, mode (2
LSTM, 3 GRU), num_layers, bidirectional. The weights lie in one vector: for each layer and direction
(w_ih, w_hh), then for each (b_ih, b_hh).
"""
from __future__ import annotations
from typing import Protocol


from weir import _capi as capi
from weir import core
from ..asserted import ArgumentError, InvalidError
from ..raw import arith
from ..tape import Core
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


LSTM, GRU = 2, 3
_GATES = {LSTM: 4, GRU: 3}


def weight_shapes(handle: RecurrentHandle, features: int) -> list[Shape]:
    """Shapes of the parts of the weight vector, in order; features: size of x's last axis."""
    if handle.mode not in _GATES:
        raise InvalidError(f"_RNN: the handle has mode {handle.mode}, must be 2 (LSTM) or 3 (GRU)")
    ways = 2 if handle.bidirectional else 1
    rows, hidden = _GATES[handle.mode] * handle.hidden_size, handle.hidden_size
    matrices: list[Shape] = []
    biases: list[Shape] = []
    for layer in range(handle.num_layers):
        for _ in range(ways):
            matrices += [(rows, features if layer == 0 else ways * hidden), (rows, hidden)]
            biases += [(rows,), (rows,)]
    return matrices + biases


def _weights(handle: RecurrentHandle, w: CTensor, features: int) -> list[Handle]:
    """Handles in the core's order: matrices and biases of each layer and direction together."""
    flat, parts, begin = capi.weir_reshape(w.handle, (-1,)), [], 0
    for shape in weight_shapes(handle, features):
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        parts.append(capi.weir_reshape(capi.weir_narrow(flat, 0, begin, size), shape))
        begin += size
    half = len(parts) // 2
    return [part for i in range(0, half, 2) for part in (*parts[i:i + 2],
                                                         *parts[half + i:half + i + 2])]


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
        y = capi.rnn(lstm, x.handle, weights, hx.handle, cx.handle if lstm else None,
                     self.handle.num_layers, bool(self.handle.bidirectional), self._mask(x))[0]
        return out(y if self.return_sequences else self._last(y, x), x)
