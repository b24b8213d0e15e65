#!/usr/bin/env python3
# place.py - weir place on hard instances: what greedy orders reach, what the search reaches, when.
"""Usage: place.py [--weir build/weir] [--limit 60] [--out TABLE.md] [FILE.csv ...]

Without files the instances are made by tiles.py: the styles of SETS in several sizes. Every answer
is judged by test/check_place.py. Capacity: 1 MiB, as in MiniMalloc's instances. Seconds are those
of one core (user and system), so that others on the machine do not count.
"""
import argparse
import math
import os
import re
import resource
import subprocess
import sys
import tempfile

from built import add_tool

HERE = os.path.dirname(os.path.abspath(__file__))
CAPACITY = 1048576
SETS = [(style, n, seed, ()) for style in ("guillotine", "pinwheel", "mixed")
        for n in (150, 300, 450) for seed in (1, 2)]
SETS += [("mixed", n, 3, ("--wide", wide)) for n in (300, 450) for wide in ("0.3", "0.7")]
SETS += [("mixed", n, seed, ("--spare", spare)) for n in (190, 260) for seed in (1, 2)
         for spare in ("1", "3")]


def spent():
    """Seconds of a core that runs took so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def greedy_orders(weir):
    """Names of the greedy placements, as `weir place --help` lists them among all."""
    text = subprocess.run([weir, "place", "--help"], capture_output=True, text=True).stdout
    names = re.search(r"--placement .*?: (.*)", text).group(1).split(", ")
    return [name for name in names if name not in ("auto", "tstack", "exact")]


def run(options, path, out, *more):
    """(seconds, height, live sum, nodes) of one run; None if it failed or took too long."""
    command = [options.weir, "place", path, "--out", out, *more]
    before = spent()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True,
                              preexec_fn=lambda: resource.setrlimit(
                                  resource.RLIMIT_CPU, (math.ceil(options.limit),) * 2))
    except subprocess.CalledProcessError:
        return None
    seconds = spent() - before
    number = {key: float(re.search(key + r"\D*([\d.]+)", done.stderr).group(1))
              for key in ("height", "largest live sum")}
    nodes = int(re.search(r"\((\d+) nodes", done.stderr).group(1))
    return seconds, number["height"], number["largest live sum"], nodes


def row(options, name, path, folder):
    """One line of the table, and whether it was solved."""
    out = os.path.join(folder, "out.csv")
    with open(path, encoding="utf-8") as f:
        buffers = sum(1 for _ in f) - 1
    greedy = [run(options, path, out, "--placement", g) for g in greedy_orders(options.weir)]
    over = [100 * (g[1] / g[2] - 1) for g in greedy if g]
    best = run(options, path, out, "--capacity", str(CAPACITY))
    live = next(g[2] for g in greedy if g)
    judged = best and subprocess.run(
        [sys.executable, os.path.join(HERE, "..", "test", "check_place.py"), out, str(CAPACITY)],
        capture_output=True, check=False).returncode == 0
    cells = [name, str(buffers), f"{100 * (CAPACITY / live - 1):.1f} %",
             f"{min(over):.0f}-{max(over):.0f} %",
             f"{100 * (best[1] / best[2] - 1):.1f} %" if judged else "not found",
             f"{best[3]:,}" if judged else "", f"{best[0]:.1f}" if judged else ""]
    return "| " + " | ".join(cells) + " |", bool(judged)


def instances(options, folder):
    for path in options.files:
        yield os.path.basename(path), path
    for style, n, seed, more in SETS if not options.files else ():
        path = os.path.join(folder, "tiles.csv")
        with open(path, "w", encoding="utf-8") as f:
            subprocess.run([sys.executable, os.path.join(HERE, "tiles.py"), "--style", style,
                            "--buffers", str(n), "--seed", str(seed), *more], stdout=f, check=True)
        yield " ".join((style, str(n), f"seed {seed}", *more)), path


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_tool(p)
    p.add_argument("--limit", type=float, default=60, help="seconds of a core for an instance")
    p.add_argument("--out", help="also write the table there")
    p.add_argument("files", nargs="*")
    options = p.parse_args()
    lines = ["| instance | buffers | capacity above live sum | greedy orders above live sum "
             "| height found above live sum | nodes | s |", "|---|---:|---:|---:|---:|---:|---:|"]
    print(*lines, sep="\n", flush=True)
    solved = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, path in instances(options, folder):
            line, ok = row(options, name, path, folder)
            solved += ok
            lines.append(line)
            print(line, flush=True)
    last = f"{solved} of {len(lines) - 2} solved, each within {options.limit:g} s."
    print(last)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as f:
            f.write("\n".join(lines + ["", last]) + "\n")


if __name__ == "__main__":
    main()
