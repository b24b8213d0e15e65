"""test_autograd_elementwise - element-wise operators of autograd: values and gradients."""
import math

import numpy as np
import pytest

from conftest import run
from gradcheck import Case, check_backward, check_creator, check_value, flat
from weir import autograd, core, layer, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

X = flat((3, 5))
UNIT = flat((3, 5), -0.91, 0.88, seed=3)
POSITIVE = flat((3, 5), 0.2, 3.0)
ABOVE = flat((3, 5), 1.2, 4.0)
BROAD = flat((3, 1), -1.37, 1.61, seed=1)
ROW = flat((5,), 0.51, 2.03, seed=2)
erf = np.vectorize(math.erf)
A = autograd


def half_from_zero(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def elu(x, alpha):
    return np.where(x > 0, x, alpha * np.expm1(x))


SMOOTH = [
    Case("relu", A.relu, lambda x: np.maximum(x, 0), X),
    Case("sigmoid", A.sigmoid, lambda x: 1 / (1 + np.exp(-x)), X),
    Case("tanh", A.tanh, np.tanh, X),
    Case("exp", A.exp, np.exp, X),
    Case("log", A.log, np.log, POSITIVE),
    Case("sqrt", A.sqrt, np.sqrt, POSITIVE),
    Case("abs", A.abs, np.abs, X),
    Case("negative", A.negative, np.negative, X),
    Case("reciprocal", A.reciprocal, np.reciprocal, POSITIVE),
    Case("identity", A.identity, lambda x: x, X),
    Case("erf", A.erf, erf, X),
    Case("sin", A.sin, np.sin, X),
    Case("cos", A.cos, np.cos, X),
    Case("tan", A.tan, np.tan, UNIT),
    Case("asin", A.asin, np.arcsin, UNIT),
    Case("acos", A.acos, np.arccos, UNIT),
    Case("atan", A.atan, np.arctan, X),
    Case("sinh", A.sinh, np.sinh, X),
    Case("cosh", A.cosh, np.cosh, X),
    Case("asinh", A.asinh, np.arcsinh, X),
    Case("acosh", A.acosh, np.arccosh, ABOVE),
    Case("atanh", A.atanh, np.arctanh, UNIT),
    Case("sign", A.sign, np.sign, X),
    Case("ceil", A.ceil, np.ceil, X),
    Case("floor", A.floor, np.floor, X),
    Case("round", A.round, half_from_zero, X),
    Case("rounde", A.rounde, np.rint, X),
    Case("elu", A.elu, lambda x: elu(x, 1), X),
    Case("elu-alpha", lambda x: A.elu(x, 0.7), lambda x: elu(x, 0.7), X),
    Case("selu", A.selu, lambda x: 1.0507 * elu(x, 1.67326), X),
    Case("selu-alpha", lambda x: A.selu(x, 2.0, 3.0), lambda x: 3 * elu(x, 2), X),
    Case("leakyrelu", A.leakyrelu, lambda x: np.where(x > 0, x, 0.01 * x), X),
    Case("leakyrelu-a", lambda x: A.leakyrelu(x, 0.3), lambda x: np.where(x > 0, x, 0.3 * x), X),
    Case("hardsigmoid", A.hardsigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1), 2 * X),
    Case("hardsigmoid-alpha", lambda x: A.hardsigmoid(x, 0.6, 0.4),
         lambda x: np.clip(0.6 * x + 0.4, 0, 1), X),
    Case("softplus", A.softplus, lambda x: np.log1p(np.exp(x)), X),
    Case("softsign", A.softsign, lambda x: x / (1 + np.abs(x)), X),
    Case("prelu", A.prelu, lambda x, s: np.where(x > 0, x, s * x), X, UNIT),
    Case("prelu-row", A.prelu, lambda x, s: np.where(x > 0, x, s * x), X, ROW),
    Case("prelu-one", A.prelu, lambda x, s: np.where(x > 0, x, s * x), X, np.array([0.2])),
    Case("clip", lambda x: A.clip(x, -0.5, 1.1), lambda x: np.clip(x, -0.5, 1.1), X),
    Case("clip-min", lambda x: A.clip(x, min=0.3), lambda x: np.maximum(x, 0.3), X),
    Case("clip-max", lambda x: A.clip(x, None, 0.3), lambda x: np.minimum(x, 0.3), X),
    Case("clip-none", A.clip, lambda x: x, X),
    Case("dropout-0", lambda x: A.dropout(x, 0, 0.0), lambda x: x, X),
    Case("add", A.add, np.add, X, UNIT),
    Case("add-column", A.add, np.add, X, BROAD),
    Case("add-row", A.add, np.add, ROW, X),
    Case("sub", A.sub, np.subtract, X, UNIT),
    Case("sub-row", A.sub, np.subtract, ROW, X),
    Case("mul", A.mul, np.multiply, X, UNIT),
    Case("mul-both", A.mul, np.multiply, BROAD, ROW),
    Case("div", A.div, np.divide, X, POSITIVE),
    Case("div-row", A.div, np.divide, X, ROW),
    Case("pow", A.pow, np.power, POSITIVE, X),
    Case("pow-row", A.pow, np.power, POSITIVE, ROW),
    Case("sum", A.sum, lambda a, b, c: a + b + c, X, UNIT, POSITIVE),
    Case("sum-one", A.sum, lambda a: a, X),
    Case("mean", A.mean, lambda a, b, c: (a + b + c) / 3, X, UNIT, POSITIVE),
    Case("max-one", A.max, lambda a: a, X),
    Case("max", A.max, np.maximum, X, UNIT),
    Case("max-row", A.max, np.maximum, X, ROW),
    Case("max-three", A.max, lambda a, b, c: np.maximum(np.maximum(a, b), c), X, UNIT, BROAD),
    Case("min", A.min, np.minimum, X, UNIT),
    Case("min-three", A.min, lambda a, b, c: np.minimum(np.minimum(a, b), c), X, UNIT, BROAD),
    Case("add_all", lambda a, b, c: A.add_all(a, b, c), lambda a, b, c: a + b + c, X, BROAD, ROW),
]


