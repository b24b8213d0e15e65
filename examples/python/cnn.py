"""cnn - the main example: a convolutional network with batch norm and dropout learns digits.

Graph off and on, from equal seeds, then a table; pictures of the plan. The rate falls to a tenth
after two thirds of the steps: it is a tensor, so the plan stays.
"""
from collections.abc import Sequence

import common
from models import DigitsCNN
from weir import opt, tensor
from weir.typing import Array

SHAPE = (1, 8, 8)


def main() -> None:
    parser = common.options(__doc__, steps=330, lr=0.05)
    parser.add_argument("--out", metavar="FOLDER", help="write pictures of the plan there")
    args = parser.parse_args()
    digits = common.Digits()

    def one(case: common.Case) -> None:
        net = DigitsCNN()
        net.optimizer = opt.SGD(args.lr, momentum=0.9, weight_decay=1e-4)
        tx, ty = (tensor.from_numpy(a) for a in digits.batch(0, args.batch, SHAPE))

        def batch(i: int) -> Sequence[Array]:
            if i == args.steps * 2 // 3:
                net.optimizer.lr = args.lr / 10
            return digits.batch(i, args.batch, SHAPE)

        case.compile(net, [tx])
        case.train(net, (tx, ty), batch, every=50)
        if args.out and net.graphs:
            common.draw(net, args.out, "digits")
        net.eval()
        test = digits.test_x.reshape(-1, *SHAPE)
        case.correct(tensor.to_numpy(net(tensor.from_numpy(test))), digits.test_y)

    common.run(args, one)


if __name__ == "__main__":
    main()
