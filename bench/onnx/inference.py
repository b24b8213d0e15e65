#!/usr/bin/env python3
"""inference.py - milliseconds of a forward pass, Weir beside onnxruntime.

    inference.py [NAME...] [--folder FOLDER] [--threads T] [--rounds R]

Exports resnet50 and mobilenet_v3_large (1 x 3 x 224 x 224) and bert_base (1 x 128 tokens) with
random weights by torch.onnx, and times one run of each engine after the other, R times (20), T
threads (2). Prints minimum and median of both, and the ratio of the minima. Needs torch,
torchvision, transformers, onnx, onnxscript, onnxruntime and the package weir (PYTHONPATH).
"""
import argparse
import os
import statistics
import tempfile
import time
import warnings

import numpy as np

NAMES = ["resnet50", "mobilenet_v3_large", "bert_base"]


def network(name):
    import torch
    if name != "bert_base":
        import torchvision
        return getattr(torchvision.models, name)(weights=None), torch.randn(1, 3, 224, 224)
    import transformers

    class Out(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = transformers.BertModel(transformers.BertConfig())

        def forward(self, tokens):
            return self.net(tokens)[0]
    return Out(), torch.randint(3, 30000, (1, 128))


def exported(name, folder):
    import torch
    path, data = os.path.join(folder, name + ".onnx"), os.path.join(folder, name + "-x.npy")
    if not (os.path.exists(path) and os.path.exists(data)):
        torch.manual_seed(0)
        net, x = network(name)
        torch.onnx.export(net.eval(), (x,), path, dynamo=True, opset_version=20, verbose=False,
                          external_data=False)
        np.save(data, x.numpy())
    return path, np.load(data)


def engines(path, x, threads):
    """(onnxruntime's run, Weir's), each ready."""
    import onnxruntime
    import weir
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    net = weir.onnx.load(path)
    t = weir.array(x)
    with weir.Graph(weir.cpu()) as graph:
        y = net.run([t])[0]

    def by_weir():
        graph.run()
        return y.numpy()
    return lambda: session.run(None, {name: x})[0], by_weir


def row_of(name, folder, threads, rounds):
    path, x = exported(name, folder)
    both = engines(path, x, threads)
    want, got = (run() for run in both)
    times = ([], [])
    for _ in range(rounds):
        for run, into in zip(both, times):
            begin = time.perf_counter()
            run()
            into.append((time.perf_counter() - begin) * 1e3)
    least = [min(t) for t in times]
    cells = [f"{value:.1f}" for t in times for value in (min(t), statistics.median(t))]
    away = np.abs(got - want).max() / np.abs(want).max()
    return f"| {name} | {' | '.join(cells)} | {least[1] / least[0]:.2f} | {away:.1e} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    os.environ["WEIR_THREADS"] = str(options.threads)
    warnings.simplefilter("ignore")
    folder = options.folder or tempfile.mkdtemp()
    for name in options.names or NAMES:
        print(row_of(name, folder, options.threads, options.rounds), flush=True)


if __name__ == "__main__":
    main()
