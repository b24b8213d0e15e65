"""arraycheck - functions of raw tensors or Tensors against NumPy, computed and recorded."""
import numpy as np

from conftest import run
from weir import core, tensor
from weir import singa_wrap as singa

R = np.random.default_rng(7)


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def i32(*shape):
    return R.integers(-9, 10, shape).astype(np.int32)


def raw(array):
    """A raw tensor of the array's type: float32, int32 or float64."""
    array = np.asarray(array)
    t = singa.Tensor(array.shape, core.dtype_number(array.dtype))
    t.from_numpy(array)
    return t


def same(t, expected, rtol=1e-5, atol=1e-6):
    """The Tensor or raw tensor has shape, type and values of the array; truth values are 0 and 1 in
    float32."""
    expected = np.asarray(expected)
    if isinstance(t, tensor.Tensor):
        assert t.shape == expected.shape and t.dtype == t.data.data_type()
        t = t.data
    kind = np.float32 if expected.dtype == np.bool_ else expected.dtype
    assert t.shape() == expected.shape and t.to_numpy().dtype == kind
    np.testing.assert_allclose(t.to_numpy(), expected, rtol, atol)


def check_made(make, mode, function, expected, arrays, tolerance):
    """function of make(array)... against an array, or a tuple of them against as many."""
    made = [make(a) for a in arrays]
    ys = run(lambda: function(*made), core.cpu(), mode)
    if not isinstance(expected, tuple):
        ys, expected = (ys,), (expected,)
    assert len(ys) == len(expected)
    for y, e in zip(ys, expected):
        same(y, e, **tolerance)


def check_raw(mode, function, expected, *arrays, **tolerance):
    check_made(raw, mode, function, expected, arrays, tolerance)


def check(mode, function, expected, *arrays, **tolerance):
    check_made(tensor.from_numpy, mode, function, expected, arrays, tolerance)
