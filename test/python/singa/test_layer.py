"""test_layer - dense layers and functions against NumPy; names, parameters, states."""
from collections import OrderedDict

import numpy as np
import pytest

from weir import autograd, core, layer, tensor

from layers import array, check, given, host, set_params, sigmoid


# ---- dense ----

@pytest.mark.parametrize("args, kwargs", [((3,), {}), ((4, 3), {}), ((4, 3, False), {}),
                                          ((3,), {"bias": False})])
def test_linear(args, kwargs, mode):
    x, net = array(5, 4), layer.Linear(*args, **kwargs)
    net.initialize(given(x))
    bias = net.b is not None
    assert bias == (len(args) < 3 and not kwargs)
    params = {"W": array(4, 3)} | ({"b": array(3)} if bias else {})
    set_params(net, **params)
    check(lambda: net(given(x)), x @ params["W"] + params.get("b", 0), mode)


def test_linear_of_more_axes(mode):
    x, w, b = array(2, 5, 4), array(4, 3), array(3)
    net = layer.Linear(3)
    net.initialize(given(x))
    set_params(net, W=w, b=b)
    check(lambda: net(given(x)), x @ w + b, mode)


def test_linear_of_the_wrong_size():
    with pytest.raises(ValueError, match="5 columns"):
        layer.Linear(4, 3)(given(array(2, 5)))


def test_first_values():
    net = layer.Linear(300)
    net.initialize(given(array(1, 500)))
    w = host(net.W)
    assert abs(w.mean()) < 2e-3 and abs(w.std() / np.sqrt(2 / 800) - 1) < 0.02
    assert not host(net.b).any()


@pytest.mark.parametrize("trans", [(False, True), (True, True), (False, False), (True, False)])
def test_gemm(trans, mode):
    x = array(4, 5) if trans[0] else array(5, 4)
    net = layer.Gemm(3, 0.5, 2.0, transA=trans[0], transB=trans[1])
    net.initialize(given(x))
    w, b = array(*((3, 4) if trans[1] else (4, 3))), array(1, 3)
    set_params(net, W=w, b=b)
    wanted = 0.5 * (x.T if trans[0] else x) @ (w.T if trans[1] else w) + 2.0 * b
    check(lambda: net(given(x)), wanted, mode)


def test_embedding(mode):
    index, table = np.int32([[1, 0], [4, 4]]), array(5, 3)
    net = layer.Embedding(5, 3)
    net.initialize(given(index))
    set_params(net, W=table)
    check(lambda: net(given(index)), table[index], mode)


@pytest.mark.parametrize("kind", ["gaussian", "uniform"])
def test_embedding_first_values(kind):
    net = layer.Embedding(100, 50, kind)
    net(given(np.int32([[1]])))
    w = host(net.W)
    assert 0.5 / 100 < w.std() < 1.1 / 100 and abs(w.mean()) < 1e-3
    with pytest.raises(ValueError):
        layer.Embedding(3, 3, "zeros")


@pytest.mark.parametrize("freeze", [True, False])
def test_embedding_of_a_given_table(freeze, training):
    table = array(5, 3)
    net = layer.Embedding(5, 3)
    assert net.from_pretrained(given(table), freeze) is net
    y = net(given(np.int32([[1, 2]])))
    np.testing.assert_array_equal(host(y), table[[[1, 2]]])
    loss = autograd.mse_loss(y, given(np.zeros((1, 2, 3), np.float32)))
    assert len(list(autograd.backward(loss))) == (0 if freeze else 1)
    assert list(net.get_states()) == ["W"] and bool(net.get_params()) != freeze


# ---- functions ----

def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


X, Y, P = array(4, 3), array(4, 3), sigmoid(array(4, 3))
T = np.int32([0, 2, 1, 1])
HOT = np.eye(3, dtype=np.float32)[T]
FUNCTIONS = {
    "ReLU": ((), (X,), lambda: np.maximum(X, 0)),
    "Sigmoid": ((), (X,), lambda: sigmoid(X)),
    "Tanh": ((), (X,), lambda: np.tanh(X)),
    "Add": ((), (X, Y), lambda: X + Y),
    "Flatten": ((1,), (array(2, 3, 4),), None),
    "SoftMax": ((1,), (X,), lambda: softmax(X, 1)),
    "SoftMaxCrossEntropy": ((), (X, T),
                            lambda: [-np.log(softmax(X, 1)[np.arange(4), T]).mean()]),
    "MeanSquareError": ((), (X, Y), lambda: [((X - Y) ** 2).mean()]),
    "CrossEntropy": ((), (P, HOT), lambda: [-(HOT * np.log(P)).sum() / 4]),
    "BinaryCrossEntropy": ((), (P, HOT), lambda: [-(HOT * np.log(P + 1e-4) + (1 - HOT) * np.log(
        1 - P + 1e-4)).sum() / 4]),
}


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function(case, mode):
    args, inputs, wanted = FUNCTIONS[case]
    net = getattr(layer, case)(*args)
    wanted = inputs[0].reshape(2, -1) if wanted is None else wanted()
    check(lambda: net(*[given(x) for x in inputs]), wanted, mode, 1e-4)
    assert not net.get_params() and not net.get_states()


