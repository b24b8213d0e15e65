"""test_layer - every layer against NumPy, at once and recorded; names, parameters, states."""
from collections import OrderedDict

import numpy as np
import pytest

from weir import autograd, core, layer, tensor

from conftest import run

rng = np.random.default_rng(0)


def array(*shape):
    return rng.normal(size=shape).astype(np.float32)


def host(y):
    if isinstance(y, tensor.Tensor):
        return tensor.to_numpy(y)
    return [host(t) for t in y]


def given(x):
    return tensor.from_numpy(x)


def set_params(net, **arrays):
    net.set_params(arrays)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def check(fn, wanted, mode, tol=1e-5):
    got = host(run(fn, core.cpu(), mode))
    np.testing.assert_allclose(got, wanted, rtol=tol, atol=tol)


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


# ---- images ----

def conv_numpy(x, w, b=None, stride=(1, 1), pads=(0, 0, 0, 0), group=1):
    x = np.pad(x, ((0, 0), (0, 0), pads[:2], pads[2:]))
    n, _, h, wd = x.shape
    out, per, kh, kw = w.shape
    oh, ow = (h - kh) // stride[0] + 1, (wd - kw) // stride[1] + 1
    y = np.zeros((n, out, oh, ow))
    for o in range(out):
        first = o // (out // group) * per
        for i in range(oh):
            for j in range(ow):
                part = x[:, first:first + per, i * stride[0]:i * stride[0] + kh,
                         j * stride[1]:j * stride[1] + kw]
                y[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return y if b is None else y + b[None, :, None, None]


CONVS = {
    "plain": (dict(), (1, 1), (0, 0, 0, 0), 1),
    "stride": (dict(stride=2), (2, 2), (0, 0, 0, 0), 1),
    "stride pair": (dict(stride=(1, 2)), (1, 2), (0, 0, 0, 0), 1),
    "padding": (dict(padding=1), (1, 1), (1, 1, 1, 1), 1),
    "padding pair": (dict(padding=(1, 2)), (1, 1), (1, 1, 2, 2), 1),
    "padding of sides": (dict(padding=(0, 1, 2, 0)), (1, 1), (0, 1, 2, 0), 1),
    "padding of equal sides": (dict(padding=(1, 1, 2, 2)), (1, 1), (1, 1, 2, 2), 1),
    "same upper": (dict(pad_mode="SAME_UPPER", stride=2), (2, 2), (0, 1, 0, 1), 1),
    "same lower": (dict(pad_mode="SAME_LOWER", stride=2), (2, 2), (1, 0, 1, 0), 1),
    "groups": (dict(group=2), (1, 1), (0, 0, 0, 0), 2),
    "no bias": (dict(bias=False), (1, 1), (0, 0, 0, 0), 1),
}


@pytest.mark.parametrize("case", CONVS)
def test_conv2d(case, mode):
    kwargs, stride, pads, group = CONVS[case]
    x, w, b = array(2, 4, 6, 6), array(4, 4 // group, 3, 3), array(4)
    net = layer.Conv2d(4, 3, **kwargs)
    net.initialize(given(x))
    bias = kwargs.get("bias", True)
    set_params(net, W=w, **({"b": b} if bias else {}))
    check(lambda: net(given(x)), conv_numpy(x, w, b if bias else None, stride, pads, group), mode,
          2e-5)


def test_conv2d_as_in_older_scripts(mode):
    x, w, b = array(2, 3, 6, 6), array(4, 3, 3, 3), array(4)
    net = layer.Conv2d(3, 4, 3, 2, 1)
    net.initialize(given(x))
    set_params(net, W=w, b=b)
    check(lambda: net(given(x)), conv_numpy(x, w, b, (2, 2), (1, 1, 1, 1)), mode, 2e-5)


def test_conv2d_with_relu(mode):
    x, w = array(2, 3, 5, 5), array(4, 3, 3, 3)
    net = layer.Conv2d(4, 3, bias=False, activation="RELU", cudnn_prefer="fastest")
    net.initialize(given(x))
    set_params(net, W=w)
    check(lambda: net(given(x)), np.maximum(conv_numpy(x, w), 0), mode, 2e-5)


def test_conv2d_of_another_batch():
    x, w = array(2, 3, 5, 5), array(4, 3, 3, 3)
    net = layer.Conv2d(4, 3, bias=False)
    net(given(x))
    set_params(net, W=w)
    big = array(7, 3, 8, 5)
    np.testing.assert_allclose(host(net(given(big))), conv_numpy(big, w), rtol=1e-5, atol=1e-5)
    assert net.handle.batchsize == 7


@pytest.mark.parametrize("kwargs, error", [(dict(dilation=2), ValueError), (dict(x=1), TypeError),
                                           (dict(pad_mode="SAME"), ValueError),
                                           (dict(activation="TANH"), ValueError),
                                           (dict(stride=(1, 2, 3)), TypeError)])
def test_conv2d_refuses(kwargs, error):
    with pytest.raises(error):
        layer.Conv2d(4, 3, **kwargs)


@pytest.mark.parametrize("made", [lambda: layer.Conv2d(5, 4, 3), lambda: layer.Conv2d(4, 3, group=2)])
def test_conv2d_of_the_wrong_channels(made):
    with pytest.raises(ValueError):
        made()(given(array(1, 3, 5, 5)))


def test_separable_conv2d(mode):
    x = array(2, 3, 5, 5)
    net = layer.SeparableConv2d(4, 3, padding=1)
    net(given(x))
    d, p = array(3, 1, 3, 3), array(4, 3, 1, 1)
    set_params(net, **{"depthwise_conv.W": d, "point_conv.W": p})
    wanted = conv_numpy(conv_numpy(x, d, pads=(1, 1, 1, 1), group=3), p)
    check(lambda: net(given(x)), wanted, mode, 2e-5)
    assert list(layer.SeparableConv2d(3, 4, 3).__dict__["_layers"]) == []


def pool_numpy(x, kernel, stride, pad, is_max):
    fill = -np.inf if is_max else np.nan
    x = np.pad(x.astype(float), ((0, 0), (0, 0), (pad[0],) * 2, (pad[1],) * 2),
               constant_values=fill)
    oh = (x.shape[2] - kernel[0]) // stride[0] + 1
    ow = (x.shape[3] - kernel[1]) // stride[1] + 1
    y = np.zeros(x.shape[:2] + (oh, ow))
    for i in range(oh):
        for j in range(ow):
            part = x[:, :, i * stride[0]:i * stride[0] + kernel[0],
                     j * stride[1]:j * stride[1] + kernel[1]]
            y[:, :, i, j] = part.max((2, 3)) if is_max else np.nanmean(part, (2, 3))
    return y


POOLS = {
    "max": (lambda: layer.MaxPool2d(2), (2, 2), (2, 2), (0, 0), True),
    "max positional": (lambda: layer.MaxPool2d(2, 2, 0), (2, 2), (2, 2), (0, 0), True),
    "max padded": (lambda: layer.MaxPool2d(3, 2, 1), (3, 3), (2, 2), (1, 1), True),
    "average": (lambda: layer.AvgPool2d(2), (2, 2), (2, 2), (0, 0), False),
    "average padded": (lambda: layer.AvgPool2d(3, 1, 1), (3, 3), (1, 1), (1, 1), False),
    "average overlapping": (lambda: layer.AvgPool2d(3, stride=1), (3, 3), (1, 1), (0, 0), False),
    "pooling": (lambda: layer.Pooling2d((2, 3), (1, 2), (0, 1), is_max=False), (2, 3), (1, 2),
                (0, 1), False),
    "max 1d": (lambda: layer.MaxPool1d(2), (1, 2), (1, 2), (0, 0), True),
    "average 1d": (lambda: layer.AvgPool1d(3, 1, 1), (1, 3), (1, 1), (0, 1), False),
    "same": (lambda: layer.MaxPool2d(3, 1, pad_mode="SAME_UPPER"), (3, 3), (1, 1), (1, 1), True),
}


@pytest.mark.parametrize("case", POOLS)
def test_pooling(case, mode):
    make, *how = POOLS[case]
    x, net = array(2, 3, 6, 6), make()
    check(lambda: net(given(x)), pool_numpy(x, *how), mode)


@pytest.mark.parametrize("shape", [(6, 3, 4, 4), (6, 3)])
def test_batch_norm(shape, training):
    x = array(*shape)
    axes = (0,) + tuple(range(2, len(shape)))
    where = (None, slice(None)) + (None,) * (len(shape) - 2)
    net = layer.BatchNorm2d(3, momentum=0.8)
    net.initialize(given(x))
    scale, bias = array(3), array(3)
    set_params(net, scale=scale, bias=bias)
    mean, var = x.mean(axes), x.var(axes)
    wanted = (x - mean[where]) / np.sqrt(var[where] + 1e-5) * scale[where] + bias[where]
    np.testing.assert_allclose(host(net(given(x))), wanted, rtol=1e-4, atol=1e-5)
    n = x.size / 3
    np.testing.assert_allclose(host(net.running_mean), 0.8 * mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(host(net.running_var), 0.2 + 0.8 * var * n / (n - 1), rtol=1e-5)
    autograd.training = False
    run_mean, run_var = host(net.running_mean)[where], host(net.running_var)[where]
    wanted = (x - run_mean) / np.sqrt(run_var + 1e-5) * scale[where] + bias[where]
    np.testing.assert_allclose(host(net(given(x))), wanted, rtol=1e-4, atol=1e-5)
    assert list(net.get_params()) == ["scale", "bias"]
    assert list(net.get_states()) == ["scale", "bias", "running_mean", "running_var"]


@pytest.mark.parametrize("stride, pad, more", [(1, 0, 0), (2, 1, 1), (2, 0, 0)])
def test_conv_transpose(stride, pad, more, mode):
    x, w, b = array(2, 3, 4, 4), array(3, 5, 3, 3), array(5)
    net = layer.ConvTranspose2d(5, 3, stride, pad, more)
    net.initialize(given(x))
    set_params(net, W=w, b=b)
    size = (4 - 1) * stride + 3
    y = np.zeros((2, 5, size + more, size + more))
    for i in range(4):
        for j in range(4):
            y[:, :, i * stride:i * stride + 3, j * stride:j * stride + 3] += np.einsum(
                "nc,cohw->nohw", x[:, :, i, j], w)
    size = y.shape[2]
    y = y[:, :, pad:size - pad, pad:size - pad] + b[None, :, None, None]
    check(lambda: net(given(x)), y, mode, 2e-5)


def normal(x, axes, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_group_norm(mode):
    x, scale, bias = array(2, 6, 3, 3), array(6), array(6)
    net = layer.GroupNorm(2)
    net.initialize(given(x))
    set_params(net, scale=scale, bias=bias)
    wanted = normal(x.reshape(2, 2, -1), 2).reshape(x.shape)
    wanted = wanted * scale[None, :, None, None] + bias[None, :, None, None]
    check(lambda: net(given(x)), wanted, mode)


@pytest.mark.parametrize("axes", [1, 2])
def test_layer_norm(axes, mode):
    x = array(3, 4, 5)
    over = (2,) if axes == 1 else (1, 2)
    scale, bias = array(*x.shape[-axes:]), array(*x.shape[-axes:])
    net = layer.LayerNorm(axes)
    net.initialize(given(x))
    set_params(net, scale=scale, bias=bias)
    check(lambda: net(given(x)), normal(x, over) * scale + bias, mode)


def test_rms_norm(mode):
    x, scale = array(3, 4, 5), array(5)
    net = layer.RMSNorm()
    net.initialize(given(x))
    set_params(net, scale=scale)
    check(lambda: net(given(x)), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale, mode)


# ---- sequences ----

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


@pytest.mark.parametrize("kwargs", [dict(rnn_mode="relu"), dict(dropout=0.5), dict(bias=False)])
def test_cudnn_rnn_refuses(kwargs):
    with pytest.raises(NotImplementedError):
        layer.CudnnRNN(5, **kwargs)


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
    net.set_params({"block.l1.W": given(w), "block.l1.b": b, "unknown": b})
    np.testing.assert_array_equal(host(net.block.l1.W), w)
    np.testing.assert_array_equal(host(net.block.l1.b), b)
    with pytest.raises(ValueError, match="block.l1.W has shape"):
        net.set_params({"block.l1.W": array(16)})
    net.set_states({"bn.running_mean": b})
    np.testing.assert_array_equal(host(net.bn.running_mean), b)


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
