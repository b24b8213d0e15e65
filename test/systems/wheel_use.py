# wheel_use.py - what wheel.sh and wheels.sh run with the wheel alone: steps, a budget, files.
import importlib.resources
import os
import tempfile

import numpy as np

import weir
from weir import autograd, layer, model, opt, tensor


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.middle, self.out = layer.Linear(64), layer.Linear(64), layer.Linear(4)

    def forward(self, x):
        return self.out(autograd.relu(self.middle(autograd.relu(self.hidden(x)))))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, y)
        self.optimizer(loss)
        return out, loss


def train(budget):
    """The losses of five steps and what the plan says of its memory."""
    weir.set_seed(3)
    draw = np.random.default_rng(3)
    net = Net()
    net.optimizer = opt.SGD(0.1, momentum=0.9)
    x = tensor.from_numpy(draw.random((256, 32), np.float32))
    y = tensor.from_numpy(draw.integers(0, 4, 256).astype(np.int32))
    net.compile([x], is_train=True, use_graph=True, budget=budget)
    return [net(x, y)[1].numpy().tobytes() for _ in range(5)], net.graphs[0].stats


x = weir.array(np.arange(6, dtype=np.float32).reshape(2, 3) - 2)
with weir.cpu().graph() as step:
    y = autograd.relu(x)
step.run(3)
assert np.array_equal(np.from_dlpack(y), np.maximum(np.from_dlpack(x), 0))
assert step.stats["runs"] == 3 and "relu" in step.text()

free, plain = train(None)
held, planned = train("85%")
assert free == held, "a budget changed the losses"
assert planned["planned_peak_bytes"] <= planned["budget_bytes"] < plain["planned_peak_bytes"], (
    planned, plain)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "t")
    weir.save_safetensors(path, {"x": x})
    assert np.array_equal(weir.load_safetensors(path)["x"].data.to_numpy(), x.data.to_numpy())
    weir.save_npz(path, {"x": x})
    assert np.array_equal(weir.load_npz(path)["x"].data.to_numpy(), x.data.to_numpy())
names = {entry.name for entry in importlib.resources.files(weir).iterdir()}
assert {"py.typed", "_capi.pyi", "_capi.py", "tensor.pyi", "singa", "weir_tool"} <= names, names
print(f"planned {planned['planned_peak_bytes']} of {plain['planned_peak_bytes']} bytes")
