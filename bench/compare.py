#!/usr/bin/env python3
"""compare.py - Weir against PyTorch and JAX, on the CPU or a card, round by round.

Each case is a process of its own (`weir bench worker`, bench/pytorch.py) that trains on command.
A round asks every case for K steps, one case at a time, the order turning from round to round; a
case's time in a round is the median of its K steps. Ratios are taken within a round and their
median over the rounds is printed, with the ratio of the minima in parentheses: on a shared
machine absolute times drift by far more than these. Where build/fma_peak is (its target is not
built by default), each round measures the processor's peak of multiply-adds too (for --precision
bf16 that of its vector units for bf16, where it has some), and a column has each step's share of
it: the operations that Weir counts in the step, by median time and by the highest peak of all
rounds. The table is markdown; --csv adds its rows to a file. Needs nothing but Python; PyTorch and
JAX live in the interpreters given, and one that lacks them, or a worker that does not start, is
said and left out.
"""
import argparse
import csv
import datetime
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from built import BUILD, ROOT, add_tool
from machine import machine

PEER = ROOT / "bench" / "pytorch.py"
JAX_PEER = ROOT / "bench" / "jax_peer.py"
JAX_MODELS = ("mlp", "tiny", "lenet", "resnet18", "resnet50")
STEPS = {"mlp": 20, "cnn": 20, "lenet": 10, "tiny": 300, "resnet18": 2, "resnet50": 1, "vgg16": 1,
         "densenet121": 1, "mobilenetv2": 1, "unet": 1, "gpt": 2, "lstm": 20}
IMAGE = {"resnet18": 224, "resnet50": 224, "vgg16": 224, "densenet121": 224, "mobilenetv2": 224,
         "unet": 256}       # size of the images, where it may vary
LIBRARIES = [Path(p) for p in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                               "/usr/lib64", "/usr/lib", "/usr/local/lib")]
PAUSE = 0.05        # seconds until a finished case's idle worker threads have stopped spinning


class Absent(Exception):
    """A worker that did not start."""


class Case:
    """A worker process and the times it has answered."""

    def __init__(self, name, command, preload=None, threads=2):
        self.name = name
        self.times = []         # of all steps, ms
        self.rounds = []        # median of each round
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if preload:
            env["LD_PRELOAD"] = str(preload)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        words = self.process.stdout.readline().split()
        if len(words) != 3 or words[0] != "ready":
            raise Absent(f"{name} did not start ({' '.join(words) or 'no answer'})")
        self.version, self.batch = words[1:]
        self.persistent = self.step_peak = 0

    def answer(self, word):
        words = self.process.stdout.readline().split()
        if not words or words[0] != word:
            sys.exit(f"compare.py: {self.name} answered {words or 'nothing'}, not '{word} ...'")
        return words[1:]

    def ask(self, line, word):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer(word)

    def run(self, steps):
        times = [float(t) for t in self.ask(f"run {steps}", "ms")]
        self.times += times
        self.rounds.append(statistics.median(times))

    def measure(self):
        self.persistent, self.step_peak = (int(n) for n in self.ask("memory", "memory"))

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def find_tcmalloc():
    for folder in LIBRARIES:
        for name in ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"):
            if (folder / name).exists():
                return folder / name
    return None


def budget_cases(args, weir, torch):
    """Weir within budgets, and what PyTorch has instead."""
    cases = [Case(f"Weir, budget {b}", [*weir, "--case", "on", "--budget", b, "--measure", "yes"],
                  None, args.threads) for b in args.budgets]
    if args.python and args.budgets:
        cases += [Case(f"eager, {name}", [*torch, "--variant", variant], None, args.threads)
                  for name, variant in (("torch.utils.checkpoint", "checkpoint"),
                                        ("activation_memory_budget 0.5", "budget0.5"))
                  if variant not in args.without]
    return cases


def opened(cases):
    """Cases of (name, command, preload, threads) that start; the others are said."""
    for case in cases:
        try:
            yield Case(*case)
        except Absent as error:
            print(f"compare.py: left out: {error}", file=sys.stderr)


def common_options(args, model):
    """What every worker is told, of Weir and of its peers."""
    return ["--model", model, "--threads", str(args.threads),
            *(["--batch", str(args.batch)] if args.batch else []),
            *(["--image", str(args.image)] if args.image and model in IMAGE else []),
            *(["--precision", args.precision] if args.precision != "f32" else [])]


