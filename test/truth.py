#!/usr/bin/env python3
"""truth - planned peak = measured peak <= budget, and equal bits, on real models.

Trains each model without a budget in a process of its own (`weir bench worker`), then once per
budget and policy in another one, for as many steps. A case holds if

    measured peak = planned peak <= budget      (canaries and live blocks, not the planner's number)
    libraries hold at most 1 KiB of heap in a step          (malloc and mmap, counted)
    the process grows by at most budget + 8 MiB of its own, budget + 16 MiB with pages of files
                                      (OWN, RESIDENT; the kernel's counts; oneDNN 3 has LARGER code)
    parameters, running statistics, optimiser states and loss have the bits of the first process

or if the one sentence that refuses the budget names a smaller one that holds. Budgets go down in
equal steps from the peak without one to the smallest that each policy says it can meet. One thread
computes; last, two do, with each library in turn. Ends with "truth: N passed, N failed". --full is
the whole table: it takes an hour or so on two cores.

Usage: truth.py [BUILD] [--full] [--out TABLE.md]
"""
import argparse
import functools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {
    "cnn": ["--model", "cnn", "--batch", "16"],
    "resnet20": ["--model", "resnet", "--depth", "20", "--batch", "4"],
    "unet": ["--model", "unet", "--batch", "2", "--image", "16"],
    "gpt": ["--model", "gpt", "--batch", "1", "--length", "32"],
    "lstm": ["--model", "lstm", "--batch", "8", "--length", "16"],
    "treelstm": ["--model", "treelstm", "--batch", "4", "--length", "4"],
    "wide": ["--model", "cnn", "--batch", "768"],
}
QUICK = ["cnn", "lstm", "wide"]
POLICIES = ["auto:recompute", "auto:swap", "auto:recompute+swap", "auto"]
ROOM = 1024             # bytes that libraries may hold of their own during a call
# What a process may grow by beside its budget, from before the device is opened on, while steps
# run: heap of its own (compiled kernels and buffers of libraries, recorded graph, plan and reasons,
# the spill store's tables, stacks), and with the pages of libraries' code, of which oneDNN 3.7 has
# 3 MB more than 2.6: LARGER.
OWN, RESIDENT, LARGER = 8 << 20, 16 << 20, 4 << 20
UNTOUCHED = 256 << 10   # and less than what was measured: heap that was there before
SMALLEST = re.compile(r"the smallest that works is (\d+)")


class Refused(Exception):
    """The budget is too small; carries the smallest that works."""


@functools.lru_cache
def rooms(weir):
    """What a process may grow by: of its own, and with pages of files."""
    info = subprocess.run([weir, "info"], capture_output=True, text=True, check=True).stdout
    return OWN, RESIDENT + (LARGER if "\noneDNN: 3." in info else 0)


def train(weir, options, steps, **settings):
    """With these environment variables: planned and measured peak, unbudgeted peak, heap, the
    process's growth and the bits after the steps. Reading the bits makes room in the heap, so that
    is last."""
    settings = {"OMP_WAIT_POLICY": "passive", "WEIR_THREADS": "1", **os.environ, **settings}
    done = subprocess.run([weir, "bench", "worker", *options], capture_output=True, text=True,
                          check=False, env=settings,
                          input=f"run {steps - 3}\nplan\npeak\ngrowth\nbits\n")
    found = SMALLEST.search(done.stderr)
    if done.returncode and found:
        raise Refused(int(found.group(1)))
    if done.returncode:
        return {"error": done.stderr.strip() or f"exit {done.returncode}"}
    said = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    return {"planned": int(said["plan"][0]), "whole": int(said["plan"][2]),
            "again": int(said["plan"][3]), "measured": int(said["peak"][0]),
            "libraries": int(said["peak"][1]), "bits": said["bits"][0],
            "rooms": rooms(weir), "growth": [int(n) for n in said["growth"] if n != "-"]}


def mistakes(case, base, budget):
    """Sentences about the promises that do not hold."""
    if "error" in case:
        return [case["error"]]
    wrong = []
    if case["planned"] != case["measured"]:
        wrong.append(f"planned {case['planned']}, measured {case['measured']}")
    if case["measured"] > budget:
        wrong.append(f"measured {case['measured']} in a budget of {budget}")
    if case["libraries"] > ROOM:
        wrong.append(f"libraries held {case['libraries']} bytes")
    for grown, room, what in zip(case["growth"], case["rooms"], ("of its own", "resident")):
        if grown > budget + room:
            wrong.append(f"the process grew by {grown} bytes {what}")
        if grown < case["measured"] - UNTOUCHED:
            wrong.append(f"the process grew by {grown} bytes {what}, less than was measured")
    if case["bits"] != base["bits"]:
        wrong.append("bits differ")
    return wrong


