#!/usr/bin/env python3
"""capacity - the largest batch that a card holds, by policy, on a simulated card or a real one.

Each case is a training step on `sim:...` (see weir/device.h): nothing is computed, but memory is
planned and counted and time is simulated as on the card, so a laptop answers for any card. A batch
fits if a step of it runs; a policy is given the card's whole capacity as its budget. With --device
cuda the steps run, and a batch fits if its measured peak is within --capacity. The largest batch is
found by the search of `weir fit`, within --seconds: then the largest that was seen to fit counts.
Beside the tables stands what was published for such cards. Needs nothing but Python.
"""
import argparse
import csv
import subprocess
import sys
import time
from pathlib import Path

from built import add_tool, need_tool

# In the sentences of the errors that mean: too large.
TOO_LARGE = ("out of memory", "no memory for an arena", "are unused", "the smallest that works is")
# Largest batches on a P100 of 16 GB, all under TensorFlow (Peng et al., Capuchin, ASPLOS 2020).
SYSTEMS = ("TensorFlow 1.11", "vDNN", "OpenAI checkpointing", "Capuchin")
PUBLISHED = {"vgg16": (228, 272, 260, 350), "resnet50": (190, 520, 540, 1014)}
# SINGA 3, ResNet-50 on an RTX 2080 Ti: (batch, graph) -> peak in MB, images a second (its
# documentation of the graph mode; off is its run as layers, on the order bfs).
SINGA = {(16, "off"): (4975, 225.4), (16, "on"): (3283, 232.8),
         (32, "off"): (10119, 237.8), (32, "on"): (6839, 244.2)}


class Step:
    """A step of a case: `fits`, and if so `ms` it takes and `peak` bytes."""

    def __init__(self, args, model, case, batch, device, budget):
        command = [args.weir, "bench", "worker", "--model", model, "--batch", str(batch),
                   "--device", device, "--threads", "1", "--case", "off" if case == "off" else "on"]
        if case not in ("off", "on"):
            command += ["--budget", budget, "--policy", case]
        done = subprocess.run(command, input="run 1\nmemory\nquit\n", capture_output=True,
                              text=True, check=False)
        self.fits = done.returncode == 0
        self.peak = 0
        if not self.fits and not any(text in done.stderr for text in TOO_LARGE):
            sys.exit(done.stderr.strip() or f"{' '.join(command)} failed")
        self.batch = batch
        for line in done.stdout.splitlines():
            word, *rest = line.split()
            if word == "ms":
                self.ms = float(rest[0])
            elif word == "memory":
                self.peak = int(rest[0]) + int(rest[1])


def bytes_of(text):
    """512MB, 16GB, 11GiB, 1000: the bytes of it."""
    units = {"KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    for unit, factor in units.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


def largest(args, probe, start, until):
    """The step of the largest batch that fits, to --within percent, or the largest found before the
    time `until`. `weir fit` searches; it names the batches, and hears which of them fit."""
    good = None
    command = [args.weir, "fit", "--ask", "yes", "--batch", str(start),
               "--within", str(args.within)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as search:
        for line in search.stdout:
            if not line.strip().isdigit() or (good is not None and time.monotonic() > until):
                break
            step = probe(int(line))
            if step.fits and (good is None or step.batch > good.batch):
                good = step
            search.stdin.write("fits\n" if step.fits else "no\n")
            search.stdin.flush()
    return good


def capacity_of(args, model):
    """The lines of one model's table."""
    simulated = args.device.startswith("sim")
    device = f"{args.device},capacity={args.capacity}" if simulated else args.device

    def probe(case, batch):
        step = Step(args, model, case, batch, device, args.capacity)
        step.fits = step.fits and step.peak <= bytes_of(args.capacity)
        return step

    yield f"### {model} on {args.device}, {args.capacity}\n"
    yield "| case | largest batch | x the first | peak, MB | step, ms | images/s | found in, s |"
    yield "|---|" + "---:|" * 6
    start, first = args.start, None
    for case in args.cases:
        begin = time.monotonic()
        best = largest(args, lambda batch, case=case: probe(case, batch), start,
                       begin + args.seconds)
        seconds = time.monotonic() - begin
        if best is None:
            yield f"| {case} | none | | | | | {seconds:.0f} |"
            continue
        start, first = best.batch, first or best.batch
        args.rows.append([model, args.device, args.capacity, case, best.batch, best.peak,
                          f"{best.ms:.6g}"])
        yield (f"| {case} | {best.batch} | {best.batch / first:.2f} | {best.peak / 1e6:.0f} | "
               f"{best.ms:.1f} | {best.batch / best.ms * 1e3:.0f} | {seconds:.0f} |")
    published = PUBLISHED.get(model, ()) if args.capacity == "16GB" else ()
    for name, batch in zip(SYSTEMS, published):
        yield (f"| published, P100 of 16 GB: {name} | {batch} | {batch / PUBLISHED[model][0]:.2f} "
               "| | | | |")
    yield ""


def singa(args):
    """SINGA's table of 2020, beside the same steps here."""
    yield "### resnet50 on sim:rtx2080ti, beside SINGA's table\n"
    yield ("| batch | graph | peak, MB | SINGA's peak, MB | graph on saves | SINGA's saves | "
           "images/s (simulated) | SINGA's images/s |")
    yield "|---|---|" + "---:|" * 6
    for batch in (16, 32):
        steps = {case: Step(args, "resnet50", case, batch, "sim:rtx2080ti", None)
                 for case in ("off", "on")}
        for case, step in steps.items():
            peak, speed = SINGA[batch, case]
            saved = "" if case == "off" else f"{100 * (1 - step.peak / steps['off'].peak):.1f} %"
            theirs = "" if case == "off" else f"{100 * (1 - peak / SINGA[batch, 'off'][0]):.1f} %"
            yield (f"| {batch} | {case} | {step.peak / 1e6:.0f} | {peak} | {saved} | {theirs} | "
                   f"{batch / step.ms * 1e3:.0f} | {speed} |")
    yield ""


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["resnet50", "vgg16"])
    parser.add_argument("--device", default="sim:p100", help="default: %(default)s")
    parser.add_argument("--capacity", default="16GB", help="default: %(default)s")
    parser.add_argument("--cases", nargs="+", metavar="CASE", default=["off", "on", "auto"],
                        help="graph off, graph on, or a policy by its name; default: off on auto")
    parser.add_argument("--within", type=int, default=1, metavar="PERCENT",
                        help="how exactly the largest batch is found (default: 1)")
    parser.add_argument("--seconds", type=float, default=1e9,
                        help="for each case; default: as long as it takes")
    parser.add_argument("--csv", type=Path, help="write the rows to this file")
    parser.add_argument("--start", type=int, default=128, help="first batch tried")
    parser.add_argument("--singa", action="store_true", help="SINGA's table as well")
    add_tool(parser)
    parser.add_argument("--out", type=Path, help="append the tables to this file")
    return parser.parse_args()


def main():
    args = options()
    need_tool(args.weir)
    args.rows = []
    tables = [capacity_of(args, model) for model in args.models]
    for table in tables + ([singa(args)] if args.singa else []):
        for text in table:
            print(text, flush=True)
            if args.out:
                with args.out.open("a") as to:
                    to.write(text + "\n")
    if args.csv:
        with args.csv.open("a", newline="") as to:
            csv.writer(to).writerows([["model", "device", "capacity", "case", "batch",
                                       "peak_bytes", "step_ms"], *args.rows])


if __name__ == "__main__":
    main()
