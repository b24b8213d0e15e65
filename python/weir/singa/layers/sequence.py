"""sequence - recurrent layers, attention, normalisation of the last axis.

LSTM, GRU and CudnnRNN are one operator of the core over the whole sequence, so they work on every
device. Gates of an LSTM in SINGA's names: i(nput), f(orget), o(utput), g: the candidate.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weir import _capi as capi
from ..asserted import InvalidError
from ..operators import elementwise, matrix, shapes
from ..operators.attention import ALL, FROM_FIRST
from .. import singa_wrap as singa
from ..tape import Core
from ..taping import is_training
from ..tensor import Tensor
from ..operators.recurrent import _RNN
from ..raw.recurrent import (RELU, TANH, GRU as MODE_GRU, LSTM as MODE_LSTM, mask_of, run_layers,
                             split_weights, weight_shapes)
from .base import Layer, param
from weir.typing import Handle
from ..raw.tensor import CTensor

def _raw(handle: Handle, like: CTensor) -> CTensor:
    return singa.result(handle, like.device())


class RNN_Base(Layer):
    """What the recurrent layers of SINGA's older interface derive from."""

    if TYPE_CHECKING:
        step_forward: Callable[..., Tensor | tuple[Tensor, Tensor]]
    else:
        def step_forward(self, *args, **kwargs):
            """One step, which each layer defines."""
            raise NotImplementedError(f"{type(self).__name__} does not define step_forward")


def _one_batch(tensors: Sequence[Tensor], axis: int) -> list[Tensor]:
    """The tensors, those of one sample repeated along the batch's axis to the samples of the rest:
    steps and states broadcast, as in SINGA."""
    n = max((t.shape[axis] for t in tensors if len(t.shape) > axis), default=1)
    return [shapes.expand(t, (*t.shape[:axis], n, *t.shape[axis + 1:]))
            if len(t.shape) > axis and t.shape[axis] == 1 != n else t for t in tensors]


class RNN(RNN_Base):
    """h = f(x Wx + h Wh + b) with tanh or ReLU: (list of x, h0) -> (list of h, last h)."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1,
                 nonlinearity: str = "tanh", bias: bool = True, batch_first: bool = False,
                 dropout: float = 0, bidirectional: bool = False) -> None:
        super().__init__()
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: unknown nonlinearity {nonlinearity!r} (expected tanh or relu)")
        if num_layers != 1 or bidirectional or dropout or batch_first:
            raise NotImplementedError("RNN has one layer and one direction only; "
                                      "use CudnnRNN for more")
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.nonlinearity = nonlinearity
        self.bias: bool = bias

    def initialize(self, xs: Sequence[Tensor], h0: Tensor) -> None:
        std = math.sqrt(2.0 / (self.input_size + self.hidden_size))
        self.Wx: Tensor = param((self.input_size, self.hidden_size), xs[0], std)
        self.Wh: Tensor = param((self.hidden_size, self.hidden_size), xs[0],
                                math.sqrt(1.0 / self.hidden_size))
        self.b: Tensor | None = param((self.hidden_size,), xs[0]) if self.bias else None

    def step_forward(self, x: Tensor, h: Tensor, Wx: Tensor | None = None,
                     Wh: Tensor | None = None, b: Tensor | None = None) -> Tensor:
        """One step: x (n, inputs) and the state h (n, hidden) give the next state. SINGA gives the
        weights, too; None: the layer's own."""
        y = elementwise.add(matrix.matmul(x, self.Wx if Wx is None else Wx),
                            matrix.matmul(h, self.Wh if Wh is None else Wh))
        b = self.b if b is None else b
        if b is not None:
            y = matrix.add_bias(y, b)
        return elementwise.tanh(y) if self.nonlinearity == "tanh" else elementwise.relu(y)

    def forward(self, xs: Sequence[Tensor], h0: Tensor) -> tuple[list[Tensor], Tensor]:
        h, hs = h0, []
        for x in xs:
            h = self.step_forward(x, h)
            hs.append(h)
        return hs, h


