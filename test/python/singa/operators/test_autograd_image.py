"""test_autograd_image - convolution, pooling, batch normalisation and recurrent operators."""
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import run
from gradcheck import Case, check_backward, check_creator, check_value, flat
from weir import autograd, core, singa_wrap, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd
X = flat((1, 4, 5, 4))
B = flat((3,), seed=5)
RAW = singa_wrap.Tensor(X.shape)


def conv_handle(kernel, stride=(1, 1), pad=(0, 0), group=1):
    return singa_wrap.ConvHandle(RAW, kernel, stride, pad, 4, 3, True, group)


def pool_handle(kernel, stride, pad=(0, 0), is_max=True):
    return singa_wrap.PoolingHandle(RAW, kernel, stride, pad, is_max)


def norm_handle(factor):
    return singa_wrap.BatchNormHandle(factor, RAW)


def windows(x, h):
    """(n, c, oh, ow, kh, kw) of x without pads."""
    v = np.lib.stride_tricks.sliding_window_view(x, (h.kernel_h, h.kernel_w), (2, 3))
    return v[:, :, ::h.stride_h, ::h.stride_w]


def padded(x, h, odd, **how):
    top, bottom, left, right = odd
    return np.pad(x, [(0, 0), (0, 0), (h.pad_h + top, h.pad_h + bottom),
                      (h.pad_w + left, h.pad_w + right)], **how)


def conv(x, w, h, odd=(0, 0, 0, 0), b=None):
    v = windows(padded(x, h, odd), h)
    size, outs = x.shape[1] // h.group, w.shape[0] // h.group
    y = np.concatenate([np.einsum("ncijkl,ockl->noij", v[:, g * size:(g + 1) * size],
                                  w[g * outs:(g + 1) * outs]) for g in range(h.group)], 1)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def pool(x, h, odd=(0, 0, 0, 0)):
    x = padded(x, SimpleNamespace(pad_h=0, pad_w=0), odd, mode="edge")
    fill = -np.inf if h.is_max_pooling else np.nan
    v = windows(padded(x, h, (0, 0, 0, 0), constant_values=fill), h)
    return v.max((4, 5)) if h.is_max_pooling else np.nanmean(v, (4, 5))


def conv_case(name, w, h, odd=(0, 0, 0, 0), b=None):
    inputs = (X, w) if b is None else (X, w, b)
    return Case(name, lambda *xs: A.conv2d(h, *xs, odd_padding=odd),
                lambda x, w, b=None: conv(x, w, h, odd, b), *inputs, rtol=1e-3, atol=2e-4)


def pool_case(name, h, odd=(0, 0, 0, 0)):
    return Case(name, lambda x: A.pooling_2d(h, x, odd), lambda x: pool(x, h, odd), X)


