"""mlp - the first example: a 64-100-10 perceptron learns hand-written digits, as a Model."""
import common
from weir import layer, model, opt, tensor
from weir.tensor import Tensor


class MLP(model.Model):
    """x (n, 64) -> (n, classes)."""

    def __init__(self, hidden: int = 100, classes: int = 10) -> None:
        super().__init__()
        self.linear1 = layer.Linear(hidden)
        self.relu = layer.ReLU()
        self.linear2 = layer.Linear(classes)
        self.cross_entropy = layer.SoftMaxCrossEntropy()

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.relu(self.linear1(x)))

    def train_one_batch(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        out = self.forward(x)
        loss = self.cross_entropy(out, y)
        self.optimizer(loss)            # gradients and updates
        return out, loss


def main() -> None:
    args = common.options(__doc__, steps=500, lr=0.1).parse_args()
    digits = common.Digits()

    def one(case: common.Case) -> None:
        tx, ty = (tensor.from_numpy(a) for a in digits.batch(0, args.batch))
        net = MLP()
        net.optimizer = opt.SGD(args.lr, momentum=0.9)
        case.compile(net, [tx])
        case.train(net, (tx, ty), lambda i: digits.batch(i, args.batch), every=100)
        net.eval()
        case.correct(tensor.to_numpy(net(tensor.from_numpy(digits.test_x))), digits.test_y)

    common.run(args, one)


if __name__ == "__main__":
    main()
