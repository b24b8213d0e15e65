"""test_torch_names - tests of PyTorch's states: outputs of models are those of their twins."""
import numpy as np
import pytest

import weir
from weir import autograd, layer, tensor
from weir.model import Model

rng = np.random.default_rng(3)


def array(*shape):
    return (0.4 * rng.normal(size=shape)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Cnn(Model):
    def __init__(self):
        super().__init__()
        self.conv = layer.Conv2d(3, 4, 3, padding=1)
        self.bn = layer.BatchNorm2d()
        self.pool = layer.MaxPool2d(2, 2)
        self.fc = layer.Linear(5)

    def forward(self, x):
        y = self.pool(autograd.relu(self.bn(self.conv(x))))
        return self.fc(autograd.flatten(y))


class Text(Model):
    """Embedding, a recurrent layer, a normalisation, a linear one."""

    def __init__(self, rnn):
        super().__init__()
        self.table = layer.Embedding(7, 4)
        self.rnn = rnn
        self.norm = layer.LayerNorm()
        self.fc = layer.Linear(2, bias=False)

    def forward(self, x):
        y = self.rnn(self.table(x))
        y = y[0] if isinstance(y, tuple) else y
        return self.fc(self.norm(y))


class Steps(Model):
    """An LSTM of SINGA, step by step: its last output."""

    def __init__(self):
        super().__init__()
        self.lstm = layer.LSTM(4, 3)

    def forward(self, *xs):
        zero = tensor.zeros((xs[0].shape[0], 3))
        return self.lstm(list(xs), (zero, zero))[1]


def given(x):
    return tensor.from_numpy(x)


def output(net, *xs):
    net.compile([given(x) for x in xs], is_train=False)
    return lambda: net.forward(*[given(x) for x in xs]).numpy()


# ---- without PyTorch ----

def linear_state(name, rows, columns, bias=True):
    state = {f"{name}.weight": array(rows, columns)}
    return dict(state, **{f"{name}.bias": array(rows)}) if bias else state


def test_linear_layers_are_turned():
    class Mlp(Model):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = layer.Linear(6), layer.Linear(2)

        def forward(self, x):
            return self.fc2(autograd.relu(self.fc1(x)))

    x, net = array(5, 4), Mlp()
    run = output(net, x)
    state = {**linear_state("fc1", 6, 4), **linear_state("fc2", 2, 6)}
    assert weir.load_torch_state_dict(net, state) == ([], [])
    hidden = np.maximum(x @ state["fc1.weight"].T + state["fc1.bias"], 0)
    np.testing.assert_allclose(run(), hidden @ state["fc2.weight"].T + state["fc2.bias"],
                               rtol=1e-5, atol=1e-6)
    first = {"0." + name[4:] if name.startswith("fc1") else name: 0 * a
             for name, a in state.items()}
    weir.load_torch_state_dict(net, first, names={"fc1": "0"})
    assert not run().any()


def cnn_state():
    return {"conv.weight": array(4, 3, 3, 3), "conv.bias": array(4), "bn.weight": array(4),
            "bn.bias": array(4), "bn.running_mean": array(4), "bn.running_var": array(4) ** 2 + 0.5,
            "bn.num_batches_tracked": np.array(7), **linear_state("fc", 5, 64)}


def cnn_numpy(s, x):
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, s["conv.weight"])

    def channel(name):
        return s[name].reshape(1, -1, 1, 1)

    y = y + channel("conv.bias") - channel("bn.running_mean")
    y = y / np.sqrt(channel("bn.running_var") + 1e-5) * channel("bn.weight") + channel("bn.bias")
    y = np.maximum(y, 0).reshape(len(x), 4, 4, 2, 4, 2).max((3, 5)).reshape(len(x), -1)
    return y @ s["fc.weight"].T + s["fc.bias"]


def test_convolutions_and_batch_norm():
    x, net, state = array(2, 3, 8, 8), Cnn(), cnn_state()
    run = output(net, x)
    weir.load_torch_state_dict(net, state)
    np.testing.assert_allclose(run(), cnn_numpy(state, x), rtol=1e-4, atol=1e-4)


