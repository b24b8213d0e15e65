"""test_layer_gradient - gradients of layers in f64 against differences, graph off and on."""
import numpy as np
import pytest

from weir import autograd, core, layer, tensor

from conftest import run

rng = np.random.default_rng(1)


def wide(array):
    return tensor.Tensor(data=array, dtype=tensor.float64, stores_grad=True)


LAYERS = {
    "Linear": (lambda: layer.Linear(3), (4, 5)),
    "Linear of 3 axes": (lambda: layer.Linear(3), (2, 4, 5)),
    "Gemm": (lambda: layer.Gemm(3, 0.5, 2.0), (4, 5)),
    "Conv2d": (lambda: layer.Conv2d(4, 3, padding=1), (2, 2, 4, 4)),
    "Conv2d odd": (lambda: layer.Conv2d(2, 3, padding=(0, 1, 2, 0), stride=2), (1, 2, 4, 4)),
    "Conv2d groups": (lambda: layer.Conv2d(4, 2, group=2), (1, 4, 3, 3)),
    "SeparableConv2d": (lambda: layer.SeparableConv2d(3, 3, bias=True), (1, 2, 4, 4)),
    "ConvTranspose2d": (lambda: layer.ConvTranspose2d(2, 3, 2, 1, 1), (1, 3, 3, 3)),
    "BatchNorm2d": (layer.BatchNorm2d, (5, 2, 3, 3)),
    "GroupNorm": (lambda: layer.GroupNorm(2), (2, 4, 3, 3)),
    "LayerNorm": (layer.LayerNorm, (3, 5)),
    "RMSNorm": (layer.RMSNorm, (3, 5)),
    "AvgPool2d": (lambda: layer.AvgPool2d(3, 1, 1), (1, 2, 4, 4)),
    "MaxPool2d": (lambda: layer.MaxPool2d(2), (1, 2, 4, 4)),
    "GRU": (lambda: layer.GRU(3, bidirectional=True), (3, 2, 4)),
    "CudnnRNN": (lambda: layer.CudnnRNN(3, num_layers=2), (2, 3, 4)),
    "MultiHeadAttention": (lambda: layer.MultiHeadAttention(2), (2, 3, 4)),
    "causal attention": (lambda: layer.MultiHeadAttention(2, True), (2, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradient(name, mode, training):
    make, shape = LAYERS[name]
    net, x = make(), wide(rng.normal(size=shape))
    first = net(x)
    first = first[0] if isinstance(first, tuple) else first
    weights = tensor.Tensor(data=rng.uniform(-1, 1, first.shape), dtype=tensor.float64)
    assert first.dtype == tensor.float64

    def loss():
        y = net(x)
        y = y[0] if isinstance(y, tuple) else y
        return autograd.reduce_sum(autograd.mul(y, weights))

    def value():
        return float(tensor.to_numpy(loss()).reshape(-1)[0])

    wanted = {id(x): x} | {id(p): p for p in net.get_params().values()}
    grads = run(lambda: [(p, g) for p, g in autograd.backward(loss())], core.cpu(), mode)
    assert {id(p) for p, _ in grads} == set(wanted)
    for p, g in grads:
        host, got = tensor.to_numpy(p), tensor.to_numpy(g)
        for at in rng.permutation(host.size)[:6]:
            around = []
            for step in (1e-5, -1e-5):
                moved = host.copy()
                moved.flat[at] += step
                p.copy_from_numpy(moved)
                around.append(value())
            p.copy_from_numpy(host)
            np.testing.assert_allclose(got.flat[at], (around[0] - around[1]) / 2e-5, rtol=1e-5,
                                       atol=1e-7)
