"""gan - two losses at once: a generator learns to draw normally distributed numbers, a critic
learns to tell them from real ones. Both gradients are taken before either network is updated."""
from collections.abc import Iterable, Sequence

import numpy as np

import common
from weir import autograd, layer, model, opt, tensor
from weir.typing import Array
from weir.tensor import Tensor

NOISE, MEAN, STDDEV = 4, 3.0, 0.5


class Perceptron(layer.Layer):
    """(n, any) -> (n, 1)."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.linear1 = layer.Linear(hidden)
        self.relu = layer.ReLU()
        self.linear2 = layer.Linear(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.relu(self.linear1(x)))


class GAN(model.Model):
    """train_one_batch(noise (n, 4), real (n, 1)) -> numbers drawn, the generator's loss."""

    def __init__(self, wrong: bool = False) -> None:
        super().__init__()
        self.generator = Perceptron()
        self.critic = Perceptron()
        self.wrong = wrong

    def forward(self, noise: Tensor, real: Tensor) -> Tensor:
        self.critic(real)
        return self.generator(noise)

    def verdict(self, numbers: Tensor, label: float) -> Tensor:
        """How far the critic is from calling all rows real (1) or drawn (0)."""
        wanted = tensor.Tensor(numbers.shape, numbers.device, requires_grad=False)
        wanted.set_value(label)
        return autograd.binary_cross_entropy(autograd.sigmoid(self.critic(numbers)), wanted)

    def gradients(self, loss: Tensor, network: layer.Layer) -> list[tuple[Tensor, Tensor]]:
        """Pairs (parameter, gradient) of one network."""
        own = {id(p) for p in network.get_params().values()}
        return [(p, g) for p, g in autograd.backward(loss) if id(p) in own]

    def update(self, pairs: Iterable[tuple[Tensor, Tensor]]) -> None:
        for p, g in pairs:
            self.optimizer.update(p, g)

    def train_one_batch(self, noise: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        drawn = self.generator(noise)
        critic_loss = autograd.add(self.verdict(real, 1.0), self.verdict(drawn.detach(), 0.0))
        loss = self.verdict(drawn, 1.0)
        pairs = self.gradients(critic_loss, self.critic)
        if self.wrong:                  # the next gradient would read what this one changes
            self.update(pairs)
            pairs = []
        pairs += self.gradients(loss, self.generator)
        self.update(pairs)
        self.optimizer.step()
        return drawn, loss


def main() -> None:
    parser = common.options(__doc__, steps=1000, batch=128, lr=0.003)
    parser.add_argument("--wrong", action="store_true",
                        help="update the critic between the two gradients: an error")
    args = parser.parse_args()

    def one(case: common.Case) -> None:
        rng = np.random.default_rng(args.seed)
        means: list[float] = []

        def batch(_: int) -> Sequence[Array]:
            return (rng.normal(0, 1, (args.batch, NOISE)).astype(np.float32),
                    rng.normal(MEAN, STDDEV, (args.batch, 1)).astype(np.float32))

        def step(*inputs: Tensor) -> tuple[Tensor, Tensor]:
            drawn, loss = net(*inputs)
            means.append(float(tensor.to_numpy(drawn).mean()))
            return drawn, loss

        inputs = [tensor.from_numpy(a) for a in batch(0)]
        net = GAN(args.wrong)
        net.optimizer = opt.Adam(args.lr, beta_1=0.5)
        case.compile(net, inputs)
        case.train(net, inputs, batch, every=100, step=step)
        last = means[-max(1, len(means) // 4):]
        print(f"{case.label:9}  draws {np.mean(last):.2f} in the mean, wanted {MEAN:.2f}")

    common.run(args, one)


if __name__ == "__main__":
    main()
