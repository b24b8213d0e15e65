#!/usr/bin/env python3
"""cards.py - SINGA's table of its graph mode, measured: ResNet-50, graph off, on, in budgets.

Steps run on the device named. Budgets are shares of what the step takes with the graph off,
parameters and all, so that 0.63 asks for SINGA's saving. Cases take turns as in compare.py, each in
a process of its own that stays alive; beside them stands what SINGA's documentation printed. Needs
nothing but Python.
"""
import argparse
import csv
import statistics
import sys
from pathlib import Path

from built import add_tool
from compare import Absent, Case

# SINGA 3, ResNet-50 on an RTX 2080 Ti: (batch, graph) -> MB of the card, images a second.
SINGA = {(16, "off"): (4975, 225.4), (16, "on"): (3283, 232.8),
         (32, "off"): (10119, 237.8), (32, "on"): (6839, 244.2)}
HEAD = ["model", "batch", "case", "device", "peak_bytes", "peak_to_off", "planned_bytes",
        "median_ms", "min_ms", "time_to_off", "images_per_second"]


def worker(args, batch, *options):
    command = [args.weir, "bench", "worker", "--model", args.model, "--batch", str(batch),
               "--device", args.device, *options]
    return command + (["--image", str(args.image)] if args.image else [])


def measured(case):
    """Bytes of a step and what is persistent, as measured."""
    return int(case.ask("peak", "peak")[0])


def open_cases(args, batch):
    """Graph off first: budgets are shares of what it takes."""
    off = Case("graph off", worker(args, batch, "--case", "off"), threads=args.threads)
    off.run(1)
    whole = measured(off)
    cases = [off, Case("graph on", worker(args, batch, "--case", "on"), threads=args.threads)]
    for share in args.budgets:
        try:
            cases.append(Case(f"graph on, {share:g} of off's memory",
                              worker(args, batch, "--case", "on", "--measure", "yes", "--budget",
                                     str(int(share * whole))), threads=args.threads))
        except Absent as error:
            print(f"cards.py: left out: {error}", file=sys.stderr)
    for case in cases:
        case.rounds, case.times = [], []
    return cases


def rows_of(args, batch):
    cases = open_cases(args, batch)
    for r in range(args.rounds):
        turn = r % len(cases)
        for case in cases[turn:] + cases[:turn]:
            case.run(args.steps)
    off = measured(cases[0])
    for case in cases:
        peak = measured(case)
        planned = 0 if case is cases[0] else int(case.ask("plan", "plan")[0])
        ratio = statistics.median(a / b for a, b in zip(case.rounds, cases[0].rounds))
        median = statistics.median(case.times)
        yield [args.model, batch, case.name, args.device, peak, peak / off, planned, median,
               min(case.times), ratio, batch / median * 1e3]
        case.close()


def table(args, rows):
    yield (f"### {args.model} on {args.device}: graph off, on and in budgets; {args.rounds} rounds "
           f"of {args.steps} steps\n")
    yield ("| batch | case | peak, MB | / off | planned, MB | step, ms | / off | images/s | "
           "SINGA: MB, images/s |")
    yield "|---:|---|" + "---:|" * 7
    for _, batch, case, _, peak, share, planned, median, _, ratio, speed in rows:
        singa = SINGA.get((batch, case.removeprefix("graph ")), ("", ""))
        theirs = f"{singa[0]}, {singa[1]}" if args.model == "resnet50" and singa[0] else ""
        yield (f"| {batch} | {case} | {peak / 1e6:.1f} | {share:.3f} | "
               f"{f'{planned / 1e6:.1f}' if planned else ''} | {median:.4g} | {ratio:.3f} | "
               f"{speed:.0f} | {theirs} |")
    yield ""


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", help="default: %(default)s")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--image", type=int, default=0)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--budgets", type=float, nargs="*", default=[0.75, 0.63, 0.5],
                        help="shares of graph off's memory; default: 0.75 0.63 0.5")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    add_tool(parser)
    parser.add_argument("--out", type=Path, help="append the table to this file")
    parser.add_argument("--csv", type=Path, help="write the rows to this file")
    return parser.parse_args()


def main():
    args = options()
    try:
        rows = [row for batch in args.batches for row in rows_of(args, batch)]
    except Absent as error:
        sys.exit(f"cards.py: {error}")
    for text in table(args, rows):
        print(text, flush=True)
        if args.out:
            with args.out.open("a") as to:
                to.write(text + "\n")
    if args.csv:
        with args.csv.open("w", newline="") as to:
            csv.writer(to).writerows([HEAD, *rows])


if __name__ == "__main__":
    main()
