"""mlp - the small model that tests train, and ways to run it."""
import numpy as np

from weir import core, layer, model, opt, tensor

WAYS = {"eager": (False, False), "graph": (True, False), "sequential": (True, True)}


class Count:
    """A number that a step may change without a warning: what it is inside is not looked at."""

    n = 0


class MLP(model.Model):
    def __init__(self, hidden=5, classes=3):
        super().__init__()
        self.l1 = layer.Linear(hidden)
        self.relu = layer.ReLU()
        self.l2 = layer.Linear(classes)
        self.ce = layer.SoftMaxCrossEntropy()
        self.count = Count()

    @property
    def recorded(self):
        """How often the Python of train_one_batch ran."""
        return self.count.n

    @recorded.setter
    def recorded(self, n):
        self.count.n = n

    def forward(self, x):
        return self.l2(self.relu(self.l1(x)))

    def train_one_batch(self, x, t):
        self.recorded += 1
        out = self.forward(x)
        loss = self.ce(out, t)
        self.optimizer(loss)
        return out, loss


def data(n=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32)


def ready(use_graph=False, sequential=False, n=8, make=MLP, lr=0.1):
    """A compiled model with equal parameters every time, and its inputs."""
    x, t = data(n)
    tx, tt = tensor.from_numpy(x), tensor.from_numpy(t)
    net = make()
    net.optimizer = opt.SGD(lr, momentum=0.9)
    core.cpu().SetRandSeed(7)
    net.compile([tx], is_train=True, use_graph=use_graph, sequential=sequential)
    return net, tx, tt


def host(t):
    return tensor.to_numpy(t)


def params(net):
    return {name: host(t) for name, t in net.get_params().items()}
