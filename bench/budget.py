#!/usr/bin/env python3
"""budget - real training at smaller and smaller byte budgets, policy by policy: memory, time, bits.

Each case trains in a process of its own (`weir bench worker`): first without a budget, then with
each policy at shares of its planned peak, down to the first that the policy cannot meet, then with
micro-batches whose gradients are added up, which is what one does without a planner. Reported are
planned and measured peak, the time that was predicted (measured unbudgeted time + what the plan
adds, by kernels timed while planning) and the shortest step beside those of the unbudgeted process,
which takes turns with it, and whether all bits of parameters, states and loss equal those of the
unbudgeted process after as many steps. Tables as Markdown and CSV; a picture per model. Needs
nothing but Python.
"""
import argparse
import csv
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

from built import BUILD, add_tool

MODELS = {      # options that make a step of half a second or less, but for the last
    "cnn": ["--model", "cnn", "--batch", "64"],
    "resnet20": ["--model", "resnet", "--depth", "20", "--batch", "16"],
    "gpt": ["--model", "gpt", "--batch", "2", "--length", "64"],
    "unet": ["--model", "unet", "--batch", "2", "--image", "32"],
    "lstm": ["--model", "lstm", "--batch", "32", "--length", "64"],
    "resnet50": ["--model", "resnet50", "--batch", "16"],
}
BATCH_NORM = ["cnn", "resnet20", "resnet50"]    # statistics of a part of the batch are others
DEFAULT = ["cnn", "resnet20", "gpt", "unet", "lstm"]
SMALLEST = re.compile(r"the smallest that works is (\d+)")
FIELDS = ["model", "policy", "budget_percent", "budget_bytes", "planned_bytes", "measured_bytes",
          "again", "predicted_ms", "measured_ms", "extra_percent", "bits", "plan_ms", "note"]
COLOURS = ["#c0392b", "#4c86c6", "#ee9440", "#3f9b6d", "#8e63b5", "#22303c", "#c65b9c", "#8a8d3a",
           "#2fa5b3", "#a0694b"]


class Failed(Exception):
    """A case that did not train; says why in a word, .smallest: the budget that would work."""

    def __init__(self, word, smallest=None):
        super().__init__(word)
        self.smallest = smallest


def why(code, said):
    """A word for what stderr says."""
    found = SMALLEST.search(said)
    if found:
        return Failed("infeasible", int(found.group(1)))
    for text, word in (("out of memory", "memory"), ("no kernel", "kernel"), ("spill", "disk"),
                       ("policy", "policy"), ("does not divide", "batch")):
        if text in said:
            return Failed(word)
    return Failed(f"exit {code}")


