"""char_rnn - an LSTM over a list of steps, its state carried from batch to batch.

One-hot characters in, logits of the next ones out. Runs as it is, and by `python -m weir.singa`.
"""
from collections.abc import Sequence

import numpy as np

import common
from charlm import Text
from weir.tensor import Tensor
from weir.typing import Array

try:
    from singa import autograd, layer, model, opt, tensor
except ImportError:
    from weir import autograd, layer, model, opt, tensor


class CharRNN(model.Model):
    """State h, c (n, hidden), steps of (n, vocab) -> new state, logits (t n, vocab)."""

    state: tuple[Tensor, Tensor]        # after the batch before

    def __init__(self, vocab: int, hidden: int) -> None:
        super().__init__()
        self.lstm = layer.LSTM(vocab, hidden)
        self.dense = layer.Linear(vocab)

    def forward(self, h: Tensor, c: Tensor, *steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hs, h, c = self.lstm(list(steps), (h, c))
        return h, c, self.dense(autograd.cat(hs, 0))

    def train_one_batch(self, y: Tensor, h: Tensor, c: Tensor,
                        *steps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h, c, logits = self.forward(h, c, *steps)
        loss = autograd.softmax_cross_entropy(logits, y)
        self.optimizer(loss)
        return h, c, loss


def main() -> None:
    parser = common.options(__doc__, steps=200, batch=32, lr=1e-2)
    parser.add_argument("--length", type=int, default=20, help="steps that gradients pass through")
    parser.add_argument("--hidden", type=int, default=64, help="width of the LSTM")
    parser.add_argument("--data", metavar="FILE", help="the text to learn; else the GPL")
    args = parser.parse_args()
    text = Text(args.data)
    vocab = len(text.bytes)
    rows = text.tokens[:len(text.tokens) // args.batch * args.batch].reshape(args.batch, -1)
    one_hot = np.eye(vocab, dtype=np.float32)
    zeros = np.zeros((args.batch, args.hidden), np.float32)

    def one(case: common.Case) -> None:
        def batch(i: int) -> Sequence[Array]:
            """Each row of the batch continues the text where it stopped, with the state it had."""
            at = i % ((rows.shape[1] - 1) // args.length) * args.length
            part = rows[:, at:at + args.length + 1].T
            state = [tensor.to_numpy(t) for t in net.state] if at else [zeros, zeros]
            return [part[1:].reshape(-1).astype(np.int32), *state, *one_hot[part[:-1]]]

        net = CharRNN(vocab, args.hidden)
        net.optimizer = opt.Adam(args.lr)
        inputs = [tensor.from_numpy(a) for a in batch(0)]

        def step(*given: Tensor) -> tuple[Tensor]:
            h, c, loss = net(*given)
            net.state = h, c
            return (loss,)

        case.compile(net, inputs[1:])
        case.train(net, inputs, batch, step=step)

    common.run(args, one)


if __name__ == "__main__":
    main()
