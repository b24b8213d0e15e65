#!/usr/bin/env python3
"""capture - a fresh tensor for each batch: plans made, and the first step of the second epoch.

Usage: PYTHONPATH=build/python python3 bench/capture.py [--out FILE]. Prints a table. A replay is
the same step on tensors that stay.
"""
import argparse
import os
import resource
import statistics
import sys
import time
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "examples", "python")]

import numpy as np  # noqa: E402

from machine import machine  # noqa: E402
from models import ResNet  # noqa: E402
from weir import opt, tensor  # noqa: E402
import weir  # noqa: E402


def timed(step):
    begin = time.perf_counter()
    step()
    return (time.perf_counter() - begin) * 1e3


def ready():
    net = ResNet(18)
    net.optimizer = opt.SGD(0.01, momentum=0.9)
    draw = np.random.default_rng(1)
    images = draw.random((36, 3, 32, 32), np.float32)
    labels = draw.integers(0, 10, 36).astype(np.int32)
    net.compile([tensor.from_numpy(images[:8])], use_graph=True)
    return net, images, labels


def epochs(rows):
    net, images, labels = ready()

    def step(at, n=8):
        net(tensor.from_numpy(images[at:at + n]), tensor.from_numpy(labels[at:at + n]))

    first = [timed(lambda: step(at)) for at in range(0, 36, 8)]      # the last batch has 4 images
    second = [timed(lambda: step(at)) for at in range(0, 36, 8)]
    x, y = tensor.from_numpy(images[:8]), tensor.from_numpy(labels[:8])
    replay = statistics.median(timed(lambda: net(x, y)) for _ in range(15))
    rows += [("plans made, 2 signatures, 2 epochs", net.graph_stats()["planned"]),
             ("first step (plans), ms", f"{first[0]:.1f}"),
             ("second epoch's first step, ms", f"{second[0]:.1f}"),
             ("replay on tensors that stay, ms", f"{replay:.1f}"),
             ("second epoch's first step / replay", f"{second[0] / replay:.2f}")]


def sizes(rows):
    net, images, labels = ready()
    resident = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", weir.GraphWarning)
        for most in (32, 4):
            net.graph(True, max_graphs=most)
            for n in range(1, 33):
                net(tensor.from_numpy(images[:n]), tensor.from_numpy(labels[:n]))
            stats = net.graph_stats()
            resident.append((most, len(stats["graphs"]), stats["evicted"],
                             stats["input_bytes"] + stats["result_bytes"], stats["arena_bytes"]))
    for most, kept, evicted, held, arena in resident:
        rows.append((f"32 sizes, max_graphs={most}: graphs, freed, input and result bytes, arena",
                     f"{kept}, {evicted}, {held:,}, {arena:,}"))
    rows.append(("most resident bytes of the process",
                 f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024:,}"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    args = parser.parse_args()
    rows = []
    epochs(rows)
    sizes(rows)
    text = "\n".join(["| ResNet-18, 32 px, batch 8 | |", "|---|---:|",
                      *(f"| {name} | {value} |" for name, value in rows), "", machine(), ""])
    print(text)
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