class Worker:
    """`weir bench worker`, asked line by line."""

    def __init__(self, weir, options, limit):
        self.ends = time.monotonic() + limit
        self.process = subprocess.Popen([weir, "bench", "worker", *options], text=True,
                                        env={"OMP_WAIT_POLICY": "passive", **os.environ},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        try:
            self.words("ready")
        except Failed:
            self.close()
            raise

    def words(self, kind):
        line = self.process.stdout.readline().split()
        if not line or line[0] != kind:
            self.process.stdin.close()
            said = self.process.stderr.read()
            raise why(self.process.wait(), said)
        return line[1:]

    def ask(self, question):
        if time.monotonic() > self.ends:
            raise Failed("time")
        try:
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.words(question.split()[0].replace("run", "ms"))

    def close(self):
        try:
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass
        self.process.stdout.read()
        self.process.wait()
        self.process.stderr.close()


class Case:
    """One policy and budget beside the unbudgeted process."""

    def __init__(self, args, model, base, options):
        worker = Worker(args.weir, MODELS[model] + options, args.limit)
        try:
            mine, theirs = [], []
            for _ in range(args.rounds):
                steps = max(1, args.steps // args.rounds)
                mine += map(float, worker.ask(f"run {steps}"))
                if base:
                    theirs += map(float, base.worker.ask(f"run {steps}"))
            self.steps = args.rounds * max(1, args.steps // args.rounds)
            self.bits = worker.ask("bits")[0]
            plan = worker.ask("plan")
            self.planned, self.budget, self.whole, self.again = map(int, plan[:4])
            self.extra_ms, self.plan_ms = map(float, plan[4:6])
            self.measured = int(worker.ask("peak")[0])
            self.ms = min(mine)
            self.base_ms = min(theirs) if theirs else self.ms
        except Failed:
            worker.close()
            raise
        if base:
            worker.close()
        else:
            self.worker = worker

    def row(self, model, policy, budget, base, note=""):
        return {"model": model, "policy": policy, "budget_bytes": budget or "",
                "budget_percent": f"{100 * budget / base.whole:.1f}" if budget else "",
                "planned_bytes": self.planned, "measured_bytes": self.measured,
                "again": self.again, "predicted_ms": f"{self.base_ms + self.extra_ms:.3f}",
                "measured_ms": f"{self.ms:.3f}",
                "extra_percent": f"{100 * (self.ms / self.base_ms - 1):.1f}",
                "bits": "equal" if self.bits == base.bits else "differ",
                "plan_ms": f"{self.plan_ms:.0f}", "note": note}


def known_policies(weir):
    done = subprocess.run([weir, "plan", "--policy", "help"], capture_output=True, text=True,
                          check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line != "recycle"]


def try_case(args, model, base, policy, budget, options, note=""):
    """Returns (row, trained, smallest): if the case did not train, the smallest budget that would
    work, else None."""
    try:
        case = Case(args, model, base, options)
        if budget and not (case.planned == case.measured <= budget):
            note = "NOT WITHIN THE PLAN"
        return case.row(model, policy, budget, base, note), True, None
    except Failed as failure:
        row = dict.fromkeys(FIELDS, "")
        row.update(model=model, policy=policy, budget_bytes=budget or "", note=str(failure))
        if budget:
            row["budget_percent"] = f"{100 * budget / base.whole:.1f}"
        return row, False, failure.smallest


def run_policy(args, model, base, policy, deadline):
    def options(budget):
        return ["--budget", str(budget), "--policy", policy, "--measure",
                "yes" if args.measure else "no"]

    for share in args.shares:
        if time.monotonic() > deadline:
            yield {**dict.fromkeys(FIELDS, ""), "model": model, "policy": policy, "note": "time",
                   "budget_percent": f"{share:.1f}"}
            return
        budget = base.whole * share // 100
        row, fits, smallest = try_case(args, model, base, policy, budget, options(budget))
        yield row
        if fits:
            continue
        if smallest and smallest < base.whole:
            yield try_case(args, model, base, policy, smallest, options(smallest), "smallest")[0]
        return


def run_model(args, model, policies):
    """Rows; the unbudgeted process stays alive to the end."""
    base = Case(args, model, None, [])
    yield base.row(model, "none", None, base)
    try:
        for policy in policies:
            deadline = time.monotonic() + args.seconds / len(policies)
            yield from run_policy(args, model, base, policy, deadline)
        for parts in args.micro:
            yield try_case(args, model, base, f"{parts} micro-batches", None,
                           ["--micro", str(parts)],
                           "batch norm sees parts" if model in BATCH_NORM else "other sums")[0]
    finally:
        base.worker.close()


# ---- tables and pictures ----

def mb(value):
    return f"{value / 1e6:.3f}" if value != "" else ""


def markdown(model, rows):
    yield f"### {model}: `weir bench worker {' '.join(MODELS[model])}`\n"
    yield ("| policy | budget, % | MB | planned peak, MB | measured peak, MB | run again | "
           "predicted, ms | measured, ms | extra time, % | bits | planned in, ms | |")
    yield "|---|" + "---:|" * 8 + "---|---:|---|"
    for r in rows:
        yield (f"| {r['policy']} | {r['budget_percent']} | {mb(r['budget_bytes'])} | "
               f"{mb(r['planned_bytes'])} | {mb(r['measured_bytes'])} | {r['again']} | "
               f"{r['predicted_ms']} | {r['measured_ms']} | {r['extra_percent']} | {r['bits']} | "
               f"{r['plan_ms']} | {r['note']} |")
    yield ""


def nice_step(length, parts):
    power = 10.0 ** (len(f"{int(length / parts)}") - 1 if length / parts >= 1 else -1)
    return next(power * k for k in (1, 2, 5, 10, 20, 50, 100) if power * k * parts >= length)


def picture(model, rows):
    """Measured peak against extra time: a line per policy, micro-batches as single points."""
    whole = next(r["planned_bytes"] for r in rows if r["policy"] == "none")
    lines = {}
    for r in rows:
        if r["planned_bytes"] != "" and r["policy"] != "none":
            lines.setdefault(r["policy"], []).append(
                (100 * r["measured_bytes"] / whole, float(r["extra_percent"])))
    points = [p for line in lines.values() for p in line] or [(100, 0)]
    low, high = min(0, *(p[1] for p in points)), max(10, *(p[1] for p in points))
    left, top, width, height = 70, 60, 620, 340
    first = max(0, 10 * int(min(p[0] for p in points) / 10) - 10)
    right = max(100, max(p[0] for p in points)) + 2

    def at(point):
        return (left + width * (point[0] - first) / (right - first),
                top + height * (1 - (point[1] - low) / ((high - low) * 1.05)))

    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 480" width="920" height="480" '
           'font-family="Helvetica, Arial, \'DejaVu Sans\', sans-serif" font-size="12" '
           'fill="#22303c">', '<path d="M0 0H920V480H0Z" fill="#fff"/>',
           f'<text x="{left}" y="28" font-size="17" font-weight="bold">{escape(model)}: memory '
           'against time in training</text>',
           f'<text x="{left}" y="46" fill="#66737f">100 % = {whole / 1e6:.2f} MB, the planned peak '
           'without a budget; filled: bits equal, hollow: bits differ</text>']
    step = nice_step(high - low, 8)
    tick = step * -int(-low / step)
    while tick <= high * 1.05:
        y = at((0, tick))[1]
        out.append(f'<path d="M{left} {y:.1f}h{width}" stroke="#e3e8ed"/><text x="{left - 8}" '
                   f'y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
        tick += step
    for share in range(first, int(right) + 1, 10):
        x = at((share, 0))[0]
        out.append(f'<path d="M{x:.1f} {top + height}v5" stroke="#66737f"/><text x="{x:.1f}" '
                   f'y="{top + height + 19}" text-anchor="middle">{share}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">'
               'measured peak, % of the step without a budget</text>'
               f'<text transform="translate(20 {top + height / 2}) rotate(-90)" '
               'text-anchor="middle">extra time, %</text>'
               f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" '
               'stroke="#66737f"/>')
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        equal = all(r["bits"] == "equal" for r in rows if r["policy"] == name and r["bits"])
        path = "L".join("{:.1f} {:.1f}".format(*at(p)) for p in line)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for p in line:
            x, y = at(p)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" stroke="{colour}" '
                       f'stroke-width="1.5" fill="{colour if equal else "#fff"}"/>')
        y = top + 4 + 20 * i
        out.append(f'<path d="M{left + width + 20} {y}h12v12h-12Z" fill="{colour}"/>'
                   f'<text x="{left + width + 38}" y="{y + 10}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=DEFAULT,
                        help="of " + " ".join(MODELS) + "; default: " + " ".join(DEFAULT))
    parser.add_argument("--policies", nargs="+", metavar="P",
                        help="such as auto:swap; default: all that `weir plan --policy help` lists")
    parser.add_argument("--shares", type=int, nargs="+", metavar="PERCENT",
                        default=[100, 85, 70, 55, 40], help="of the unbudgeted peak")
    parser.add_argument("--micro", type=int, nargs="*", default=[2, 4], metavar="K",
                        help="numbers of micro-batches to compare with")
    parser.add_argument("--steps", type=int, default=8, help="of each case")
    parser.add_argument("--rounds", type=int, default=8,
                        help="the steps of both processes take turns so often")
    parser.add_argument("--measure", default="yes", choices=["yes", "no"],
                        help="time the kernels while planning")
    parser.add_argument("--seconds", type=float, default=60,
                        help="for one model, shared by its policies; budgets left then say 'time'")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one case")
    add_tool(parser)
    parser.add_argument("--out", type=Path, default=BUILD / "budget", metavar="BASE",
                        help="BASE.md, BASE.csv, BASE-MODEL.svg (default: %(default)s)")
    args = parser.parse_args()
    args.measure = args.measure == "yes"
    unknown = [m for m in args.models if m not in MODELS]
    if unknown:
        parser.error(f"no model {unknown[0]}; there are {' '.join(MODELS)}")
    policies = args.policies or known_policies(args.weir)
    every, text = [], []
    for model in args.models:
        try:
            rows = list(run_model(args, model, policies))
        except Failed as failure:
            sys.exit(f"{model}: does not train without a budget: {failure}")
        every += rows
        text += markdown(model, rows)
        print("\n".join(markdown(model, rows)), flush=True)
        Path(f"{args.out}-{model}.svg").write_text(picture(model, rows))
    Path(f"{args.out}.md").write_text("\n".join(text))
    with Path(f"{args.out}.csv").open("w", newline="") as to:
        writer = csv.DictWriter(to, FIELDS)
        writer.writeheader()
        writer.writerows(every)


if __name__ == "__main__":
    main()
