"""test_onnx - models in ONNX files: read, run, trained with the graph off and on, saved."""
import os

import numpy as np
import pytest

import weir
from weir import autograd, errors, layer, opt, tensor

FLOWERS = os.path.join(os.path.dirname(__file__), "..", "data", "flowers.onnx")
X = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]], np.float32)


class Trained(weir.onnx.OnnxModel):
    def train_one_batch(self, x, t):
        out = self.forward(x)
        loss = autograd.softmax_cross_entropy(out, t)
        self.optimizer(loss)
        return out, loss


def by_hand(states, x):
    hidden = np.maximum(x @ states["fc1.weight"] + states["fc1.bias"], 0)
    return hidden @ states["fc2.weight"] + states["fc2.bias"]


def test_values_are_those_of_numpy():
    net = weir.onnx.load(FLOWERS)
    states = {name: t.numpy() for name, t in net.get_states().items()}
    assert net.inputs == ["flowers"] and net.outputs == ["logits"]
    assert [node.op_type for node in net.nodes] == ["Gemm", "Relu", "Gemm"]
    np.testing.assert_allclose(net(X).numpy(), by_hand(states, X), rtol=1e-5)
    np.testing.assert_allclose(net(X[:1]).numpy(), by_hand(states, X[:1]), rtol=1e-5)


def test_a_model_comes_as_path_bytes_or_message():
    with open(FLOWERS, "rb") as file:
        data = file.read()

    class Message:
        def SerializeToString(self):
            return data

    want = weir.onnx.load(FLOWERS)(X).numpy()
    for source in (data, bytearray(data), memoryview(data), Message()):
        assert (weir.onnx.load(source)(X).numpy() == want).all()


def train(use_graph, frozen=None, steps=5, **plan):
    net = Trained(FLOWERS, frozen=frozen)
    net.optimizer = opt.SGD(lr=0.05, momentum=0.9)
    x, t = tensor.from_numpy(X), tensor.from_numpy(np.array([0, 2], np.int32))
    net.compile([x], is_train=True, use_graph=use_graph, **plan)
    losses = [float(net(x, t)[1].numpy().item()) for _ in range(steps)]
    states = {name: s.numpy().copy() for name, s in net.get_states().items()}
    net.eval()
    return losses, states, net


def test_training_has_equal_bits_off_on_and_within_a_budget():
    losses, states, _ = train(False)
    assert losses[-1] < losses[0] / 2
    for plan in ({}, {"budget": "64kB"}):
        others, found, net = train(True, **plan)
        assert others == losses
        assert all((found[name] == states[name]).all() for name in states)
        graph = net.graphs[0]
        assert graph.measure() == graph.stats["arena_bytes"]


def test_frozen_parameters_stay():
    before = {name: t.numpy() for name, t in weir.onnx.load(FLOWERS).get_states().items()}
    _, after, net = train(False, frozen=["fc1.weight", "fc1.bias"])
    assert list(net.get_params()) == ["fc2.weight", "fc2.bias"]
    for name, value in before.items():
        assert (after[name] == value).all() == name.startswith("fc1")


def test_layers_beside_the_model_train_with_it():
    class Both(weir.onnx.OnnxModel):
        def __init__(self):
            super().__init__(FLOWERS)
            self.head = layer.Linear(2)

        def forward(self, x):
            return self.head(super().forward(x))

        def train_one_batch(self, x, t):
            loss = autograd.softmax_cross_entropy(self.forward(x), t)
            self.optimizer(loss)
            return loss

    net = Both()
    net.optimizer = opt.SGD(lr=0.1)
    x, t = tensor.from_numpy(X), tensor.from_numpy(np.array([0, 1], np.int32))
    net.compile([x], is_train=True, use_graph=True)
    before = {name: s.numpy().copy() for name, s in net.get_params().items()}
    assert set(before) == {"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias", "head.W", "head.b"}
    net(x, t)
    assert all((net.get_params()[name].numpy() != value).any() for name, value in before.items())
    net.eval()


def test_states_come_back_from_a_file(tmp_path):
    _, states, net = train(False)
    path = str(tmp_path / "states.zip")
    net.save_states(path)
    other = Trained(FLOWERS)
    other.load_states(path)
    assert all((other.get_states()[name].numpy() == states[name]).all() for name in states)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(errors.FileError, match="no graph"):
        weir.onnx.load(b"")
    with pytest.raises(errors.FileError, match="cannot be opened"):
        weir.onnx.load(str(tmp_path / "none.onnx"))
    with pytest.raises(errors.InvalidError, match="no parameter 'fc3'"):
        weir.onnx.load(FLOWERS, frozen="fc3")
    net = weir.onnx.load(FLOWERS)
    with pytest.raises(errors.ShapeError, match="axis 1 of the input 'flowers' has size 3"):
        net(X[:, :3])
    with pytest.raises(errors.InvalidError, match="takes 1 inputs"):
        net(X, X)
    with pytest.raises(errors.InvalidError, match="no value 'x'"):
        net.run([X], outputs=["x"])
    net.get_states()["fc1.bias"].data = tensor.Tensor((16,)).data
    with pytest.raises(errors.InvalidError, match="'fc1.bias' were replaced"):
        net(X)


class Convolutional(weir.model.Model):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = layer.Conv2d(4, 3, padding=1), layer.BatchNorm2d()
        self.head = layer.Linear(5)

    def forward(self, x):
        return self.head(autograd.flatten(autograd.relu(self.norm(self.conv(x)))))


def image_and_net():
    x = tensor.from_numpy(np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32))
    net = Convolutional()
    net.compile([x], is_train=False)
    return x, net


def test_a_model_is_written_and_read_again_to_the_bit(tmp_path):
    x, net = image_and_net()
    path = tmp_path / "net.onnx"
    net.to_onnx(path, [x])
    again = weir.onnx.load(path)
    assert again.inputs == ["x"] and again.outputs == ["out0"]
    assert [node.name for node in again.nodes][:2] == ["conv/conv2d_1", "norm/bn_apply_1"]
    assert set(again.get_states()) == set(net.get_states())
    assert again(x).numpy().tobytes() == net(x).numpy().tobytes()
    weir.onnx.save(again, path, [x], opset=13, external=True)   # names stay, file beside
    assert (tmp_path / "net.onnx.data").exists()
    assert weir.onnx.load(path)(x).numpy().tobytes() == net(x).numpy().tobytes()
    assert weir.onnx.load(weir.onnx.as_bytes(net, [x])).outputs == ["out0"]


def test_what_is_asked_for_is_checked(tmp_path):
    x, net = image_and_net()

    with pytest.raises(errors.InvalidError, match="opset 8; Weir writes 9 to 28"):
        net.to_onnx(tmp_path / "net.onnx", [x], opset=8)
    with pytest.raises(AssertionError, match="must be a list of Tensors"):
        net.to_onnx(tmp_path / "net.onnx", x)
    assert not list(tmp_path.iterdir())


def test_a_graph_is_written(tmp_path):
    x = tensor.from_numpy(X)
    net = weir.onnx.load(FLOWERS)
    with weir.Graph(weir.cpu()) as graph:
        y = net.run([x])[0]
    graph.to_onnx(tmp_path / "g.onnx", {"x": x}, {"y": y}, net.get_states())
    graph.run()
    assert weir.onnx.load(tmp_path / "g.onnx")(X).numpy().tobytes() == y.numpy().tobytes()
