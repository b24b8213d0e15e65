"""test_layer_functions - layers of one function: values against NumPy, values and gradients against
PyTorch where it is installed."""
import math

import numpy as np
import pytest

from weir import autograd, layer, tensor
from weir.errors import ShapeError

from layers import check, given, host, sigmoid

try:
    import torch
except ImportError:
    torch = None

rng = np.random.default_rng(5)
X = (3 * rng.normal(size=(2, 3, 4, 5))).astype(np.float32)
erf = np.vectorize(math.erf)


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


def log_softmax(x, axis):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


# name: (the layer, PyTorch's, NumPy's function or None)
LAYERS = {
    "Identity": (layer.Identity, lambda nn: nn.Identity(), lambda x: x),
    "ReLU6": (layer.ReLU6, lambda nn: nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    "LeakyReLU": (layer.LeakyReLU, lambda nn: nn.LeakyReLU(),
                  lambda x: np.where(x > 0, x, x / 100)),
    "LeakyReLU 0.2": (lambda: layer.LeakyReLU(0.2), lambda nn: nn.LeakyReLU(0.2),
                      lambda x: np.where(x > 0, x, 0.2 * x)),
    "PReLU": (layer.PReLU, lambda nn: nn.PReLU(), lambda x: np.where(x > 0, x, x / 4)),
    "PReLU 3": (lambda: layer.PReLU(3, 0.5), lambda nn: nn.PReLU(3, 0.5),
                lambda x: np.where(x > 0, x, x / 2)),
    "ELU": (layer.ELU, lambda nn: nn.ELU(), lambda x: np.where(x > 0, x, np.expm1(x))),
    "ELU 0.5": (lambda: layer.ELU(0.5), lambda nn: nn.ELU(0.5),
                lambda x: np.where(x > 0, x, np.expm1(x) / 2)),
    "SELU": (layer.SELU, lambda nn: nn.SELU(), None),
    "GELU": (layer.GELU, lambda nn: nn.GELU(), lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))),
    "GELU tanh": (lambda: layer.GELU("tanh"), lambda nn: nn.GELU("tanh"), lambda x: x / 2 * (
        1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    "SiLU": (layer.SiLU, lambda nn: nn.SiLU(), lambda x: x * sigmoid(x)),
    "Mish": (layer.Mish, lambda nn: nn.Mish(), lambda x: x * np.tanh(softplus(x))),
    "Hardswish": (layer.Hardswish, lambda nn: nn.Hardswish(),
                  lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "Hardsigmoid": (layer.Hardsigmoid, lambda nn: nn.Hardsigmoid(),
                    lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "Hardtanh": (lambda: layer.Hardtanh(-2, 1), lambda nn: nn.Hardtanh(-2, 1),
                 lambda x: np.clip(x, -2, 1)),
    "Softplus": (layer.Softplus, lambda nn: nn.Softplus(), softplus),
    "Softplus 2": (lambda: layer.Softplus(2), lambda nn: nn.Softplus(2),
                   lambda x: softplus(2 * x) / 2),
    "Softsign": (layer.Softsign, lambda nn: nn.Softsign(), lambda x: x / (1 + abs(x))),
    "LogSigmoid": (layer.LogSigmoid, lambda nn: nn.LogSigmoid(), lambda x: -softplus(-x)),
    "LogSoftmax": (layer.LogSoftmax, lambda nn: nn.LogSoftmax(-1), lambda x: log_softmax(x, -1)),
    "LogSoftmax 1": (lambda: layer.LogSoftmax(1), lambda nn: nn.LogSoftmax(1),
                     lambda x: log_softmax(x, 1)),
    "Upsample": (layer.Upsample, lambda nn: nn.Upsample(scale_factor=2),
                 lambda x: x.repeat(2, 2).repeat(2, 3)),
    "Upsample bilinear": (lambda: layer.Upsample((2, 3), "bilinear"), lambda nn: nn.Upsample(
        scale_factor=(2.0, 3.0), mode="bilinear", align_corners=False), None),
    "GlobalAvgPool2d": (layer.GlobalAvgPool2d, lambda nn: nn.AdaptiveAvgPool2d(1),
                        lambda x: x.mean((2, 3), keepdims=True)),
}


@pytest.mark.parametrize("name", [name for name in LAYERS if LAYERS[name][2]])
def test_values_are_numpys(name, mode):
    make, _, wanted = LAYERS[name]
    net = make()
    net(given(X))                       # makes the parameters
    check(lambda: net(given(X)), wanted(X.astype(np.float64)), mode, 2e-5)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", LAYERS)
def test_values_and_gradients_are_pytorchs(name, training):
    make, twin, _ = LAYERS[name]
    net, twin = make(), twin(torch.nn)
    x = tensor.Tensor(data=X, requires_grad=True, stores_grad=True)
    there = torch.from_numpy(X.copy()).requires_grad_()
    y, want = net(x), twin(there)
    np.testing.assert_allclose(host(y), want.detach().numpy(), rtol=2e-5, atol=2e-6)
    weights = rng.normal(size=y.shape).astype(np.float32)
    grads = {id(p): host(g) for p, g in autograd.backward(
        autograd.reduce_sum(autograd.mul(y, given(weights))))}
    (want * torch.from_numpy(weights)).sum().backward()
    np.testing.assert_allclose(grads[id(x)], there.grad.numpy(), rtol=1e-4, atol=1e-5)
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(grads[id(p)], q.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_dropout_of_channels(mode, training):
    x = np.ones((20, 30, 2, 3), np.float32)
    net = layer.Dropout2d(0.25)
    check(lambda: autograd.min(net(given(x)), given(0 * x)), 0 * x, mode)
    y = host(net(given(x)))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (y == y[:, :, :1, :1]).all() and abs((y == 0).mean() - 0.25) < 0.06
    autograd.training = False
    np.testing.assert_array_equal(host(net(given(x))), x)


MISTAKES = {
    "approximate": (lambda: layer.GELU("cosh"), ValueError, "expected none or tanh"),
    "beta": (lambda: layer.Softplus(0), ValueError, "beta is 0, must be above 0"),
    "limits": (lambda: layer.Hardtanh(2, 1), ValueError, "min_val 2 must be below max_val 1"),
    "factor": (lambda: layer.Upsample(1.5), ValueError, "scale_factor is 1.5, must be a whole"),
    "upsample": (lambda: layer.Upsample(2, "cubic"), ValueError, "expected nearest or bilinear"),
    "slopes": (lambda: layer.PReLU(4)(given(X)), ShapeError, "4 slopes for x of shape"),
    "channels": (lambda: layer.Dropout2d()(given(X[0, 0, 0])), ShapeError, "must have channels"),
    "ratio": (lambda: layer.Dropout2d(2), ValueError, "must be from 0 to 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told(name):
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words):
        call()
