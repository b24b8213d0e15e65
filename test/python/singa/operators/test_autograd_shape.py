"""test_autograd_shape - operators of autograd that move elements, reduce or multiply matrices."""
import numpy as np
import pytest

from conftest import run
from gradcheck import Case, check_backward, check_creator, check_value, flat
from weir import autograd, core, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd
X = flat((3, 4))
CUBE = flat((2, 3, 4), seed=1)
IMAGE = flat((2, 4, 4, 6), seed=2)
ROWS = flat((5, 2), seed=3)


def blocks_dcr(x, b):
    n, c, h, w = x.shape
    y = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // (b * b), h * b, w * b)


def blocks_crd(x, b):
    n, c, h, w = x.shape
    y = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c // (b * b), h * b, w * b)


def depth_dcr(x, b):
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


def depth_crd(x, b):
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 1, 3, 5, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


def scattered(x, indices, updates, axis):
    y = x.copy()
    for at in np.ndindex(*np.shape(indices)):
        place = list(at)
        place[axis] = np.asarray(indices)[at]
        y[tuple(place)] = np.asarray(updates)[at]
    return y


def softmax_from(x, axis):
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    e = np.exp(rows - rows.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).reshape(x.shape)


INDEX = [[1, 0, 2, 1], [0, 2, 1, -1]]
UPDATES = [[1.5, 2.5, 3.5, 4.5], [-1., -2., -3., -4.]]
WHERE = np.array([[1, 0, 1, 0], [0, 0, 1, 1], [1, 1, 0, 0]])

