"""resume - a training that may be killed at any time and goes on where it was.

Made-up images with random resized crops, a rate along half a cosine, validation after each epoch
with top-1 and top-5 accuracy, the best weights in FOLDER/best.safetensors, and an early stop.
FOLDER/run.safetensors has all that a second start needs to compute the same bits.
"""
import argparse
import os
import signal

import numpy as np
from numpy.typing import NDArray

import weir
from weir import autograd, layer, metrics, opt, tensor
from weir import transforms as change
from weir.data import DataLoader, to_tensors
from weir.model import Model
from weir.tensor import Tensor
from weir.typing import Stateful

CLASSES, IMAGE, CROP, BATCH, SAVE_EVERY = 10, 32, 24, 32, 5


def images(n: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """n images and their classes: stripes of a colour and a direction, under noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n).astype(np.int32)
    x = rng.integers(30, 190, (n, 3, IMAGE, IMAGE))
    along = np.arange(IMAGE)
    for image, label in zip(x, labels):
        stripes = 18 * ((along + rng.integers(8)) % 8 < 4)
        image[label // 2 % 3] += stripes[:, None] if label % 2 else stripes
        image += 8 * (label // 6)
    return x.astype(np.uint8), labels


class Net(Model):
    """Two convolutions and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = layer.Conv2d(3, 8, 3, stride=2, padding=1), layer.BatchNorm2d()
        self.conv2, self.norm2 = layer.Conv2d(8, 16, 3, stride=2, padding=1), layer.BatchNorm2d()
        self.fc = layer.Linear(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = autograd.relu(self.norm1(self.conv1(x)))
        x = autograd.relu(self.norm2(self.conv2(x)))
        return self.fc(autograd.flatten(x))

    def train_one_batch(self, x: Tensor, y: Tensor) -> Tensor:
        loss = autograd.softmax_cross_entropy(self.forward(x), y)
        self.optimizer(loss)
        return loss


def validate(net: Net, valid: DataLoader) -> tuple[float, float]:
    """Top-1 and top-5 accuracy."""
    net.eval()
    ((x, y),) = valid
    scores = net(to_tensors((x,))[0])
    return metrics.accuracy(scores, y), metrics.topk_accuracy(scores, y, 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", default="resume", help="of the saved files")
    parser.add_argument("--epochs", type=int, default=12, help="most passes over the images")
    parser.add_argument("--kill-at", type=int, default=0, help="be killed after this step")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    saved = os.path.join(args.folder, "run.safetensors")
    best = os.path.join(args.folder, "best.safetensors")

    normal = change.Normalize([102] * 3, [46] * 3)      # of bytes
    train = DataLoader(images(400, 1), BATCH, shuffle=True, drop_last=True, workers=2, transforms=[
        change.RandomResizedCrop(CROP, scale=(0.3, 1.0)), change.RandomHorizontalFlip(), normal])
    valid = DataLoader(images(100, 2), 100,
                       transforms=[lambda x: change.resize(x, CROP), normal])
    watch = metrics.EarlyStop(patience=3, higher=True)
    stateful: dict[str, Stateful] = {"train": train, "watch": watch}

    weir.set_seed(1)
    net = Net()
    net.optimizer = opt.SGD(opt.CosineDecay(0.02, args.epochs * len(train)), momentum=0.9)
    example = tensor.from_numpy(np.zeros((BATCH, 3, CROP, CROP), np.float32))
    net.compile([example], is_train=True, use_graph=True)
    step = 0
    if os.path.exists(saved):
        step = net.load_run(saved, stateful=stateful)
        print(f"goes on after step {step}")
    while not watch.stop and train.epoch < args.epochs:
        epoch = train.epoch
        net.train()
        for batch in train:
            net(*to_tensors(batch))
            step += 1
            if step % SAVE_EVERY == 0 and train.epoch == epoch:
                net.save_run(saved, step, stateful=stateful)
            if step == args.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        top1, top5 = validate(net, valid)
        better = watch.improves(top1)
        print(f"epoch {epoch:2d}  top-1 {top1:.2f}  top-5 {top5:.2f}"
              + ("  the best so far" if better else ""))
        if better:
            net.save(best)
        net.save_run(saved, step, stateful=stateful)
    net.load(best)
    top1, top5 = validate(net, valid)
    print(f"best: top-1 {top1:.2f}  top-5 {top5:.2f}")


if __name__ == "__main__":
    main()
