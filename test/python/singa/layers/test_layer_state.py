"""test_layer_state - state_dict, load_state_dict, parameters by paths, freezing; repr of layers."""
import numpy as np
import pytest

import weir
from weir import layer, opt
from weir.model import Model

from layers import array, given, host


class Block(layer.Layer):
    def __init__(self):
        super().__init__()
        self.conv = layer.Conv2d(4, 3, padding=1)
        self.norm = layer.BatchNorm2d()

    def forward(self, x):
        return self.norm(self.conv(x))


class Net(Model):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.tail = layer.Sequential(layer.Flatten(), layer.Linear(2))
        self.loss = layer.SoftMaxCrossEntropy()

    def forward(self, x):
        return self.tail(self.block(x))

    def train_one_batch(self, x, y):
        loss = self.loss(self.forward(x), y)
        self.optimizer(loss)
        return loss


X, Y = array(3, 2, 4, 4), np.int32([0, 1, 1])
NAMES = ["block.conv.W", "block.conv.b", "block.norm.scale", "block.norm.bias",
         "block.norm.running_mean", "block.norm.running_var", "tail.1.W", "tail.1.b"]


def ready(**kwargs):
    net = Net()
    net.optimizer = opt.SGD(0.1, momentum=0.9)
    net.compile([given(X)], **kwargs)
    return net


def test_names_are_paths_of_attributes():
    net = ready()
    assert [*net.state_dict()] == NAMES
    assert [*net.block.state_dict()] == [name[6:] for name in NAMES[:6]]
    assert net.state_dict()["tail.1.W"] is net.tail[1].W
    names = [name for name in NAMES if "running" not in name]
    assert [name for name, _ in net.named_parameters()] == names
    assert [t for t in net.parameters()] == [net.state_dict()[name] for name in names]
    assert net.num_parameters() == 4 * 2 * 9 + 4 + 4 + 4 + 64 * 2 + 2
    assert [path for path, _ in net.named_modules()] == [
        "", "block", "block.conv", "block.norm", "tail", "tail.0", "tail.1", "loss"]


def test_a_layer_used_twice_counts_once():
    net = layer.LayerList([layer.Linear(4)])
    net.append(net[0])
    net[0](given(array(2, 4)))
    assert [name for name, _ in net.named_parameters()] == ["0.W", "0.b"]
    assert net.num_parameters() == 20


def test_states_go_from_model_to_model(mode):
    net, other = ready(), ready()
    assert other.load_state_dict(net.state_dict()) == ([], [])
    arrays = {name: 2 * host(t) for name, t in net.state_dict().items()}
    del arrays["tail.1.b"]
    arrays["stray"] = array(2)
    keys = net.load_state_dict(arrays, strict=False)
    assert keys.missing_keys == ["tail.1.b"] and keys.unexpected_keys == ["stray"]
    np.testing.assert_array_equal(host(net.tail[1].W), 2 * host(other.tail[1].W))


def test_what_does_not_fit_is_told_and_nothing_is_copied():
    net = ready()
    before = {name: host(t) for name, t in net.state_dict().items()}
    arrays = {name: array + 1 for name, array in before.items()}
    del arrays["block.norm.scale"]
    arrays.update({"stray": array(2), "tail.1.b": array(3)})
    with pytest.raises(ValueError) as error:
        net.load_state_dict(arrays)
    assert str(error.value) == (
        "load_state_dict: tail.1.b has shape (3,), must have (2,); missing: block.norm.scale; "
        "unexpected: stray")
    with pytest.raises(ValueError, match="tail.1.b has shape"):
        net.load_state_dict(arrays, strict=False)
    for name, t in net.state_dict().items():
        np.testing.assert_array_equal(host(t), before[name])
    with pytest.raises(ValueError, match="load_torch_state_dict takes PyTorch's names"):
        net.load_state_dict(weir.to_torch_state_dict(net))
    with pytest.raises(ValueError, match="Net has no parameters yet"):
        Net().load_state_dict(before)


@pytest.mark.parametrize("graph", [False, True])
def test_frozen_layers_keep_their_elements(graph, tmp_path):
    net, x, y = ready(use_graph=graph), given(X), given(Y)
    net(x, y)
    before = {name: host(t) for name, t in net.state_dict().items()}
    assert net.block.freeze() is net.block
    assert net.num_parameters(trainable=True) == 64 * 2 + 2
    net(x, y)
    after = {name: host(t) for name, t in net.state_dict().items()}
    changed = {name for name in NAMES if (before[name] != after[name]).any()}
    assert changed == {"tail.1.W", "tail.1.b", "block.norm.running_mean", "block.norm.running_var"}
    net.save_run(tmp_path / "run.safetensors")
    net.requires_grad_()
    net(x, y)
    assert (host(net.block.conv.W) != after["block.conv.W"]).any()
    assert ready().load_run(tmp_path / "run.safetensors") == 2


def test_a_layer_can_be_frozen_before_it_has_parameters():
    net = Net()
    net.block.requires_grad_(False)
    net.compile([given(X)])
    assert net.num_parameters() - net.num_parameters(trainable=True) == 84


def test_repr_is_nested():
    assert repr(ready()) == """\
Net(
  (block): Block(
    (conv): Conv2d(in_channels=2, nb_kernels=4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    (norm): BatchNorm2d()
  )
  (tail): Sequential(
    (0): Flatten()
    (1): Linear(in_features=64, out_features=2)
  )
  (loss): SoftMaxCrossEntropy()
)"""
    assert repr(layer.GRU(3, batch_first=True)) == "GRU(hidden_size=3, batch_first=True)"


def test_html_counts_parameters_and_bytes():
    net = ready()
    net.tail.freeze()
    text = net._repr_html_()
    assert "Net: 214 parameters, 888 bytes with states." in text
    assert "<td>130 (frozen)</td><td>520</td>" in text and "block.conv" in text
    assert "Parameters are made by the first call" in Net()._repr_html_()

    class Odd(layer.Layer):
        def extra_repr(self):
            return "a < b"

    assert "Odd(a &lt; b)" in Odd()._repr_html_()
