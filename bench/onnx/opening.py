#!/usr/bin/env python3
"""opening.py - what it takes to open a model of half a gigabyte: bytes and seconds.

    opening.py [--megabytes N] [--external]

Writes a network of linear layers with N megabytes (500) of weights to an ONNX file by Weir, then
opens it in a process of its own. Prints the peak of that process's memory, less what it had before,
as a share of the weights, and the seconds of opening beside those of reading the file alone; both
read the file from the page cache. Needs the package weir (PYTHONPATH).
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time


def write(path, megabytes, external):
    import weir
    from weir import layer, tensor
    width, layers = 2500, max(1, round(megabytes / 25))

    class Net(weir.model.Model):
        def __init__(self):
            super().__init__()
            self.parts = layer.LayerList([layer.Linear(width, bias=False)
                                          for _ in range(layers)])

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x
    x, net = tensor.zeros((1, width)), Net()
    net.compile([x], is_train=False)
    net.to_onnx(path, [x], external=external)
    return layers * width * width * 4


def peak():
    """The most bytes that the process had, by the kernel: /proc/self/status."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024


def read_all(path):
    begin, buffer = time.perf_counter(), bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begin


def opened(path, weights):
    import weir
    weir.zeros((1,)).numpy()
    data = path + ".data" if os.path.exists(path + ".data") else path
    reading = min(read_all(data) for _ in range(3))
    before, used, begin = peak(), time.process_time(), time.perf_counter()
    net = weir.onnx.load(path)
    seconds = time.perf_counter() - begin
    print(f"weights {weights / 1e6:.0f} MB, peak {(peak() - before) / weights:.3f} of them, opened "
          f"in {seconds:.2f} s ({time.process_time() - used:.2f} s of the processor), "
          f"{seconds - reading:.2f} s beyond reading ({reading:.2f} s), {len(net.nodes)} nodes",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--external", action="store_true", help="weights in a file of their own")
    parser.add_argument("--times", type=int, default=5, help="processes, one after the other")
    parser.add_argument("--open", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        opened(options.open[0], int(options.open[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        weights = write(path, options.megabytes, options.external)
        for _ in range(options.times):
            subprocess.run([sys.executable, __file__, "--open", path, str(weights)], check=True)


if __name__ == "__main__":
    main()
