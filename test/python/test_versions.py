"""test_versions - a gradient reads what the forward read, or an error says who changed it."""
import numpy as np
import pytest

from conftest import run
from weir import autograd, core, opt, tensor
from weir.errors import StateError
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")


def param(values=(2., 2.)):
    return Tensor(data=np.asarray(values, np.float32), stores_grad=True)


def cubes(p):
    return autograd.reduce_sum(autograd.mul(autograd.mul(p, p), p))


def squares(p):
    return autograd.reduce_sum(autograd.mul(p, p))


def gradient(loss):
    return list(autograd.backward(loss))[0][1]


def sgd(p):
    opt.SGD(0.1)(squares(p))


def add_one(p):
    p += 1.0


def assign_slice(p):
    p[0:1] = 7.0


def write_through_numpy(p):
    array = np.asarray(p, copy=False) if np.lib.NumpyVersion(np.__version__) >= "2.0.0" \
        else p.__array__(copy=False)
    array[0] = 7.0


WRITERS = {
    "copy_from_numpy": (lambda p: p.copy_from_numpy(np.ones(2, np.float32)), "weir_write"),
    "set_value": (lambda p: p.set_value(5.0), "weir_write_fill"),
    "gaussian": (lambda p: p.gaussian(0.0, 1.0), "weir_write_normal"),
    "+=": (add_one, "assign"),
    "slice": (assign_slice, "changed since"),
    "copy_data": (lambda p: p.copy_data(param([3., 4.])), "changed since"),
    "sgd": (sgd, "sgd_update"),
    "numpy": (write_through_numpy, "address was given away"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_change_before_the_gradient(name):
    write, by = WRITERS[name]
    p = param()
    loss = cubes(p)
    write(p)
    with pytest.raises(StateError, match=by) as caught:
        gradient(loss)
    assert "take all gradients before the change" in str(caught.value)
    assert gradient(cubes(p)).shape == p.shape          # the forward again


@pytest.mark.parametrize("mode", ["off", "on"])
def test_two_losses(mode):
    p = param()
    rate = opt.SGD(0.1)

    def both_first():
        first, second = gradient(squares(p)), gradient(cubes(p))
        rate.update(p, first)
        return second
    second = run(both_first, core.cpu(), mode)
    now = 2.0 if mode == "off" else 1.6                 # two runs
    np.testing.assert_allclose(tensor.to_numpy(second), 3 * now**2 * np.ones(2), rtol=1e-6)


def test_the_wrong_order_while_recording():
    p, dev = param(), core.cpu()
    dev.EnableGraph(True)
    try:
        loss = cubes(p)
        sgd(p)
        with pytest.raises(StateError, match="sgd_update has changed since"):
            gradient(loss)
    finally:
        dev.Reset()


def test_what_the_gradient_does_not_read_may_change():
    p = param()
    loss = autograd.reduce_sum(autograd.add(p, p))
    p.set_value(5.0)
    np.testing.assert_array_equal(tensor.to_numpy(gradient(loss)), [2, 2])
