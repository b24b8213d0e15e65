"""test_autograd_attention - attention by PyTorch's names and defaults, against NumPy."""
import inspect

import numpy as np
import pytest

import weir
from conftest import run
from gradcheck import Case, check_backward, check_creator, check_value
from weir import autograd as A, core, layer, tensor

rng = np.random.default_rng(3)
Q, K = rng.normal(size=(2, 4, 3, 5)), rng.normal(size=(2, 4, 6, 5))
V = rng.normal(size=(2, 4, 6, 2))
GROUPED = rng.normal(size=(2, 2, 6, 5)), rng.normal(size=(2, 2, 6, 2))
MASK = rng.normal(size=(4, 3, 6))
SEEN = rng.uniform(size=(2, 1, 3, 6)) < 0.6
SEEN[1, 0, 2] = False           # a query that sees no key
LENGTHS = np.array([4, 9])      # more than there are keys
attend = A.scaled_dot_product_attention


def reference(q, k, v, mask=None, causal=False, scale=None, lengths=None):
    groups = q.shape[-3] // k.shape[-3] if q.ndim == 4 else 1
    k, v = (np.repeat(x, groups, axis=-3) if groups > 1 else x for x in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:])) > 0, s, -np.inf)
    if lengths is not None:
        s = np.where(np.arange(s.shape[-1]) < lengths.reshape(-1, 1, 1, 1), s, -np.inf)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    most = s.max(-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(most), most, 0))
    total = p.sum(-1, keepdims=True)
    return p / np.where(total == 0, 1, total) @ v


def with_seen(q, k, v):
    return attend(q, k, v, weir.array(SEEN))


CASES = [
    Case("plain", attend, reference, Q, K, V),
    Case("causal", lambda *x: attend(*x, is_causal=True), lambda *x: reference(*x, causal=True),
         Q, K, V),
    Case("scale", lambda *x: attend(*x, scale=0.3), lambda *x: reference(*x, scale=0.3), Q, K, V),
    Case("no_scale", lambda *x: attend(*x, scale=0.0), lambda *x: reference(*x, scale=0.0),
         Q, K, V),
    Case("grouped", lambda *x: attend(*x, enable_gqa=True), reference, Q, *GROUPED),
    Case("added_mask", attend, reference, Q, K, V, MASK),
    Case("bool_mask", with_seen, lambda *x: reference(*x, mask=SEEN), Q, K, V),
    Case("lengths", lambda q, k, v, n: attend(q, k, v, key_lengths=n),
         lambda q, k, v, n: reference(q, k, v, lengths=n), Q, K, V, LENGTHS),
    Case("one_head", attend, reference, Q[0], K[0], V[0], MASK),
]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_values(case, mode):
    check_value(case, mode)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_gradients(case, mode, training):
    if case.name != "bool_mask":        # its creator gives a fourth gradient, None
        check_creator(case, mode)
    check_backward(case, mode)


def test_dropout(mode):
    """With equal scores and v the identity, the result shows which weights were dropped."""
    zeros = tensor.from_numpy(np.zeros((2, 3, 40, 4), np.float32))
    v = tensor.from_numpy(np.broadcast_to(np.eye(40, dtype=np.float32), (2, 3, 40, 40)).copy())
    y = tensor.to_numpy(run(lambda: attend(zeros, zeros, v, dropout_p=0.25), core.cpu(), mode))
    kept = y != 0
    np.testing.assert_allclose(y[kept], 1 / 40 / 0.75, rtol=1e-6)
    assert abs(kept.mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / kept.size)


def test_names_and_defaults_of_pytorch():
    wanted = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None,
              "enable_gqa": False}
    given = inspect.signature(attend).parameters
    assert list(given)[:8] == ["query", "key", "value", *wanted]
    assert {name: given[name].default for name in wanted} == wanted


def test_mistakes():
    q, k, v = (tensor.from_numpy(x.astype(np.float32)) for x in (Q, K, V))
    few = tensor.from_numpy(GROUPED[0].astype(np.float32))
    with pytest.raises(ValueError, match="is_causal or attn_mask"):
        attend(q, k, v, weir.array(SEEN), is_causal=True)
    with pytest.raises(ValueError, match="enable_gqa"):
        attend(q, few, few)
    with pytest.raises(ValueError, match="3 axes or 4"):
        attend(tensor.from_numpy(np.ones((3, 5), np.float32)), k, v)
    with pytest.raises(ValueError, match="dropout must be in"):
        attend(q, k, v, dropout_p=1.5)
    with pytest.raises(ValueError, match="does not broadcast"):
        attend(q, k, v, tensor.from_numpy(np.ones((3, 7), np.float32)))


def test_layer_takes_a_mask_lengths_and_dropout(training):
    x = tensor.from_numpy(rng.normal(size=(2, 6, 8)).astype(np.float32))
    net = layer.MultiHeadAttention(2, dropout=0.5)
    lengths = tensor.from_numpy(np.array([3, 6], np.int32))
    seen = weir.array(np.arange(6) < np.array([3, 6]).reshape(2, 1, 1, 1))
    dropped = tensor.to_numpy(net(x))
    assert not np.array_equal(dropped, tensor.to_numpy(net(x)))
    net.dropout = 0.0
    np.testing.assert_allclose(tensor.to_numpy(net(x, lengths=lengths)),
                               tensor.to_numpy(net(x, mask=seen)), rtol=1e-5, atol=1e-6)
