#!/usr/bin/env python3
"""budget.py - ten models of PyTorch trained within half of PyTorch's own step peak.

Usage: PYTHONPATH=build/python python3 bench/zoo/budget.py [--only NAME[,NAME]] [--share 0.5]

A step peak is the memory that a step has beyond parameters, the optimiser's state and the batch.
PyTorch's is the highest sum of what its allocator gave out, by its profiler; what libraries keep
inside themselves is not in it. Weir's budget is its persistent bytes plus that share of PyTorch's
step peak. Columns:
    activations    of PyTorch's peak, persistent bytes included; gradients are not counted
    step peaks     PyTorch's, Weir's without a budget, Weir's within it: planned, and measured by
                   marked memory
    extra          time of a step that the budget adds, as planned; then the step's time beside
                   PyTorch's eager step, the median of steps in turn
    bits           losses of the steps and all parameters are those of the step without a budget
    resident       the most that the process held in those steps (VmHWM) less what it held after the
                   capture, before Weir allocated, and less the budget
"""
import argparse
import hashlib
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import models                   # noqa: E402
from child import forked        # noqa: E402
from machine import machine     # noqa: E402

# name: (package, batch, how it is built)
TEN = {
    "resnet50": ("torchvision", 32, {"size": 96}),
    "mobilenet_v2": ("torchvision", 32, {"size": 96}),
    "densenet121": ("torchvision", 16, {"size": 96}),
    "convnext_tiny": ("torchvision", 16, {"size": 96}),
    "efficientnet_b0": ("torchvision", 32, {"size": 96}),
    "vit_b_16": ("torchvision", 16, {"size": 160}),
    "swin_t": ("torchvision", 16, {"size": 96}),
    "bert": ("transformers", 16, {"layers": 2, "length": 128}),
    "gpt2": ("transformers", 16, {"layers": 2, "length": 128}),
    "llama": ("transformers", 16, {"layers": 2, "length": 128, "hidden_size": 1024,
                                   "intermediate_size": 2816, "num_attention_heads": 16}),
}
STEPS = 5


def sgd(net):
    import torch
    return torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)


def eager(net, loss_fn, batch):
    """(step function, persistent bytes, gradients' bytes)."""
    optimizer = sgd(net)

    def step():
        optimizer.zero_grad()
        loss = net(*batch) if loss_fn is None else loss_fn(net(*batch[:-1]), batch[-1])
        loss.backward()
        optimizer.step()

    step()
    bytes_of = sum(p.numel() * p.element_size() for p in net.parameters())
    buffers = sum(b.numel() * b.element_size() for b in net.buffers())
    given = sum(t.numel() * t.element_size() for t in batch)
    return step, 2 * bytes_of + buffers + given, bytes_of, optimizer


def step_peak(step, optimizer):
    """The most that the allocator has given out in a step, in bytes."""
    import torch
    optimizer.zero_grad(set_to_none=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as run:
        step()
    live = peak = 0
    events = [e for e in run.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def timed(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def resident(name):
    """VmRSS or VmHWM, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


def watched():
    """A Step that notes what the process holds after its capture, where the high water begins."""
    import weir.torch

    class Watched(weir.torch.Step):
        held = 0

        def _capture(self, batch):
            captured = super()._capture(batch)
            if not self.held:
                self.held = resident("VmRSS")
                with open("/proc/self/clear_refs", "w", encoding="utf-8") as reset:
                    reset.write("5")
            return captured

    return Watched


def digest(net):
    text = hashlib.sha256()
    for p in net.parameters():
        text.update(p.detach().numpy().tobytes())
    return text.hexdigest()


def in_weir(name, budget):
    """(step, batch, row) of the model in Weir."""
    package, size, how = TEN[name]
    net, loss_fn, batch = models.build(package, name, size, **how)
    step = watched()(net, loss_fn, sgd(net), batch, budget=budget)
    losses = [step(*batch).item() for _ in range(STEPS)]
    high = resident("VmHWM") - step.held
    row = {key: step.stats[key] for key in ("arena_bytes", "persistent_bytes",
                                            "planned_peak_bytes", "extra_ms", "predicted_ms")}
    row.update(bits=[losses, digest(net)], measured=step.graph.measure(), high=high)
    return step, batch, row


def alone(name):
    return in_weir(name, None)[2]


def eager_numbers(name):
    package, size, how = TEN[name]
    net, loss_fn, batch = models.build(package, name, size, **how)
    step, persistent, gradients, optimizer = eager(net, loss_fn, batch)
    return {"persistent": persistent, "gradients": gradients, "peak": step_peak(step, optimizer)}


def beside(name, budget):
    """The step within the budget and PyTorch's, in turn."""
    package, size, how = TEN[name]
    step, own, row = in_weir(name, budget)      # before PyTorch's step holds memory
    net, loss_fn, batch = models.build(package, name, size, **how)
    theirs = eager(net, loss_fn, batch)[0]
    times = [(timed(lambda: step(*own)), timed(theirs)) for _ in range(STEPS)]
    row["ratio"] = statistics.median(a / b for a, b in times)
    return row


def line_of(name, share, limit):
    theirs = forked(limit, eager_numbers, name)
    free = forked(limit, alone, name) if "error" not in theirs else theirs
    if "error" in free:
        return f"| {name} | " + free["error"].split("\n")[0] + " |"
    budget = free["persistent_bytes"] + int(share * theirs["peak"])
    row = forked(limit, beside, name, budget)
    if "error" in row:
        return f"| {name} | within {budget:,}: " + row["error"].split("\n")[0] + " |"
    part = (theirs["peak"] - theirs["gradients"]) / (theirs["peak"] + theirs["persistent"])
    kept = row["measured"] == row["arena_bytes"] and row["planned_peak_bytes"] <= budget
    extra = row["extra_ms"] / max(row["predicted_ms"] - row["extra_ms"], 1e-9)
    return (f"| {name} | {TEN[name][1]} | {part:.0%} | {theirs['peak']:,} | "
            f"{free['arena_bytes']:,} | {row['arena_bytes']:,} | {row['measured']:,} | "
            f"{'yes' if kept else 'NO'} | {extra:.1%} | {row['ratio']:.2f} | "
            f"{'yes' if row['bits'] == free['bits'] else 'NO'} | "
            f"{(row['high'] - budget) / 2 ** 20:+.0f} MiB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--share", type=float, default=0.5, help="of PyTorch's step peak")
    parser.add_argument("--limit", type=float, default=600, help="seconds for each of three runs")
    args = parser.parse_args()
    only = args.only.split(",") if args.only else TEN
    print("| | batch | activations | PyTorch's step peak | Weir's | within the budget: planned | "
          "measured | planned = measured <= budget | extra | step / eager | bits | resident |")
    print("|---|---:|---:|---:|---:|---:|---:|---|---:|---:|---|---:|")
    for name in only:
        print(line_of(name, args.share, args.limit), flush=True)
    print(f"\nBudget: persistent bytes plus {args.share:.0%} of PyTorch's step peak.")
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