class Table:
    def __init__(self):
        self.rows, self.passed, self.failed, self.begin = [], 0, 0, time.monotonic()

    def add(self, model, policy, budget, base, case, wrong):
        self.passed += not wrong
        self.failed += bool(wrong)
        for text in wrong:
            print(f"FAILED {model}, {policy}, {budget} bytes: {text}", flush=True)
        if "error" not in case:
            self.rows.append(
                f"| {model} | {policy} | {100 * budget / base['whole']:.2f} | {budget} | "
                f"{case['planned']} | {case['measured']} | {case['again']} | "
                f"{case['libraries']} | {' | '.join(map(str, case['growth'] or '--'))} | "
                f"{'; '.join(wrong) or 'yes'} |")

    def write(self, args):
        """All cases so far."""
        if args.out:
            seconds = time.monotonic() - self.begin
            args.out.write_text("\n".join([
                "# Planned, measured and bits within byte budgets", "",
                f"`python3 test/truth.py BUILD --models {' '.join(args.models)} --budgets "
                f"{args.budgets} --steps {args.steps}`: {self.passed} of "
                f"{self.passed + self.failed} cases hold, in {seconds:.0f} s.", "",
                "Each case trains in a process of its own; bits are compared with a process "
                "without a budget. Growth is what the process takes more than before the device "
                f"was opened: bytes of its own at the end (at most budget + {OWN}), and the most "
                f"resident ones in a step, code of libraries included (budget + "
                f"{rooms(args.weir)[1]}).", "",
                "| model | policy | budget, % | budget | planned peak | measured peak | run again "
                "| libraries' own, most | growth, own | growth, resident | holds |",
                "|---|---|" + "---:|" * 8 + "---|", *self.rows,
                ""]))


def run_policy(args, table, model, policy, base):
    """The smallest budget first, which the refusal names, then equal steps up to the whole."""
    def options(budget):
        return [*MODELS[model], "--budget", str(budget), "--policy", policy]

    def one(budget):
        case = train(args.weir, options(budget), args.steps)
        table.add(model, policy, budget, base, case, mistakes(case, base, budget))

    whole = base["whole"]
    try:
        case = train(args.weir, options(1), args.steps)
        table.add(model, policy, 1, base, case, ["a budget of one byte is met"])
        return
    except Refused as refused:
        smallest = refused.args[0]
    for i in range(args.budgets):
        budget = whole - (whole - smallest) * i // max(1, args.budgets - 1)
        try:
            one(budget)
        except Refused as refused:
            table.add(model, policy, budget, base, {"error": ""},
                      [f"refused, though {smallest} works: now {refused.args[0]}"])


def run_threads(args, table):
    """Each library with two threads, which may share tables on the heap, at three quarters of the
    peak; the wide model's products are large enough for both."""
    for library in ("own", "openblas", "onednn"):
        settings = {"WEIR_THREADS": "2", "WEIR_GEMM": library, "WEIR_CONV": library}
        base = train(args.weir, MODELS["wide"], args.steps, **settings)
        if re.search(r"but OpenBLAS is|has no oneDNN", base.get("error", "")):
            continue
        if "error" in base:
            sys.exit(f"{library}: {base['error']}")
        budget = base["whole"] * 3 // 4
        case = train(args.weir, [*MODELS["wide"], "--budget", str(budget)], args.steps, **settings)
        table.add(f"wide, 2 threads of {library}", "auto", budget, base, case,
                  mistakes(case, base, budget))
    table.write(args)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    parser.add_argument("--full", action="store_true", help="all models, 12 budgets, 20 steps")
    parser.add_argument("--models", nargs="+", metavar="M", help="of " + " ".join(MODELS))
    parser.add_argument("--budgets", type=int, metavar="N")
    parser.add_argument("--steps", type=int, metavar="N")
    parser.add_argument("--out", type=Path, help="a table of all cases")
    args = parser.parse_args()
    args.weir = str(Path(args.build) / "weir")
    args.models = args.models or (list(MODELS) if args.full else QUICK)
    args.budgets = args.budgets or (12 if args.full else 3)
    args.steps = args.steps or (20 if args.full else 6)
    table = Table()
    for model in args.models:
        base = train(args.weir, MODELS[model], args.steps)
        if "error" in base:
            sys.exit(f"{model}: {base['error']}")
        for policy in POLICIES:
            run_policy(args, table, model, policy, base)
            table.write(args)
    run_threads(args, table)
    print(f"truth: {table.passed} passed, {table.failed} failed")
    sys.exit(table.failed > 0)


if __name__ == "__main__":
    main()