CASES = [
    Case("flatten", A.flatten, lambda x: x.reshape(2, 12), CUBE),
    Case("flatten-0", lambda x: A.flatten(x, 0), lambda x: x.reshape(1, 24), CUBE),
    Case("flatten-2", lambda x: A.flatten(x, 2), lambda x: x.reshape(6, 4), CUBE),
    Case("flatten-neg", lambda x: A.flatten(x, -1), lambda x: x.reshape(6, 4), CUBE),
    Case("flatten-end", lambda x: A.flatten(x, 3), lambda x: x.reshape(24, 1), CUBE),
    Case("reshape", lambda x: A.reshape(x, (4, 6)), lambda x: x.reshape(4, 6), CUBE),
    Case("reshape-0", lambda x: A.reshape(x, [0, -1]), lambda x: x.reshape(2, 12), CUBE),
    Case("reshape-image", lambda x: A.reshape(x, (2, -1)), lambda x: x.reshape(2, -1), IMAGE),
    Case("transpose", lambda x: A.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), CUBE),
    Case("transpose-all", lambda x: A.transpose(x, None), lambda x: x.T, CUBE),
    Case("squeeze", A.squeeze, np.squeeze, CUBE.reshape(1, 2, 3, 1, 4)),
    Case("squeeze-axis", lambda x: A.squeeze(x, 0), lambda x: x[0], CUBE.reshape(1, 2, 3, 1, 4)),
    Case("squeeze-list", lambda x: A.squeeze(x, [0, -2]), np.squeeze, CUBE.reshape(1, 2, 3, 1, 4)),
    Case("squeeze-all", A.squeeze, lambda x: x.reshape(1), np.array([[2.5]])),
    Case("unsqueeze", lambda x: A.unsqueeze(x, [0, 2]), lambda x: x.reshape(1, 3, 1, 4), X),
    Case("unsqueeze-int", lambda x: A.unsqueeze(x, -1), lambda x: x.reshape(3, 4, 1), X),
    Case("expand", lambda x: A.expand(x, [2, 3, 4]), lambda x: np.broadcast_to(x, (2, 3, 4)),
         X[:, :1]),
    Case("expand-one", lambda x: A.expand(x, [2, 1, 1]), lambda x: np.stack([x, x]), X),
    Case("cat", lambda a, b: A.cat([a, b]), lambda a, b: np.concatenate([a, b]), X, X[:1] + 5),
    Case("cat-1", lambda *xs: A.cat(xs, 1), lambda *xs: np.concatenate(xs, 1), X, X[:, :2], X + 9),
    Case("cat-one", lambda x: A.cat([x], -1), lambda x: x, X),
    Case("split", lambda x: A.split(x, 1, [1, 3]), lambda x: (x[:, :1], x[:, 1:]), X),
    Case("split-equal", lambda x: A.split(x, -1, None, 2), lambda x: (x[:, :2], x[:, 2:]), X),
    Case("slice", lambda x: A.slice(x, [1], [3]), lambda x: x[1:3], X),
    Case("slice-axes", lambda x: A.slice(x, [0, 1], [2, 1000], [0, 2]),
         lambda x: x[0:2, :, 1:], CUBE),
    Case("slice-steps", lambda x: A.slice(x, [-1, 0], [-1000, 4], [0, 1], [-1, 2]),
         lambda x: x[::-1, 0:4:2], X),
    Case("slice-neg", lambda x: A.slice(x, [-3], [-1], [-1]), lambda x: x[:, -3:-1], X),
    Case("gather", lambda x: A.gather(x, 0, [2, 0, 2]), lambda x: x[[2, 0, 2]], X),
    Case("gather-1", lambda x: A.gather(x, 1, (3, -1, 0)), lambda x: x[:, [3, -1, 0]], X),
    Case("gather-nested", lambda x: A.gather(x, 1, np.array([[0, 2], [1, 1]])),
         lambda x: np.take(x, [[0, 2], [1, 1]], 1), CUBE),
    Case("gather-last", lambda x: A.gather(x, -1, [[0, 2, 3]]),
         lambda x: np.take(x, [[0, 2, 3]], 2), CUBE),
    Case("gather-tensor", lambda x, i: A.gather(x, 1, i), lambda x, i: np.take(x, i, 1), CUBE,
         np.array([[0, -1], [2, 1]])),
    Case("gather-scalar", lambda x: A.gather(x, 1, 2), lambda x: x[:, 2], CUBE),
    Case("tile", lambda x: A.tile(x, [2, 1, 3]), lambda x: np.tile(x, [2, 1, 3]), X),
    Case("tile-int", lambda x: A.tile(x, 2), lambda x: np.tile(x, (2, 1, 1)), CUBE),
    Case("tile-first", lambda x: A.tile(x, [2, 3]), lambda x: np.tile(x, (2, 3, 1)), CUBE),
    Case("tile-more", lambda x: A.tile(x, [2, 1, 3]), lambda x: np.tile(x, (2, 1, 3)), X[0]),
    Case("pad", lambda x: A.pad(x, "constant", [1, 0, 2, 1], 3.5),
         lambda x: np.pad(x, [(1, 2), (0, 1)], constant_values=3.5), X),
    Case("pad-reflect", lambda x: A.pad(x, "reflect", [0, 1, 2, 1]),
         lambda x: np.pad(x, [(0, 2), (1, 1)], "reflect"), X),
    Case("pad-reflect-wide", lambda x: A.pad(x, "reflect", [2, 0, 7, 3]),
         lambda x: np.pad(x, [(2, 7), (0, 3)], "reflect"), X[:, :2]),
    Case("pad-reflect-one", lambda x: A.pad(x, "reflect", [0, 2, 1, 1]),
         lambda x: np.pad(x, [(0, 1), (2, 1)], "reflect"), X[:, :1]),
    Case("pad-edge", lambda x: A.pad(x, b"edge", [2, 0, 0, 0, 1, 3]),
         lambda x: np.pad(x, [(2, 0), (0, 1), (0, 3)], "edge"), CUBE),
    Case("upsample", lambda x: A.upsample(x, "nearest", [1, 1, 2, 3]),
         lambda x: x.repeat(2, 2).repeat(3, 3), IMAGE),
    Case("upsample-array", lambda x: A.upsample(x, b"nearest", np.array([1.0, 2.0])),
         lambda x: x.repeat(2, 1), X),
    Case("depth_to_space", lambda x: A.depth_to_space(x, 2), lambda x: blocks_dcr(x, 2), IMAGE),
    Case("depth_to_space-crd", lambda x: A.depth_to_space(x, 2, "CRD"), lambda x: blocks_crd(x, 2),
         IMAGE),
    Case("space_to_depth", lambda x: A.space_to_depth(x, 2), lambda x: depth_dcr(x, 2), IMAGE),
    Case("space_to_depth-crd", lambda x: A.space_to_depth(x, 2, "CRD"), lambda x: depth_crd(x, 2),
         IMAGE),
    Case("scatter_elements", lambda x: A.scatter_elements(x, INDEX, UPDATES),
         lambda x: scattered(x, INDEX, UPDATES, 0), X),
    Case("scatter_elements-1", lambda x: A.scatter_elements(x, [[1, 3]], [[1.1, 2.1]], axis=1),
         lambda x: scattered(x, [[1, 3]], [[1.1, 2.1]], 1), X),
    Case("where", lambda a, b: A.where(a, b, WHERE), lambda a, b: np.where(WHERE, a, b), X, X + 7),
    Case("where-list", lambda a, b: A.where(a, b, [[1], [0], [1]]),
         lambda a, b: np.where([[1], [0], [1]], a, b), X, X[:1] + 7),
    Case("where-tensor", lambda a, b, c: A.where(a, b, c), lambda a, b, c: np.where(c, a, b), X,
         X + 7, WHERE),
    Case("embedding", lambda w: A.embedding(Tensor(data=np.array([[0, 4, 4], [1, 0, 2]], np.int32),
                                                   dtype=tensor.int32), w),
         lambda w: w[[[0, 4, 4], [1, 0, 2]]], ROWS),
    Case("cast", lambda x: A.cast(A.cast(x, tensor.float64), tensor.float32), lambda x: x, X),
    Case("reduce_sum", A.reduce_sum, lambda x: x.sum(keepdims=True), CUBE),
    Case("reduce_sum-axes", lambda x: A.reduce_sum(x, [0, -1]),
         lambda x: x.sum((0, 2), keepdims=True), CUBE),
    Case("reduce_sum-drop", lambda x: A.reduce_sum(x, (1,), 0), lambda x: x.sum(1), CUBE),
    Case("reduce_sum-scalar", lambda x: A.reduce_sum(x, None, 0), lambda x: x.sum(), CUBE),
    Case("reduce_mean", A.reduce_mean, lambda x: x.mean(keepdims=True), CUBE),
    Case("reduce_mean-axes", lambda x: A.reduce_mean(x, [1, 2], 0), lambda x: x.mean((1, 2)), CUBE),
    Case("globalaveragepool", A.globalaveragepool, lambda x: x.mean((2, 3), keepdims=True), IMAGE),
    Case("globalaveragepool-last", lambda x: A.globalaveragepool(x, "channels_last"),
         lambda x: x.mean((1, 2), keepdims=True), IMAGE),
    Case("softmax", A.softmax, lambda x: softmax_from(x, 1), X),
    Case("softmax-cube", A.softmax, lambda x: softmax_from(x, 1), CUBE),
    Case("softmax-0", lambda x: A.softmax(x, 0), lambda x: softmax_from(x, 0), X),
    Case("softmax-last", lambda x: A.softmax(x, -1), lambda x: softmax_from(x, 2), CUBE),
    Case("softmax-large", A.softmax, lambda x: softmax_from(x, 1), X + 1000, rtol=2e-4, atol=1e-4),
    Case("softmax-vector", A.softmax, lambda x: softmax_from(x, 0), X[0]),
    Case("matmul", A.matmul, np.matmul, X, flat((4, 2), seed=4)),
    Case("matmul-3", A.matmul, np.matmul, CUBE, flat((2, 4, 2), seed=4)),
    Case("matmul-broadcast", A.matmul, np.matmul, CUBE, flat((4, 3), seed=4)),
    Case("matmul-4", A.matmul, np.matmul, flat((2, 2, 3, 4)), flat((2, 2, 4, 2), seed=4)),
    Case("add_bias", A.add_bias, np.add, X, X[0] + 1),
    Case("add_bias-row", A.add_bias, np.add, X, X[:1] + 1),
    Case("add_bias-1", lambda x, b: A.add_bias(x, b, axis=1), lambda x, b: x + b[:, None], X,
         X[:, 0] + 1),
    Case("gemm", lambda a, b: A.gemm(a, b), np.matmul, X, flat((4, 2), seed=4)),
    Case("gemm-c", lambda a, b, c: A.gemm(a, b, c, 0.5, 2.0), lambda a, b, c: 0.5 * a @ b + 2 * c,
         X, flat((4, 2), seed=4), flat((2,), seed=5)),
    Case("gemm-trans", lambda a, b, c: A.gemm(a, b, c, 1.5, 0.3, 1, 1),
         lambda a, b, c: 1.5 * a.T @ b.T + 0.3 * c, X, flat((2, 3), seed=4), flat((1, 2), seed=5)),
    Case("cossim", A.cossim, lambda a, b: (a * b).sum(1) / np.linalg.norm(a, axis=1) /
         np.linalg.norm(b, axis=1), X, flat((3, 4), seed=9)),
]
COMPOSED = ("cast",)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_value(case, mode):
    check_value(case, mode)


