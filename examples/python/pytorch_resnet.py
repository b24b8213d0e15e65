"""pytorch_resnet - PyTorch's ResNet-18 trained eagerly and in Weir: losses, time and memory.

The model is torchvision's, or a small residual network where torchvision is missing; weights and
images are random. Without PyTorch it says "torch: left out".
"""
from __future__ import annotations

import argparse
import copy
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import common
import weir

os.environ.setdefault("KINETO_LOG_LEVEL", "5")     # its profiler complains of missing cards
try:
    import torch
except ImportError:
    print("torch: left out")
    sys.exit(0)

import weir.torch


@dataclass
class Result:
    """What is compared: the losses, the median time of a step, the most bytes held in one."""

    label: str
    losses: list[float]
    ms: float
    peak: int


# Where torch is not installed, its classes have no types, and a checker is told to accept them.

class Block(torch.nn.Module):           # type: ignore[misc, no-any-unimported]
    """A residual block; a stride of 2 halves the image."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.main = torch.nn.Sequential(
            conv(channels, width, 3, stride, 1, bias=False), norm(width), torch.nn.ReLU(),
            conv(width, width, 3, 1, 1, bias=False), norm(width))
        self.skip = torch.nn.Identity() if stride == 1 else torch.nn.Sequential(
            conv(channels, width, 1, stride, bias=False), norm(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:     # type: ignore[no-any-unimported]
        return torch.relu(self.main(x) + self.skip(x))


def network(classes: int) -> torch.nn.Module:               # type: ignore[no-any-unimported]
    """torchvision's ResNet-18, or a residual network of seven convolutions."""
    try:
        from torchvision.models import resnet18
    except ImportError:
        print("torchvision is not installed: a small residual network")
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), Block(16, 16, 1), Block(16, 32, 2),
            Block(32, 64, 2), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
            torch.nn.Linear(64, classes))
    return resnet18(weights=None, num_classes=classes)


def measured(label: str, step: Callable[[int], float], steps: int) -> Result:
    """The losses and times of step(0), which warms up, step(1), ...; no peak yet."""
    losses, times = [], []
    for i in range(steps):
        begin = time.perf_counter()
        losses.append(step(i))
        times.append(time.perf_counter() - begin)
        print(f"{label:11}  step {i:4d}  loss {losses[-1]:.9g}", flush=True)
    return Result(label, losses, 1e3 * statistics.median(times[1:] or times), 0)


def allocated(step: Callable[[int], float]) -> int:
    """The most bytes that a step of PyTorch has allocated and not freed, by its allocator."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as run:
        step(0)
    results = run.profiler.kineto_results           # type: ignore[union-attr]
    events = [e for e in results.events() if e.name() == "[memory]"]    # type: ignore[union-attr]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()          # type: ignore[attr-defined]
        peak = max(peak, live)
    return peak


class Comparison:
    """One model and its batches, trained from the same weights each time."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        torch.manual_seed(args.seed)
        self.model = network(args.classes)
        arrays = (common.patterns(i, args.batch, args.size, args.classes, args.seed)
                  for i in range(args.steps))
        self.batches = [(torch.from_numpy(x), torch.from_numpy(y).long()) for x, y in arrays]

    def eager(self) -> Result:
        """The usual loop of PyTorch."""
        model = copy.deepcopy(self.model)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.args.lr, momentum=0.9)
        loss_fn = torch.nn.functional.cross_entropy

        def step(i: int) -> float:
            x, y = self.batches[i]
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            return float(loss.item())
        result = measured("eager", step, self.args.steps)
        kept = [*model.parameters(), *model.buffers(), *self.batches[0]]
        kept += [t for state in optimizer.state.values() for t in state.values()
                 if torch.is_tensor(t)]
        optimizer.zero_grad()           # gradients count for the step, which makes them
        result.peak = sum(t.untyped_storage().nbytes() for t in kept) + allocated(step)
        return result

    def weir(self, label: str, budget: str | None) -> Result:
        """The same loop in Weir."""
        model = copy.deepcopy(self.model)
        optimizer = torch.optim.SGD(model.parameters(), lr=self.args.lr, momentum=0.9)
        step = weir.torch.Step(model, torch.nn.functional.cross_entropy, optimizer,
                               self.batches[0], budget=budget, device=weir.device.open_cpu())
        result = measured(label, lambda i: float(step(*self.batches[i]).item()), self.args.steps)
        stats = step.stats
        result.peak = stats["persistent_bytes"] + step.graph.measure()
        limit = f" <= budget {stats['budget_bytes']}" if stats["budget_bytes"] else ""
        print(f"{label:11}  planned {stats['planned_peak_bytes']} = measured "
              f"{result.peak}{limit} bytes")
        return result


def table(results: Sequence[Result]) -> None:
    """Time and memory of all beside those of the first."""
    print(f"\n{'':11}  {'ms/step':>9}  {'peak MB':>9}  {'of eager':>8}  last loss")
    for r in results:
        print(f"{r.label:11}  {r.ms:9.1f}  {r.peak / 1e6:9.1f}  {r.peak / results[0].peak:8.2f}  "
              f"{r.losses[-1]:.9g}")
    same = "equal bits" if results[1].losses == results[2].losses else "DIFFERENT"
    print(f"weir with and without the budget: {same}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, value, text in (("steps", 4, "steps of training"), ("batch", 16, "images of a step"),
                              ("size", 64, "pixels of a side"), ("classes", 10, "of images"),
                              ("seed", 1, "of weights and images")):
        parser.add_argument(f"--{name}", type=int, default=value, help=text)
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
    parser.add_argument("--budget", metavar="SIZE", default="95%",
                        help="most that the step may take: 512MB, or 95%% of its usual need")
    args = parser.parse_args()
    compared = Comparison(args)
    try:
        table([compared.eager(), compared.weir("weir", None),
               compared.weir("weir budget", args.budget)])
    except weir.BudgetError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
