"""finetune - a network goes through ONNX files: written, opened, trained within a budget, written.

    python3 examples/python/finetune.py digits.onnx tuned.onnx
    build/finetune digits.onnx tuned.onnx 60%

The network of cnn.py is trained for a few steps and written to the first file, which stands for a
model from elsewhere. It is opened again, trained on, and written to the second.
"""
import argparse

import numpy as np

import common
from models import DigitsCNN
import weir
from weir import autograd, opt, tensor

SHAPE = (1, 8, 8)
BATCH = 64


class Tuned(weir.onnx.OnnxModel):
    """The file's network with a step of training."""

    def train_one_batch(self, x: tensor.Tensor, y: tensor.Tensor) -> tensor.Tensor:
        (scores,) = self.run([x])
        loss = autograd.softmax_cross_entropy(scores, y)
        self.optimizer(loss)
        return loss


def train(net: weir.model.Model, digits: common.Digits, steps: int,
          budget: str | None = None) -> None:
    net.optimizer = opt.SGD(0.05, momentum=0.9)
    x, y = (tensor.from_numpy(a) for a in digits.batch(0, BATCH, SHAPE))
    net.compile([x], is_train=True, use_graph=True, budget=budget)
    for i in range(steps):
        for t, array in zip((x, y), digits.batch(i, BATCH, SHAPE)):
            t.copy_from_numpy(array)
        net(x, y)
    net.eval()


def correct(net: weir.model.Model, digits: common.Digits) -> int:
    """How many of the first 64 digits of the test set the network recognises."""
    scores = net(tensor.from_numpy(digits.test_x[:BATCH].reshape(-1, *SHAPE)))
    assert isinstance(scores, tensor.Tensor)
    return int((np.argmax(scores.numpy(), -1) == digits.test_y[:BATCH]).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", help="where to write the network to begin with")
    parser.add_argument("tuned", help="where to write the tuned one")
    parser.add_argument("--steps", type=int, default=60, help="steps of tuning")
    parser.add_argument("--budget", default="60%", help="of the step's peak without one, or bytes")
    args = parser.parse_args()
    weir.set_seed(1)
    digits, net = common.Digits(), DigitsCNN()
    train(net, digits, 20)
    x = tensor.from_numpy(digits.batch(0, BATCH, SHAPE)[0])
    net.to_onnx(args.file, [x])
    tuned = Tuned(args.file)
    train(tuned, digits, args.steps, budget=args.budget)
    weir.onnx.save(tuned, args.tuned, [x])
    again = weir.onnx.load(args.tuned)
    print(f"correct: {correct(net, digits)}, then {correct(again, digits)} of {BATCH}")


if __name__ == "__main__":
    main()