def one_input(case):
    return case.name not in COMPOSED and not case.name.startswith("embedding")


@pytest.mark.parametrize("case", [c for c in CASES if one_input(c)], ids=repr)
def test_creator(case, mode):
    check_creator(case, mode)


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_backward(case, mode):
    check_backward(case, mode)


def test_embedding_gradient_of_both(mode):
    index = Tensor(data=np.array([[0, 4, 4], [1, 0, 2]], np.int32), dtype=tensor.int32)
    w = Tensor(data=ROWS.astype(np.float32))
    dy = flat((2, 3, 2), seed=5)
    g = Tensor(data=dy.astype(np.float32))
    dx, dw = run(lambda: A.embedding(index, w).creator.backward(g.data), core.cpu(), mode)
    assert dx.shape() == (2, 3)
    wanted = np.zeros(ROWS.shape)
    np.add.at(wanted, [[0, 4, 4], [1, 0, 2]], dy)
    np.testing.assert_allclose(dw.to_numpy(), wanted, rtol=1e-5)


def test_embedding_takes_float_indices():
    w = Tensor(data=ROWS.astype(np.float32))
    y = A.embedding(Tensor(data=np.array([[1., 3.]], np.float32)), w)
    np.testing.assert_array_equal(tensor.to_numpy(y), ROWS[[[1, 3]]].astype(np.float32))


