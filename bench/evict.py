#!/usr/bin/env python3
"""evict - training with the graph off at smaller and smaller budgets: memory, time, bits.

Each model trains without a budget, then in shares of the peak measured there, down to the first
share in which one call does not fit. Values are evicted, and recomputed on demand. Graph on runs
beside every case in the same process (`weir bench graph --off-budget`), and times are compared
through it: extra time is (off / on with the budget) / (off / on without). Needs nothing but Python.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from built import add_tool

MODELS = {      # options that make a step of a second or less
    "mlp": [], "cnn": ["--batch", "64"], "lenet": ["--batch", "64"],
    "resnet18": ["--batch", "8", "--image", "64"], "gpt": ["--batch", "2"],
    "unet": ["--batch", "2", "--image", "96"], "lstm": ["--batch", "16"],
}
TOO_SMALL = " the budget of "


class NotFeasible(Exception):
    """One call does not fit the budget."""


def bench(args, model, budget=None, policy=None):
    """The rows of graph off and on; the budget is graph off's."""
    options = MODELS[model] if args.batch is None else ["--batch", str(args.batch)]
    if args.image is not None:
        options = [*options, "--image", str(args.image)]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [args.weir, "bench", "graph", "--model", model, *options, "--steps",
                   str(args.steps), "--rounds", str(args.rounds), "--json", out.name]
        if budget:
            command += ["--off-budget", budget, "--off-policy", policy]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and budget and TOO_SMALL in done.stderr:
            raise NotFeasible
        if done.returncode:
            sys.exit(done.stderr.strip() or f"{' '.join(command)} failed")
        return json.loads(Path(out.name).read_text())


def line(name, rows, base, whole):
    off, on = rows
    time = (base[1]["time_ratio_min"] / on["time_ratio_min"] - 1) * 100
    budget, peak = off["budget_bytes"], off["measured_peak_bytes"]
    kept = not budget or peak <= budget
    return (f"| {name} | {budget / 1e6:.3f} | {peak / 1e6:.3f} | {100 * peak / whole:.1f} % | "
            f"{'yes' if kept else 'NO'} | {off['pool_bytes'] / 1e6:.3f} | {off['again']} | "
            f"{time:+.1f} % | {'yes' if off['bit_identical'] else 'NO'} |")


def run(args, model):
    base = bench(args, model)
    whole = base[0]["measured_peak_bytes"]
    yield f"### {model}, batch {base[0]['batch']}, graph off\n"
    yield ("| policy, budget | MB | measured peak, MB | of the unbudgeted | peak <= "
           "budget | held, MB | calls again a step | extra time | bits equal |")
    yield "|---|" + "---:|" * 8
    yield line("none", base, base, whole)
    for policy in args.policies:
        for share in args.shares:
            try:
                yield line(f"{policy} {share} %", bench(args, model, f"{share}%", policy), base,
                               whole)
            except NotFeasible:
                yield f"| {policy} {share} % | one call does not fit |" + " |" * 7
                break
    yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS),
                        help="default: " + " ".join(MODELS))
    parser.add_argument("--shares", type=int, nargs="+", metavar="PERCENT",
                        default=[90, 80, 70, 60, 50, 40, 30], help="of the unbudgeted peak")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--image", type=int)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policies", nargs="+", metavar="POLICY", default=["dtr"],
                        help="of dtr dtr:eq dtr:local dtr:lru dtr:size dtr:msps")
    add_tool(parser)
    parser.add_argument("--out", type=Path, help="append the tables to this file")
    args = parser.parse_args()
    for model in args.models:
        MODELS.setdefault(model, [])
        for text in run(args, model):
            print(text, flush=True)
            if args.out:
                with args.out.open("a") as to:
                    to.write(text + "\n")


if __name__ == "__main__":
    main()
