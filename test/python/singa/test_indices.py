"""test_indices - indices and class numbers out of range raise, ignored classes do not count."""
import numpy as np
import pytest

import weir
from weir import autograd, errors, tensor

TABLE = np.arange(6, dtype=np.float32).reshape(3, 2)


def given(a, grad=False):
    t = tensor.from_numpy(np.asarray(a))
    t.requires_grad = t.stores_grad = grad
    return t


@pytest.mark.parametrize("wrong", [3, -4, 2**31 - 1])
def test_an_index_out_of_range_is_an_index_error(wrong):
    index = given(np.array([0, wrong], np.int32))
    with pytest.raises(IndexError, match="gather: index .* is outside 0..2"):
        autograd.gather(given(TABLE), 0, index)
    with pytest.raises(weir.OutOfRangeError):
        autograd.embedding(index, given(TABLE))
    with pytest.raises(errors.OutOfRangeError, match=f"cross_entropy: class {wrong}"):
        autograd.softmax_cross_entropy(given(np.zeros((2, 3), np.float32)), index)


def test_ignored_classes_as_torch():
    torch = pytest.importorskip("torch")
    a = np.random.default_rng(3).standard_normal((5, 4)).astype(np.float32)
    for ignored, label in ((-100, -100), (2, 2), (-1, -1)):
        classes = np.array([0, label, 3, label, 1], np.int64)
        autograd.training = True
        try:
            x = given(a, grad=True)
            loss = autograd.softmax_cross_entropy(x, given(classes), ignore_index=ignored)
            dx = [g for p, g in autograd.backward(loss) if p is x][0]
        finally:
            autograd.training = False
        t = torch.from_numpy(a.copy()).requires_grad_()
        theirs = torch.nn.functional.cross_entropy(t, torch.from_numpy(classes),
                                                   ignore_index=ignored)
        theirs.backward()
        np.testing.assert_allclose(tensor.to_numpy(loss)[0], theirs.item(), rtol=1e-5)
        np.testing.assert_allclose(tensor.to_numpy(dx), t.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_all_classes_ignored_is_nan():
    loss = autograd.softmax_cross_entropy(given(np.ones((2, 3), np.float32)),
                                          given(np.array([-100, -100], np.int32)))
    assert np.isnan(tensor.to_numpy(loss)[0])
