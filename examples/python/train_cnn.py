"""train_cnn - a CNN, AlexNet, ResNet-18 or Xception learns CIFAR-10, or made-up images.

Runs as it is, and by `python -m weir.singa`.
"""
import glob
import os
import sys
from collections.abc import Sequence

import numpy as np

import common
from models import MODELS
from weir.typing import Array

try:
    from singa import opt, tensor
except ImportError:
    from weir import opt, tensor


class Cifar:
    """Images and labels of CIFAR-10's binary files (data_batch_*.bin) in a folder."""

    def __init__(self, folder: str) -> None:
        files = sorted(glob.glob(os.path.join(folder, "data_batch_*.bin")))
        if not files:
            sys.exit(f"{folder} has no files data_batch_*.bin")
        self.samples = np.concatenate([np.fromfile(f, np.uint8).reshape(-1, 3073) for f in files])

    def batch(self, step: int, n: int) -> Sequence[Array]:
        rows = self.samples[np.random.default_rng(step).integers(0, len(self.samples), n)]
        images = rows[:, 1:].reshape(n, 3, 32, 32).astype(np.float32) / 127.5 - 1
        return images, rows[:, 0].astype(np.int32)


def main() -> None:
    parser = common.options(__doc__, steps=60, batch=32, lr=0.01)
    parser.add_argument("model", choices=tuple(MODELS), nargs="?", default="cnn")
    parser.add_argument("--data", metavar="FOLDER", help="CIFAR-10's binary files; else made up")
    args = parser.parse_args()
    cifar = Cifar(args.data) if args.data else None

    def batch(i: int) -> Sequence[Array]:
        return cifar.batch(i, args.batch) if cifar else common.patterns(i, args.batch, 32, 10)

    def one(case: common.Case) -> None:
        images, labels = batch(0)
        tx, ty = tensor.from_numpy(images), tensor.from_numpy(labels)
        net = MODELS[args.model]()
        net.optimizer = opt.SGD(args.lr, momentum=0.9, weight_decay=1e-5)
        case.compile(net, [tx])
        case.train(net, (tx, ty), batch, every=10)

    common.run(args, one)


if __name__ == "__main__":
    main()