@pytest.mark.parametrize("case", SMOOTH, ids=repr)
def test_value(case, mode):
    check_value(case, mode)


@pytest.mark.parametrize("case", [c for c in SMOOTH if c.name != "add_all"], ids=repr)
def test_creator(case, mode):
    check_creator(case, mode)


@pytest.mark.parametrize("case", SMOOTH, ids=repr)
def test_backward(case, mode):
    check_backward(case, mode)


# ---- without a gradient ----

P = np.array([[0, 1, 0], [1, 1, 0]])
Q = np.array([[1, 1, 0]])
TRUTH = [
    Case("less", A.less, np.less, X, np.round(X)),
    Case("less-row", A.less, np.less, X, ROW),
    Case("greater", A.greater, np.greater, X, np.round(X)),
    Case("equal", A.equal, np.equal, np.round(X), np.round(X.copy()[::-1])),
    Case("equal-int", A.equal, np.equal, P, Q),
    Case("and", A._and, np.logical_and, P, Q),
    Case("or", A._or, np.logical_or, P.astype(float), Q.astype(float)),
    Case("xor", A._xor, np.logical_xor, P, Q),
    Case("not", A._not, np.logical_not, P.astype(float)),
]


@pytest.mark.parametrize("case", TRUTH, ids=repr)
def test_truth(case, mode):
    case.expected = lambda f=case.expected: [y.astype(float) for y in f()]
    check_value(case, mode)


@pytest.mark.parametrize("case", TRUTH, ids=repr)
def test_truth_has_no_gradient(case):
    y = case.call(*case.tensors())
    assert y.dtype == tensor.float32 and not y.requires_grad
    with pytest.raises(AssertionError, match="no gradient"):
        y.creator.backward(y.data)


# ---- integers, mixed types ----

INTEGERS = np.array([[-7, 2, 3], [8, -5, 60]])
J = np.array([[2, -3, 4], [1, 2, 2]])


