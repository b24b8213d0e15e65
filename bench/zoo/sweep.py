#!/usr/bin/env python3
"""sweep.py - trains the models of torchvision, timm and transformers in Weir and in PyTorch.

Usage: PYTHONPATH=build/python python3 bench/zoo/sweep.py [--out FILE] [--package NAME]
       [--only NAME[,NAME]] [--steps 20] [--batch 2] [--limit SECONDS]
Models that have a row in FILE are left out, so a sweep that was ended goes on.

For each model, in a process of its own, with dropout at p = 0 and weights and batch from one seed:
20 steps of SGD with momentum on one batch, in PyTorch and by weir.torch.Step. Columns:
    loss       of the first step: |d| / |loss|
    gradients  of the first step: the largest ||d|| / ||g|| of a tensor. One whose gradient is 0 but
               for rounding is measured by a hundredth of the longest gradient.
    PyTorch, itself     both, and where it matters the next, of PyTorch with 1 thread beside 2
    losses     the largest |d| / |loss| over all steps. Below 5e-4 a loss counts as 5e-4: f32 holds
               the sum of exponentials, near 1 by then, in steps of 2^-23, a thousandth of 1.2e-4.
    step peak  the planned bytes of the step's arena, and the highest that a run touched
It agrees if loss and gradients are within 1e-4, the losses within 1e-3, or each within four times
what PyTorch differs from itself, and if the plan is what was measured. A model that does not is
compared again in f64: in f32 a ReLU whose input is 0 but for rounding takes either side, and so
does a pool between maxima that are equal but for rounding, which moves gradients by a thousandth.
Needs torch and the packages; one that is absent is left out.
"""
import argparse
import copy
import importlib
import json
import math
import os
import sys
import time

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

import models       # noqa: E402
from child import forked        # noqa: E402
from eager import sgd, step_of  # noqa: E402

PACKAGES = {"torchvision": models.torchvision_names, "timm": models.timm_names,
            "transformers": models.transformers_names}
# Limits, relative: of the first step, of the losses of all, of both in f64.
FIRST, LOSSES, EXACT = 1e-4, 1e-3, 1e-8
LEAST_LOSS = 5e-4       # of which LOSSES is four steps of f32 at 1


def agrees(row):
    """Whether a row is within the limits."""
    limits = [max(least, 4 * far) for least, far in zip((FIRST, FIRST, LOSSES), row["self"])]
    return row["loss"] <= limits[0] and row["gradients"] <= limits[1] and \
        row["losses"] <= (limits[2:] or [LOSSES])[0] and row["planned"] == row["measured"]


def agrees_in_f64(row):
    """Whether gradients and losses that differ in f32 agree in f64."""
    return "f64" in row and max(row["f64"][2:]) <= EXACT and row["planned"] == row["measured"]


# ---- one model ----

def eager(net, loss_fn, batch, steps, threads):
    """(losses of all steps, gradients of the first)."""
    torch.set_num_threads(threads)
    step = step_of(net, loss_fn, batch, sgd(net))
    losses, grads = [step().item()], {}
    for name, p in net.named_parameters():
        if p.grad is not None:
            grads[name] = p.grad.clone()
    losses += [step().item() for _ in range(steps - 1)]
    return losses, grads


def known(distance):
    """A distance; infinity for NaN, with which every comparison is false."""
    return math.inf if math.isnan(distance) else distance


def loss_distance(a, b):
    return max(known(abs(x - y) / max(abs(x), LEAST_LOSS)) for x, y in zip(a, b))


def gradient_distance(a, b):
    """(largest relative distance, its tensor) of the gradients `b` from `a`."""
    longest = max(float(g.norm()) for g in a.values())
    worst = (0.0, "")
    for name, g in a.items():
        if name not in b:
            return math.inf, f"{name}: no gradient"
        length = max(float(g.norm()), 1e-2 * longest, 1e-30)
        worst = max(worst, (known(float((g - b[name]).norm()) / length), name))
    return worst


def in_doubles(start, loss_fn, batch, grads, own):
    """What f64 says: the distances from PyTorch's gradients in f64 of PyTorch's in f32, of Weir's
    in f32, of Weir's in f64, and the distance of the losses of three steps in f64."""
    import weir.torch
    net = copy.deepcopy(start).double()
    batch = [t.double() if t.is_floating_point() else t for t in batch]
    losses, exact = eager(copy.deepcopy(net), loss_fn, batch, 3, 2)
    step = weir.torch.Step(net, loss_fn, sgd(net), batch, gradients=True)
    found = [step(*batch).item()]
    rows = [gradient_distance(exact, g)[0] for g in (grads, own, step.gradients())]
    found += [step(*batch).item() for _ in range(2)]
    return [*rows, loss_distance(losses, found)]


def run_one(package, name, batch_size, steps):
    """The numbers of one model, for a row."""
    import weir.torch
    net, loss_fn, batch = models.build(package, name, batch_size)
    row = {"batch": batch_size, "shape": list(batch[0].shape[1:]), "steps": steps,
           "parameters": sum(p.numel() for p in net.parameters())}
    start = copy.deepcopy(net)
    losses, grads = eager(copy.deepcopy(net), loss_fn, batch, steps, 2)
    alone = eager(copy.deepcopy(net), loss_fn, batch, 1, 1)
    row["self"] = [loss_distance(losses[:1], alone[0]), gradient_distance(grads, alone[1])[0]]
    del alone
    begin = time.perf_counter()
    step = weir.torch.Step(net, loss_fn, sgd(net), batch, gradients=True)
    row["first"] = time.perf_counter() - begin
    found = [step(*batch).item()]
    row["loss"] = loss_distance(losses[:1], found)
    own = step.gradients()
    row["gradients"], row["worst"] = gradient_distance(grads, own)
    found += [step(*batch).item() for _ in range(steps - 1)]
    row["losses"] = loss_distance(losses, found)
    stats = step.stats
    row["nodes"], row["planned"] = stats["nodes"], stats["arena_bytes"]
    row["measured"] = step.graph.measure()
    if row["losses"] > LOSSES:      # is PyTorch as far from itself?
        row["self"].append(loss_distance(
            losses, eager(copy.deepcopy(start), loss_fn, batch, steps, 1)[0]))
    if not agrees(row):
        row["f64"] = in_doubles(start, loss_fn, batch, grads, own)
    return row


# ---- all of them ----

def done(path):
    """The models, as (package, name), that have a row in a file."""
    if not path or not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as lines:
        return {(row["package"], row["name"]) for row in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="JSON lines, one for each model, as they are done")
    parser.add_argument("--package", choices=PACKAGES)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600)
    args = parser.parse_args()
    only = args.only.split(",") if args.only else None
    there = done(args.out)
    for package in [args.package] if args.package else PACKAGES:
        try:
            importlib.import_module(package)
        except ImportError as error:
            print(f"{package}: left out, {error}", file=sys.stderr)
            continue
        for name in PACKAGES[package]():
            if only and name not in only or (package, name) in there:
                continue
            row = {"package": package, "name": name,
                   **forked(args.limit, run_one, package, name, args.batch, args.steps)}
            row["agrees"] = "error" not in row and agrees(row)
            row["in f64"] = agrees_in_f64(row)
            print(json.dumps(row), flush=True)
            if args.out:
                with open(args.out, "a", encoding="utf-8") as out:
                    print(json.dumps(row), file=out)


if __name__ == "__main__":
    main()
