#!/usr/bin/env python3
"""budget.py - ten models of PyTorch trained in Weir within half of PyTorch's own step peak.

Usage: PYTHONPATH=build/python python3 bench/zoo/budget.py [--only NAME[,NAME]] [--share 0.5]
           [--precision bf16] [--batch N] [--rounds 5] [--out ROWS] [--show ROWS...]

A step peak is the memory that a step has beyond parameters, the optimiser's state and the batch.
PyTorch's is the highest sum of what its allocator gave out, by its profiler; what libraries keep
inside themselves is not in it. Weir's budget is its persistent bytes plus that share of PyTorch's
step peak. --precision: the step of Weir in that type, PyTorch's under autocast. --batch: smaller
ones, where PyTorch takes minutes. --rounds: of steps in turn. --out adds a line of JSON for each
model; --show prints the tables of such files.

The first table:
    activations    of PyTorch's peak, persistent bytes included; gradients are not counted
    step peaks     PyTorch's, Weir's without a budget, Weir's within it: planned, and measured by
                   marked memory
    bits           losses of the steps and all parameters are those of the step without a budget
    resident       the most that the process held in those steps (VmHWM) less what it held after the
                   capture, before Weir allocated, and less the budget; capture: what that added
The second, of the step within the budget, of PyTorch's eager step, and of torch.compile:
    extra          time of a step that the budget adds, as planned
    step           the median of steps in turn, and the ratios' medians
    first step     seconds from the model to its first loss: capture, plan and step; compilation and
                   step without a cache
"""
import argparse
import hashlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import models                       # noqa: E402
from child import forked            # noqa: E402
from eager import sgd, step_of      # noqa: E402
from machine import machine         # noqa: E402
from pytorch import PRECISIONS, allocated_peak      # noqa: E402

# name: (package, batch, how it is built); batches such that activations are 60 % of the peak
TEN = {
    "resnet50": ("torchvision", 40, {"size": 96}),
    "mobilenet_v2": ("torchvision", 32, {"size": 96}),
    "densenet121": ("torchvision", 16, {"size": 96}),
    "convnext_tiny": ("torchvision", 64, {"size": 96}),
    "efficientnet_b0": ("torchvision", 32, {"size": 96}),
    "vit_b_16": ("torchvision", 32, {"size": 160}),
    "swin_t": ("torchvision", 48, {"size": 96}),
    "bert": ("transformers", 16, {"layers": 2, "length": 128}),
    "gpt2": ("transformers", 16, {"layers": 2, "length": 128}),
    "llama": ("transformers", 16, {"layers": 2, "length": 128, "hidden_size": 512,
                                   "intermediate_size": 1408, "num_attention_heads": 8}),
}
STEPS = 3       # whose bits are compared
BATCH = 0       # in place of TEN's


def built(name):
    package, batch, how = TEN[name]
    return models.build(package, name, BATCH or batch, **how)


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def resident(name):
    """VmRSS or VmHWM, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


def watched():
    """A Step that notes what the process holds after its capture, where the high water begins."""
    import weir.torch

    class Watched(weir.torch.Step):
        held = capture = 0

        def _capture(self, batch):
            before = resident("VmRSS")
            captured = super()._capture(batch)
            if not self.held:
                self.held = resident("VmRSS")
                self.capture = self.held - before
                with open("/proc/self/clear_refs", "w", encoding="utf-8") as reset:
                    reset.write("5")
            return captured

    return Watched


def digest(net):
    text = hashlib.sha256()
    for p in net.parameters():
        text.update(p.detach().numpy().tobytes())
    return text.hexdigest()


def in_weir(name, precision, budget):
    """(step, batch, row) of the model in Weir."""
    net, loss_fn, batch = built(name)
    half = None if precision == "f32" else precision
    begin = time.perf_counter()
    step = watched()(net, loss_fn, sgd(net), batch, budget=budget, precision=half)
    losses = [step(*batch).item()]
    first = time.perf_counter() - begin
    losses += [step(*batch).item() for _ in range(STEPS - 1)]
    high = resident("VmHWM") - step.held
    row = {key: step.stats[key] for key in ("arena_bytes", "persistent_bytes",
                                            "planned_peak_bytes", "extra_ms", "predicted_ms")}
    row.update(bits=[losses, digest(net)], measured=step.graph.measure(), high=high,
               capture=step.capture, first=first)
    return step, batch, row


def alone(name, precision):
    return in_weir(name, precision, None)[2]


def in_eager(name, precision):
    """What PyTorch's step needs: bytes."""
    net, loss_fn, batch = built(name)
    optimizer = sgd(net)
    step = step_of(net, loss_fn, batch, optimizer, PRECISIONS[precision])
    step()
    optimizer.zero_grad(set_to_none=True)
    gradients = bytes_of(net.parameters())
    return {"persistent": 2 * gradients + bytes_of(net.buffers()) + bytes_of(batch),
            "gradients": gradients, "peak": allocated_peak(step)}


def compiled(name, precision):
    """(step of torch.compile, seconds to its first loss), without what an earlier run cached."""
    net, loss_fn, batch = built(name)
    begin = time.perf_counter()
    step = step_of(torch.compile(net), loss_fn, batch, sgd(net), PRECISIONS[precision])
    step()
    return step, time.perf_counter() - begin