# ---- host-computed, integer, without a gradient ----

def test_shape():
    x = Tensor(data=CUBE.astype(np.float32))
    y = A.shape(x)
    assert y.dtype == tensor.int32 and tensor.to_numpy(y).tolist() == [2, 3, 4]
    assert y.creator.backward(x.data) == [2, 3, 4]


def test_nonzero():
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    y = A.nonzero(Tensor(data=x))
    assert y.dtype == tensor.int32
    np.testing.assert_array_equal(tensor.to_numpy(y), np.nonzero(x))


def test_nonzero_cannot_be_recorded():
    x = Tensor(data=X.astype(np.float32))
    dev = core.cpu()
    dev.EnableGraph(True)
    try:
        with pytest.raises(RuntimeError):
            A.nonzero(A.relu(x))
    finally:
        dev.Reset()


@pytest.mark.parametrize("to, kind", [(tensor.int32, np.int32), (tensor.float32, np.float32),
                                      (tensor.float64, np.float64), ("int32", np.int32)])
def test_cast(to, kind, mode):
    x = Tensor(data=(3 * X).astype(np.float32))
    y = run(lambda: A.cast(x, to), core.cpu(), mode)
    assert tensor.to_numpy(y).dtype == kind
    np.testing.assert_array_equal(tensor.to_numpy(y), (3 * X).astype(np.float32).astype(kind))


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_onehot(axis, mode):
    index = np.array([[1, -1], [0, 2]], np.int32)
    i = Tensor(data=index, dtype=tensor.int32)
    y = run(lambda: A.onehot(axis, i, 3, np.array([0.5, 4.0])), core.cpu(), mode)
    wanted = np.moveaxis(np.where(np.arange(3) == index[..., None] % 3, 4.0, 0.5), -1, axis)
    assert y.dtype == tensor.float32
    np.testing.assert_array_equal(tensor.to_numpy(y), wanted)


@pytest.mark.parametrize("value", [0, 1, 2.5, [7]])
def test_constant_of_shape(value):
    x = Tensor(data=np.array([4, 3, 2], np.int32), dtype=tensor.int32)
    y = A.constant_of_shape(x, value)
    np.testing.assert_array_equal(tensor.to_numpy(y),
                                  np.full((4, 3, 2), np.ravel(value)[0], np.float32))


# ---- integers move as they are ----