def on_card(args, model):
    """Weir on a card, and what is usual there. All have the same precision."""
    common = [*common_options(args, model), "--device", args.device]
    tf32 = ["--tf32"] if args.tf32 else []
    weir = [args.weir, "bench", "worker", *common]
    cases = [("Weir, graph on", [*weir, "--case", "on"]),
             ("Weir, graph off", [*weir, "--case", "off"])]
    cases += [(f"Weir, budget {b}", [*weir, "--case", "on", "--budget", b, "--measure", "yes"])
              for b in args.budgets]
    if args.python:
        torch = [args.python, str(PEER), *common, *tf32]
        cases += [(f"PyTorch, {name}", [*torch, "--variant", variant])
                  for name, variant in (("eager", "default"),
                                        ("eager, channels_last, fused SGD", "tuned"),
                                        ("torch.compile, channels_last, fused SGD", "compile"),
                                        ("torch.compile, CUDA graphs", "reduce-overhead"))
                  if variant not in args.without]
    if args.jax and model in JAX_MODELS and args.precision == "f32":
        cases.append(("JAX, jit", [args.jax, str(JAX_PEER), *common, *tf32]))
    return list(opened((name, command, None, args.threads) for name, command in cases))


def open_cases(args, model):
    if args.device != "cpu":
        return on_card(args, model)
    common = common_options(args, model)
    weir = [args.weir, "bench", "worker", *common]
    torch = [args.python, str(PEER), *common]
    cases = [("Weir, graph on", [*weir, "--case", "on"], None),
             ("Weir, graph off", [*weir, "--case", "off"], None)]
    if args.python and args.budgets:
        cases.append(("eager", torch, None))
    elif args.python:
        tuned = "channels_last, fused SGD" + (", tcmalloc" if args.tcmalloc else "")
        peers = [("eager", "default", None)]
        if args.tcmalloc:
            peers.append(("eager, tcmalloc", "default", args.tcmalloc))
        peers += [(f"eager, {tuned}", "tuned", args.tcmalloc),
                  (f"torch.compile, {tuned}", "compile", args.tcmalloc)]
        cases += [(name, [*torch, "--variant", variant], preload)
                  for name, variant, preload in peers if variant not in args.without]
    return [*opened((*case, args.threads) for case in cases), *budget_cases(args, weir, torch)]


