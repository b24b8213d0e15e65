"""test_layer_sequence - recurrent layers and attention against NumPy, at once and recorded."""
import numpy as np
import pytest

from weir import autograd, core, layer, tensor

from conftest import run
from layers import array, check, given, host, set_params, sigmoid


@pytest.mark.parametrize("kind", ["tanh", "relu"])
def test_rnn(kind, mode):
    xs, h0 = [array(2, 3) for _ in range(3)], array(2, 4)
    net = layer.RNN(3, 4, nonlinearity=kind)
    net.initialize([given(x) for x in xs], given(h0))
    p = {"Wx": array(3, 4), "Wh": array(4, 4), "b": array(4)}
    set_params(net, **p)
    h, wanted = h0, []
    for x in xs:
        h = x @ p["Wx"] + h @ p["Wh"] + p["b"]
        h = np.tanh(h) if kind == "tanh" else np.maximum(h, 0)
        wanted.append(h)
    hs, last = run(lambda: net([given(x) for x in xs], given(h0)), core.cpu(), mode)
    np.testing.assert_allclose(host(hs), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host(last), wanted[-1], rtol=1e-5, atol=1e-5)


def lstm_numpy(xs, h, c, p):
    hs = []
    for x in xs:
        gate = {k: x @ p[f"Wx_{k}"] + h @ p[f"Wh_{k}"] + p[f"Bx_{k}"] + p[f"Bh_{k}"]
                for k in "ifog"}
        c = sigmoid(gate["f"]) * c + sigmoid(gate["i"]) * np.tanh(gate["g"])
        h = sigmoid(gate["o"]) * np.tanh(c)
        hs.append(h)
    return hs, h, c


