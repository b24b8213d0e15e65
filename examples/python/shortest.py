"""shortest - the shortest whole program: two layers learn which of two numbers is the larger."""
import numpy as np
from weir import layer, model, opt, tensor


class MLP(model.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.relu, self.out = layer.Linear(16), layer.ReLU(), layer.Linear(2)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.out(self.relu(self.hidden(x)))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)                            # gradients and updates
        return out, loss


draw = np.random.default_rng(1)
x, y = tensor.zeros((64, 2)), tensor.zeros((64,), dtype=tensor.int32)
net = MLP()
net.optimizer = opt.SGD(0.1, momentum=0.9)
net.compile([x], use_graph=True)                        # the first step is recorded and planned
for i in range(201):
    numbers = draw.random((64, 2), np.float32)
    larger = (numbers[:, 0] < numbers[:, 1]).astype(np.int32)
    x.copy_from_numpy(numbers)
    y.copy_from_numpy(larger)
    out, loss = net(x, y)
    if i % 50 == 0:
        right = (out.numpy().argmax(1) == larger).sum()
        print(f"step {i:3}  loss {loss.item():.4f}  right {right} of 64")