@pytest.mark.parametrize("call, reference", [
    (lambda x: A.reshape(x, (4, 3)), lambda x: x.reshape(4, 3)),
    (lambda x: A.transpose(x, (1, 0)), np.transpose),
    (lambda x: A.cat([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    (lambda x: A.gather(x, 1, [3, 0]), lambda x: x[:, [3, 0]]),
    (lambda x: A.slice(x, [0], [2], [0]), lambda x: x[:2]),
    (lambda x: A.tile(x, [1, 2]), lambda x: np.tile(x, [1, 2])),
    (lambda x: A.pad(x, "edge", [1, 1, 0, 0]), lambda x: np.pad(x, [(1, 0), (1, 0)], "edge")),
    (lambda x: A.where(x, A.negative(x), [[1, 0, 0, 1]]), lambda x: np.where([1, 0, 0, 1], x, -x)),
    (lambda x: A.scatter_elements(x, [[1, 0]], [[7, 8]]),
     lambda x: scattered(x, [[1, 0]], [[7, 8]], 0)),
], ids=list("abcdefghi"))
def test_integers(call, reference, mode):
    data = np.arange(12, dtype=np.int32).reshape(3, 4)
    x = Tensor(data=data, dtype=tensor.int32)
    y = run(lambda: call(x), core.cpu(), mode)
    assert y.dtype == tensor.int32
    np.testing.assert_array_equal(tensor.to_numpy(y), reference(data))


def test_sums_of_integers(mode):
    data = np.full((2, 3), 2**31 - 1, np.int32)
    y = run(lambda: A.reduce_sum(Tensor(data=data, dtype=tensor.int32), [1], 0), core.cpu(), mode)
    assert y.dtype == tensor.int64 and y.tolist() == [3 * (2**31 - 1)] * 2


# ---- what is kept as it was ----

def test_add_bias_leaves_x_alone():
    x, b = Case("", None, None, X, X[0]).tensors()
    A.add_bias(x, b)
    np.testing.assert_array_equal(tensor.to_numpy(x), X.astype(np.float32))


def test_updates_of_a_tensor():
    x, u = Case("", None, None, X, np.array(UPDATES)).tensors()
    y = A.scatter_elements(x, np.array(INDEX), u)
    np.testing.assert_allclose(tensor.to_numpy(y), scattered(X, INDEX, UPDATES, 0), rtol=1e-6)


def test_scatter_of_one_place_twice_takes_the_later(mode):
    x = Tensor(data=np.zeros((3, 2), np.float32))
    y = run(lambda: A.scatter_elements(x, [[1, 1], [1, 2]], [[5., 6.], [7., 8.]]), core.cpu(), mode)
    np.testing.assert_array_equal(tensor.to_numpy(y), [[0, 0], [7, 6], [0, 8]])


# ---- mistakes ----

@pytest.mark.parametrize("call, kind", [
    (lambda x: A.reshape(x, (5, 5)), ValueError),
    (lambda x: A.transpose(x, (0, 0)), ValueError),
    (lambda x: A.squeeze(x, 1), AssertionError),
    (lambda x: A.unsqueeze(x, [0, 0]), ValueError),
    (lambda x: A.flatten(x, 3), ValueError),
    (lambda x: A.cat([x, A.transpose(x, (1, 0))], 0), ValueError),
    (lambda x: A.split(x, 1, [1, 1]), ValueError),
    (lambda x: A.split(x, 1, None), AssertionError),
    (lambda x: A.gather(x, 0, [3]), ValueError),
    (lambda x: A.gather(x, 2, [0]), ValueError),
    (lambda x: A.pad(x, "mirror", [0, 0, 0, 0]), AssertionError),
    (lambda x: A.pad(x, "edge", [0, 0]), AssertionError),
    (lambda x: A.upsample(x, "linear", [1, 2]), AssertionError),
    (lambda x: A.upsample(x, "nearest", [1, 1.5]), ValueError),
    (lambda x: A.depth_to_space(x, 2, "XYZ"), AssertionError),
    (lambda x: A.scatter_elements(x, [[9]], [[1.]]), ValueError),
    (lambda x: A.reduce_sum(x, [2]), ValueError),
    (lambda x: A.softmax(x, 2), ValueError),
    (lambda x: A.matmul(x, x), ValueError),
    (lambda x: A.add_bias(x, x), AssertionError),
    (lambda x: A.add_bias(x, x, 2), AssertionError),
    (lambda x: A.cossim(x, A.transpose(x, (1, 0))), AssertionError),
    (lambda x: A.cast(x, "float17"), TypeError),
], ids=range(23))
def test_mistakes(call, kind):
    with pytest.raises(kind):
        call(Tensor(data=X.astype(np.float32)))
