#!/usr/bin/env python3
"""call.py - what a call of weir.torch.Step costs beyond the run of its graph, in microseconds.

Usage: PYTHONPATH=build/python python3 bench/zoo/call.py [--calls 3000]. A small perceptron, so that
the graph's run is short; call, run and copies of the inputs take turns.
"""
import argparse
import os
import statistics
import sys
import time

import torch
import weir.torch
from weir.torch import memory

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from machine import machine     # noqa: E402

OPTIMISERS = {"SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
              "AdamW": torch.optim.AdamW}


def microseconds(functions, calls):
    """(median, least) of each function."""
    times = [[] for _ in functions]
    for _ in range(calls):
        for function, own in zip(functions, times):
            begin = time.perf_counter()
            function()
            own.append((time.perf_counter() - begin) * 1e6)
    return [(statistics.median(own), min(own)) for own in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=3000)
    args = parser.parse_args()
    print("| us: median (least) | call | graph's run | copies of inputs | beyond both |")
    print("|---|---:|---:|---:|---:|")
    for name, make in OPTIMISERS.items():
        torch.manual_seed(1)
        net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
        batch = torch.randn(5, 6), torch.randint(0, 3, (5,))
        step = weir.torch.Step(net, torch.nn.functional.cross_entropy, make(net.parameters()),
                               batch)
        handle = weir._capi.weir_input(step.device.handle, (memory.type_of(torch.float32), (5, 6)))
        labels = weir._capi.weir_input(step.device.handle, (memory.type_of(torch.int64), (5,)))

        def copies(handles=(handle, labels), tensors=batch):
            for each, t in zip(handles, tensors):
                memory.write(each, t)

        call, run, copied = microseconds(
            [lambda step=step, batch=batch: step(*batch), step.graph.run, copies], args.calls)
        beyond = [a - b - c for a, b, c in zip(call, run, copied)]
        print(f"| {name} | " + " | ".join(f"{median:.1f} ({least:.1f})"
                                          for median, least in (call, run, copied, beyond)) + " |")
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
