#!/usr/bin/env python3
"""loss_curves.py - losses of 100 training steps in Weir beside PyTorch's, in f32 and in bf16.

Usage: PYTHONPATH=build/python python3 bench/zoo/loss_curves.py MODEL... [--precision f32 bf16]
       [--steps 100] [--curves FILE] [--out FILE]
A model of bench/networks.py is trained from the same weights on the same batches in the same order
by weir.torch.Step and by PyTorch, with SGD and momentum, without dropout. Each batch is new and
follows a rule, and one label in ten is drawn, so losses fall and end above 0, where a relative
distance has a meaning. The first and the last loss in a table are of one step and of the last five.

f32   The largest |loss - PyTorch's| / PyTorch's of all steps, PyTorch with 2 threads. It agrees
      if Weir is within 1e-3, or within what PyTorch with 1 thread differs. Beside these: PyTorch
      from weights that differ by a unit in the last place, which tells how fast this training
      makes a rounding grow, and for a model that does not agree both in f64.
bf16  PyTorch's own runs (1 and 2 threads, channels_last, weights perturbed) have a least and a
      largest loss at each step: a band. Curves are means of 5 steps. A curve's distance is how far
      it is outside of the band, of the loss at the band's edge. Runs of one law leave the band of
      some others now and then, so each of PyTorch's is measured beside the rest too. Weir agrees if
      it is not further outside than the furthest of those.

Curves go to FILE, one line a row; what has a row there is not run again. Needs torch.
"""
import argparse
import copy
import datetime
import json
import math
import os
import sys
from pathlib import Path
from typing import NamedTuple

import torch
import weir
import weir.torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]

from child import forked        # noqa: E402
from machine import machine     # noqa: E402
from models import no_dropout   # noqa: E402
from networks import MODELS     # noqa: E402

WITHIN = 1e-3           # of the losses in f32
SMOOTH = 5              # steps, of which a curve in bf16 is the mean
MOMENTUM = 0.9
CLASSES = 10            # that the labels have
SYMBOLS = 32            # that a text has
DRAWN = 0.1             # share of labels, or of tokens, that follow no rule
LIMIT = 7200            # seconds for a row
LAST_PLACE, PERTURBED = 6e-8, 1e-6      # relative, of weights: in f32, and in bf16
WEIR, BASE, OTHER, EXACT = "Weir", "PyTorch, 2 threads", "PyTorch, 1 thread", "PyTorch, f32"
ROUNDED, DOUBLES = "PyTorch, a unit in the last place", ("Weir, f64", "PyTorch, f64")


class Size(NamedTuple):
    """Of a batch: examples, and pixels of a side or tokens of one, where these may vary."""
    batch: int
    extent: int = 0


class Case(NamedTuple):
    """How a model is trained. In bf16 it is smaller, since PyTorch's products take a hundred times
    as long as in f32 on a processor without units for them."""
    rate: float
    f32: Size
    bf16: Size


CASES = {
    "mlp": Case(0.02, Size(128), Size(32)),
    "lenet": Case(0.01, Size(64), Size(16)),
    "gpt": Case(0.01, Size(1, 128), Size(1, 32)),
    "resnet18": Case(0.01, Size(8, 32), Size(4, 16)),
    "vgg16": Case(0.01, Size(4, 32), Size(2, 32)),
    "resnet50": Case(0.01, Size(4, 96), Size(4, 32)),
}


# ---- what is trained, and on what ----

def images(shape, batch, steps):
    """Batches of images: a class is a smooth pattern, under noise as strong as it."""
    square = shape if len(shape) == 3 else (1, 28, 28)
    patterns = F.interpolate(torch.randn(CLASSES, square[0], 4, 4), square[1:], mode="bilinear")
    for _ in range(steps):
        y = torch.randint(0, CLASSES, (batch,))
        x = (patterns[y] + torch.randn(batch, *square)).reshape(batch, *shape)
        drawn = torch.rand(batch) < DRAWN
        yield x, torch.where(drawn, torch.randint(0, CLASSES, (batch,)), y)


def texts(length, batch, steps):
    """Batches of tokens, and those that follow: the one that a permutation says."""
    after = torch.randperm(SYMBOLS)
    for _ in range(steps):
        columns = [torch.randint(0, SYMBOLS, (batch,))]
        for _ in range(length):
            drawn = torch.rand(batch) < DRAWN
            columns.append(torch.where(drawn, torch.randint(0, SYMBOLS, (batch,)),
                                       after[columns[-1]]))
        tokens = torch.stack(columns, 1)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)


