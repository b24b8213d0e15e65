"""test_autograd_loss - losses of autograd against NumPy, with every form of target."""
import numpy as np
import pytest

from conftest import run
from gradcheck import Case, check_backward, check_creator, check_value, flat
from weir import autograd, core, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd
X = flat((4, 3))
P = np.exp(X) / np.exp(X).sum(1, keepdims=True)
CLASSES = np.array([2, 0, 1, 2])
ONE_HOT = np.eye(3)[CLASSES]
SOFT = np.random.default_rng(3).dirichlet(np.ones(3), 4)
TWO_HOT = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
NO_HOT = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]])
POS, NEG = flat((3, 2), seed=1), flat((3, 2), -1.9, 2.2, seed=2)


def target(values, kind):
    return Tensor(data=np.asarray(values, kind), dtype=core.dtype_number(kind),
                  requires_grad=False)


def softmax_ce(x, t):
    shifted = x - x.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return -(t * logs).sum() / len(x)


CASES = [Case(f"softmax_cross_entropy-{name}",
              lambda x, v=values, k=kind: A.softmax_cross_entropy(x, target(v, k)),
              lambda x, t=weights: softmax_ce(x, t), X)
         for name, values, kind, weights in [
             ("classes", CLASSES, np.int32, ONE_HOT),
             ("column", CLASSES[:, None], np.int32, ONE_HOT),
             ("floats", CLASSES, np.float32, ONE_HOT),
             ("float-column", CLASSES[:, None], np.float32, ONE_HOT),
             ("one-hot-int", ONE_HOT, np.int32, ONE_HOT), ("one-hot", ONE_HOT, np.float32, ONE_HOT),
             ("soft", SOFT, np.float32, SOFT), ("weights", 3 * SOFT, np.float32, SOFT),
             ("two-hot", TWO_HOT, np.int32, TWO_HOT / TWO_HOT.sum(1, keepdims=True)),
             ("no-hot", NO_HOT, np.float32, NO_HOT)]] + [
    Case("cross_entropy", lambda p: A.cross_entropy(p, target(SOFT, np.float32)),
         lambda p: -(SOFT * np.log(p)).sum() / 4, P),
    Case("cross_entropy-int", lambda p: A.cross_entropy(p, target(ONE_HOT, np.int32)),
         lambda p: -(ONE_HOT * np.log(p)).sum() / 4, P),
    Case("cross_entropy-classes", lambda p: A.cross_entropy(p, target(CLASSES, np.int32)),
         lambda p: -(ONE_HOT * np.log(p)).sum() / 4, P),
    Case("binary_cross_entropy", lambda p: A.binary_cross_entropy(p, target(SOFT, np.float32)),
         lambda p: -(SOFT * np.log(p + 1e-4) + (1 - SOFT) * np.log(1 - p + 1e-4)).sum() / 4, P),
    Case("binary_cross_entropy-int", lambda p: A.binary_cross_entropy(p, target(ONE_HOT, np.int32)),
         lambda p: -(ONE_HOT * np.log(p + 1e-4) + (1 - ONE_HOT) * np.log(1 - p + 1e-4)).sum() / 4,
         P),
    Case("mse_loss", lambda x: A.mse_loss(x, target(SOFT, np.float32)),
         lambda x: ((x - SOFT) ** 2).mean(), X),
    Case("mse_loss-class", lambda x: A.MeanSquareError(target(SOFT, np.float32))(x)[0],
         lambda x: ((x - SOFT) ** 2).mean(), X),
    Case("mse_loss-int", lambda x: A.mse_loss(x, target(ONE_HOT, np.int32)),
         lambda x: ((x - ONE_HOT) ** 2).mean(), X),
    Case("ranking_loss", A.ranking_loss, lambda p, n: np.maximum(0, 0.2 - p + n).mean(), POS, NEG),
    Case("ranking_loss-M", lambda p, n: A.ranking_loss(p, n, 0.7),
         lambda p, n: np.maximum(0, 0.7 - p + n).mean(), POS, NEG),
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


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_creator_without_a_gradient(case, mode):
    """loss.creator.backward() means a gradient of 1."""
    xs = case.tensors()
    grads = run(lambda: case.call(*xs).creator.backward(), core.cpu(), mode)
    grads = grads if isinstance(grads, tuple) else (grads,)
    one = case.weights()[0].item()
    for i, grad in enumerate(grads):
        case.close(grad.to_numpy(), case.differences(i) / one)


@pytest.mark.parametrize("dy", [2.0, Tensor(data=np.array([2.0], np.float32))], ids=["number", "t"])
def test_backward_from_a_gradient(dy, mode):
    x = CASES[0].tensors()[0]
    t = target(CLASSES, np.int32)
    pairs = run(lambda: list(A.backward(A.softmax_cross_entropy(x, t), dy)), core.cpu(), mode)
    p = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    np.testing.assert_allclose(tensor.to_numpy(pairs[0][1]), 2 * (p - ONE_HOT) / 4, rtol=1e-5,
                               atol=1e-7)


def test_cross_entropy_of_a_zero_probability():
    p = Tensor(data=np.array([[0, 1]], np.float32))
    right = A.cross_entropy(p, target([[0, 1]], np.float32))
    wrong = A.cross_entropy(p, target([[1, 0]], np.float32))
    assert tensor.to_numpy(right) == 0
    np.testing.assert_allclose(tensor.to_numpy(wrong), 126 * np.log(2), rtol=1e-5)


@pytest.mark.parametrize("call", [
    lambda a, b: A.mse_loss(a, b), lambda a, b: A.ranking_loss(a, b),
    lambda a, b: A.binary_cross_entropy(a, b), lambda a, b: A.softmax_cross_entropy(b, a)],
    ids=["mse", "ranking", "bce", "softmax"])
def test_shapes_must_fit(call):
    a, b = Case("", None, None, X, X[0]).tensors()
    with pytest.raises(AssertionError):
        call(a, b)
