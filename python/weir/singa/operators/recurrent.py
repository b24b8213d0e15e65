"""recurrent - recurrent layers over whole sequences: LSTM and GRU are the core's.

SINGA has this operator on GPUs only. The handle (CudnnRNNHandle, or any object) tells sizes:
hidden_size, mode (0 ReLU, 1 tanh, 2 LSTM, 3 GRU), num_layers, bidirectional, bias, dropout.
"""
from __future__ import annotations

from weir import _capi as capi
from weir import core
from weir.typing import Handle
from ..asserted import ArgumentError
from ..raw import arith
from ..raw.recurrent import LSTM, RecurrentHandle, mask_of, run_layers, split_weights, weight_shapes
from ..raw.tensor import CTensor
from ..tape import Core
from ..taping import is_training
from ..tensor import Tensor
from .base import out


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
        weights = split_weights(self.handle, w.handle, x.shape(2))
        mask = None if self.lengths is None else mask_of(self.lengths, x.handle)
        y = run_layers(self.handle, x.handle, weights, hx.handle, cx.handle if lstm else None,
                       mask, is_training())[0]
        return out(y if self.return_sequences else self._last(y, x), x)
