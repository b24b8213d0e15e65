"""test_masks - parts of Tensors that masks select, against NumPy; gradients through them."""
import numpy as np
import pytest

import weir
from weir import autograd, core, tensor
from weir.errors import DtypeError, ShapeError, StateError

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 9


@pytest.mark.parametrize("mask", [
    A > 0, A > 100, A[:, :, 0] != 3, np.array([True, False]), [False, True]],
    ids=["all axes", "nothing", "two axes", "one axis", "list"])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_selects(mask, kind):
    x = weir.array(A)
    key = weir.array(np.asarray(mask)) if kind == "tensor" else mask
    got = x[key].numpy()
    np.testing.assert_array_equal(got, A[np.asarray(mask)])
    assert got.shape == A[np.asarray(mask)].shape


def test_a_comparison_selects():
    x = weir.array(A)
    np.testing.assert_array_equal(x[x > 0].numpy(), A[A > 0])
    np.testing.assert_array_equal(x[(x > 0) & (x < 5)].numpy(), A[(A > 0) & (A < 5)])


def test_assigns():
    """A number or a row for each that is selected; in the tensor's type."""
    for new in (0, -2.5, np.arange((A < 0).sum(), dtype=np.float32)):
        x, want = weir.array(A), A.copy()
        shared = x.copy()
        x[x < 0] = new if np.ndim(new) == 0 else weir.array(new)
        want[A < 0] = new
        np.testing.assert_array_equal(x.numpy(), want)
        np.testing.assert_array_equal(shared.numpy(), want)
    ints = weir.array(np.arange(5, dtype=np.int32))
    ints[ints > 2] = 7
    assert ints.tolist() == [0, 1, 2, 7, 7] and ints.dtype == weir.int32
    rows = weir.array(A[0] - 0.5)
    rows[np.array([True, False, True])] = np.zeros((2, 4), np.float32)
    assert rows.numpy()[[0, 2]].any() == 0 and rows.numpy()[1].all()
    with pytest.raises(ShapeError, match=r"y has shape \(3,\), must be \(9,\) or one element"):
        rows[A[0] < 0] = weir.ones((3,))


@pytest.mark.usefixtures("training")
def test_gradients():
    """They flow to what is selected, and past what is assigned."""
    w = weir.array(A, requires_grad=True)
    (w * w)[w > 0].sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.where(A > 0, 2 * A, 0))
    y, v = w * 3.0, weir.ones(((A < 0).sum(),), requires_grad=True)
    y[w < 0] = v * 2.0
    y.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.where(A < 0, 0, 3))
    np.testing.assert_array_equal(v.grad.numpy(), np.full(v.shape, 2))


def test_in_a_recording():
    """How much is selected is unknown; a number can be assigned."""
    dev, x = core.cpu(), weir.array(A)
    dev.EnableGraph(True)
    y = x * 2.0
    with pytest.raises(StateError, match="in a recording they are not: use autograd.where"):
        y[y > 0]
    y[y > 0] = 1
    dev.EnableGraph(False)
    dev.RunGraph()
    np.testing.assert_array_equal(y.numpy(), np.where(A > 0, 1, 2 * A))
    dev.Reset()


@pytest.mark.parametrize("mask, error, text", [
    (np.ones((3, 2), bool), ShapeError, r"a mask of shape \(3, 2\) does not select .* \(2, 3, 4\)"),
    (np.array([0, 1]), DtypeError, "the mask is of int64, must be bool; autograd.gather"),
    (weir.array([0, 1]), DtypeError, "int64, must be bool or float32 of 0 and 1"),
    (weir.array([0.0, 2.0]), DtypeError, "must hold 0 and 1 only")],
    ids=["shape", "array of indices", "indices", "values"])
def test_refuses(mask, error, text):
    with pytest.raises(error, match=text):
        weir.array(A)[mask]


@pytest.mark.usefixtures("training")
def test_grad():
    """backward() of a Tensor leaves the gradient at its tensor; a recording does not hold it."""
    w = weir.array([1.0, 2.0], requires_grad=True)
    assert w.grad is None
    for _ in range(2):                          # replaced, not added to
        pairs = (w * w).sum().backward()
        assert w.grad is pairs[0][1] and w.grad.tolist() == [2, 4]
    del pairs
    assert w.grad.tolist() == [2, 4]
    w.grad = None
    assert w.grad is None
    with core.cpu().graph() as step:
        pairs = (w * w).sum().backward()
        assert w.grad is pairs[0][1]
    step.run()
    assert w.grad.tolist() == [2, 4]
    del pairs
    with pytest.raises(StateError, match="its backward was recorded"):
        w.grad
    (w * 3.0).sum().backward()
    assert w.grad.tolist() == [3, 3]
    list(autograd.backward((w * 5.0).sum()))
    assert w.grad.tolist() == [3, 3]            # SINGA's function only yields pairs
    assert isinstance(tensor.ones((1,)).grad, type(None))
