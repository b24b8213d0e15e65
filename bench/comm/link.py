#!/usr/bin/env python3
"""link.py - data parallelism of two ranks on a slow link, beside PyTorch's.

Usage: link.py [--rates 1gbit,100mbit] [--models resnet18,gpt] [--rounds 3] [--steps 5]
       [--torch PYTHON] [--build build]

Two network namespaces stand for two machines; a pair of virtual interfaces joins them, each slowed
to the rate by `tc` (tbf). In each round every way trains in turn, as two processes of one thread:
    f32, bf16      comm_step over MPICH, gradients sent as f32 and as bf16
    at once        comm_step without the pass `overlap`
    DDP            PyTorch's DistributedDataParallel over gloo, gradients in f32 and by its hook for
                   bf16 (ddp.py)
and a rank alone, which sends nothing. Columns: the median step; wire: milliseconds in which a
collective was under way; exposed: those in which the step waited for one; both as the plan predicts
them from the steps before, and as it estimates them before the first; and ratios of the rounds'
medians, by their median. Needs root, `ip`, `tc`, MPICH; --torch: a Python with torch, without which
DDP is left out. Where namespaces are refused it says so and ends.
"""
import argparse
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from machine import machine     # noqa: E402

NETWORK = "10.93.0"


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


class Link:
    """Two namespaces and the link between them, for a `with`."""

    def __init__(self, rate):
        self.rate = rate
        self.names = [f"weir{os.getpid()}-{r}" for r in (0, 1)]
        self.ports = [f"w{os.getpid()}-{r}"[-15:] for r in (0, 1)]

    def __enter__(self):
        for name in self.names:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", self.ports[0], "type", "veth", "peer", "name", self.ports[1])
        for r, (name, port) in enumerate(zip(self.names, self.ports)):
            run("ip", "link", "set", port, "netns", name)
            run("ip", "-n", name, "addr", "add", f"{NETWORK}.{r + 1}/24", "dev", port)
            run("ip", "-n", name, "link", "set", port, "up")
            run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", port, "root", "tbf",
                "rate", self.rate, "burst", "128kb", "latency", "100ms")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def on(self, r, *words):
        """The words as a command of machine r."""
        return ["ip", "netns", "exec", self.names[r], *words]


def numbers(text):
    return [[float(word) for word in line.split()] for line in text.splitlines()
            if line and line[0].isdigit()]


def weir(link, build, model, steps, *options):
    """[step, wire, exposed, predicted wire and exposed, estimated wire and exposed] of each step,
    in ms."""
    command = ["mpirun.mpich"]
    for r in (0, 1):
        step = [os.path.join(build, "comm_step"), model, str(steps), *options]
        command += [":"] * r + ["-n", "1", "-env", "UCX_NET_DEVICES", link.ports[r],
                                *link.on(r, *step)]
    env = dict(os.environ, UCX_TLS="tcp,self")
    ranks = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             text=True)
    lines = []
    while not lines or not lines[-1].startswith("memory"):
        lines.append(ranks.stdout.readline())
        if not lines[-1]:
            raise SystemExit("link: the ranks have failed")
    ranks.terminate()       # MPICH may hang in MPI_Finalize over TCP
    ranks.communicate()
    predicted = [float(word) for line in lines[-3:-1] for word in line.split()[1:]]
    return [step + predicted for step in numbers("".join(lines))]


def ddp(link, python, model, steps, wire):
    ranks = []
    for r in (0, 1):
        env = dict(os.environ, RANK=str(r), WORLD_SIZE="2", MASTER_ADDR=f"{NETWORK}.1",
                   MASTER_PORT="29533", GLOO_SOCKET_IFNAME=link.ports[r], OMP_NUM_THREADS="1")
        words = link.on(r, python, os.path.join(HERE, "ddp.py"), model, str(steps), wire)
        ranks.append(subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True))
    texts = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("link: DDP has failed")
    return numbers(texts[0])


def alone(build, model, steps):
    """Two processes that do not know each other, so that each has the core it has in a world."""
    command = [os.path.join(build, "comm_step"), model, str(steps)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in (0, 1)]
    return numbers([each.communicate()[0] for each in both][0])


def ways_of(link, args, model):
    steps = args.steps
    ways = {"alone": lambda: alone(args.build, model, steps),
            "Weir, f32": lambda: weir(link, args.build, model, steps),
            "Weir, f32, at once": lambda: weir(link, args.build, model, steps, "f32", "overlap"),
            "Weir, bf16": lambda: weir(link, args.build, model, steps, "bf16")}
    if args.torch:
        ways["DDP, f32"] = lambda: ddp(link, args.torch, model, steps, "f32")
        ways["DDP, bf16"] = lambda: ddp(link, args.torch, model, steps, "bf16")
    return ways


def medians(steps):
    return [statistics.median(column) for column in zip(*steps)]


def measure(rate, model, args):
    """Rows of the table: a way's medians, and its step beside DDP's in f32."""
    with Link(rate) as link:
        ways = ways_of(link, args, model)
        rounds = [{name: medians(way()) for name, way in ways.items()} for _ in range(args.rounds)]
    for name in ways:
        row = medians([each[name] for each in rounds]) + [None] * 6
        ratio = "-"
        if args.torch:
            ratio = f"{statistics.median(e[name][0] / e['DDP, f32'][0] for e in rounds):.2f}"
        times = " | ".join("-" if ms is None else f"{ms:.0f}" for ms in row[1:7])
        print(f"| {rate} | {model} | {name} | {row[0]:.0f} | {times} | {ratio} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1gbit,100mbit")
    parser.add_argument("--models", default="resnet18,gpt")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"))
    args = parser.parse_args()
    try:
        with Link("1gbit"):
            pass
    except (OSError, subprocess.CalledProcessError):
        print("link: left out, namespaces of networks are refused here")
        return
    print("| link | model | way | step, ms | wire, ms | exposed, ms | wire, predicted | "
          "exposed, predicted | wire, estimated | exposed, estimated | / DDP, f32 |\n"
          "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for rate in args.rates.split(","):
        for model in args.models.split(","):
            measure(rate, model, args)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