class _Lstm(Core):
    """Steps x..., h0, c0, then matrices of x and of h, then biases (4 each, gates i f g o)."""

    single = False

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, *raws: CTensor) -> tuple[CTensor, ...]:
        handles = [raw.handle for raw in raws]
        xs, (h0, c0), weights = (handles[:self.steps], handles[self.steps:self.steps + 2],
                                 handles[self.steps + 2:])
        gates = [capi.weir_concat([capi.weir_transpose(w, None) for w in weights[i:i + 4]], 0)
                 for i in (0, 4)]
        biases = [capi.weir_concat(weights[i:i + 4], 0) for i in range(8, len(weights), 4)]
        y, _, c = capi.rnn(True, capi.weir_stack(xs, 0), [*gates, *(biases or (None, None))],
                           capi.weir_unsqueeze(h0, 0), capi.weir_unsqueeze(c0, 0), 1, False, None)
        hs = [capi.weir_squeeze(capi.weir_narrow(y, 0, i, 1), 0) for i in range(self.steps)]
        return tuple(_raw(h, raws[0]) for h in hs + [capi.weir_squeeze(c, 0)])


class LSTM(RNN_Base):
    """(list of x, (h0, c0)) -> (list of h, last h, last c)."""

    GATES = "ifgo"
    DEVIATION = 0.01        # of the first weights, as in SINGA

    def __init__(self, input_size: int, hidden_size: int, nonlinearity: str = "tanh",
                 num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0, bidirectional: bool = False) -> None:
        super().__init__()
        if num_layers != 1 or bidirectional or dropout or batch_first or nonlinearity != "tanh":
            raise NotImplementedError("LSTM has one layer and one direction only; "
                                      "use CudnnRNN for more")
        self.input_size: int = input_size
        self.hidden_size: int = hidden_size
        self.bias: bool = bias

    def initialize(self, xs: Sequence[Tensor], states: tuple[Tensor, Tensor]) -> None:
        both = (("Wx", self.input_size), ("Wh", self.hidden_size))
        for kind, rows in both:
            for gate in "ifog":
                setattr(self, f"{kind}_{gate}",
                        param((rows, self.hidden_size), xs[0], self.DEVIATION))
        for kind in ("Bx", "Bh") if self.bias else ():
            for gate in "ifog":
                setattr(self, f"{kind}_{gate}", param((self.hidden_size,), xs[0]))

    def _weights(self) -> list[Tensor]:
        kinds = ("Wx", "Wh", "Bx", "Bh") if self.bias else ("Wx", "Wh")
        return [getattr(self, f"{kind}_{gate}") for kind in kinds for gate in self.GATES]

    def step_forward(self, x: Tensor, h: Tensor, c: Tensor, Wx: Sequence[Tensor] | None = None,
                     Wh: Sequence[Tensor] | None = None, Bx: Sequence[Tensor] | None = None,
                     Bh: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """One step: x (n, inputs) and the states (n, hidden) give the next states h, c. Weights, as
        SINGA gives them: one for each gate, in the order i, f, o, g; None: the layer's own."""
        def own(kind: str, given: Sequence[Tensor] | None) -> Sequence[Tensor]:
            return [getattr(self, f"{kind}_{gate}") for gate in "ifog"] if given is None else given

        gates = [elementwise.add(matrix.matmul(x, wx), matrix.matmul(h, wh))
                 for wx, wh in zip(own("Wx", Wx), own("Wh", Wh))]
        for kind, given in (("Bx", Bx), ("Bh", Bh)) if self.bias else ():
            gates = [elementwise.add(y, b) for y, b in zip(gates, own(kind, given))]
        i, f, o = (elementwise.sigmoid(y) for y in gates[:3])
        c = elementwise.add(elementwise.mul(f, c), elementwise.mul(i, elementwise.tanh(gates[3])))
        return elementwise.mul(o, elementwise.tanh(c)), c

    def forward(self, xs: Sequence[Tensor],
                states: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor, Tensor]:
        h0, c0 = states
        *hs, c = _Lstm(len(xs))(*_one_batch([*xs, h0, c0], 0), *self._weights())
        return hs, hs[-1], c


class _Outputs(_RNN):
    """All outputs, the last states of h and, of an LSTM, of c."""

    single = False

    def forward(                            # type: ignore[override]
            self, x: CTensor, w: CTensor, *states: CTensor) -> tuple[CTensor, ...]:
        hx, cx = [s.handle for s in states] + [None] * (2 - len(states))
        weights = split_weights(self.handle, w.handle, x.shape(2))
        mask = None if self.lengths is None else mask_of(self.lengths, x.handle)
        results = run_layers(self.handle, x.handle, weights, hx, cx, mask, is_training())
        return tuple(_raw(y, x) for y in results)


class _Sequence(Layer):
    """LSTM or GRU layers; all their weights are one vector W, laid out as _RNN reads it."""

    mode = MODE_LSTM
    hidden_size: int
    num_layers: int
    bidirectional: bool
    batch_first: bool
    bias: bool = True
    dropout: float = 0.0

    def initialize(self, x: Tensor, *args: object, **kwargs: object) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size)
        count = sum(math.prod(shape) for shape in weight_shapes(self, x.shape[-1]))
        self.W = param((count,), x).uniform(-bound, bound)

    def run(self, x: Tensor, states: Sequence[Tensor | None],
            lengths: Tensor | None = None) -> tuple[Tensor, ...]:
        """(outputs, last h[, last c]); states None or not given are 0."""
        given = [s for s in states if s is not None]
        if self.mode == MODE_LSTM and len(given) == 1:
            raise ValueError("an LSTM needs both states, or none")
        if self.batch_first:
            x = shapes.transpose(x, (1, 0, 2))
        x, *given = _one_batch([x, *given], 1)
        y, *last = _Outputs(self, True, lengths is not None, lengths)(x, self.W, *given)
        return (shapes.transpose(y, (1, 0, 2)) if self.batch_first else y, *last)