def test_lstm(mode):
    xs, h0, c0 = [array(2, 3) for _ in range(4)], array(2, 5), array(2, 5)
    net = layer.LSTM(3, 5)
    net.initialize([given(x) for x in xs], (given(h0), given(c0)))
    p = {name: array(*t.shape) for name, t in net.get_params().items()}
    assert sorted(p) == sorted(f"{kind}_{k}" for kind in ("Wx", "Wh", "Bx", "Bh") for k in "ifog")
    set_params(net, **p)
    hs, h, c = run(lambda: net([given(x) for x in xs], (given(h0), given(c0))), core.cpu(), mode)
    wanted = lstm_numpy(xs, h0, c0, p)
    np.testing.assert_allclose(host(hs), wanted[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host(h), wanted[1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host(c), wanted[2], rtol=1e-5, atol=1e-5)


def test_gradient_of_an_lstm(training):
    xs, h0 = [array(2, 3) for _ in range(3)], array(2, 4)
    net = layer.LSTM(3, 4)

    def loss():
        hs, _, c = net([given(x) for x in xs], (given(h0), given(h0)))
        return autograd.mse_loss(autograd.add(hs[1], c), given(np.zeros((2, 4), np.float32)))

    grads = {p.name: host(g) for p, g in autograd.backward(loss())}
    assert len(grads) == 16
    for name in ("Wx_i", "Wh_f", "Bx_o", "Bh_g"):
        t, eps = net.get_params()[name], 1e-2
        at = np.zeros(t.shape, np.float32)
        at.flat[1] = eps
        w, around = host(t), []
        for sign in (1, -1):
            set_params(net, **{name: w + sign * at})
            around.append(host(loss())[0])
        set_params(net, **{name: w})
        np.testing.assert_allclose(grads[name].flat[1], (around[0] - around[1]) / (2 * eps),
                                   rtol=2e-2, atol=1e-4)


def flat_lstm(net, features, hidden):
    """The vector W of a one-layer LSTM, and NumPy's weights by SINGA's names."""
    w_ih, w_hh, b_ih, b_hh = (array(4 * hidden, features), array(4 * hidden, hidden),
                              array(4 * hidden), array(4 * hidden))
    set_params(net, W=np.concatenate([a.ravel() for a in (w_ih, w_hh, b_ih, b_hh)]))
    p = {}
    for i, k in enumerate("ifgo"):
        rows = slice(i * hidden, (i + 1) * hidden)
        p |= {f"Wx_{k}": w_ih[rows].T, f"Wh_{k}": w_hh[rows].T, f"Bx_{k}": b_ih[rows],
              f"Bh_{k}": b_hh[rows]}
    return p


@pytest.mark.parametrize("sequences", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_cudnn_rnn_on_every_device(sequences, batch_first, mode):
    x = array(3, 2, 4)
    net = layer.CudnnRNN(5, batch_first=batch_first, return_sequences=sequences)
    data = x.transpose(1, 0, 2) if batch_first else x
    net.initialize(given(data))
    p = flat_lstm(net, 4, 5)
    zero = np.zeros((2, 5), np.float32)
    hs, h, _ = lstm_numpy(list(x), zero, zero, p)
    wanted = h if not sequences else np.stack(hs, 1 if batch_first else 0)
    check(lambda: net(given(np.ascontiguousarray(data))), wanted, mode)


def test_cudnn_rnn_with_lengths(mode):
    x, lengths = array(3, 2, 4), np.int32([2, 3])
    net = layer.CudnnRNN(5, batch_first=False, use_mask=True, return_sequences=False)
    net.initialize(given(x))
    p = flat_lstm(net, 4, 5)
    zero = np.zeros((2, 5), np.float32)
    hs, _, _ = lstm_numpy(list(x), zero, zero, p)
    wanted = np.stack([hs[1][0], hs[2][1]])
    check(lambda: net(given(x), seq_lengths=given(lengths)), wanted, mode)
    with pytest.raises(AssertionError):
        net(given(x))


@pytest.mark.parametrize("kwargs", [dict(rnn_mode="gru"), dict(num_layers=2),
                                    dict(bidirectional=True),
                                    dict(bidirectional=True, num_layers=2, rnn_mode="gru")])
def test_shapes_of_cudnn_rnn(kwargs, training):
    ways = 2 if kwargs.get("bidirectional") else 1
    net = layer.CudnnRNN(5, **kwargs)
    y = net(given(array(2, 3, 4)))
    assert y.shape == (2, 3, 5 * ways)
    loss = autograd.mse_loss(y, given(np.zeros(y.shape, np.float32)))
    assert [p.name for p, _ in autograd.backward(loss)] == ["W"]
    net.return_sequences = False
    assert net(given(array(2, 3, 4))).shape == (2, 5 * ways)


def test_gru(mode):
    x, h0, hidden = array(3, 2, 4), array(1, 2, 5), 5
    net = layer.GRU(5)
    net.initialize(given(x))
    parts = [array(15, 4), array(15, 5), array(15), array(15)]
    set_params(net, W=np.concatenate([a.ravel() for a in parts]))
    h, wanted = h0[0], []
    for step in x:
        a, b = step @ parts[0].T + parts[2], h @ parts[1].T + parts[3]
        r, z = (sigmoid(a[:, i:i + hidden] + b[:, i:i + hidden]) for i in (0, hidden))
        n = np.tanh(a[:, 2 * hidden:] + r * b[:, 2 * hidden:])
        h = (1 - z) * n + z * h
        wanted.append(h)
    y, last = run(lambda: net(given(x), given(h0)), core.cpu(), mode)
    np.testing.assert_allclose(host(y), wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host(last)[0], wanted[-1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal, mode):
    x, heads, width = array(2, 4, 6), 2, 6
    net = layer.MultiHeadAttention(heads, causal)
    net.initialize(given(x))
    p = {name: array(*t.shape) for name, t in net.get_params().items()}
    set_params(net, **p)

    def split(part):
        y = x @ p[f"W{part}"] + p[f"b{part}"]
        return y.reshape(2, 4, heads, -1).transpose(0, 2, 1, 3)

    q, k, v = (split(part) for part in "qkv")
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(width / heads)
    if causal:
        scores = np.where(np.tril(np.ones((4, 4))) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = (weights @ v).transpose(0, 2, 1, 3).reshape(2, 4, width) @ p["Wo"] + p["bo"]
    check(lambda: net(given(x)), y, mode, 2e-5)
    with pytest.raises(ValueError):
        layer.MultiHeadAttention(4)(given(x))


# ---- batches that broadcast ----

@pytest.mark.parametrize("steps, states", [(5, 1), (1, 5)])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "CudnnRNN"])
def test_a_state_or_step_of_one_sample_broadcasts(training, kind, steps, states):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, steps, 4), np.float32)
    h = rng.standard_normal((1, states, 2), np.float32)
    h, x = tensor.from_numpy(h), tensor.from_numpy(x)
    h.stores_grad = x.stores_grad = True
    wide = [autograd.expand(s, (s.shape[0], 5, s.shape[2])) for s in (x, h)]
    net = {"RNN": lambda: layer.RNN(4, 2), "LSTM": lambda: layer.LSTM(4, 2),
           "GRU": lambda: layer.GRU(2),
           "CudnnRNN": lambda: layer.CudnnRNN(2, batch_first=False)}[kind]()

    def call(x, h):
        if kind in ("RNN", "LSTM"):
            xs = [autograd.squeeze(s, [0]) for s in autograd.split(x, 0, [1, 1, 1])]
            h = autograd.squeeze(h, [0])
            return autograd.cat(net(xs, (h, h) if kind == "LSTM" else h)[0], 0)
        return net(x, h, h) if kind == "CudnnRNN" else net(x, h)[0]

    def gradients(y):
        pairs = autograd.backward(autograd.reduce_sum(autograd.mul(y, y)))
        return {p.name: g.numpy() for p, g in pairs}

    narrow, full = call(x, h), call(*wide)
    assert np.array_equal(narrow.numpy(), full.numpy())
    one, two = gradients(narrow), gradients(full)
    assert one.keys() == two.keys() and len(one) >= 3
    for name in one:
        assert np.allclose(one[name], two[name], rtol=1e-5, atol=1e-6), name


# ---- plain recurrent layers, layers without a bias, dropout between layers ----

def plain(x, w, hidden, layers, ways, bias, act, lengths=None):
    """NumPy's outputs of steps x (s, n, f), by the weight vector w, in float64."""
    shapes, features = [], x.shape[2]
    for i in range(layers * ways):
        shapes += [(hidden, features if i < ways else ways * hidden), (hidden, hidden)]
    shapes += [(hidden,)] * (2 * layers * ways if bias else 0)
    parts, begin = [], 0
    for shape in shapes:
        parts.append(w[begin:begin + np.prod(shape)].reshape(shape).astype(np.float64))
        begin += np.prod(shape)
    assert begin == w.size
    x = x.astype(np.float64)
    for layer_number in range(layers):
        ys = []
        for way in range(ways):
            i = layer_number * ways + way
            at = 2 * layers * ways + 2 * i
            b = parts[at] + parts[at + 1] if bias else 0
            h, y = np.zeros((x.shape[1], hidden)), np.zeros((*x.shape[:2], hidden))
            for t in range(len(x))[::1 - 2 * way]:
                new = act(x[t] @ parts[2 * i].T + h @ parts[2 * i + 1].T + b)
                on = np.ones((x.shape[1], 1), bool) if lengths is None else (t < lengths)[:, None]
                h, y[t] = np.where(on, new, h), np.where(on, new, 0)
            ys.append(y)
        x = np.concatenate(ys, 2)
    return x


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("layers, ways, bias", [(1, 1, True), (2, 2, True), (2, 1, False)])
@pytest.mark.parametrize("name, activation", [("tanh", "tanh"), ("relu", "tanh"),
                                              ("vanilla", "relu"), ("vanilla", "tanh")])
def test_plain_modes(training, mode, name, activation, layers, ways, bias, masked):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((3, 4, 2), np.float32)
    lengths = np.array([3, 1, 2, 3], np.int32)
    net = layer.CudnnRNN(5, activation, layers, bias, batch_first=False, bidirectional=ways == 2,
                         rnn_mode=name, use_mask=masked)
    given = tensor.from_numpy(x), None, None, tensor.from_numpy(lengths) if masked else None
    net(*given)
    y = run(lambda: net(*given), core.cpu(), mode)
    relu = name == "relu" or name == "vanilla" and activation == "relu"
    act = (lambda v: np.maximum(v, 0)) if relu else np.tanh
    want = plain(x, net.W.numpy(), 5, layers, ways, bias, act, lengths if masked else None)
    assert np.allclose(y.numpy(), want, atol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "relu", "lstm", "gru"])
