"""test_in_place - tests that changes in place lose no gradient: they pass it, or say why not."""
import operator

import numpy as np
import pytest

from conftest import run
from weir import autograd as A
from weir import core, errors, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

X = np.array([[0.5, 2.0, 1.5], [1.0, 3.0, 0.25]], np.float32)
W = np.array([[2.0, 0.5, 1.25], [3.0, 1.5, 0.75]], np.float32)
OPERATORS = {"+=": (operator.iadd, operator.add), "-=": (operator.isub, operator.sub),
             "*=": (operator.imul, operator.mul), "/=": (operator.itruediv, operator.truediv),
             "**=": (operator.ipow, operator.pow), "%=": (operator.imod, operator.mod)}


def leaf(values):
    return Tensor(data=np.asarray(values, np.float32), stores_grad=True)


def plain(values):
    return Tensor(data=np.asarray(values, np.float32))


def gradients(build, mode, *arrays):
    """Gradients of the sum of squares of what `build` makes of leaves with these elements."""
    leaves = [leaf(a) for a in arrays]

    def step():
        got = dict((id(p), g) for p, g in A.backward(A.reduce_sum(build(*leaves).square())))
        return [got[id(p)] for p in leaves]

    return [g.numpy() for g in run(step, core.cpu(), mode)]


@pytest.mark.parametrize("symbol", OPERATORS)
def test_a_leaf_into_a_plain_tensor(symbol, mode):
    in_place, out_of_place = OPERATORS[symbol]

    def build(w):
        y = plain(X)
        return in_place(y, w)

    for got, want in zip(gradients(build, mode, W),
                         gradients(lambda w: out_of_place(plain(X), w), mode, W)):
        np.testing.assert_array_equal(got, want)
        assert np.abs(want).max() > 0


@pytest.mark.parametrize("symbol", OPERATORS)
def test_into_a_result_and_by_numbers(symbol, mode):
    in_place, out_of_place = OPERATORS[symbol]

    def build(op):
        def function(x, w):
            y = x * 2
            y = op(y, w)
            return op(y, 1.5)
        return function

    for got, want in zip(gradients(build(in_place), mode, X, W),
                         gradients(build(out_of_place), mode, X, W)):
        np.testing.assert_array_equal(got, want)


def test_parts(mode):
    """Gradients pass parts that are set, and none what they covered."""
    def build(x, w):
        y = tensor.zeros((3, 3))
        y[0:2] = x
        y[1:3, 1:2] = w[:, 0:1]
        y[2, 2] = 5.0
        return y

    x, w = gradients(build, mode, X, W)
    want = 2 * X
    want[1, 1] = 0
    np.testing.assert_array_equal(x, want)
    np.testing.assert_array_equal(w, np.stack([2 * W[:, 0], 0 * W[:, 0], 0 * W[:, 0]], 1))


def test_part_of_a_result_by_a_number():
    x = leaf(X)
    y = x * 3
    y[0] = 7.0
    (_, g), = A.backward(A.reduce_sum(y))
    np.testing.assert_array_equal(g.numpy(), [[0, 0, 0], [3, 3, 3]])
    np.testing.assert_array_equal(y.numpy()[0], [7, 7, 7])


def test_the_type_and_the_shape_stay():
    y = Tensor(data=np.zeros((2, 3)), dtype="float64")
    y += leaf(X)
    assert y.dtype == tensor.float64 and y.requires_grad
    (_, g), = A.backward(A.reduce_sum(y))
    assert g.dtype == tensor.float32
    with pytest.raises(errors.ShapeError):
        y = plain(X[0])
        y += leaf(X)


def test_a_parameter_takes_no_gradient_in():
    p = leaf(X)
    for change in (lambda: operator.iadd(p, leaf(W)), lambda: p.__setitem__(0, leaf(W)[0])):
        with pytest.raises(errors.StateError, match="stores its gradient"):
            change()
    p -= 0.5 * plain(W)                 # an update by hand
    p[0] = 1.0
    np.testing.assert_array_equal(p.numpy(), [np.ones(3), X[1] - W[1] / 2])


def test_a_result_elsewhere_takes_no_gradient_in():
    x = leaf(X)
    with pytest.raises(errors.StateError, match="out="):
        x.sum(0, out=plain(X[0]))
    plain(X).sum(0, out=plain(X[0]))
