"""test_layer_summary - Model.summary: counts and costs of layers, against C, PyTorch and sums."""
import json
import os
import re
import subprocess
import sys

import pytest

import mlp
import weir
from weir import errors, layer, model

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "..", "..", "examples",
                             "python"))

from models import ResNet                       # noqa: E402


class Net(model.Model):
    """A layer that is called twice, states, dropout, a part that is not called."""

    def __init__(self):
        super().__init__()
        self.conv = layer.Conv2d(4, 3, padding=1)
        self.bn = layer.BatchNorm2d()
        self.same = layer.Linear(6)
        self.idle = layer.Linear(7)
        self.drop = layer.Dropout(0.5)

    def forward(self, x):
        x = self.drop(self.bn(self.conv(x)))
        return self.same(self.same(x.reshape((2, 4 * 6 * 6))[:, :6]))


def test_rows_of_every_kind():
    net = Net()
    net.train()
    x = weir.zeros((2, 1, 6, 6))
    net.idle(weir.zeros((1, 2)))
    found = net.summary([x])
    rows = {row.name: row for row in found.rows if not row.shared}
    assert [(r.name, r.depth) for r in found.rows] == [
        ("", 0), ("conv", 1), ("bn", 1), ("drop", 1), ("same", 1), ("same", 1), ("idle", 0)]
    assert [r.shared for r in found.rows] == [False] * 5 + [True, False]
    assert rows["conv"].output == (2, 4, 6, 6) and rows["conv"].dtype == "float32"
    assert (rows["conv"].parameters, rows["conv"].parameter_bytes) == (4 * 9 + 4, 4 * 40)
    assert rows["conv"].multiply_adds == 2 * 4 * 36 * 9
    assert (rows["bn"].parameters, rows["bn"].states, rows["bn"].state_bytes) == (8, 8, 32)
    assert rows["drop"].flops == 0              # in evaluation
    assert (rows["same"].parameters, rows["same"].multiply_adds) == (42, 2 * 36)
    assert rows["idle"].output is None and rows["idle"].parameters == 21
    assert found.total.parameters == net.num_parameters() == 111
    assert found.total.multiply_adds == sum(r.multiply_adds for r in found.rows)
    assert net.training and "forward" not in vars(net.conv)


def test_frozen_parameters_and_the_text():
    net, x, _ = mlp.ready()
    net.l1.freeze()
    text = str(net.summary([x]))
    assert re.search(r"^  l1 +Linear +f32\(8,5\) +25 +100 ", text, re.M)
    assert "trainable parameters 18, frozen 25" in text
    assert len(str(net.summary([x], levels=1)).splitlines()) == 4     # head, model, total, sums
    assert net.graphs == []


def test_the_same_as_in_c():
    tool = os.path.join(os.path.dirname(weir.__file__), "..", "..", "weir")
    if not os.path.exists(tool):
        pytest.skip("the build has no command")
    command = [tool, "summary", "--model", "resnet18", "--image", "32", "--batch", "2", "--json",
               "-"]
    wanted = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["total"]
    found = ResNet(18, 10).summary([weir.zeros((2, 3, 32, 32))]).total
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_the_same_as_in_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    peer = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                         nn.Linear(8 * 36, 10))

    class Same(model.Model):
        """The same layers."""

        def __init__(self):
            super().__init__()
            self.all = layer.Sequential(layer.Conv2d(8, 3), layer.BatchNorm2d(), layer.ReLU(),
                                        layer.Flatten(), layer.Linear(10))

        def forward(self, x):
            return self.all(x)

    found = Same().summary([weir.zeros((4, 3, 8, 8))])
    assert found.total.parameters == sum(p.numel() for p in peer.parameters())
    assert [r.parameters for r in found.rows[2:]] == [
        sum(p.numel() for p in part.parameters()) for part in peer]
    outputs, y = [], torch.zeros(4, 3, 8, 8)
    for part in peer:
        y = part(y)
        outputs.append(tuple(y.shape))
    assert [r.output for r in found.rows[2:]] == outputs


def test_mistakes_are_said():
    net, _, _ = mlp.ready()
    with pytest.raises(errors.InvalidError, match="summary: inputs has no Tensor"):
        net.summary([3])
    with pytest.raises(ValueError):
        str(net.summary([weir.zeros((2, 4))], levels=-1))