class CudnnRNN(_Sequence):
    """SINGA's recurrent layer for GPUs, here for every device: x (n, steps, features), or steps
    first; gives all outputs or with return_sequences=False the last, (n, hidden).

    rnn_mode: lstm, gru, tanh, relu, or vanilla, which is tanh or relu as the activation says; the
    activation of the others is their own. dropout: of the outputs of each layer but the last, in
    training. bias=False: no vectors are added. With use_mask seq_lengths (n) says how long each
    sequence is.
    """

    def __init__(self, hidden_size: int, activation: str = "tanh", num_layers: int = 1,
                 bias: bool = True, batch_first: bool = True, dropout: float = 0,
                 bidirectional: bool = False, rnn_mode: str = "lstm", use_mask: bool = False,
                 return_sequences: bool = True) -> None:
        super().__init__()
        modes = {"lstm": MODE_LSTM, "gru": MODE_GRU, "tanh": TANH, "relu": RELU}
        if rnn_mode not in (*modes, "vanilla"):
            raise ValueError(f"CudnnRNN: unknown rnn_mode {rnn_mode!r} (expected "
                             f"{', '.join(modes)} or vanilla)")
        if activation not in ("tanh", "relu"):
            raise ValueError(f"CudnnRNN: unknown activation {activation!r} (expected tanh or relu)")
        if not 0 <= dropout < 1:
            raise ValueError(f"CudnnRNN: dropout {dropout!r} must be at least 0 and below 1")
        self.mode: int = modes[activation if rnn_mode == "vanilla" else rnn_mode]
        self.dropout: float = float(dropout)
        self.hidden_size: int = hidden_size
        self.num_layers: int = num_layers
        self.bias: bool = bias
        self.batch_first: bool = batch_first
        self.bidirectional: bool = bidirectional
        self.rnn_mode: str = rnn_mode
        self.use_mask: bool = use_mask
        self.return_sequences: bool = return_sequences

    def forward(self, x: Tensor, hx: Tensor | None = None, cx: Tensor | None = None,
                seq_lengths: Tensor | None = None) -> Tensor:
        if self.use_mask and seq_lengths is None:
            raise InvalidError("CudnnRNN: use_mask needs seq_lengths, got None")
        y, h = self.run(x, (hx, cx) if self.mode == MODE_LSTM else (hx,),
                        seq_lengths if self.use_mask else None)[:2]
        if self.return_sequences:
            return y
        ways = 2 if self.bidirectional else 1
        last = shapes.slice(h, [h.shape[0] - ways], [h.shape[0]], [0])
        return shapes.reshape(shapes.transpose(last, (1, 0, 2)),
                                (h.shape[1], ways * self.hidden_size))


class GRU(_Sequence):
    """x (steps, n, features) or with batch_first (n, steps, features), h0 (layers, n, hidden) ->
    (outputs, last h)."""

    mode = MODE_GRU

    def __init__(self, hidden_size: int, num_layers: int = 1, batch_first: bool = False,
                 bidirectional: bool = False) -> None:
        super().__init__()
        self.hidden_size: int = hidden_size
        self.num_layers: int = num_layers
        self.batch_first: bool = batch_first
        self.bidirectional: bool = bidirectional

    def forward(self, x: Tensor, h0: Tensor | None = None) -> tuple[Tensor, ...]:
        return self.run(x, (h0,))