def he_weights(net):
    """The weights that torchvision's VGG begins with: PyTorch's own make the signal vanish."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0, 0.01)
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.zeros_(module.bias)


def build(name, size, steps):
    """(network, batches), from one seed."""
    torch.manual_seed(7)
    model = MODELS[name]
    net = no_dropout(model.make(size.extent)).train()
    if name == "vgg16":
        he_weights(net)
    if model.text:
        return net, list(texts(size.extent, size.batch, steps))
    shape = tuple(n or size.extent for n in model.shape)
    return net, list(images(shape, size.batch, steps))


# ---- runs ----

def sgd(net, rate):
    return torch.optim.SGD(net.parameters(), lr=rate, momentum=MOMENTUM)


def eager(net, data, rate, half=False, threads=2, channels_last=False, perturbed=0.0, seed=0):
    """PyTorch's losses. half: under autocast to bf16. perturbed: how much, relative, the weights
    are, by normal numbers of a seed."""
    torch.set_num_threads(threads)
    net = copy.deepcopy(net)
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
        data = [(x.to(memory_format=torch.channels_last), y) for x, y in data]
    if perturbed:
        draw = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for p in net.parameters():
                p *= 1 + perturbed * torch.randn(p.shape, generator=draw)
    optimizer, losses = sgd(net, rate), []
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def in_weir(net, data, rate, half=False):
    """Weir's losses, graph on."""
    net = copy.deepcopy(net)
    step = weir.torch.Step(net, F.cross_entropy, sgd(net, rate), data[0],
                           precision="bf16" if half else "f32",
                           device=weir.device.open_cpu(threads=2))
    return [step(x, y).item() for x, y in data]


def runs(half, images_of_it):
    """Name and arguments of `eager` for each run of PyTorch."""
    yield BASE, {"half": half}
    yield OTHER, {"half": half, "threads": 1}
    if not half:
        yield ROUNDED, {"perturbed": LAST_PLACE}
        return
    if images_of_it:
        yield "PyTorch, channels_last", {"half": True, "channels_last": True}
    for seed in (1, 2) if images_of_it else (1, 2, 3):
        yield f"PyTorch, perturbed {seed}", {"half": True, "perturbed": PERTURBED, "seed": seed}
    yield EXACT, {}


def in_doubles(net, data, rate):
    """The curves of both in f64."""
    net = copy.deepcopy(net).double()
    data = [(x.double() if x.is_floating_point() else x, y) for x, y in data]
    return dict(zip(DOUBLES, (in_weir(net, data, rate), eager(net, data, rate))))


def run_one(name, precision, steps):
    """A row: the curves of one model in one precision."""
    case, half = CASES[name], precision == "bf16"
    net, data = build(name, getattr(case, precision), steps)
    curves = {WEIR: in_weir(net, data, case.rate, half)}
    for title, how in runs(half, data[0][0].dim() == 4):
        curves[title] = eager(net, data, case.rate, **how)
    row = {"model": name, "precision": precision, "shape": list(data[0][0].shape),
           "rate": case.rate, "curves": curves}
    if not half and not agrees(row):
        curves.update(in_doubles(net, data, case.rate))
    return row


# ---- what is said of them ----

def largest_distance(curve, base):
    """The largest relative distance of a step; infinity where a loss is no number."""
    distances = [abs(a - b) / abs(b) for a, b in zip(curve, base)]
    return math.inf if any(map(math.isnan, distances)) else max(distances)


def smooth(curve):
    width = min(SMOOTH, len(curve))
    return [sum(curve[i:i + width]) / width for i in range(len(curve) - width + 1)]


def beside_band(curve, others):
    """(share of the steps inside of the band of the others, largest relative distance outside)."""
    outside = []
    for x, own in zip(curve, zip(*others)):
        low, high = min(own), max(own)
        if math.isnan(x):
            outside.append(math.inf)
        else:
            outside.append((low - x) / low if x < low else (x - high) / high if x > high else 0)
    return sum(d == 0 for d in outside) / len(outside), max(outside)


def of_f32(row):
    """Distances from PyTorch with 2 threads: Weir's, PyTorch's with 1, PyTorch's from weights that
    differ by a unit."""
    curves = row["curves"]
    return [largest_distance(curves[title], curves[BASE]) for title in (WEIR, OTHER, ROUNDED)]