def write_csv(path, model, cases):
    """A row for each case; the head, too, if the file is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as to:
        writer = csv.writer(to)
        if new:
            writer.writerow(["model", "batch", "case", "version", "median_ms", "min_ms",
                             "step_peak_bytes", "persistent_bytes", "ratio_to_first"])
        for case in cases:
            ratios = [a / b for a, b in zip(case.rounds, cases[0].rounds)]
            writer.writerow([model, case.batch, case.name, case.version,
                             f"{statistics.median(case.times):.6g}", f"{min(case.times):.6g}",
                             case.step_peak, case.persistent,
                             f"{statistics.median(ratios):.4f}"])


class Peak:
    """The processor's multiply-adds per second, as a loop in registers has them, and the operations
    of a step."""

    ROUNDS = "5"

    def __init__(self, args):
        self.type = "bf16" if args.precision == "bf16" else "f32"
        self.command = [str(args.peak), str(args.threads), self.ROUNDS, self.type]
        self.present = args.device == "cpu" and args.peak.exists()
        self.rate = self.step = 0.0

    def measure(self):
        if self.present:
            done = subprocess.run(self.command, capture_output=True, text=True, check=True)
            self.rate = max(self.rate, float(done.stdout))

    def share(self, case):
        return self.step / (statistics.median(case.times) * 1e-3) / self.rate


def race(cases, rounds, steps, peak):
    for r in range(rounds):
        peak.measure()
        turn = r % len(cases)
        for case in cases[turn:] + cases[:turn]:
            time.sleep(PAUSE)
            case.run(steps)
            print(f"  round {r + 1}/{rounds}  {case.name:45s} {case.rounds[-1]:10.3f} ms",
                  file=sys.stderr)
    for case in cases:
        case.measure()
    if peak.rate:
        peak.step = float(cases[0].ask("flops", "flops")[0])


def ratio(case, base):
    if case is base:
        return "1"
    paired = statistics.median(a / b for a, b in zip(case.rounds, base.rounds))
    return f"{paired:.3f} ({min(case.times) / min(base.times):.3f})"


def table(cases, peak):
    """Rows: the cases. Columns: times, memory, and the ratio to every case but the first."""
    bases = cases[1:]
    head = ["case", "median ms", "min ms", "step peak MB", "persistent MB",
            *(["of FMA peak"] if peak.rate else []), *(f"/ {b.name}" for b in bases)]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for case in cases:
        cells = [case.name, f"{statistics.median(case.times):.4g}", f"{min(case.times):.4g}",
                 f"{case.step_peak / 1e6:.4g}", f"{case.persistent / 1e6:.4g}",
                 *([f"{peak.share(case):.2f}"] if peak.rate else []),
                 *(ratio(case, b) for b in bases)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def card(args):
    """What the device is, as weir says it."""
    done = subprocess.run([args.weir, "info", "--device", args.device], capture_output=True,
                          text=True, check=False)
    return next((line for line in done.stdout.splitlines() if line.startswith("card ")),
                args.device)


def precision_of(args):
    if args.precision != "f32":
        return f"products in {args.precision}, parameters in f32"
    return f"f32 {'by TF32 units' if args.tf32 else 'throughout'}"


def report(args, model, cases, steps, peak):
    image = f", {args.image or IMAGE[model]} px" if model in IMAGE else ""
    versions = f"Weir {cases[0].version}"
    peers = {("JAX" if case.name.startswith("JAX") else "PyTorch"): case.version for case in cases
             if not case.name.startswith("Weir")}
    versions += "".join(f", {name} {version}" for name, version in peers.items())
    where = f"{machine()}; {args.threads} threads" if args.device == "cpu" else card(args)
    flops = (f" A step has {peak.step / 1e9:.4g} GFLOP, the FMA peak of {peak.type} is "
             f"{peak.rate / 1e9:.4g} GF/s." if peak.rate else "")
    return (f"### {model}, batch {cases[0].batch}{image}\n\n"
            f"{where}; {precision_of(args)}; {versions}; "
            f"{args.rounds} rounds of {steps} steps; {datetime.date.today()}. "
            f"Ratio: paired median (of minima).{flops}\n\n{table(cases, peak)}\n")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", choices=STEPS, metavar="MODEL",
                        help="any of " + ", ".join(STEPS))
    add_tool(parser)
    parser.add_argument("--python", help="interpreter that has torch; left out: Weir alone")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default: cpu")
    parser.add_argument("--jax", help="interpreter that has jax, for --device cuda")
    parser.add_argument("--tf32", action="store_true",
                        help="on a card: products of f32 by TF32 units, in all cases")
    parser.add_argument("--precision", choices=("f32", "bf16", "f16"), default="f32",
                        help="the type of products, convolutions and attention in Weir and PyTorch "
                        "(autocast); default: f32")
    parser.add_argument("--csv", type=Path, help="add the rows to this file")
    parser.add_argument("--tcmalloc", type=Path, default=find_tcmalloc(),
                        help="library to preload (found: %(default)s)")
    parser.add_argument("--peak", type=Path, default=BUILD / "fma_peak", metavar="FILE",
                        help="program that measures the peak (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--image", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budgets", nargs="*", default=[],
                        help="Weir within these budgets, such as 50%%, beside PyTorch's ways")
    parser.add_argument("--without", nargs="*", default=[], help="variants of PyTorch to leave out")
    parser.add_argument("--rounds", type=int, default=7, help="at least 5 for a table that is kept")
    parser.add_argument("--steps", type=int, default=0, help="of a round; default by model")
    parser.add_argument("--out", type=Path, help="append the tables to this file")
    return parser.parse_args()


def main():
    args = options()
    if args.tf32:
        os.environ["WEIR_TF32"] = "1"
    for model in args.models:
        print(f"{model}: starting the workers", file=sys.stderr)
        steps = args.steps or STEPS[model]
        cases = open_cases(args, model)
        if not cases or not cases[0].name.startswith("Weir"):
            sys.exit("compare.py: no case of Weir started")
        peak = Peak(args)
        race(cases, args.rounds, steps, peak)
        text = report(args, model, cases, steps, peak)
        for case in cases:
            case.close()
        print(text)
        if args.csv:
            write_csv(args.csv, model, cases)
        if args.out:
            args.out.parent.mkdir(parents=True, exist_ok=True)
            with args.out.open("a") as to:
                to.write(text + "\n")


if __name__ == "__main__":
    main()