# ---- normalisation and attention ----

class _LayerNorm(Core):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: CTensor, scale: CTensor, bias: CTensor) -> CTensor:
        return _raw(capi.weir_layer_norm(x.handle, scale.handle, bias.handle, self.eps), x)


class LayerNorm(Layer):
    """Normalisation of the last axes (their number: axes), with scale and bias of their shape."""

    def __init__(self, axes: int = 1, eps: float = 1e-5) -> None:
        super().__init__()
        self.axes: int = axes
        self.eps: float = eps

    def initialize(self, x: Tensor) -> None:
        shape = x.shape[len(x.shape) - self.axes:]
        self.scale: Tensor = param(shape, x).set_value(1.0)
        self.bias: Tensor = param(shape, x)

    def forward(self, x: Tensor) -> Tensor:
        return _LayerNorm(self.eps)(x, self.scale, self.bias)[0]


class _RmsNorm(Core):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: CTensor, scale: CTensor) -> CTensor:
        return _raw(capi.weir_rms_norm(x.handle, scale.handle, self.eps), x)


class RMSNorm(Layer):
    """Division of the last axes by the root of their mean square, times scale."""

    def __init__(self, axes: int = 1, eps: float = 1e-5) -> None:
        super().__init__()
        self.axes: int = axes
        self.eps: float = eps

    def initialize(self, x: Tensor) -> None:
        self.scale: Tensor = param(x.shape[len(x.shape) - self.axes:], x).set_value(1.0)

    def forward(self, x: Tensor) -> Tensor:
        return _RmsNorm(self.eps)(x, self.scale)[0]


class _Attention(Core):
    def __init__(self, heads: int, causal: bool, dropout: float, masked: bool,
                 measured: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.dropout = heads, causal, dropout
        self.masked, self.measured = masked, measured

    def forward(self, q: CTensor, k: CTensor, v: CTensor, *more: CTensor) -> CTensor:
        extras = [x.handle for x in more]
        mask = extras.pop(0) if self.masked else None
        y, = capi.attention(q.handle, k.handle, v.handle, self.heads, 0,
                            FROM_FIRST if self.causal else ALL, 0.0, self.dropout, mask,
                            extras[0] if self.measured else None)
        return _raw(y, q)


class MultiHeadAttention(Layer):
    """Scaled dot-product attention of heads: query (b, t, width), key and value (b, s, width),
    None: the query. Matrices Wq, Wk, Wv, Wo (width, width), biases bq, bk, bv, bo.

    mask broadcasts to (b, heads, t, s): bool, True where a query sees a key, or a float that is
    added to the scores; lengths (b,): how many keys each sample has. In training, weights are
    dropped with probability `dropout`.
    """

    def __init__(self, heads: int, causal: bool = False, bias: bool = True,
                 dropout: float = 0.0) -> None:
        super().__init__()
        self.heads: int = heads
        self.causal: bool = causal
        self.bias: bool = bias
        self.dropout: float = dropout

    def initialize(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
                   mask: Tensor | None = None, lengths: Tensor | None = None) -> None:
        width = query.shape[-1]
        if width % self.heads:
            raise ValueError(f"MultiHeadAttention: {self.heads} heads do not divide {width}")
        for part in "qkvo":
            setattr(self, f"W{part}", param((width, width), query, math.sqrt(1.0 / width)))
            setattr(self, f"b{part}", param((width,), query) if self.bias else None)

    def _project(self, x: Tensor, part: str) -> Tensor:
        y = matrix.matmul(x, getattr(self, f"W{part}"))
        return elementwise.add(y, getattr(self, f"b{part}")) if self.bias else y

    def forward(self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None,
                mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        key = query if key is None else key
        value = key if value is None else value
        q, k, v = (self._project(x, part) for x, part in ((query, "q"), (key, "k"), (value, "v")))
        more = [x for x in (mask, lengths) if x is not None]
        attention = _Attention(self.heads, bool(self.causal),
                               self.dropout if is_training() else 0.0, mask is not None,
                               lengths is not None)
        y = attention(q, k, v, *more)[0]
        return self._project(y, "o")
