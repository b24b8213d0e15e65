#!/usr/bin/env python3
"""budget - real training at smaller and smaller byte budgets: memory, time, bits, as one table.

For each model the step is trained without a budget and then at shares of its planned peak, down to
where no plan is found; the smallest budget that the library names is the last row. Graph off runs
beside every case in the same process (`weir bench graph --budget`), so times are compared through
it: extra time is (on / off with the budget) / (on / off without). Needs nothing but Python.
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MODELS = {      # options that make a step of a second or less
    "mlp": [], "cnn": ["--batch", "64"], "lenet": ["--batch", "64"],
    "resnet18": ["--batch", "8", "--image", "64"], "gpt": ["--batch", "2"],
    "unet": ["--batch", "2", "--image", "96"], "lstm": ["--batch", "16"],
}
SMALLEST = re.compile(r"the smallest that works is (\d+)")


class NotFeasible(Exception):
    """No plan within the budget; carries the smallest budget that works."""


def bench(args, model, budget):
    """The row of graph on, with the seconds of graph off as `off_ms`."""
    options = MODELS[model] if args.batch is None else ["--batch", str(args.batch)]
    if args.image is not None:
        options = [*options, "--image", str(args.image)]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [args.weir, "bench", "graph", "--model", model, *options, "--steps",
                   str(args.steps), "--rounds", str(args.rounds), "--json", out.name]
        if budget:
            command += ["--budget", budget, "--measure", "yes" if args.measure else "no"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = SMALLEST.search(done.stderr)
        if done.returncode and found:
            raise NotFeasible(found.group(1))
        if done.returncode:
            sys.exit(done.stderr.strip() or f"{' '.join(command)} failed")
        off, on = json.loads(Path(out.name).read_text())
    on["off_ms"] = off["step_ms_min"]
    return on


def line(name, row, base, whole):
    time = (row["time_ratio_min"] / base["time_ratio_min"] - 1) * 100
    peak, budget = row["planned_peak_bytes"], row["budget_bytes"]
    kept = peak == row["measured_peak_bytes"] and (not budget or peak <= budget)
    return (f"| {name} | {budget / 1e6:.3f} | {peak / 1e6:.3f} | {100 * peak / whole:.1f} % | "
            f"{'yes' if kept else 'NO'} | {row['again']} | {time:+.1f} % | "
            f"{'yes' if row['bit_identical'] else 'NO'} | {row['plan_ms'] / 1e3:.2f} |")


def run(args, model):
    base = bench(args, model, None)
    whole = base["planned_peak_bytes"]
    yield f"### {model}, batch {base['batch']}\n"
    yield ("| budget | MB | planned peak, MB | of the unbudgeted | planned = measured <= budget | "
           "operations again | extra time | bits equal | planned in, s |")
    yield "|---|" + "---:|" * 8
    yield line("none", dict(base, budget_bytes=0), base, whole)
    for share in args.shares:
        try:
            yield line(f"{share} %", bench(args, model, f"{share}%"), base, whole)
        except NotFeasible as smallest:
            yield line("the smallest", bench(args, model, str(smallest)), base, whole)
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
    parser.add_argument("--measure", action="store_true", help="time the kernels while planning")
    parser.add_argument("--weir", default=str(ROOT / "build" / "weir"), help="default: %(default)s")
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