def beside(name, precision, budget, rounds):
    """The step within the budget, PyTorch's and torch.compile's, in turn."""
    step, own, row = in_weir(name, precision, budget)       # before PyTorch's step holds memory
    net, loss_fn, batch = built(name)
    theirs = step_of(net, loss_fn, batch, sgd(net), PRECISIONS[precision])
    theirs()
    cache = tempfile.mkdtemp()
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=cache, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1")
    try:
        best, row["compiled first"] = compiled(name, precision)
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    for each in (lambda: step(*own), theirs, best):
        each()
    row["times"] = [[seconds(each) for each in (lambda: step(*own), theirs, best)]
                    for _ in range(rounds)]
    return row


def row_of(name, precision, share, rounds, limit):
    """The numbers of one model."""
    theirs = forked(limit, in_eager, name, precision)
    free = forked(limit, alone, name, precision) if "error" not in theirs else theirs
    if "error" in free:
        return {"name": name, **free}
    budget = free["persistent_bytes"] + int(share * theirs["peak"])
    row = forked(limit, beside, name, precision, budget, rounds)
    return {"name": name, "batch": BATCH or TEN[name][1], "budget": budget, "share": share,
            "precision": precision, "eager": theirs, "free": free, **row}


# ---- tables ----

def kept(row):
    return row["measured"] == row["arena_bytes"] and row["planned_peak_bytes"] <= row["budget"]


def memory_line(row):
    theirs = row["eager"]
    part = (theirs["peak"] - theirs["gradients"]) / (theirs["peak"] + theirs["persistent"])
    return (f"| {row['name']} | {row['batch']} | {part:.0%} | {theirs['peak']:,} | "
            f"{row['free']['arena_bytes']:,} | {row['arena_bytes']:,} | {row['measured']:,} | "
            f"{'yes' if kept(row) else 'NO'} | "
            f"{'yes' if row['bits'] == row['free']['bits'] else 'NO'} | "
            f"{(row['high'] - row['budget']) / 2 ** 20:+.0f} MiB | "
            f"{row['capture'] / 2 ** 20:+.0f} MiB |")


def ratios(row):
    """Medians of the step's time beside eager's and torch.compile's."""
    return [statistics.median(own[0] / own[i] for own in row["times"]) for i in (1, 2)]


def time_line(row):
    extra = row["extra_ms"] / max(row["predicted_ms"] - row["extra_ms"], 1e-9)
    steps = [statistics.median(each) * 1e3 for each in zip(*row["times"])]
    return (f"| {row['name']} | {extra:.1%} | " + " | ".join(f"{ms:,.0f}" for ms in steps) +
            " | " + " | ".join(f"{ratio:.2f}" for ratio in ratios(row)) +
            f" | {row['first']:.1f} | {row['compiled first']:.1f} | "
            f"{row['first'] / row['compiled first']:.2f} |")


def show(rows):
    good = [row for row in rows if "error" not in row]
    print("| | batch | activations | PyTorch's step peak | Weir's | within the budget: planned | "
          "measured | planned = measured <= budget | bits | resident | capture |")
    print("|---|---:|---:|---:|---:|---:|---:|---|---|---:|---:|")
    print("\n".join(map(memory_line, good)))
    print("\n| | extra | step, ms: Weir | eager | compile | Weir / eager | Weir / compile | "
          "first step, s: Weir | compile | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    print("\n".join(map(time_line, good)))
    if good:
        means = [statistics.geometric_mean(each) for each in zip(*map(ratios, good))]
        print(f"| geometric mean | | | | | {means[0]:.2f} | {means[1]:.2f} | | | |")
    for row in rows:
        if "error" in row:
            print(f"\n{row['name']}: " + row["error"].split("\n")[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--share", type=float, default=0.5, help="of PyTorch's step peak")
    parser.add_argument("--precision", choices=PRECISIONS, default="f32")
    parser.add_argument("--batch", type=int, default=0, help="default: those of the table")
    parser.add_argument("--rounds", type=int, default=5, help="of steps in turn")
    parser.add_argument("--limit", type=float, default=900, help="seconds for each of three runs")
    parser.add_argument("--out", help="JSON lines, one for each model, as they are done")
    parser.add_argument("--show", nargs="+", metavar="ROWS", help="files of --out: their tables")
    args = parser.parse_args()
    global BATCH
    BATCH = args.batch
    rows = []
    if args.show:
        for path in args.show:
            with open(path, encoding="utf-8") as lines:
                rows += [json.loads(each) for each in lines]
    else:
        for name in args.only.split(",") if args.only else TEN:
            rows.append(row_of(name, args.precision, args.share, args.rounds, args.limit))
            if args.out:
                with open(args.out, "a", encoding="utf-8") as out:
                    print(json.dumps(rows[-1]), file=out)
    show(rows)
    print(f"\nBudget: persistent bytes plus {args.share:.0%} of PyTorch's step peak. PyTorch "
          f"{torch.__version__}.\n\n{machine()}")


if __name__ == "__main__":
    main()