W = flat((3, 4, 3, 3), seed=4)
CASES = [
    conv_case("conv2d", W, conv_handle((3, 3))),
    conv_case("conv2d-bias", W, conv_handle((3, 3), pad=(1, 1)), b=B),
    conv_case("conv2d-stride", W, conv_handle((3, 3), (2, 1), (1, 0)), b=B),
    conv_case("conv2d-odd", flat((3, 4, 2, 2), seed=4), conv_handle((2, 2), (2, 2)), (0, 1, 0, 1)),
    conv_case("conv2d-odd-bias", flat((3, 4, 2, 3), seed=4), conv_handle((2, 3), pad=(0, 1)),
              (1, 0, 0, 0), b=B),
    conv_case("conv2d-groups", flat((6, 2, 3, 3), seed=4),
              conv_handle((3, 3), pad=(1, 1), group=2)),
    conv_case("conv2d-depthwise", flat((4, 1, 3, 3), seed=4), conv_handle((3, 3), group=4)),
    conv_case("conv2d-1x1", flat((3, 4, 1, 1), seed=4), conv_handle((1, 1)), b=B),
    pool_case("max", pool_handle((2, 2), (2, 2))),
    pool_case("max-pad", pool_handle((3, 3), (2, 2), (1, 1))),
    pool_case("max-odd", pool_handle((2, 2), (1, 1)), (0, 1, 0, 1)),
    pool_case("avg", pool_handle((2, 3), (2, 3), is_max=False)),
    pool_case("avg-pad", pool_handle((3, 3), (2, 1), (1, 1), is_max=False)),
    pool_case("avg-odd", pool_handle((2, 2), (2, 2), is_max=False), (1, 0, 1, 0)),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_value(case, mode):
    check_value(case, mode)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_creator(case, mode):
    check_creator(case, mode)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_backward(case, mode):
    check_backward(case, mode)


def test_conv2d_of_three_axes():
    x, w = Case("", None, None, X[0], W).tensors()
    with pytest.raises(AssertionError, match="4"):
        A.conv2d(conv_handle((3, 3)), x, w)


# ---- batch normalisation ----

SCALE, BIAS = flat((4,), 0.5, 1.5, seed=6), flat((4,), seed=7)
EPS = 1e-5


def normed(x, scale, bias, mean=None, var=None):
    axes = (0, 2, 3) if x.ndim == 4 else (0,)
    shape = (1, -1, 1, 1)[:x.ndim]
    mean = x.mean(axes) if mean is None else mean
    var = x.var(axes) if var is None else var
    return ((x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + EPS) * scale.reshape(shape)
            + bias.reshape(shape))


def statistics(shape=(4,)):
    mean = flat((4,), -0.4, 0.6, seed=8)
    var = flat((4,), 0.6, 1.4, seed=9)
    return [Tensor(data=v.reshape(shape).astype(np.float32), requires_grad=False)
            for v in (mean, var)], mean, var


def norm_case(x, known=()):
    (mean_t, var_t), *_ = statistics()
    return Case("batchnorm_2d", lambda *xs: A.batchnorm_2d(norm_handle(0.9), *xs, mean_t,
                                                           var_t),
                lambda *xs: normed(*xs, *known), x, SCALE, BIAS, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("x", [X, flat((6, 4), seed=3)], ids=["4d", "2d"])
@pytest.mark.parametrize("check", [check_value, check_creator, check_backward])
def test_batchnorm(x, check, mode):
    check(norm_case(x), mode)


@pytest.mark.parametrize("x", [X, flat((6, 4), seed=3)], ids=["4d", "2d"])
def test_batchnorm_outside_training(x, mode):
    autograd.training = False
    check_value(norm_case(x, statistics()[1:]), mode)


@pytest.mark.parametrize("shape", [(4,), (1, 4, 1, 1)])
@pytest.mark.parametrize("factor", [0.9, 0.1, 1.0, 0.0])
def test_batchnorm_moves_its_statistics(shape, factor, mode):
    (mean_t, var_t), mean, var = statistics(shape)
    x, scale, bias = Case("", None, None, X, SCALE.reshape(shape), BIAS.reshape(shape)).tensors()
    run(lambda: A.batchnorm_2d(norm_handle(factor), x, scale, bias, mean_t, var_t),
        core.cpu(), mode)
    for _ in range(1 if mode == "off" else 2):
        mean = mean * (1 - factor) + X.mean((0, 2, 3)) * factor
        var = var * (1 - factor) + X.var((0, 2, 3), ddof=1) * factor
    assert mean_t.shape == shape
    np.testing.assert_allclose(tensor.to_numpy(mean_t).ravel(), mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tensor.to_numpy(var_t).ravel(), var, rtol=1e-4)


def test_batchnorm_of_one_channel(mode):
    """SINGA ends the process."""
    mean, var = Tensor((1,)), Tensor((1,))
    check_backward(Case("one", lambda *xs: A.batchnorm_2d(norm_handle(0.9), *xs, mean, var), normed,
                        X[:, :1], SCALE[:1], BIAS[:1], rtol=1e-3, atol=1e-4), mode)


def test_batchnorm_outside_training_leaves_its_statistics():
    autograd.training = False
    (mean_t, var_t), mean, var = statistics()
    xs = Case("", None, None, X, SCALE, BIAS).tensors()
    A.batchnorm_2d(norm_handle(0.9), *xs, mean_t, var_t)
    np.testing.assert_array_equal(tensor.to_numpy(mean_t), mean.astype(np.float32))
    np.testing.assert_array_equal(tensor.to_numpy(var_t), var.astype(np.float32))


# ---- recurrent ----

def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sweep(lstm, x, h, c, w, keep, back):
    """One layer in one direction: (outputs, last state)."""
    w_ih, w_hh, b_ih, b_hh = w
    ys = [None] * len(x)
    for t in (range(len(x) - 1, -1, -1) if back else range(len(x))):
        i, j = x[t] @ w_ih.T + b_ih, h @ w_hh.T + b_hh
        n = h.shape[1]
        if lstm:
            a = i + j
            c2 = sigmoid(a[:, n:2 * n]) * c + sigmoid(a[:, :n]) * np.tanh(a[:, 2 * n:3 * n])
            h2 = sigmoid(a[:, 3 * n:]) * np.tanh(c2)
        else:
            r, z = sigmoid(i[:, :n] + j[:, :n]), sigmoid(i[:, n:2 * n] + j[:, n:2 * n])
            c2, h2 = c, (1 - z) * np.tanh(i[:, 2 * n:] + r * j[:, 2 * n:]) + z * h
        on = keep[t][:, None]
        h, c = np.where(on, h2, h), np.where(on, c2, c)
        ys[t] = h * on
    return np.stack(ys), h


def rnn(x, hx, cx, w, h, lengths=None):
    ways, keep = (2 if h.bidirectional else 1), np.ones(x.shape[:2], bool)
    if lengths is not None:
        keep = np.arange(len(x))[:, None] < lengths
    shapes = autograd._RNN.weight_shapes(h, x.shape[2])
    parts = [p.reshape(s) for p, s in zip(np.split(w, np.cumsum([np.prod(s) for s in shapes])),
                                          shapes)]
    half = len(parts) // 2
    for layer in range(h.num_layers):
        both = []
        for way in range(ways):
            k = layer * ways + way
            both.append(sweep(h.mode == 2, x, hx[k], cx[k], parts[2 * k:2 * k + 2] +
                              parts[half + 2 * k:half + 2 * k + 2], keep, way == 1)[0])
        x = np.concatenate(both, 2)
    return x


@pytest.mark.parametrize("rnn_mode, layers, bidirectional, sequences, masked", [
    (2, 1, False, True, False), (2, 1, False, False, False), (2, 2, True, True, False),
    (3, 1, False, True, False), (3, 2, True, False, False), (2, 1, False, True, True),
    (2, 1, False, False, True), (3, 1, True, False, True)])
def test_rnn(rnn_mode, layers, bidirectional, sequences, masked, mode):
    h = SimpleNamespace(hidden_size=3, mode=rnn_mode, num_layers=layers,
                        bidirectional=bidirectional)
    states = layers * (2 if bidirectional else 1)
    x = flat((4, 2, 2), seed=1)
    size = sum(int(np.prod(s)) for s in autograd._RNN.weight_shapes(h, 2))
    hx, cx = flat((states, 2, 3), -0.5, 0.5, seed=2), flat((states, 2, 3), -0.6, 0.4, seed=3)
    w = flat((size,), -0.8, 0.8, seed=4)
    lengths = np.array([2, 4]) if masked else None
    lengths_t = masked and Tensor(data=lengths, dtype=tensor.int32)

    def reference(x, hx, cx, w):
        y = rnn(x, hx, cx, w, h, lengths)
        return y if sequences else y[lengths - 1, [0, 1]] if masked else y[-1]

    case = Case("rnn", lambda *xs: A._RNN(h, sequences, masked, lengths_t)(*xs)[0], reference,
                x, hx, cx, w, rtol=2e-3, atol=1e-4)
    check_value(case, mode)
    if rnn_mode == 2:
        check_creator(case, mode)
        check_backward(case, mode)
    else:
        case.inputs[2] = case.inputs[2].astype(int)     # no cell state: no gradient
        check_creator(case, mode)
