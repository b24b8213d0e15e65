#!/usr/bin/env python3
"""python - what Python costs: ResNet-18's step in Python and in C by turns, and a replay alone.

Usage: PYTHONPATH=build/python python3 bench/python.py [--out FILE]. Prints a table.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "examples", "python")]

from built import add_tool  # noqa: E402
import common  # noqa: E402
from machine import machine  # noqa: E402
from mlp import MLP  # noqa: E402
from models import ResNet  # noqa: E402
from weir import _capi as capi, opt, tensor  # noqa: E402
import weir  # noqa: E402

PAUSE = 0.05    # seconds until the idle worker threads of the other process have stopped spinning


class Worker:
    """`weir bench worker`: trains when asked."""

    def __init__(self, tool, batch, image):
        self.process = subprocess.Popen(
            [tool, "bench", "worker", "--model", "resnet18", "--batch", str(batch), "--image",
             str(image), "--case", "on"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def _answer(self):
        word, *rest = self.process.stdout.readline().split()
        if word == "error":
            sys.exit(" ".join(rest))
        return rest

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return [float(n) for n in self._answer()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def ready(net, x, y):
    """A compiled model after its first steps."""
    tx, ty = tensor.from_numpy(x), tensor.from_numpy(y)
    net.optimizer = opt.SGD(0.01, momentum=0.9)
    net.compile([tx], use_graph=True)
    for _ in range(2):
        net(tx, ty)
    return net, tx, ty


def timed(call, count):
    """Milliseconds of each of the calls."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begin))
    return times


def race(calls, rounds, steps):
    """{name: (median, minimum)}, and the paired ratio of the first to the second."""
    all_times = {name: [] for name in calls}
    ratios = []
    names = list(calls)
    for turn in range(rounds):
        middle = {}
        for name in names if turn % 2 == 0 else reversed(names):
            time.sleep(PAUSE)
            times = calls[name](steps)
            all_times[name] += times
            middle[name] = statistics.median(times)
        ratios.append(middle[names[0]] / middle[names[1]])
    return ({name: (statistics.median(t), min(t)) for name, t in all_times.items()},
            statistics.median(ratios))


def step_peak(graph):
    """Arena as planned and as measured."""
    stats = capi.weir_graph_stats()
    capi.weir_graph_stats_of(graph, stats)
    return stats.arena_bytes, capi.weir_graph_measure(graph)


def resnet_rows(args):
    net, tx, ty = ready(ResNet(18, 1000, False),
                        *common.patterns(0, args.batch, args.image, 1000))
    worker = Worker(args.tool, args.batch, args.image)
    times, ratio = race({"Python": lambda n: timed(lambda: net(tx, ty), n),
                         "C": lambda n: worker.ask(f"run {n}")}, args.rounds, args.steps)
    peaks = {"Python": step_peak(net.graphs[0]), "C": (int(worker.ask("memory")[1]), None)}
    worker.close()
    least = times["Python"][1] / times["C"][1]
    return [f"| ResNet-18, {name} | {times[name][0]:.2f} | {times[name][1]:.2f} | "
            f"{peaks[name][0]} | {f'{ratio:.3f} ({least:.3f})' if name == 'Python' else 1} |"
            for name in times]


def replay_rows(args):
    digits = common.Digits()
    x, y = digits.batch(0, 8)
    net, tx, ty = ready(MLP(8), x, y)
    graph = net.graphs[0]
    times, ratio = race({"net(tx, ty)": lambda n: timed(lambda: net(tx, ty), n),
                         "capi.weir_graph_run": lambda n: timed(
                             lambda: capi.weir_graph_run(graph), n)}, args.rounds, 2000)
    over = 1e3 * (times["net(tx, ty)"][0] - times["capi.weir_graph_run"][0])
    rows = [f"| MLP 64-8-10, {name} | {middle:.5f} | {least:.5f} | {step_peak(graph)[0]} | "
            f"{f'{ratio:.3f}' if name.startswith('net') else 1} |"
            for name, (middle, least) in times.items()]
    return rows, over


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add_tool(parser, "--tool")
    parser.add_argument("--batch", type=int, default=4, help="of ResNet-18")
    parser.add_argument("--image", type=int, default=224, help="pixels of a side")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each case")
    parser.add_argument("--steps", type=int, default=4, help="steps in a turn of ResNet-18")
    parser.add_argument("--out", help="write the table there, too")
    args = parser.parse_args()

    rows = resnet_rows(args)
    replay, over = replay_rows(args)
    text = "\n".join([
        "# Python against C, graph on, in turns within one run", "",
        f"{machine()}; {weir.cpu().threads} threads; Weir {weir.__version__}; {args.rounds} rounds "
        f"of {args.steps} steps (MLP: 2000); ResNet-18 at batch {args.batch}, {args.image} px; "
        f"{time.strftime('%Y-%m-%d')}. Ratio: paired median (of minima).", "",
        "| case | median ms | min ms | step peak B | Python / C |", "|---|---:|---:|---:|---:|",
        *rows, *replay, "",
        f"A call of a model costs {over:.2f} us more than the run of its graph.", ""])
    print(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
