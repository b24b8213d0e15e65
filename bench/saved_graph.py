#!/usr/bin/env python3
"""saved_graph.py - a process that loads a network and computes one batch: its time and its memory.

Usage: PYTHONPATH=build/python saved_graph.py [--weir build/weir] [--torch PYTHON] [--rounds 5]
[--threads 2] [--out TABLE.md]. ResNet-18 for 224 px and batch 1, in evaluation, with weights that
are random. It is written once: by weir.Model.export, and by PyTorch as a state_dict and as a
traced module. Then processes take turns, each from its start to its end: it opens the file and
computes one batch. Time is the wall clock's, memory the largest resident size that the kernel
noted, both medians over the rounds. PyTorch runs if --torch, an interpreter that has it, is there.
"""
import argparse
import datetime
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from built import ROOT, add_tool
from machine import machine

PIXELS = 224

EXPORT = f"""
import sys
import weir
sys.path.insert(0, {str(ROOT / "examples/python")!r})
from models import ResNet
x = weir.rand((1, 3, {PIXELS}, {PIXELS}))
net = ResNet(18, 1000, small=False)
net.compile([x], is_train=False)
net.export(sys.argv[1], [x])
"""
LOAD = f"""
import sys
import numpy as np
import weir
g = weir.load_graph(sys.argv[1])
g.run(x=np.ones((1, 3, {PIXELS}, {PIXELS}), np.float32))["out0"].numpy()
"""
TORCH = f"""
import sys
import torch
torch.set_num_threads(int(sys.argv[2]))
sys.path.insert(0, {str(ROOT / "bench")!r})
x = torch.ones(1, 3, {PIXELS}, {PIXELS})
how, path = sys.argv[1], sys.argv[3]
if how == "version":
    print("PyTorch", torch.__version__)
    sys.exit()
if how != "jit":
    import networks
    net = networks.resnet(18, {PIXELS}).eval()
if how == "write":
    torch.save(net.state_dict(), path + ".pt")
    torch.jit.save(torch.jit.trace(net, x), path + ".jit")
    sys.exit()
if how == "jit":
    net = torch.jit.load(path + ".jit")
else:
    net.load_state_dict(torch.load(path + ".pt"))
with torch.inference_mode():
    net(x)
"""


def cost(command, environment):
    """(seconds, MiB) of a process from its start to its end."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"saved_graph.py: {' '.join(map(str, command[:2]))} failed")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def commands(options, folder):
    """What runs, by its name in the table; the files are written first."""
    graph, threads = folder / "resnet18.safetensors", str(options.threads)
    subprocess.run([sys.executable, "-c", EXPORT, graph], check=True)
    found = {"`weir run-graph`": [options.weir, "run-graph", graph, "--threads", threads],
             "Python, `weir.load_graph`": [sys.executable, "-c", LOAD, graph]}
    if options.torch and options.torch.exists():
        peer = [options.torch, "-c", TORCH]
        path = [threads, folder / "resnet18"]
        subprocess.run([*peer, "write", *path], check=True)
        found |= {"PyTorch eager, state_dict": [*peer, "eager", *path],
                  "PyTorch, traced module (`torch.jit.load`)": [*peer, "jit", *path]}
    return found


def versions(options):
    """What ran: Weir's first line of facts, PyTorch's version."""
    said = subprocess.run([options.weir, "version"], capture_output=True, text=True, check=True)
    names = [said.stdout.strip().splitlines()[0]]
    if options.torch and options.torch.exists():
        said = subprocess.run([options.torch, "-c", TORCH, "version", "1", ""],
                              capture_output=True, text=True, check=True)
        names.append(said.stdout.strip())
    return ", ".join(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_tool(parser)
    parser.add_argument("--torch", type=Path, help="an interpreter that has PyTorch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="also write the table there")
    options = parser.parse_args()
    environment = {**os.environ, "WEIR_THREADS": str(options.threads)}
    with tempfile.TemporaryDirectory() as folder:
        todo = commands(options, Path(folder))
        seen = {name: [] for name in todo}
        for _ in range(options.rounds):
            for name, command in todo.items():
                seen[name].append(cost(command, environment))
    lines = [f"| ResNet-18, {PIXELS} px, batch 1: load the file, compute once | start to end, s | "
             "fastest, s | largest resident size, MiB |", "|---|---:|---:|---:|"]
    for name, runs in seen.items():
        seconds, memory = zip(*runs)
        lines.append(f"| {name} | {statistics.median(seconds):.2f} | {min(seconds):.2f} | "
                     f"{statistics.median(memory):.0f} |")
    lines += ["", f"Medians of {options.rounds} rounds in which the processes took turns, "
              f"{options.threads} threads. {machine()}. {versions(options)}. "
              f"{datetime.date.today().isoformat()}."]
    text = "\n".join(lines)
    print(text)
    if options.out:
        command = "PYTHONPATH=build/python python3 bench/saved_graph.py --torch PYTHON"
        options.out.write_text(f"# A process that runs a saved graph\n\nPrinted by `{command}`, "
                               f"where PYTHON has PyTorch.\n\n{text}\n")


if __name__ == "__main__":
    main()
