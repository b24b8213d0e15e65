"""mlp - the first example: a 64-100-10 perceptron learns hand-written digits, as a Model."""
import common
from weir import layer, model, opt, tensor


class MLP(model.Model):
    """x (n, 64) -> (n, classes)."""

    def __init__(self, hidden=100, classes=10):
        super().__init__()
        self.linear1 = layer.Linear(hidden)
        self.relu = layer.ReLU()
        self.linear2 = layer.Linear(classes)
        self.cross_entropy = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.linear2(self.relu(self.linear1(x)))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = self.cross_entropy(out, y)
        self.optimizer(loss)            # gradients and updates
        return out, loss


def main():
    args = common.options(__doc__, steps=500, lr=0.1).parse_args()
    digits = common.Digits()

    def one(case):
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
