#!/usr/bin/env python3
"""planning.py - what recording and planning steps of up to 130,000 nodes takes, without a budget.

A row per shape and size: milliseconds of the process (not of the clock) for recording, planning
and the first run, the least of the rounds. With --before, the folder of another libweir.so, the two
take turns, and the last columns have its planning and the median of the rounds' ratios.
"""
import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from built import BUILD

SHAPES = ["chain", "params", "wide", "recurrent", "gpt"]
HERE = Path(__file__).resolve().parent


def compile_for(library, out):
    library = Path(library).resolve()
    subprocess.run(["cc", "-O2", "-I", HERE.parent / "include", HERE / "planning.c", "-o", out,
                    "-L", library, "-lweir", f"-Wl,-rpath,{library}", "-lm"], check=True)
    return out


def measure(program, shape, nodes):
    """Nodes, milliseconds of recording, planning and the first run, planned peak."""
    said = subprocess.run([program, shape, str(nodes)], capture_output=True, text=True, check=True)
    fields = said.stdout.split()[1:]
    return int(fields[0]), *map(float, fields[1:4]), int(fields[4])


def row(shape, nodes, programs, rounds):
    times = [[measure(program, shape, nodes) for program in programs] for _ in range(rounds)]
    if len({(t[0], t[4]) for turn in times for t in turn}) != 1:
        raise SystemExit(f"planning.py: {shape} of {nodes}: the two do not plan the same")
    least = [min(turn[0][k] for turn in times) for k in (1, 2, 3)]
    cells = [shape, f"{times[0][0][0]:,}", *(f"{ms:.1f}" for ms in least)]
    if len(programs) > 1:
        ratio = statistics.median(turn[1][2] / turn[0][2] for turn in times)
        cells += [f"{min(turn[1][1] for turn in times):.1f}",
                  f"{min(turn[1][2] for turn in times):.1f}", f"{ratio:.1f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", default=str(BUILD),
                        help="folder of libweir.so; default: %(default)s, or $WEIR_BUILD if set")
    parser.add_argument("--before", help="folder of another one, which takes turns")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--nodes", default="1000,4300,13000,43000,130000")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folders = [options.library] + ([options.before] if options.before else [])
        programs = [compile_for(at, Path(folder) / f"planning{i}") for i, at in enumerate(folders)]
        head = ["shape", "nodes", "record", "plan", "first run"]
        if options.before:
            head += ["before: record", "before: plan", "before / now"]
        print("| " + " | ".join(head) + " |\n|---|" + "---:|" * (len(head) - 1), flush=True)
        for shape in options.shapes.split(","):
            for nodes in options.nodes.split(","):
                print(row(shape, int(nodes), programs, options.rounds), flush=True)


if __name__ == "__main__":
    main()