def test_cat_and_reshape(mode):
    check(lambda: layer.Cat(1)([given(X), given(Y)]), np.concatenate([X, Y], 1), mode)
    check(lambda: layer.Reshape()(given(X), (2, 6)), X.reshape(2, 6), mode)


def test_dropout(training):
    x = np.ones((100, 100), np.float32)
    y = host(layer.Dropout(0.25)(given(x)))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.03
    autograd.training = False
    np.testing.assert_array_equal(host(layer.Dropout(0.25)(given(x))), x)


# ---- names, parameters ----

class Block(layer.Layer):
    def __init__(self, width):
        super().__init__()
        self.l1 = layer.Linear(width)
        self.l2 = layer.Linear(width, bias=False)

    def forward(self, x):
        return self.l2(self.l1(x))


class Net(layer.Layer):
    def __init__(self):
        super().__init__()
        self.block = Block(4)
        self.more = [Block(4), Block(4)]
        self.register_layers(*self.more)
        self.bn = layer.BatchNorm2d()

    def forward(self, x):
        x = self.block(x)
        for block in self.more:
            x = block(x)
        return self.bn(x)


NAMES = [f"{b}.{p}" for b in ("block", "Block_0", "Block_1") for p in ("l1.W", "l1.b", "l2.W")]


def test_names():
    net = Net()
    assert net.get_params() == {}
    net(given(array(5, 4)))
    assert list(net.get_params()) == NAMES + ["bn.scale", "bn.bias"]
    assert set(net.get_states()) == set(net.get_params()) | {"bn.running_mean", "bn.running_var"}
    assert all(t.name == name for name, t in net.get_states().items())
    assert (net.name, net.block.l1.name) == (None, "block.l1")


def test_renaming_a_layer_renames_what_is_below():
    net = Net()
    net(given(array(5, 4)))
    net.block.name = "trunk"
    assert net.block.l1.name == "trunk.l1" and net.block.l1.W.name == "trunk.l1.W"
    assert "trunk.l2.W" in net.get_params()


def test_layers_registered_twice_keep_their_numbers():
    net = layer.Layer()
    a, b, c = layer.ReLU(), layer.ReLU(), layer.ReLU()
    net.register_layers(a, b)
    net.register_layers(c)
    net.register_layers(OrderedDict(last=layer.ReLU()))
    assert [x.name for x in (a, b, c)] == ["ReLU_0", "ReLU_1", "ReLU_2"]
    assert list(net._layers) == ["ReLU_0", "ReLU_1", "ReLU_2", "last"]


def test_a_deleted_or_replaced_layer_is_gone():
    net = Net()
    del net.bn
    net.block = None
    assert list(net._layers) == ["Block_0", "Block_1"]


def test_set_params_from_tensors_and_arrays():
    net = Net()
    net(given(array(5, 4)))
    w, b = array(4, 4), array(4)
    net.set_params({"block.l1.W": given(w), "block.l1.b": b, "bn.running_mean": b})
    with pytest.raises(ValueError, match="unexpected: unknown"):
        net.set_params({"block.l1.W": 0 * w, "unknown": b})
    net.set_params({"unknown": b}, strict=False)
    np.testing.assert_array_equal(host(net.block.l1.W), w)
    np.testing.assert_array_equal(host(net.block.l1.b), b)
    with pytest.raises(ValueError, match="block.l1.W has shape"):
        net.set_params({"block.l1.W": array(16)})
    assert not host(net.bn.running_mean).any()
    net.set_states({"bn.running_mean": b}, strict=False)
    np.testing.assert_array_equal(host(net.bn.running_mean), b)


