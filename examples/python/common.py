"""common - what the examples share: options, training that is measured, a table of off and on.
"""
import argparse
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

import weir
from weir import device, model, tensor
from weir.typing import Array
from weir.tensor import Tensor

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "digits.bin")


def options(description: str | None, **defaults: float) -> argparse.ArgumentParser:
    """A parser with the options of all examples; defaults: steps, batch, lr."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--graph", choices=("on", "off", "both"), default="both",
                        help="plan the step once, compute call by call, or compare the two")
    parser.add_argument("--budget", metavar="SIZE",
                        help="most that a planned step may take: 512MB, or 75%% of its usual need")
    parser.add_argument("--steps", type=int, default=defaults.get("steps", 100),
                        help="steps of training")
    parser.add_argument("--batch", type=int, default=defaults.get("batch", 64),
                        help="samples of a step")
    parser.add_argument("--lr", type=float, default=defaults.get("lr", 0.05), help="learning rate")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data")
    return parser


class Case:
    """Trains with the graph off or on, and keeps what is compared: loss, time, peak, accuracy."""

    def __init__(self, args: argparse.Namespace, graph: bool) -> None:
        self.args, self.graph = args, graph
        self.label = "graph on" if graph else "graph off"
        self.loss = self.ms = self.accuracy = 0.0
        self.peak = 0
        weir.set_seed(args.seed)
        device.reset_peak()

    def compile(self, net: model.Model, inputs: Sequence[Tensor]) -> None:
        net.compile(inputs, is_train=True, use_graph=self.graph,
                    budget=self.args.budget if self.graph else None)

    def train(self, net: model.Model, inputs: Sequence[Tensor],
              batch: Callable[[int], Sequence[Array]], every: int = 20,
              step: Callable[..., Sequence[Tensor]] | None = None) -> None:
        """Steps of net(*inputs), or of step(*inputs), which gives (..., loss); batch(i) gives the
        arrays of step i."""
        times = []
        steps = weir.progress(range(self.args.steps), desc=self.label, leave=False, disable=None)
        for i in steps:
            begin = time.perf_counter()
            for t, array in zip(inputs, batch(i)):
                t.copy_from_numpy(array)
            results = cast("Sequence[Tensor]", (step or net)(*inputs))
            self.loss = float(tensor.to_numpy(results[-1])[0])
            times.append(time.perf_counter() - begin)
            if i % every == 0 or i + 1 == self.args.steps:
                print(f"{self.label:9}  step {i:4d}  loss {self.loss:.9g}", flush=True)
        self.ms = 1e3 * statistics.median(times)
        self._memory(net)

    def _memory(self, net: model.Model) -> None:
        """Returns the measured peak in bytes; runs a planned step once more, with canaries."""
        if not net.graphs:
            self.peak = device.memory()["live_peak"]
            print(f"{self.label:9}  {self.ms:.3f} ms a step, peak {self.peak} bytes")
            return
        graph = net.graphs[-1]
        stats = graph.stats
        self.peak = stats["persistent_bytes"] + graph.measure()
        budget = f" <= budget {stats['budget_bytes']}" if stats["budget_bytes"] else ""
        print(f"{self.label:9}  {self.ms:.3f} ms a step, planned {stats['planned_peak_bytes']} = "
              f"measured {self.peak}{budget} bytes")

    def correct(self, logits: Array, labels: Array) -> None:
        """Prints the accuracy of logits, an array, in per cent."""
        right = int((logits.argmax(-1) == labels).sum())
        self.accuracy = 100.0 * right / labels.size
        print(f"{self.label:9}  accuracy {self.accuracy:.2f} % ({right} of {labels.size})")


def run(args: argparse.Namespace, one: Callable[[Case], None]) -> list[Case]:
    """Calls one(case) for each requested case and prints a table of them. Returns the cases."""
    cases = []
    try:
        for graph in {"off": [False], "on": [True], "both": [False, True]}[args.graph]:
            case = Case(args, graph)
            one(case)
            cases.append(case)
            gc.collect()            # frees the model before the next one is measured
    except weir.BudgetError as error:
        sys.exit(str(error))
    if len(cases) == 2:
        print(f"\n{'':9}  {'ms/step':>9}  {'peak MB':>9}  loss")
        for c in cases:
            print(f"{c.label:9}  {c.ms:9.3f}  {c.peak / 1e6:9.3f}  {c.loss:.9g}")
        same = "equal bits" if cases[0].loss == cases[1].loss else "DIFFERENT"
        print(f"{'on / off':9}  {cases[1].ms / cases[0].ms:9.3f}  "
              f"{cases[1].peak / cases[0].peak:9.3f}  {same}")
    return cases


class Digits:
    """Hand-written digits of 8 x 8 pixels; every fifth is for the test."""

    def __init__(self, path: str = DIGITS) -> None:
        raw = np.fromfile(path, np.uint8)
        if raw[:8].tobytes() != b"WDIGITS1":
            sys.exit(f"{path} does not begin like a file of digits")
        samples = raw[16:].reshape(-1, 65)
        x, y = samples[:, :64].astype(np.float32) / np.float32(16), samples[:, 64].astype(np.int32)
        test = np.arange(len(y)) % 5 == 0
        self.x, self.y, self.test_x, self.test_y = x[~test], y[~test], x[test], y[test]

    def batch(self, step: int, n: int,
              shape: tuple[int, ...] = (64,)) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        """(images, labels) of a step; each epoch draws another order."""
        epoch, at = divmod(step, len(self.y) // n)
        order = np.random.default_rng(epoch).permutation(len(self.y))[at * n:(at + 1) * n]
        return self.x[order].reshape(n, *shape), self.y[order]


def patterns(step: int, batch: int, size: int, classes: int,
             seed: int = 1) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Synthetic images (batch, 3, size, size) and labels: each class has a pattern, plus noise."""
    y = (np.arange(batch) + step * batch) % min(classes, 10)
    shapes = np.random.default_rng(seed).uniform(-1, 1, (10, 3, 8, 8)).astype(np.float32)
    cells = np.arange(size) * 8 // size
    noise = np.random.default_rng([seed, step]).uniform(-0.5, 0.5, (batch, 3, size, size))
    return (shapes[y][:, :, cells][..., cells] + noise).astype(np.float32), y.astype(np.int32)


def draw(net: model.Model, folder: str, name: str) -> None:
    """Pictures of the plan: live bytes over the instructions, and addresses."""
    os.makedirs(folder, exist_ok=True)
    for kind in ("timeline", "addresses"):
        path = os.path.join(folder, f"{name}-{kind}.svg")
        net.graphs[-1].save_svg(path, kind)
        print(f"wrote {path}")
