"""test_layer_containers - Sequential and LayerList: names, parameters, lists of Python."""
import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import weir
from weir import layer, opt
from weir.model import Model

from layers import array, check, given, host


def mlp():
    return layer.Sequential(layer.Linear(5), layer.ReLU(), layer.Linear(3))


def test_sequential_calls_its_layers_in_a_row(mode):
    x, net = array(4, 6), mlp()
    net(given(x))
    assert [*net.state_dict()] == [*net.get_states()] == ["0.W", "0.b", "2.W", "2.b"]
    w0, b0, w2, b2 = (host(t) for t in net.parameters())
    check(lambda: net(given(x)), np.maximum(x @ w0 + b0, 0) @ w2 + b2, mode)


def test_names_of_an_ordered_dict():
    net = layer.Sequential(OrderedDict(hidden=layer.Linear(5), act=layer.GELU(),
                                       out=layer.Linear(2, bias=False)))
    assert net(given(array(4, 6))).shape == (4, 2)
    assert [*net.state_dict()] == ["hidden.W", "hidden.b", "out.W"]


def test_sequential_of_no_layers_and_of_several_inputs():
    x, y = array(2, 2), array(2, 2)
    np.testing.assert_array_equal(host(layer.Sequential()(given(x))), x)
    np.testing.assert_array_equal(host(layer.Sequential(layer.Add())(given(x), given(y))), x + y)
    with pytest.raises(TypeError, match="2 inputs are given and there is no layer"):
        layer.Sequential()(given(x), given(y))
    with pytest.raises(TypeError, match="Sequential: item 1 is a int, must be a Layer"):
        layer.Sequential(layer.ReLU(), 3)
    with pytest.raises(NotImplementedError, match="Sequential"):
        layer.LayerList()(given(x))


class Deep(Model):
    def __init__(self, count=3):
        super().__init__()
        self.blocks = layer.LayerList([layer.Linear(6) for _ in range(count)])
        self.head = layer.Linear(2)
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        for block in self.blocks:
            x = weir.autograd.relu(block(x))
        return self.head(x)

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


def test_a_list_of_layers_is_known_saved_and_trained(tmp_path, recwarn):
    x, y = given(array(4, 6)), given(np.int32([0, 1, 1, 0]))
    net = Deep()
    net.optimizer = opt.SGD(0.1)
    net.compile([x], use_graph=True)
    assert not recwarn.list
    names = [f"blocks.{i}.{p}" for i in range(3) for p in "Wb"] + ["head.W", "head.b"]
    assert [*net.get_params()] == [name for name, _ in net.named_parameters()] == names
    before = host(net.blocks[0].W)
    net(x, y)
    assert (host(net.blocks[0].W) != before).any()
    net.save(tmp_path / "net.safetensors")
    other = Deep()
    other.compile([x])
    other.load(tmp_path / "net.safetensors")
    for copied in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        for name, t in copied.state_dict().items():
            np.testing.assert_array_equal(host(t), host(net.state_dict()[name]))
        assert copied.blocks._parent is copied and copied.blocks[2].name == "blocks.2"


def test_lists_behave_as_lists():
    a, b, c = layer.ReLU(), layer.Tanh(), layer.GELU()
    net = layer.LayerList([a]).append(c)
    net.insert(1, b)
    assert [*net] == [a, b, c] and len(net) == 3 and net[-1] is c and c.name == "2"
    assert [*net[1:]] == [b, c] and isinstance(net[1:], layer.LayerList) and c.name == "2"
    net[0] = c
    assert net[0] is c and bool(layer.LayerList())
    with pytest.raises(IndexError, match="index 3 is out of range for 3 layers"):
        net[3]
    part = mlp()[:2]
    assert part(given(array(2, 4))).shape == (2, 5) and len(part) == 2


def test_sequential_has_pytorchs_names():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    x, net = array(4, 6), mlp()
    net(given(x))
    twin = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    assert [*weir.to_torch_state_dict(net)] == [*twin.state_dict()]
    with torch.no_grad():
        weir.load_torch_state_dict(net, twin.state_dict())
        np.testing.assert_allclose(host(net(given(x))), twin(torch.from_numpy(x)).numpy(),
                                   rtol=1e-5, atol=1e-6)