def lstm_numpy(x, s, name, h=3):
    """x (n, steps, features): all outputs, by PyTorch's definition."""
    state, cell, ys = np.zeros((len(x), h)), np.zeros((len(x), h)), []
    for step in x.transpose(1, 0, 2):
        gates = step @ s[name + "weight_ih_l0"].T + s[name + "bias_ih_l0"] + \
            state @ s[name + "weight_hh_l0"].T + s[name + "bias_hh_l0"]
        i, f, g, o = np.split(gates, 4, 1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        ys.append(state)
    return np.stack(ys, 1)


def rnn_state(name, gates, features=4, h=3):
    return {f"{name}weight_ih_l0": array(gates * h, features),
            f"{name}weight_hh_l0": array(gates * h, h),
            f"{name}bias_ih_l0": array(gates * h), f"{name}bias_hh_l0": array(gates * h)}


def test_recurrent_layers():
    ids = np.array([[0, 3, 6], [2, 2, 5]], np.int32)
    net = Text(layer.CudnnRNN(3))
    run = output(net, ids)
    state = {"table.weight": array(7, 4), **rnn_state("rnn.", 4), "norm.weight": array(3),
             "norm.bias": array(3), **linear_state("fc", 2, 3, False)}
    weir.load_torch_state_dict(net, state)
    y = lstm_numpy(state["table.weight"][ids], state, "rnn.")
    y = (y - y.mean(-1, keepdims=True)) / np.sqrt(y.var(-1, keepdims=True) + 1e-5)
    y = (y * state["norm.weight"] + state["norm.bias"]) @ state["fc.weight"].T
    np.testing.assert_allclose(run(), y, rtol=1e-3, atol=1e-4)

    x = array(3, 2, 4)
    net, state = Steps(), rnn_state("lstm.", 4)
    run = output(net, *x)
    weir.load_torch_state_dict(net, state)
    np.testing.assert_allclose(run(), lstm_numpy(x.transpose(1, 0, 2), state, "lstm.")[:, -1],
                               rtol=1e-4, atol=1e-5)


def test_mistakes_are_told_at_once_and_nothing_is_copied():
    net, state = Cnn(), cnn_state()
    with pytest.raises(ValueError, match="compile"):
        weir.load_torch_state_dict(net, state)
    run = output(net, array(2, 3, 8, 8))
    before = run()
    del state["bn.weight"]
    state.update({"stray.weight": array(3), "fc.weight": array(64, 5)})
    with pytest.raises(ValueError) as error:
        weir.load_torch_state_dict(net, state)
    for word in ("missing: bn.weight", "unexpected: stray.weight",
                 "fc.weight has shape (64, 5), must have (5, 64)"):
        assert word in str(error.value)
    np.testing.assert_array_equal(run(), before)
    with pytest.raises(ValueError, match="fc.weight has shape"):
        weir.load_torch_state_dict(net, state, strict=False)
    state["fc.weight"] = array(5, 64)
    assert weir.load_torch_state_dict(net, state, strict=False) == (["bn.weight"],
                                                                    ["stray.weight"])
    with pytest.raises(ValueError, match="unexpected: conv.weight"):
        net.set_states(state)


# ---- against PyTorch ----

def twins(net, torch_net, xs, torch_xs):
    torch = pytest.importorskip("torch")
    torch_net.eval()
    run = output(net, *xs)
    with torch.no_grad():
        want = torch_net(*torch_xs)
        weir.load_torch_state_dict(net, torch_net.state_dict())
        np.testing.assert_allclose(run(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_a_cnn_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn

    class Twin(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.fc = nn.Linear(64, 5)

        def forward(self, x):
            y = torch.max_pool2d(torch.relu(self.bn(self.conv(x))), 2)
            return self.fc(y.flatten(1))

    x, twin = array(2, 3, 8, 8), Twin()
    with torch.no_grad():
        twin.train()
        for _ in range(3):
            twin(torch.from_numpy(3 * x + 1))
        twins(Cnn(), twin, [x], [torch.from_numpy(x)])
        twins(Cnn(), twin, [x], [torch.from_numpy(x)])


@pytest.mark.parametrize("kind, ours, theirs", [
    ("LSTM", lambda: layer.CudnnRNN(3), {}),
    ("LSTM", lambda: layer.CudnnRNN(3, num_layers=2, bidirectional=True),
     {"num_layers": 2, "bidirectional": True}),
    ("GRU", lambda: layer.GRU(3, batch_first=True), {}),
    ("GRU", lambda: layer.GRU(3, 2, True, True), {"num_layers": 2, "bidirectional": True})],
    ids=["lstm", "lstm-2-ways", "gru", "gru-2-ways"])
def test_recurrent_networks_of_pytorch(kind, ours, theirs):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn

    class Twin(nn.Module):
        def __init__(self):
            super().__init__()
            width = 6 if theirs else 3
            self.table = nn.Embedding(7, 4)
            self.rnn = getattr(nn, kind)(4, 3, batch_first=True, **theirs)
            self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, 2, bias=False)

        def forward(self, x):
            return self.fc(self.norm(self.rnn(self.table(x))[0]))

    ids = np.array([[0, 3, 6], [2, 2, 5]], np.int32)
    twins(Text(ours()), Twin(), [ids], [torch.from_numpy(ids)])


def test_attention_of_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Ours(Model):
        def __init__(self):
            super().__init__()
            self.attention = layer.MultiHeadAttention(2)

        def forward(self, x):
            return self.attention(x)

    class Twin(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x)[0]

    x = array(2, 5, 4)
    twins(Ours(), Twin(), [x], [torch.from_numpy(x)])