def test_states_are_set_whole_or_not_at_all():
    """All mistakes in one sentence, before anything is copied."""
    net = Net()
    net(given(array(5, 4)))
    states = {name: 0 * host(t) for name, t in net.get_states().items()}
    before = {name: host(t) for name, t in net.get_states().items()}
    wrong = dict(states, stray=array(1), other=array(1))
    del wrong["bn.scale"], wrong["bn.running_var"]
    wrong["block.l1.W"] = array(2, 2)
    with pytest.raises(ValueError) as error:
        net.set_states(wrong)
    for word in ("block.l1.W has shape (4, 4), not (2, 2)", "missing: ", "bn.scale",
                 "bn.running_var", "unexpected: stray, other"):
        assert word in str(error.value)
    for name, t in net.get_states().items():
        np.testing.assert_array_equal(host(t), before[name])
    net.set_states(states)
    assert not any(host(t).any() for t in net.get_states().values())
    with pytest.raises(ValueError, match="no parameters yet"):
        Net().set_states(states)


def test_a_parameter_of_a_script():
    class Scale(layer.Layer):
        def initialize(self, x):
            self.factor = tensor.Tensor((x.shape[1],), stores_grad=True).set_value(2.0)
            self.other = tensor.Tensor((3,))

        def forward(self, x):
            return autograd.mul(x, self.factor)

    net = layer.Layer()
    net.__dict__["_initialized"] = True
    net.scale = Scale()
    x = array(5, 4)
    np.testing.assert_array_equal(host(net.scale(given(x))), 2 * x)
    assert list(net.get_params()) == ["scale.factor"]


def test_overridden_params_of_a_script_are_used():
    class Own(layer.Linear):
        def get_params(self):
            return {self.W.name: self.W}

        def set_params(self, params):
            self.W.copy_from(params[self.W.name])

    net = Net()
    net.block.l1 = Own(4)
    net(given(array(5, 4)))
    assert "block.l1.b" not in net.get_params()
    w = array(4, 4)
    net.set_params({"block.l1.W": given(w)})
    np.testing.assert_array_equal(host(net.block.l1.W), w)


def test_initialize_runs_once_and_at_once_while_recording():
    class Counting(layer.Linear):
        calls = 0

        def initialize(self, x):
            Counting.calls += 1
            super().initialize(x)

    net, x, dev = Counting(3), given(array(5, 4)), core.cpu()
    dev.EnableGraph(True)
    net(x)
    w = host(net.W)                 # made at once: it can be read
    dev.EnableGraph(False)
    dev.RunGraph()
    dev.RunGraph()
    net(x)
    dev.Reset()
    assert Counting.calls == 1 and w.any()
    np.testing.assert_array_equal(host(net.W), w)


def test_a_tied_parameter_is_one():
    net = layer.Layer()
    net.__dict__["_initialized"] = True
    net.a, net.b = layer.Linear(4, bias=False), layer.Linear(4, bias=False)
    x = given(array(5, 4))
    net.a(x), net.b(x)
    net.b.W = net.a.W
    assert net.get_params()["a.W"] is net.get_params()["b.W"]


def test_forward_is_wanted():
    with pytest.raises(NotImplementedError):
        layer.Layer()(given(X))


def test_checks_of_types(mode):
    a, b = given(X), given(np.int32([1, 2]))
    layer.Layer().dtype_check(a, b)
    assert b.dtype == tensor.float32
    layer.Layer().device_check(a, b)
    assert b.device is a.device


@pytest.mark.parametrize("name", ["Layer", "Linear", "Conv2d", "SeparableConv2d", "BatchNorm2d",
                                  "Pooling2d", "MaxPool2d", "AvgPool2d", "MaxPool1d", "AvgPool1d",
                                  "RNN_Base", "RNN", "LSTM"])
def test_names_in_autograd(name):
    assert getattr(autograd, name) is getattr(layer, name)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_embedding_has_a_type(training, dtype):
    net = layer.Embedding(5, 3, dtype=dtype)
    y = net(tensor.Tensor(data=np.array([4, 0, 4]), dtype="int32"))
    assert net.W.numpy().dtype == y.numpy().dtype == np.dtype(dtype)
    np.testing.assert_array_equal(y.numpy(), net.W.numpy()[[4, 0, 4]])
    (w, g), = autograd.backward(y.sum())
    assert w is net.W and g.numpy().dtype == np.dtype(dtype)
    np.testing.assert_array_equal(g.numpy()[:, 0], [1, 0, 0, 0, 2])
    with pytest.raises(TypeError):
        layer.Embedding(5, 3, dtype="int32")
