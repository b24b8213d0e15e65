# test_named_calls.py - names in texts and errors, and the search for a NaN.
"""Names of layers and tensors in the texts of a graph and in errors, and the search for NaN."""
import math

import numpy as np
import pytest

import weir
from weir import autograd, layer, model, opt, tensor


class Block(layer.Layer):
    def __init__(self):
        super().__init__()
        self.conv1 = layer.Conv2d(4, 3, padding=1)
        self.relu = layer.ReLU()

    def forward(self, x):
        return autograd.add(self.relu(self.conv1(x)), x)


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.fc = layer.Linear(3)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.fc(autograd.flatten(self.block(x)))

    def train_one_batch(self, x, y):
        out = self.forward(x)
        loss = self.loss(out, y)
        self.optimizer(loss)
        return out, loss


def test_dumps_of_a_model_name_attributes():
    net = Net()
    net.optimizer = opt.SGD(lr=0.1)
    x = tensor.Tensor((2, 4, 4, 4), name="pixels")
    x.gaussian(0, 1)
    y = tensor.from_numpy(np.array([1, 2], dtype=np.int32))
    net.compile([x], is_train=True, use_graph=True)
    net(x, y)
    text = net.graphs[0].text("graph")
    for wanted in (":pixels", ":block.conv1.W", "  block/conv1/conv2d\n", "block/conv1/conv2d:grad",
                   "sgd_update(fc.W)", "block/relu/relu"):
        assert wanted in text


def test_a_scope_stands_in_errors_and_ends_with_its_block():
    with pytest.raises(weir.errors.ShapeError, match="^decoder/matmul: "):
        with weir.name_scope("decoder"):
            weir.ones((2, 3)) @ weir.ones((4, 5))
    with pytest.raises(weir.errors.ShapeError, match="^matmul: "):
        weir.ones((2, 3)) @ weir.ones((4, 5))
    with pytest.raises(ValueError, match="name is empty"):
        with weir.name_scope(""):
            pass


def test_a_tensor_can_be_renamed():
    x = weir.ones((3,))
    x.name = "mean"
    with weir.cpu().graph() as step:
        y = x * 2
        y.name = "twice"
    assert ":mean" in step.text("plan") and ":twice" in step.text("plan")
    x.name = "odd\nname"
    assert x.name == "odd\nname" and ":odd?name" in step.text("plan")


def test_find_nonfinite():
    x = weir.ones((2, 3))
    with weir.cpu().graph() as step:
        with weir.name_scope("bad"):
            y = autograd.log(x - 2.0)
        z = y * 2
    found = step.find_nonfinite()
    assert "bad/log" in found.name and math.isnan(found.value) and found.bad_input == -1
    assert "is nan; its inputs are finite" in str(found)
    x.copy_from_numpy(np.full((2, 3), 3, np.float32))
    assert step.find_nonfinite() is None
    assert z.shape == (2, 3)