def of_bf16(row):
    """Weir beside the band, and PyTorch's run that is furthest from the band of the rest."""
    curves = {title: smooth(curve) for title, curve in row["curves"].items()}
    weir_curve, _ = curves.pop(WEIR), curves.pop(EXACT)
    own = [beside_band(curve, [c for t, c in curves.items() if t != title])
           for title, curve in curves.items()]
    return beside_band(weir_curve, list(curves.values())), \
        (min(share for share, _ in own), max(far for _, far in own))


def agrees(row):
    """Whether a row is within the limits that the top of this file states."""
    if row["precision"] == "f32":
        own, itself, _ = of_f32(row)
        return own <= max(WITHIN, itself)
    (_, far), (_, itself) = of_bf16(row)
    return far <= itself


def trained_on(row):
    return f"{row['model']} | {' x '.join(map(str, row['shape']))} | {row['rate']}"


def verdict(row):
    return "yes" if agrees(row) else "**no**"


def f32_line(row):
    curves = row["curves"]
    own, itself, unit = of_f32(row)
    doubles = f"{largest_distance(*map(curves.get, DOUBLES)):.1e}" if DOUBLES[0] in curves else "-"
    past = next((str(i + 1) for i, (a, b) in enumerate(zip(curves[WEIR], curves[BASE]))
                 if abs(a - b) > WITHIN * b), "-")
    return (f"| {trained_on(row)} | {len(curves[BASE])} | {curves[BASE][0]:.3f} | "
            f"{smooth(curves[BASE])[-1]:.4f} | {smooth(curves[WEIR])[-1]:.4f} | {own:.1e} | "
            f"{past} | {itself:.1e} | {unit:.1e} | {doubles} | {verdict(row)} |")


def bf16_line(row):
    curves = row["curves"]
    (share, far), (own_share, own_far) = of_bf16(row)
    last = {title: smooth(curve)[-1] for title, curve in curves.items()}
    band = [x for title, x in last.items() if title not in (WEIR, EXACT)]
    return (f"| {trained_on(row)} | {len(curves[BASE])} | {curves[BASE][0]:.3f} | "
            f"{last[EXACT]:.4f} | {min(band):.4f} to {max(band):.4f} | {last[WEIR]:.4f} | "
            f"{share:.0%}, {far:.1e} | {own_share:.0%}, {own_far:.1e} | {verdict(row)} |")


F32_HEAD = f"""\
| f32 | batch | rate | steps | first loss | last, PyTorch | last, Weir | Weir, from PyTorch | \
first step past {WITHIN:.0e} | PyTorch, 1 thread | PyTorch, unit in last place | both in f64 | \
agrees |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|"""
BF16_HEAD = """\
| bf16 | batch | rate | steps | first loss | last, PyTorch in f32 | last, PyTorch | last, Weir | \
Weir: inside, furthest outside | PyTorch, itself | agrees |
|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"""


def report(rows):
    parts = []
    for precision, head, line in (("f32", F32_HEAD, f32_line), ("bf16", BF16_HEAD, bf16_line)):
        lines = [line(row) for row in rows if row["precision"] == precision]
        parts += ["\n".join([head, *lines]) + "\n"] if lines else []
    return "\n".join([*parts, f"{machine()}; 2 threads; Weir {weir.__version__}, PyTorch "
                      f"{torch.__version__}; {datetime.date.today()}.\n"])


def rows_of(path):
    if not path or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=CASES, metavar="MODEL",
                        help=", ".join(CASES))
    parser.add_argument("--precision", nargs="+", choices=("f32", "bf16"), default=("f32", "bf16"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--curves", type=Path, help="JSON lines, one a row, as they are done")
    parser.add_argument("--out", type=Path, help="write the tables to this file too")
    args = parser.parse_args()
    rows = rows_of(args.curves)
    there = {(row["model"], row["precision"]) for row in rows}
    failed = False
    for precision in args.precision:
        for name in args.models:
            if (name, precision) in there:
                continue
            row = forked(LIMIT, run_one, name, precision, args.steps)
            if "error" in row:
                print(f"loss_curves.py: {name}, {precision}: {row['error']}", file=sys.stderr)
                failed = True
                continue
            rows.append(row)
            if args.curves:
                with args.curves.open("a", encoding="utf-8") as to:
                    print(json.dumps(row), file=to)
    text = report(rows)
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    sys.exit(1 if failed or not all(map(agrees, rows)) else 0)


if __name__ == "__main__":
    main()
