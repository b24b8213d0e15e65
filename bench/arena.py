#!/usr/bin/env python3
"""arena.py - what offsets cost plans: arena / largest sum of live bytes, graph by graph.

Usage: arena.py GRAPH.json ... [--weir build/weir] [--budgets 100 75 50] [--out TABLE.md]. Every
graph in the exchange format is planned by `weir plan` within each budget (percent of its peak
without one), policy and placement as they come. The arena is the planned peak less what is
resident, its lower bound the largest sum of live bytes less that. Nothing printed depends on the
machine.
"""
import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

from built import add_tool

MOST = 1.01
PEAK = re.compile(r"planned peak +(\d+) bytes \(live (\d+), resident (\d+)\)")


def plan(options, path, percent):
    """(arena, lower bound) of the plan; None if no plan fits the budget."""
    command = [options.weir, "plan", path, "--budget", f"{percent:g}%", "--out", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = PEAK.search(done.stderr)
    if done.returncode != 0 and "no plan found" in done.stderr:
        return None
    if done.returncode != 0 or not found:
        sys.exit(f"arena.py: {path}: {done.stderr.strip()}")
    peak, live, resident = map(int, found.groups())
    return peak - resident, live - resident


def ratio(plan_):
    """Arena / lower bound: 1 where nothing is live."""
    return plan_[0] / plan_[1] if plan_[1] else 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="+", type=Path)
    add_tool(parser)
    parser.add_argument("--budgets", nargs="+", type=float, default=[100, 75, 50])
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    names = [f"{b:g} %" for b in options.budgets]
    lines = ["| graph | " + " | ".join(f"arena at {n}, MB | arena / bound" for n in names) + " |",
             "|---|" + "---:|---:|" * len(names)]
    print(*lines, sep="\n", flush=True)
    ratios = []
    stems = [path.stem for path in options.graphs]
    for path in options.graphs:
        twice = stems.count(path.stem) > 1
        cells = [f"{path.parent.name}/{path.stem}" if twice else path.stem]
        for percent in options.budgets:
            made = plan(options, path, percent)
            cells += [f"{made[0] / 1e6:.3f}", f"{ratio(made):.5f}"] if made else ["no plan", ""]
            ratios += [ratio(made)] if made else []
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    within = sum(r <= MOST for r in ratios)
    last = (f"{within} of {len(ratios)} plans within {MOST} of the bound, "
            f"the highest at {max(ratios, default=1):.5f}.")
    print(last)
    if options.out:
        options.out.write_text("\n".join([
            "# Arenas", "",
            "`python3 bench/arena.py GRAPH.json ...`: the largest sum of live bytes, below which "
            "no placement gets, and", "what offsets add to it, in the plans of "
            f"`weir plan --budget P`. Nothing here depends on a machine. {datetime.date.today()}.",
            "", *lines, "", last, ""]))


if __name__ == "__main__":
    main()
