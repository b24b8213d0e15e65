"""transformer - an encoder and a decoder (Vaswani et al., 2017) learn to write backwards.

Runs as it is, and by `python -m weir.singa`.
"""
from collections.abc import Sequence

import numpy as np

import common
from charlm import Position
from weir.tensor import Tensor
from weir.typing import Array

try:
    from singa import autograd, layer, model, opt, tensor
except ImportError:
    from weir import autograd, layer, model, opt, tensor

START, SYMBOLS = 0, 11      # symbols are 1 to 10


class Part(layer.Layer):
    """A layer of the encoder, or with a memory to look at one of the decoder."""

    def __init__(self, width: int, heads: int, decoder: bool) -> None:
        super().__init__()
        self.own = layer.MultiHeadAttention(heads, causal=decoder)
        self.cross = layer.MultiHeadAttention(heads) if decoder else None
        self.norm1, self.norm2, self.norm3 = (layer.LayerNorm() for _ in range(3))
        self.up, self.down = layer.Linear(2 * width), layer.Linear(width)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        x = autograd.add(x, self.own(self.norm1(x)))
        if self.cross is not None:
            x = autograd.add(x, self.cross(self.norm2(x), memory))
        return autograd.add(x, self.down(autograd.relu(self.up(self.norm3(x)))))


class Transformer(model.Model):
    """Source (n, t), what was written so far (n, t) -> logits (n t, SYMBOLS)."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.width = width
        self.source, self.target = (layer.Embedding(SYMBOLS, width) for _ in range(2))
        self.place1, self.place2 = Position(), Position()
        self.encoder, self.decoder = Part(width, heads, False), Part(width, heads, True)
        self.norm = layer.LayerNorm()
        self.out = layer.Linear(SYMBOLS)

    def forward(self, x: Tensor, so_far: Tensor) -> Tensor:
        memory = self.encoder(self.place1(self.source(x)))
        y = self.norm(self.decoder(self.place2(self.target(so_far)), memory))
        return self.out(autograd.reshape(y, (-1, self.width)))

    def train_one_batch(self, x: Tensor, so_far: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.forward(x, so_far)
        loss = autograd.softmax_cross_entropy(logits, y)
        self.optimizer(loss)
        return logits, loss


def main() -> None:
    parser = common.options(__doc__, steps=400, batch=64, lr=3e-3)
    parser.add_argument("--length", type=int, default=8, help="symbols of a sequence")
    args = parser.parse_args()

    def batch(i: int) -> Sequence[Array]:
        x = np.random.default_rng([args.seed, i]).integers(1, SYMBOLS, (args.batch, args.length))
        y = x[:, ::-1]
        so_far = np.concatenate([np.full((args.batch, 1), START), y[:, :-1]], 1)
        return [a.astype(np.int32) for a in (x, so_far, y.reshape(-1))]

    def one(case: common.Case) -> None:
        inputs = [tensor.from_numpy(a) for a in batch(0)]
        net = Transformer()
        net.optimizer = opt.Adam(args.lr)
        case.compile(net, inputs[:2])
        case.train(net, inputs, batch, every=50)
        net.eval()
        x, so_far, y = batch(args.steps)        # not seen in training
        case.correct(tensor.to_numpy(net(*map(tensor.from_numpy, (x, so_far)))), y)

    common.run(args, one)


if __name__ == "__main__":
    main()
