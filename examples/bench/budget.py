#!/usr/bin/env python3
"""budget - real training at smaller and smaller byte budgets: memory, time, bits, as one table.

For each model the step is trained without a budget and then at shares of its planned peak, down to
where no plan is found; the smallest budget that the library names is the last row. Graph off runs
beside every case in the same process (`weir bench graph --budget`), so times are compared through
it: extra time is (on / off with the budget) / (on / off without). With --off the graph-off case has
the budget instead, in bytes of what it is seen to take, and graph on is the measure. Needs nothing
but Python.
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
TOO_SMALL = " the budget of "


class NotFeasible(Exception):
    """No plan within the budget; carries the smallest budget that works."""


def bench(args, model, budget, policy=None):
    """The rows of graph off and on; budget is graph on's, or with a policy graph off's."""
    options = MODELS[model] if args.batch is None else ["--batch", str(args.batch)]
    if args.image is not None:
        options = [*options, "--image", str(args.image)]
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [args.weir, "bench", "graph", "--model", model, *options, "--steps",
                   str(args.steps), "--rounds", str(args.rounds), "--json", out.name]
        if policy and budget:
            command += ["--off-budget", budget, "--off-policy", policy]
        elif budget:
            command += ["--budget", budget, "--measure", "yes" if args.measure else "no"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = SMALLEST.search(done.stderr)
        if done.returncode and found:
            raise NotFeasible(found.group(1))
        if done.returncode and policy and TOO_SMALL in done.stderr:
            raise NotFeasible("0")
        if done.returncode:
            sys.exit(done.stderr.strip() or f"{' '.join(command)} failed")
        return json.loads(Path(out.name).read_text())


def line(name, row, base, whole):
    time = (row["time_ratio_min"] / base["time_ratio_min"] - 1) * 100
    peak, budget = row["planned_peak_bytes"], row["budget_bytes"]
    kept = peak == row["measured_peak_bytes"] and (not budget or peak <= budget)
    return (f"| {name} | {budget / 1e6:.3f} | {peak / 1e6:.3f} | {100 * peak / whole:.1f} % | "
            f"{'yes' if kept else 'NO'} | {row['again']} | {time:+.1f} % | "
            f"{'yes' if row['bit_identical'] else 'NO'} | {row['plan_ms'] / 1e3:.2f} |")


def line_off(name, rows, base, whole):
    off, on = rows
    time = (base[1]["time_ratio_min"] / on["time_ratio_min"] - 1) * 100
    budget, peak = off["budget_bytes"], off["measured_peak_bytes"]
    kept = not budget or peak <= budget
    return (f"| {name} | {budget / 1e6:.3f} | {peak / 1e6:.3f} | {100 * peak / whole:.1f} % | "
            f"{'yes' if kept else 'NO'} | {off['pool_bytes'] / 1e6:.3f} | {off['again']} | "
            f"{time:+.1f} % | {'yes' if off['bit_identical'] else 'NO'} |")


def run_off(args, model):
    base = bench(args, model, None)
    whole = base[0]["measured_peak_bytes"]
    yield f"### {model}, batch {base[0]['batch']}, graph off\n"
    yield ("| policy, budget | MB | measured peak, MB | of the unbudgeted | peak <= "
           "budget | held, MB | calls again a step | extra time | bits equal |")
    yield "|---|" + "---:|" * 8
    yield line_off("none", base, base, whole)
    for policy in args.policies:
        for share in args.shares:
            try:
                yield line_off(f"{policy} {share} %", bench(args, model, f"{share}%", policy), base,
                               whole)
            except NotFeasible:
                yield f"| {policy} {share} % | one call does not fit |" + " |" * 7
                break
    yield ""


def run(args, model):
    base = bench(args, model, None)[1]
    whole = base["planned_peak_bytes"]
    yield f"### {model}, batch {base['batch']}\n"
    yield ("| budget | MB | planned peak, MB | of the unbudgeted | planned = measured <= budget | "
           "operations again | extra time | bits equal | planned in, s |")
    yield "|---|" + "---:|" * 8
    yield line("none", dict(base, budget_bytes=0), base, whole)
    for share in args.shares:
        try:
            yield line(f"{share} %", bench(args, model, f"{share}%")[1], base, whole)
        except NotFeasible as smallest:
            yield line("the smallest", bench(args, model, str(smallest))[1], base, whole)
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
    parser.add_argument("--off", action="store_true", help="the budget is graph off's")
    parser.add_argument("--policies", nargs="+", metavar="POLICY", default=["dtr"],
                        help="with --off: dtr dtr:eq dtr:local dtr:lru dtr:size dtr:msps")
    parser.add_argument("--weir", default=str(ROOT / "build" / "weir"), help="default: %(default)s")
    parser.add_argument("--out", type=Path, help="append the tables to this file")
    args = parser.parse_args()
    for model in args.models:
        MODELS.setdefault(model, [])
        for text in (run_off if args.off else run)(args, model):
            print(text, flush=True)
            if args.out:
                with args.out.open("a") as to:
                    to.write(text + "\n")


if __name__ == "__main__":
    main()
