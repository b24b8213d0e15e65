"""charlm - a language model of characters: a small GPT or an LSTM learns a text, then writes."""
import os
import sys
from collections.abc import Sequence

import numpy as np

import common
import weir
from weir import autograd, layer, model, opt, tensor
from weir.typing import Array
from weir.tensor import Tensor

LICENCE = "/usr/share/common-licenses/GPL-3"


class Position(layer.Layer):
    """x (n, t, width) + a learned table (t, width)."""

    def initialize(self, x: Tensor) -> None:
        self.W = tensor.Tensor(x.shape[1:], x.device, requires_grad=True, stores_grad=True)
        self.W.gaussian(0.0, 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return autograd.add(x, self.W)


class Block(layer.Layer):
    """Layer norm before attention and before two linear layers (Radford et al., 2019)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = layer.LayerNorm(), layer.LayerNorm()
        self.attention = layer.MultiHeadAttention(heads, causal=True)
        self.up, self.down = layer.Linear(4 * width), layer.Linear(width)

    def forward(self, x: Tensor) -> Tensor:
        x = autograd.add(x, self.attention(self.norm1(x)))
        return autograd.add(x, self.down(autograd.relu(self.up(self.norm2(x)))))


class GPT(layer.Layer):
    """Embedded tokens (n, t, width) -> (n, t, width)."""

    def __init__(self, width: int, layers: int, heads: int = 4) -> None:
        super().__init__()
        self.position = Position()
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.register_layers(*self.blocks)
        self.norm = layer.LayerNorm()

    def forward(self, x: Tensor) -> Tensor:
        x = self.position(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class CharLM(model.Model):
    """Tokens (n, t) -> logits (n t, vocab) of the tokens that follow."""

    def __init__(self, kind: str, vocab: int, width: int, layers: int) -> None:
        super().__init__()
        self.vocab, self.width = vocab, width
        self.token = layer.Embedding(vocab, width)
        self.body = GPT(width, layers) if kind == "gpt" else layer.CudnnRNN(width)
        self.out = layer.Linear(vocab)

    def forward(self, x: Tensor) -> Tensor:
        y = self.body(self.token(x))
        return self.out(autograd.reshape(y, (-1, self.width)))

    def train_one_batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.forward(x)
        loss = autograd.softmax_cross_entropy(logits, y)
        self.optimizer(loss)
        return logits, loss


class Text:
    """A file as tokens, numbered in the order of its bytes."""

    def __init__(self, path: str) -> None:
        if path is None:
            path = LICENCE if os.path.exists(LICENCE) else __file__
        self.bytes, self.tokens = np.unique(np.fromfile(path, np.uint8), return_inverse=True)

    def batch(self, step: int, n: int, length: int) -> Sequence[Array]:
        """(tokens (n, length), the next ones (n length)) from places that the step decides."""
        if len(self.tokens) <= length:
            sys.exit("the text is too short")
        at = np.random.default_rng(step).integers(0, len(self.tokens) - length, n)
        rows = self.tokens[at[:, None] + np.arange(length + 1)].astype(np.int32)
        return rows[:, :-1].copy(), rows[:, 1:].reshape(-1)


def write(net: CharLM, text: Text, case: common.Case, length: int, count: int) -> None:
    """Draws characters one by one, as likely as softmax(logits / 0.8) says."""
    rng = np.random.default_rng(case.args.seed)
    tokens = list(text.tokens[:length])
    latest = tensor.from_numpy(np.array([tokens], np.int32))
    net.eval()
    step = None
    if case.graph:                          # another graph, on the same parameters
        with weir.cpu().graph() as step:
            logits = net(latest)
    for _ in range(count):
        latest.copy_from_numpy(np.array([tokens[-length:]], np.int32))
        if step:
            step.run()
        else:
            logits = net(latest)
        row = tensor.to_numpy(logits)[-1].astype(np.float64) / 0.8
        odds = np.exp(row - row.max())
        tokens.append(int(rng.choice(len(odds), p=odds / odds.sum())))
    print(bytes(text.bytes[tokens[length:]]).decode(errors="replace"))


def main() -> None:
    parser = common.options(__doc__, steps=300, batch=16, lr=3e-3)
    parser.add_argument("--model", choices=("gpt", "lstm"), default="gpt", help="which network")
    parser.add_argument("--length", type=int, default=64, help="characters it sees")
    parser.add_argument("--width", type=int, default=128, help="of the network")
    parser.add_argument("--layers", type=int, default=4, help="of the GPT")
    parser.add_argument("--sample", type=int, default=200, help="characters to write")
    parser.add_argument("--data", metavar="FILE", help="the text to learn; else the GPL")
    args = parser.parse_args()
    text = Text(args.data)

    def batch(i: int) -> Sequence[Array]:
        return text.batch(i, args.batch, args.length)

    def one(case: common.Case) -> None:
        tx, ty = (tensor.from_numpy(a) for a in batch(0))
        net = CharLM(args.model, len(text.bytes), args.width, args.layers)
        net.optimizer = opt.AdamW(args.lr, weight_decay=0.01)
        case.compile(net, [tx])
        case.train(net, (tx, ty), batch)
        write(net, text, case, args.length, args.sample)

    common.run(args, one)


if __name__ == "__main__":
    main()