def test_gradients_of_modes_without_a_bias(training, name):
    core.cpu().SetRandSeed(1)
    rng = np.random.default_rng(4)
    x = tensor.from_numpy(rng.standard_normal((3, 2, 2), np.float32))
    net = layer.CudnnRNN(3, num_layers=2, bias=False, batch_first=False, rnn_mode=name)
    net(x)
    gates = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}[name]
    assert net.W.shape == (gates * (3 * 2 + 3 * 3 + 3 * 3 + 3 * 3),)
    c = tensor.from_numpy(rng.standard_normal((3, 2, 3), np.float32))

    def loss():
        return autograd.reduce_sum(autograd.mul(net(x), c), keepdims=0)

    (_, g), = autograd.backward(loss())
    way = rng.standard_normal(net.W.shape).astype(np.float32)
    w, step, at = net.W.numpy(), 1e-3, []
    for sign in (1, -1):
        net.W.copy_from_numpy(w + sign * step * way)
        at.append(loss().item())
    assert np.isclose((g.numpy() * way).sum(), (at[0] - at[1]) / (2 * step), rtol=2e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["tanh", "lstm", "gru"])
def test_dropout_between_layers(training, name):
    x = tensor.from_numpy(np.ones((4, 2, 3), np.float32))

    def outputs(ratio, layers):
        core.cpu().SetRandSeed(2)
        net = layer.CudnnRNN(4, num_layers=layers, dropout=ratio, rnn_mode=name)
        net(x)
        return net, [net(x).numpy() for _ in range(2)]

    _, (one, two) = outputs(0.5, 2)
    assert not np.array_equal(one, two)             # a new mask at every call
    net, _ = outputs(0.5, 2)
    autograd.training = False
    evaluated = net(x).numpy()
    net.dropout = 0.0
    assert np.array_equal(evaluated, net(x).numpy())
    autograd.training = True
    _, (one, two) = outputs(0.5, 1)                 # nothing to drop between
    assert np.array_equal(one, two)


@pytest.mark.parametrize("options, text", [
    ({"rnn_mode": "rnn"}, "unknown rnn_mode 'rnn' .expected lstm, gru, tanh, relu or vanilla"),
    ({"activation": "elu"}, "unknown activation 'elu' .expected tanh or relu"),
    ({"dropout": 1.0}, "dropout 1.0 must be at least 0 and below 1")])
def test_options_of_cudnn_rnn(options, text):
    with pytest.raises(ValueError, match=text):
        layer.CudnnRNN(3, **options)
