"""deploy - trains the network of cnn.py and exports it; examples/deploy.c runs the file.

    python3 examples/python/deploy.py digits.safetensors
    build/deploy digits.safetensors 3MB

Both print how many digits of the test set they recognise: the same number.
"""
import argparse

import common
from models import DigitsCNN
import weir
from weir import opt, tensor

SHAPE = (1, 8, 8)
TEST_BATCH = 60         # the shapes of a file are those that it was exported with


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("file", help="where to write the network")
    parser.add_argument("--steps", type=int, default=200, help="steps of training")
    args = parser.parse_args()
    weir.set_seed(1)
    digits, net = common.Digits(), DigitsCNN()
    net.optimizer = opt.SGD(0.05, momentum=0.9, weight_decay=1e-4)
    x, y = (tensor.from_numpy(a) for a in digits.batch(0, 64, SHAPE))
    net.compile([x], is_train=True, use_graph=True)
    for i in range(args.steps):
        for t, array in zip((x, y), digits.batch(i, 64, SHAPE)):
            t.copy_from_numpy(array)
        net(x, y)
    net.eval()
    test = digits.test_x.reshape(-1, *SHAPE)
    correct = total = 0
    for first in range(0, len(test) - TEST_BATCH + 1, TEST_BATCH):
        batch = tensor.from_numpy(test[first:first + TEST_BATCH])
        found = tensor.to_numpy(net(batch)).argmax(-1)
        correct += int((found == digits.test_y[first:first + TEST_BATCH]).sum())
        total += TEST_BATCH
    net.export(args.file, [batch])
    print(f"correct: {correct} of {total}")


if __name__ == "__main__":
    main()
