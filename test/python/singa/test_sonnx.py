"""test_sonnx - SINGA's ONNX module: prepare, run, models to derive from, nodes without a model."""
import os

import numpy as np
import pytest

from weir import autograd, errors, layer, opt, sonnx, tensor

FLOWERS = os.path.join(os.path.dirname(__file__), "..", "..", "data", "flowers.onnx")
X = np.array([[5.1, 3.5, 1.4, 0.2], [6.7, 3.0, 5.2, 2.3]], np.float32)


class Node:
    """Stands for onnx.NodeProto: an operator with inputs and outputs by name."""

    def __init__(self, op, inputs, outputs):
        self.op, self.input, self.output = op, inputs, outputs

    def SerializeToString(self):
        def field(number, text):
            return bytes([number << 3 | 2, len(text)]) + text.encode()
        return (b"".join(field(1, name) for name in self.input)
                + b"".join(field(2, name) for name in self.output) + field(4, self.op))


def test_prepare_and_run():
    rep = sonnx.prepare(FLOWERS, device="CPU")
    assert isinstance(rep, sonnx.SingaRep) and set(rep.states) >= {"fc1.weight", "fc2.bias"}
    out = rep.run([X])
    assert isinstance(out, list) and isinstance(out[0], np.ndarray) and out[0].shape == (2, 3)
    rep.is_graph = True
    again = rep.run([tensor.from_numpy(X)])
    assert isinstance(again[0], tensor.Tensor) and (again[0].numpy() == out[0]).all()


def test_fewer_layers_and_values_inside():
    rep = sonnx.prepare(FLOWERS)
    assert [node.op_type for node in rep.layers] == ["Gemm", "Relu", "Gemm"]
    logits, hidden = rep.run([X], aux_output=("r",))
    assert hidden.shape == (2, 16) and hidden.min() == 0
    (cut,) = rep.run([X], last_layers=-1)
    assert (cut == hidden).all()
    assert (rep.run([X])[0] == logits).all()
    with pytest.raises(errors.InvalidError, match="no value 'none'"):
        rep.run([X], aux_output=("none",))


def test_a_model_with_another_head_trains():
    class Finetuned(sonnx.SONNXModel):
        def __init__(self):
            super().__init__(FLOWERS)
            self.linear = layer.Linear(2)

        def forward(self, *x):
            return self.linear(super().forward(*x, last_layers=-1)[0])

        def train_one_batch(self, x, t):
            out = self.forward(x)
            loss = autograd.softmax_cross_entropy(out, t)
            self.optimizer(loss)
            return out, loss

    losses = {}
    for graph in (False, True):
        np.random.seed(0)
        net = Finetuned()
        net.optimizer = opt.SGD(lr=0.05)
        x, t = tensor.from_numpy(X), tensor.from_numpy(np.array([0, 1], np.int32))
        net.compile([x], is_train=True, use_graph=graph)
        net.linear.W.copy_from_numpy(np.full((16, 2), 0.1, np.float32))
        losses[graph] = [net(x, t)[1].numpy().item() for _ in range(4)]
        net.eval()
    assert losses[True] == losses[False] and losses[True][3] < losses[True][0]


def test_nodes_without_a_model():
    (y,) = sonnx.run_node(Node("Relu", ["x"], ["y"]), [np.array([-1, 2], np.float32)])
    assert (y == [0, 2]).all()
    add = sonnx.get_op(Node("Add", ["a", "b"], ["y"]))
    (y,) = add(tensor.from_numpy(X), tensor.from_numpy(X))
    assert (y.numpy() == 2 * X).all()
    shape = np.array([4, -1], np.int64)
    (y,) = sonnx.SingaBackend.run_node(Node("Reshape", ["x", "s"], ["y"]), [X, shape])
    assert y.shape == (4, 2)
    with pytest.raises(errors.FileError, match="Weir lacks 1 of its operators"):
        sonnx.run_node(Node("Nonsense", ["x"], ["y"]), [X])