@pytest.mark.parametrize("name, reference", [
    ("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
    ("div", lambda a, b: np.trunc(a / b)),
    ("pow", lambda a, b: np.trunc(a.astype(float) ** b)),
    ("max", np.maximum), ("min", np.minimum), ("sum", np.add)])
def test_integers(name, reference, mode):
    a, b = Case("", None, None, INTEGERS, J).tensors()
    y = run(lambda: getattr(A, name)(a, b), core.cpu(), mode)
    assert y.dtype == tensor.int32
    np.testing.assert_array_equal(tensor.to_numpy(y), reference(INTEGERS, J))


@pytest.mark.parametrize("name, reference", [
    ("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)])
def test_integer_with_float(name, reference, mode):
    check_backward(Case(name, getattr(A, name), reference, INTEGERS, POSITIVE[:2, :3]), mode)
    y = getattr(A, name)(*Case("", None, None, INTEGERS, POSITIVE[:2, :3]).tensors())
    assert y.dtype == tensor.float32


@pytest.mark.parametrize("name", ["relu", "abs", "negative", "sign", "floor", "ceil", "identity"])
def test_integer_stays(name):
    x, = Case("", None, None, INTEGERS).tensors()
    y = getattr(A, name)(x)
    reference = {"relu": lambda x: np.maximum(x, 0), "identity": lambda x: x}.get(name)
    assert y.dtype == tensor.int32
    np.testing.assert_array_equal(tensor.to_numpy(y), (reference or getattr(np, name))(INTEGERS))


def test_doubles_stay_doubles():
    a = Tensor(data=X, dtype=tensor.float64, stores_grad=True)
    y = A.reduce_sum(A.tanh(A.mul(a, a)))
    grads = dict((id(p), g) for p, g in A.backward(y))
    assert y.dtype == tensor.float64
    np.testing.assert_allclose(tensor.to_numpy(grads[id(a)]),
                               2 * X * (1 - np.tanh(X * X) ** 2), rtol=1e-12, atol=1e-14)


# ---- ties: the first input has the gradient ----

@pytest.mark.parametrize("name", ["max", "min"])
def test_ties(name, mode):
    a, b, c = (np.array(v, float) for v in ([1, 2, 3, 3], [1, 3, 2, 3], [1, 1, 1, 3]))
    dy = np.array([2, 3, 5, 7], float)
    xs = Case("", None, None, a, b, c).tensors()
    g = Tensor(data=dy.astype(np.float32))
    grads = run(lambda: getattr(A, name)(*xs).creator.backward(g.data), core.cpu(), mode)
    first = np.argmax(np.stack([a, b, c]) * (1 if name == "max" else -1), axis=0)
    for i, got in enumerate(grads):
        np.testing.assert_array_equal(got.to_numpy(), dy * (first == i))


@pytest.mark.parametrize("name, kind", [("max", A.CTensor), ("min", A.CTensor), ("sum", tuple),
                                        ("mean", tuple)])
def test_one_input(name, kind):
    """SINGA's max and min give one gradient of one input; a sum gives a tuple however many."""
    x, = Case("", None, None, X).tensors()
    y = getattr(A, name)(x)
    dx = y.creator.backward(x.data)
    np.testing.assert_array_equal(tensor.to_numpy(y), X.astype(np.float32))
    assert isinstance(dx, kind)


# ---- dropout ----

def test_dropout_scales(mode):
    x = Tensor(data=np.ones((200, 100), np.float32), stores_grad=True)

    def both():
        y = A.dropout(x, 0, 0.2)
        return y, y.creator.backward(x.data)

    y, dx = run(both, core.cpu(), mode)
    y, dx = tensor.to_numpy(y), dx.to_numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1.25)}
    assert abs((y == 0).mean() - 0.2) < 0.02
    np.testing.assert_array_equal(y, dx)        # of ones: the gradient has the same mask


def test_dropout_draws_a_new_mask_each_time():
    x = Tensor(data=np.ones((50, 50), np.float32))
    a, b = tensor.to_numpy(A.dropout(x)), tensor.to_numpy(A.dropout(x))
    assert (a != b).any()


def test_dropout_of_a_seed_repeats():
    x = Tensor(data=np.ones((50, 50), np.float32))
    dev, drawn = core.cpu(), []
    for _ in range(2):
        dev.SetRandSeed(11)
        drawn.append(tensor.to_numpy(A.dropout(x, 0.5)))
    np.testing.assert_array_equal(*drawn)


def test_dropout_is_x_outside_training():
    x = Tensor(data=X.astype(np.float32))
    autograd.training = False
    np.testing.assert_array_equal(tensor.to_numpy(A.dropout(x, 0, 0.7)), X.astype(np.float32))


def test_dropout_of_all():
    x = Tensor(data=np.ones((5, 5), np.float32), stores_grad=True)
    y = A.dropout(x, 0, 1.0)
    assert not tensor.to_numpy(y).any()
    assert not y.creator.backward(x.data).to_numpy().any()


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_dropout_refuses_what_is_no_ratio(ratio):
    for make in (A.Dropout, layer.Dropout):
        with pytest.raises(ValueError, match="dropout: ratio .*, must be from 0 to 1"):
            make(ratio=ratio)


# ---- mistakes ----

@pytest.mark.parametrize("name", ["sum", "mean"])
def test_shapes_must_be_equal(name):
    a, b = Case("", None, None, X, ROW).tensors()
    with pytest.raises(AssertionError, match="differ"):
        getattr(A, name)(a, b)


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "add_all"])
def test_no_input(name):
    with pytest.raises(AssertionError, match="no input"):
        getattr(A, name)()


def test_shapes_that_do_not_broadcast():
    a, b = Case("", None, None, X, X.T).tensors()
    with pytest.raises(ValueError, match="add"):
        A.add(a, b)


def test_inputs_are_tensors():
    with pytest.raises(TypeError, match="Tensors"):
        A.relu(X)
