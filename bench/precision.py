#!/usr/bin/env python3
"""precision.py - steps in bf16 and f16 as ratios of the same step in f32, graph on.

A processor that computes halves in f32 (`weir info` says so) gains memory from them and should lose
no time; this prints what they cost. Each case is a `weir bench worker`, asked for K steps in turn,
the order turning from round to round; a ratio is taken within a round and its median over the
rounds is printed, with the ratio of the minima in parentheses.
"""
import argparse
import datetime
import statistics
from pathlib import Path

from built import add_tool
from compare import STEPS, Case, race
from machine import machine

MODELS = ["mlp", "gpt", "lstm", "resnet18 --batch 32 --image 32", "resnet50 --batch 4"]
PRECISIONS = ["f32", "bf16", "f16"]


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", nargs="*", default=MODELS,
                        help="a model of weir bench, with its options; default: five")
    add_tool(parser)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, help="of a round; default by model")
    parser.add_argument("--out", type=Path, help="append the table to this file")
    return parser.parse_args()


def row(args, model):
    words = model.split()
    weir = [args.weir, "bench", "worker", "--case", "on", "--threads", str(args.threads),
            "--model", *words]
    cases = [Case(f"{model} {p}", [*weir, "--precision", p], None, args.threads)
             for p in PRECISIONS]
    race(cases, args.rounds, args.steps or STEPS[words[0]])
    base = cases[0]
    columns = [f"{statistics.median(base.times):.4g}"]
    for case in cases[1:]:
        ratio = statistics.median(a / b for a, b in zip(case.rounds, base.rounds, strict=True))
        columns.append(f"{ratio:.3f} ({min(case.times) / min(base.times):.3f})")
    columns += [f"{case.step_peak / base.step_peak:.3f}" for case in cases[1:]]
    for case in cases:
        case.close()
    return f"| {model} | " + " | ".join(columns) + " |"


def main():
    args = options()
    rows = [row(args, model) for model in args.models]
    text = "\n".join([f"{machine()}; {args.threads} threads, {args.rounds} rounds; "
                      f"{datetime.date.today()}.", "",
                      "| model | f32, ms | bf16 / f32 | f16 / f32 | step peak, bf16 | f16 |",
                      "|---|---:|---:|---:|---:|---:|", *rows, ""])
    print(text)
    if args.out:
        with args.out.open("a") as to:
            to.write(text + "\n")


if __name__ == "__main__":
    main()