def test_names_and_types():
    assert {"Relu", "Conv", "Gemm", "BatchNormalization"} <= set(
        sonnx.SingaBackend._rename_operators)
    assert sonnx.supports_device("CPU") and not sonnx.supports_device("TPU")
    assert sonnx.onnx_type_to_singa_type(1) == tensor.float32
    assert sonnx.onnx_type_to_singa_type(7) == tensor.int32
    with pytest.raises(ValueError, match="number 8"):
        sonnx.onnx_type_to_singa_type(8)
    with pytest.raises(errors.DeviceError, match="'TPU' is no device"):
        sonnx.prepare(FLOWERS, device="TPU")


def test_files(tmp_path):
    path = str(tmp_path / "copy.onnx")
    sonnx.save(sonnx.load(FLOWERS), path)
    assert (sonnx.prepare(path).run([X])[0] == sonnx.prepare(FLOWERS).run([X])[0]).all()


def test_messages_of_the_package_onnx():
    onnx = pytest.importorskip("onnx")
    message = onnx.load(FLOWERS)
    assert (sonnx.prepare(message).run([X])[0] == sonnx.prepare(FLOWERS).run([X])[0]).all()
    node = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    (y,) = sonnx.run_node(node, [np.array([-1, 2], np.float32)])
    assert (y == [-0.5, 2]).all()


def test_training_warns_of_folded_norms():
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 1, 2, 2))
             for name in "xy"]
    weights = [onnx.numpy_helper.from_array(np.ones(shape, np.float32), name)
               for name, shape in (("w", (1, 1, 1, 1)), ("b", (1,)))]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w", "b"], ["y"])], "g", ports[:1],
                              ports[1:], weights)
    net = sonnx.SONNXModel(helper.make_model(graph,
                                             opset_imports=[helper.make_opsetid("", 17)]))
    net.eval()
    with pytest.warns(errors.GraphWarning, match="1 convolutions have a bias"):
        net.train()
    net.train()         # once is enough


def test_to_onnx_of_what_autograd_remembers():
    first, second = layer.Linear(6), layer.Linear(2)
    x = tensor.from_numpy(X)
    autograd.training = True
    y = second(autograd.relu(first(x)))
    made = sonnx.to_onnx([x], y)
    autograd.training = False
    rep = sonnx.prepare(made)
    assert [node.op_type for node in rep.layers if node.op_type != "Cast"] == [
        "MatMul", "Add", "Relu", "MatMul", "Add"]
    assert rep.run([X])[0].tobytes() == y.numpy().tobytes()
    assert len(rep.states) == 4
    with pytest.raises(errors.InvalidError, match="outside of training"):
        sonnx.to_onnx([x], autograd.relu(x))


def test_to_onnx_of_a_model():
    net = sonnx.SONNXModel(FLOWERS)
    net.eval()
    made = sonnx.SingaFrontend.singa_to_onnx_model([tensor.from_numpy(X)], net)
    rep = sonnx.prepare(made)
    assert rep.inputs == ["flowers"] and rep.outputs == ["logits"]
    assert (rep.run([X])[0] == sonnx.prepare(FLOWERS).run([X])[0]).all()


def test_to_onnx_gives_messages_of_the_package():
    onnx = pytest.importorskip("onnx")
    net = sonnx.SONNXModel(FLOWERS)
    net.eval()
    made = sonnx.to_onnx([tensor.from_numpy(X)], net, model_name="flowers")
    onnx.checker.check_model(made, full_check=True)
    assert made.graph.name == "flowers" and made.opset_import[0].version == 18
    graph = sonnx.SingaFrontend.singa_to_onnx_graph([tensor.from_numpy(X)], net)
    assert [node.op_type for node in graph.node] == ["MatMul", "Add", "Relu", "MatMul", "Add"]
