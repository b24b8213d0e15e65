"""kill_saves - kills a process while it saves a model and a run, many times.

The path has the old file or the new one.

Usage: kill_saves.py FOLDER COUNT. Prints how many files were whole.
"""
import os
import random
import signal
import sys
import time

import numpy as np

from weir import layer, model, opt, tensor
from weir.files import opened

WIDTH = 40


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.fc = layer.Linear(WIDTH)
        self.optimizer = opt.SGD(0.1, momentum=0.9)

    def forward(self, x):
        return self.fc(x)


def save_for_ever(path, ready):
    """The child: all elements of a file are those of one save."""
    net = Net()
    net.compile([tensor.from_numpy(np.ones((1, WIDTH), np.float32))])
    number = 0
    while True:
        number += 1
        for t in net.get_states().values():
            t.set_value(float(number))
        net.save(path, keep_previous=number % 2 == 0)
        net.save_run(path + ".run", step=number)
        if number == 1:
            os.write(ready, b"1")


def is_one_save(path):
    """The file is there, whole, of one save."""
    with opened(path) as archive:
        values = {float(v) for name in ("fc.weight", "fc.bias") for v in archive[name].ravel()}
        step = archive.metadata.get("weir_step")
        return len(values) == 1 and (step is None or float(step) == min(values))


def main(folder, count):
    path, whole, pick = os.path.join(folder, "net.safetensors"), 0, random.Random(1)
    for _ in range(count):
        told, ready = os.pipe()
        child = os.fork()           # this process has opened no device, so its child may
        if child == 0:
            save_for_ever(path, ready)
        os.close(ready)
        os.read(told, 1)
        os.close(told)
        time.sleep(pick.uniform(0, 0.003))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        whole += is_one_save(path) and is_one_save(path + ".run")
    print(f"{count} kills, {whole} files whole")
    return whole != count


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
