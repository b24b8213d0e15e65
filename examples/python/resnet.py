"""resnet - trains a ResNet on made-up images, as a benchmark of memory and time per step."""
from collections.abc import Sequence

import common
from models import ResNet
from weir import opt, tensor
from weir.typing import Array


def main() -> None:
    parser = common.options(__doc__, steps=5, batch=8, lr=0.01)
    parser.add_argument("--depth", type=int, choices=tuple(ResNet.DEPTHS), default=18,
                        help="layers of the network")
    parser.add_argument("--size", type=int, default=224, help="pixels of a side")
    parser.add_argument("--classes", type=int, default=1000, help="width of the output")
    parser.add_argument("--cifar", action="store_true", help="the network for 32 px images")
    args = parser.parse_args()

    def batch(i: int) -> Sequence[Array]:
        return common.patterns(i, args.batch, args.size, args.classes, args.seed)

    def one(case: common.Case) -> None:
        tx, ty = (tensor.from_numpy(a) for a in batch(0))
        net = ResNet(args.depth, args.classes, args.cifar)
        net.optimizer = opt.SGD(args.lr, momentum=0.9, weight_decay=1e-4)
        case.compile(net, [tx])
        case.train(net, (tx, ty), batch, every=1)

    common.run(args, one)


if __name__ == "__main__":
    main()
