#!/usr/bin/env python3
"""eager - what a call of an operator costs with the graph off: 20 operators on 4x4 float32.

Usage: PYTHONPATH=build/python python3 bench/eager.py [--rounds N] [--calls N] [--json FILE]
[--out FILE]. Prints a table: microseconds a call without gradients and in training, and, where
PyTorch can be imported, its own beside them. The two take turns within a round, ratios are taken
within a round, and medians over the rounds count.
"""
import argparse
import contextlib
import json
import math
import statistics
import time

import numpy as np

from machine import machine
import weir
from weir import autograd, tensor

try:
    import torch
except ImportError:
    torch = None

# name: (Weir's, PyTorch's), of x and y.
OPERATORS = {
    "add": (lambda x, y: autograd.add(x, y), lambda x, y: torch.add(x, y)),
    "sub": (lambda x, y: autograd.sub(x, y), lambda x, y: torch.sub(x, y)),
    "mul": (lambda x, y: autograd.mul(x, y), lambda x, y: torch.mul(x, y)),
    "div": (lambda x, y: autograd.div(x, y), lambda x, y: torch.div(x, y)),
    "pow": (lambda x, y: autograd.pow(x, y), lambda x, y: torch.pow(x, y)),
    "matmul": (lambda x, y: autograd.matmul(x, y), lambda x, y: torch.matmul(x, y)),
    "relu": (lambda x, y: autograd.relu(x), lambda x, y: torch.relu(x)),
    "sigmoid": (lambda x, y: autograd.sigmoid(x), lambda x, y: torch.sigmoid(x)),
    "tanh": (lambda x, y: autograd.tanh(x), lambda x, y: torch.tanh(x)),
    "exp": (lambda x, y: autograd.exp(x), lambda x, y: torch.exp(x)),
    "log": (lambda x, y: autograd.log(x), lambda x, y: torch.log(x)),
    "sqrt": (lambda x, y: autograd.sqrt(x), lambda x, y: torch.sqrt(x)),
    "abs": (lambda x, y: autograd.abs(x), lambda x, y: torch.abs(x)),
    "negative": (lambda x, y: autograd.negative(x), lambda x, y: torch.neg(x)),
    "sin": (lambda x, y: autograd.sin(x), lambda x, y: torch.sin(x)),
    "gelu": (lambda x, y: autograd.gelu(x), lambda x, y: torch.nn.functional.gelu(x)),
    "softmax": (lambda x, y: autograd.softmax(x, 1), lambda x, y: torch.softmax(x, 1)),
    "reshape": (lambda x, y: autograd.reshape(x, (2, 8)), lambda x, y: torch.reshape(x, (2, 8))),
    "transpose": (lambda x, y: autograd.transpose(x, (1, 0)), lambda x, y: x.permute(1, 0)),
    "reduce_sum": (lambda x, y: autograd.reduce_sum(x, [1]),
                   lambda x, y: torch.sum(x, 1, keepdim=True)),
}
MODES = ("no gradient", "training")


def operands(training):
    """(x, y) of Weir and of PyTorch (None without it); in training x wants a gradient."""
    array = np.random.default_rng(0).random((4, 4), np.float32) + np.float32(0.5)
    ours = (tensor.Tensor(data=array, stores_grad=training), tensor.from_numpy(array.T.copy()))
    if not torch:
        return ours, None
    theirs = torch.from_numpy(array).requires_grad_(training), torch.from_numpy(array.T.copy())
    return ours, theirs


def microseconds(call, operands, calls):
    """Of one call of a function of two operands, the mean of `calls` of them."""
    x, y = operands
    begin = time.perf_counter()
    for _ in range(calls):
        call(x, y)
    return 1e6 * (time.perf_counter() - begin) / calls


def race(name, ours, theirs, rounds, calls):
    """Medians of an operator and of the ratio of each round, by turns."""
    sides = list(zip(OPERATORS[name], (ours, theirs)))[:2 if theirs else 1]
    times = [[] for _ in sides]
    for turn in range(rounds + 1):
        order = range(len(sides)) if turn % 2 == 0 else reversed(range(len(sides)))
        for i in order:
            times[i].append(microseconds(*sides[i], calls))
    times = [t[1:] for t in times]          # the first round warms up
    row = {"weir_us": statistics.median(times[0])}
    if theirs:
        row["torch_us"] = statistics.median(times[1])
        row["ratio"] = statistics.median(a / b for a, b in zip(*times))
    return row


def measured(rounds, calls):
    """{mode: {operator: row}}"""
    found = {}
    for mode in MODES:
        autograd.training = mode == "training"
        ours, theirs = operands(autograd.training)
        with contextlib.nullcontext() if autograd.training or not torch else torch.no_grad():
            found[mode] = {name: race(name, ours, theirs, rounds, calls) for name in OPERATORS}
    autograd.training = False
    return found


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(found, rounds, calls):
    """The table of what `measured` found, as lines."""
    version = f", PyTorch {torch.__version__}" if torch else ""
    lines = [f"{machine()}; Weir {weir.__version__}{version}; 1 thread; {rounds} rounds of {calls} "
             f"calls; {time.strftime('%Y-%m-%d')}. Ratio: median of the rounds' ratios.", "",
             "| operator |" + "".join(f" {mode}, us | PyTorch, us | ratio |" for mode in MODES),
             "|---|" + "---:|" * 3 * len(MODES)]
    for name in OPERATORS:
        cells = [f"{row[key]:.2f}" if key in row else ""
                 for row in (found[mode][name] for mode in MODES)
                 for key in ("weir_us", "torch_us", "ratio")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    for title, mean in (("geometric mean", geometric_mean), ("median", statistics.median)):
        means = [f" | | {mean([row['ratio'] for row in found[mode].values()]):.2f} |"
                 if torch else " | | |" for mode in MODES]
        lines.append(f"| {title} |" + "".join(means))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=1000, help="of an operator in a round")
    parser.add_argument("--json", metavar="FILE", help="the figures, by mode and operator")
    parser.add_argument("--out", metavar="FILE", help="the table, with a heading")
    args = parser.parse_args()
    if torch:
        torch.set_num_threads(1)
    found = measured(args.rounds, args.calls)
    lines = table(found, args.rounds, args.calls)
    print("\n".join(lines))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"machine": machine(), "weir": weir.__version__,
                       "torch": torch.__version__ if torch else None, "modes": found}, f, indent=1)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            f.write("# A call of an operator in Python, graph off, 4x4 float32\n\n")
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
