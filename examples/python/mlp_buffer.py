"""mlp_buffer - a perceptron over a device's buffer, in the way of SINGA's scripts of early 2020.

What is called between SetBufferFlag(True) and (False) is written down, not computed; each
ExecBuffOps() is one step. Runs as it is, and by `python -m weir.singa`.
"""
import argparse
import time

import numpy as np
from weir.core import Device
from weir.tensor import Tensor
from numpy.typing import NDArray

try:
    from singa import autograd, device, optimizer, tensor
except ImportError:
    from weir import autograd, device, optimizer, tensor


def parameter(array: NDArray[np.floating], dev: Device) -> tensor.Tensor:
    return tensor.Tensor(data=array.astype(np.float32), device=dev, requires_grad=True,
                         stores_grad=True)


def dataset(n: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Points of the plane above (1) or below (0) a cubic curve."""
    x = rng.uniform(-1, 1, n)
    label = rng.integers(0, 2, n)
    y = 2 * x**3 - x + np.where(label, 0.5, -0.5) + rng.normal(0, 0.2, n)
    return np.stack([x, y], 1).astype(np.float32), label.astype(np.int32)


def main() -> None:
    parser = argparse.ArgumentParser(description="a perceptron learns two classes of points",
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--graph", choices=("on", "off"), default="on",
                        help="record the step and run it again, or compute at once")
    parser.add_argument("--steps", type=int, default=1001, help="steps of training")
    parser.add_argument("--seed", type=int, default=0, help="of weights and points")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    dev = device.create_cpu_device()
    device.set_default_device(dev)
    points, labels = dataset(400, rng)
    inputs = tensor.Tensor(data=points, device=dev, requires_grad=False)
    target = tensor.from_numpy(labels)
    w0 = parameter(rng.normal(0, 0.1, (2, 3)), dev)
    b0 = parameter(np.zeros((1, 3)), dev)
    w1 = parameter(rng.normal(0, 0.1, (3, 2)), dev)
    b1 = parameter(np.zeros((1, 2)), dev)
    sgd = optimizer.SGD(0.05)
    autograd.training = True

    def step() -> Tensor:
        x = autograd.relu(autograd.add_bias(autograd.matmul(inputs, w0), b0))
        x = autograd.add_bias(autograd.matmul(x, w1), b1)
        loss: Tensor = autograd.softmax_cross_entropy(x, target)
        for p, gp in autograd.backward(loss):
            sgd.apply(0, gp, p, "")
        return loss

    if args.graph == "on":
        dev.SetBufferFlag(True)
        loss = step()
        dev.SetBufferFlag(False)

    begin = time.perf_counter()
    for i in range(args.steps):
        if args.graph == "on":
            dev.ExecBuffOps()
        else:
            loss = step()
        if i % 100 == 0 or i + 1 == args.steps:
            print(f"step {i:4d}  loss {tensor.to_numpy(loss)[0]:.9g}")
    seconds = time.perf_counter() - begin
    memory = dev.memory()
    print(f"{args.steps} steps in {1e3 * seconds:.1f} ms, "
          f"{memory.live_peak + memory.arena} bytes at the most")


if __name__ == "__main__":
    main()
