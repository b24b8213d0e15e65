"""layers - what the tests of layers share: data, parameters, comparison with NumPy."""
import numpy as np

from weir import core, tensor

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
