#!/usr/bin/env python3
"""planner.py - extra time of the plans for graphs in the exchange format, and what planning takes.

A row per graph and set of levers, a column per budget (a share of the step's peak without one):
time beside the step's, in per cent, and in brackets the user seconds of planning. "-": no plan is
found.
--judge names a program that judges a plan (GRAPH PLAN [--d2h RATE --h2d RATE], status 0: valid);
the figures are then its own.
"""
import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def plan(options, graph, policy, link, budget, out):
    """Extra time in per cent or None, user seconds."""
    rates = ["--link", str(link)] if link else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([options.weir, "plan", graph, "--budget", f"{budget}%",
                           "--policy", policy, *rates, *options.more.split(), "--out", out],
                          capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = re.search(r"extra time .*?([0-9.]+) %", done.stderr)
    if done.returncode != 0 or not found:
        return None, seconds
    extra = float(found.group(1))
    if options.judge:
        rates = ["--d2h", str(link), "--h2d", str(link)] if link else []
        said = subprocess.run([sys.executable, options.judge, graph, out, *rates],
                              capture_output=True, text=True)
        if said.returncode != 0:
            sys.exit(f"planner.py: {graph}: {policy} at {budget} %: {said.stdout} {said.stderr}")
        extra = json.loads(said.stdout)["overhead_pct"]
    return extra, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--weir", default="weir", help="the tool to run")
    parser.add_argument("--policy", default="auto")
    parser.add_argument("--budgets", default="90,75,50,35,25")
    parser.add_argument("--links", default="0,12,25", help="GB/s; 0: no link")
    parser.add_argument("--judge", help="program that judges a plan")
    parser.add_argument("--more", default="", help="further options of weir plan")
    options = parser.parse_args()
    budgets = options.budgets.split(",")
    print("| graph | link | " + " | ".join(f"{b} %" for b in budgets) + " |")
    print("|---|---|" + "---:|" * len(budgets), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for graph in options.graphs:
            for link in options.links.split(","):
                print(f"| {graph.stem} | {link} |", end="", flush=True)
                for budget in budgets:
                    extra, seconds = plan(options, graph, options.policy, float(link), budget,
                                          Path(folder) / "plan.json")
                    cell = "-" if extra is None else f"{extra:.2f}"
                    print(f" {cell} ({seconds:.1f}) |", end="", flush=True)
                print(flush=True)


if __name__ == "__main__":
    main()
