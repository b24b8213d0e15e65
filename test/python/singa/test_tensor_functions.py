"""test_tensor_functions - weir.tensor's functions and methods against NumPy, and gradients."""
import numpy as np
import pytest

from arraycheck import check, f32, i32, same
from conftest import run
from weir import autograd, core, dtypes, tensor
from weir import singa_wrap as singa
from weir.errors import InvalidError
from weir.tensor import Tensor

POSITIVE = np.abs(f32(3, 4)) + 0.5


# ---- fills ----

def test_fills_return_the_tensor(mode):
    def call():
        t = Tensor((3, 4))
        assert t.set_value(2.5) is t and t.set_value(3, inplace=True) is t
        u, v, w = Tensor((300, 40)), Tensor((300, 40)), Tensor((300, 40))
        assert u.gaussian(1, 2) is u and v.uniform(-1, 1) is v and w.bernoulli(0.25) is w
        return t, u, v, w
    t, u, v, w = (x.numpy() for x in run(call, core.cpu(), mode))
    assert (t == 3).all()
    assert abs(u.mean() - 1) < 0.1 and abs(u.std() - 2) < 0.1
    assert -1 <= v.min() < -0.99 and 0.99 < v.max() < 1 and abs(w.mean() - 0.25) < 0.05


@pytest.mark.parametrize("name, args", [("set_value", (1,)), ("gaussian", (0, 1)),
                                        ("uniform", (0, 1)), ("bernoulli", (0.5,))])
def test_fills_are_in_place_only(name, args):
    with pytest.raises(NotImplementedError):
        getattr(Tensor((2,)), name)(*args, inplace=False)


def test_fill_functions(mode):
    def call():
        ts = [Tensor((50, 40)) for _ in range(3)]
        return (tensor.gaussian(0, 1, ts[0]), tensor.uniform(0, 1, ts[1]),
                tensor.bernoulli(0.5, ts[2]), tensor.random((50, 40)))
    for t in run(call, core.cpu(), mode):
        assert t.numpy().std() > 0.25


def test_constants(mode):
    a = i32(2, 3)
    check(mode, lambda t: (tensor.zeros((2,)), tensor.ones((2, 2)), tensor.full((2,), 3.5),
                           tensor.zeros_like(t), tensor.ones_like(t)),
          (np.zeros(2, np.float32), np.ones((2, 2), np.float32), np.full(2, 3.5, np.float32),
           np.zeros_like(a), np.ones_like(a)), a)


# ---- functions of elements ----

FUNCTIONS = {"abs": np.abs, "exp": np.exp, "ceil": np.ceil, "floor": np.floor, "sign": np.sign,
             "square": np.square, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
             "relu": lambda x: np.maximum(x, 0), "log": np.log, "sqrt": np.sqrt}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_methods(mode, name):
    a = POSITIVE if name in ("log", "sqrt") else f32(3, 4) * 2
    expected = FUNCTIONS[name](a)
    check(mode, lambda t: (getattr(tensor, name)(t), getattr(t, name)()), (expected,) * 2, a)


@pytest.mark.parametrize("name, reference", [("sin", np.sin), ("cos", np.cos), ("tan", np.tan),
                                             ("round", np.round)])
def test_methods(mode, name, reference):
    a = f32(3, 4)
    check(mode, lambda t: getattr(t, name)(), reference(a), a)


def test_clip_and_pow(mode):
    a = f32(3, 4)
    check(mode, lambda t: (t.clip(-0.5, 0.5), t.clamp(min=0), t.pow(2), t.matmul(t.T())),
          (np.clip(a, -0.5, 0.5), np.maximum(a, 0), a ** 2, a @ a.T), a)


BINARY = {"add": np.add, "sub": np.subtract, "eltwise_mult": np.multiply, "div": np.divide,
          "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
          "ge": np.greater_equal, "eq": np.equal}


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(mode, name):
    a, b = POSITIVE, np.round(POSITIVE)
    function, reference = getattr(tensor, name), BINARY[name]

    def call(t, u):
        out = Tensor((3, 4))
        assert function(t, u, out) is out
        return function(t, u), function(t, 1.5), out
    check(mode, call, (reference(a, b), reference(a, np.float32(1.5)),
                       reference(a, b).astype(np.float32)), a, b)


def test_call_singa_func(mode):
    a = f32(3, 4)
    check(mode, lambda t: (tensor._call_singa_func(singa.Abs, t.data),
                           tensor.from_raw_tensor(singa.Exp(t.data)),
                           tensor.from_raw_tensors([singa.Exp(t.data)])[0]),
          (np.abs(a), np.exp(a), np.exp(a)), a)


# ---- reductions ----

@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2)], ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(mode, axis, keepdims):
    a = f32(2, 3, 4)
    names = ("sum", "mean", "max", "min", "prod", "var", "std")
    expected = tuple(np.atleast_1d(getattr(a, n)(axis, keepdims=keepdims)) for n in names)
    check(mode, lambda t: tuple(getattr(t, n)(axis, keepdims=keepdims) for n in names), expected,
          a, rtol=1e-4)


@pytest.mark.parametrize("axis", [None, 0, -1], ids=str)
def test_arg_reductions(mode, axis):
    a = f32(3, 4)
    check(mode, lambda t: (t.argmax(axis), t.argmin(axis)),
          tuple(np.atleast_1d(f(axis)).astype(np.int32) for f in (a.argmax, a.argmin)), a)


def test_variance_of_a_sample(mode):
    a = f32(3, 4)
    check(mode, lambda t: (t.var(1, ddof=1), t.std(0, ddof=1)),
          (a.var(1, ddof=1), a.std(0, ddof=1)), a)


def test_reductions_of_integers(mode):
    a = i32(3, 4)
    check(mode, lambda t: (t.sum(0), t.max(1), t.mean(0)),
          (a.sum(0, dtype=np.int64), a.max(1), a.mean(0).astype(np.float32)), a)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)], ids=str)
def test_sum_function(mode, axis):
    a = f32(3, 4)
    expected = np.atleast_1d(a.sum(axis))

    def call(t):
        out = Tensor(expected.shape)
        assert tensor.sum(t, axis, out) is out
        return tensor.sum(t, axis), out
    check(mode, call, (expected, expected), a)


def test_average():
    a = f32(3, 4)
    t = tensor.from_numpy(a)
    same(tensor.average(t, 0), a.mean(0))
    same(tensor.average(t, 1), a.mean(1))
    mean = tensor.average(tensor.from_numpy(a[0]))
    assert isinstance(mean, float) and abs(mean - a[0].mean()) < 1e-6


def test_sums_of_rows_and_columns(mode):
    a = f32(3, 4)
    check(mode, lambda t: (tensor.sum_rows(t), tensor.sum_columns(t)),
          (a.sum(0, keepdims=True), a.sum(1, keepdims=True)), a)


def test_softmax(mode):
    a = f32(3, 4)
    e = np.exp(a - a.max(1, keepdims=True))

    def call(t):
        out = Tensor((3, 4))
        assert tensor.softmax(t, out) is out
        return tensor.softmax(t), out
    check(mode, call, (e / e.sum(1, keepdims=True),) * 2, a)


def test_norms():
    a = f32(3, 4)
    t = tensor.from_numpy(a)
    assert abs(t.l1() - np.abs(a).mean()) < 1e-6
    assert abs(t.l2() - np.linalg.norm(a) / 12) < 1e-6


# ---- matrices ----

def test_mult(mode):
    a, b, c = f32(3, 4), f32(4, 5), f32(3, 5)

    def call(t, u, v):
        out = v.clone()
        assert tensor.mult(t, u, out, 0.5, 2.0) is out
        return tensor.mult(t, u), tensor.mult(t, u, alpha=3.0), out
    check(mode, call, (a @ b, 3 * (a @ b), 0.5 * (a @ b) + 2 * c), a, b, c, atol=1e-5)


def test_axpy(mode):
    a, b = f32(3, 4), f32(3, 4)

    def call(t, u):
        y, z = u.clone(), u.clone()
        return tensor.axpy(0.5, t, y), tensor.axpy(tensor.full((1,), 0.5), t, z)
    check(mode, call, (b + 0.5 * a,) * 2, a, b)


@pytest.mark.parametrize("shapes, axes", [(((2, 3, 4), (3, 4, 5)), 2), (((2, 3), (3, 4)), 1),
                                          (((2, 3, 4), (4, 2, 5)), ([0, 2], [1, 0])),
                                          (((2, 3), (2, 3)), 2), (((2,), (3,)), 0)], ids=str)
def test_tensordot(mode, shapes, axes):
    a, b = f32(*shapes[0]), f32(*shapes[1])
    check(mode, lambda t, u: tensor.tensordot(t, u, axes),
          np.atleast_1d(np.tensordot(a, b, axes)), a, b)


def test_tensordot_of_axes_that_do_not_fit():
    with pytest.raises(ValueError, match="tensordot"):
        tensor.tensordot(tensor.zeros((2, 3)), tensor.zeros((4, 5)), 1)


@pytest.mark.parametrize("ops", ["ij,jk->ik", "ki,kj->kij", "kij,kj->ki", "ij, kj -> ik"])
def test_einsum(mode, ops):
    sizes = {"i": 2, "j": 3, "k": 4}
    a, b = (f32(*[sizes[x] for x in part.strip()]) for part in ops.split("->")[0].split(","))
    check(mode, lambda t, u: tensor.einsum(ops, t, u), np.einsum(ops, a, b), a, b)


def test_einsum_of_three():
    with pytest.raises(TypeError):
        tensor.einsum("i,i,i->i", *[tensor.zeros((2,))] * 3)
    with pytest.raises(ValueError):
        tensor.einsum("ij,jk", tensor.zeros((2, 2)), tensor.zeros((2, 2)))


def test_rows_and_columns(mode):
    m, row, column = f32(3, 4), POSITIVE[0], POSITIVE[:, 0].copy()
    c = column[:, None]

    def call(t, r, c):
        ts = [t.clone() for _ in range(6)]
        for name, own in zip(("add", "div", "mult"), ts):
            getattr(own, name + "_row")(r)
        for name, own in zip(("add", "div", "mult"), ts[3:]):
            getattr(own, name + "_column")(c)
        return (*ts, tensor.add_row(2.0, r, 3.0, t.clone()),
                tensor.add_column(2.0, c, 3.0, t.clone()))
    check(mode, call, (m + row, m / row, m * row, m + c, m / c, m * c, 2 * row + 3 * m,
                       2 * c + 3 * m), m, row, column)


def test_sizes():
    assert tensor.product((2, 3)) == 6 and tensor.sizeof(tensor.float32) == 4
    assert tensor.sizeof(tensor.int32) == 4 and tensor.CTensor is singa.Tensor
    assert (tensor.float32, tensor.float16, tensor.int32) == (0, 1, 2)


# ---- gradients through operators and methods ----

def repeat_slope(x):
    """Of the sum of rows 0 0 1 1 2 2 times rows 0 1 1 2 2 2."""
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 2)]
    out = np.zeros_like(x)
    for a, b in pairs:
        out[a] += x[b]
        out[b] += x[a]
    return out


GRADIENTS = {
    "add": (lambda t: t + 2.0 * t, lambda x: np.full_like(x, 3)),
    "mul": (lambda t: t * t, lambda x: 2 * x),
    "reflected": (lambda t: 1.0 / t - (3.0 - t), lambda x: 1 - 1 / x ** 2),
    "pow": (lambda t: t ** 3, lambda x: 3 * x ** 2),
    "matmul": (lambda t: t @ t.detach().T(), lambda x: np.tile(x.sum(0), (3, 1))),
    "methods": (lambda t: t.exp().log().sqrt().square().abs(), lambda x: np.ones_like(x)),
    "mean": (lambda t: t.mean(1).sum(), lambda x: np.full_like(x, 0.25)),
    "shapes": (lambda t: t.flatten().unsqueeze(0).squeeze().expand(2, 12) * 2.0,
               lambda x: np.full_like(x, 4)),
    "permute": (lambda t: t.permute(1, 0) * t.permute(1, 0), lambda x: 2 * x),
    "transpose": (lambda t: t.detach() @ t.T(), lambda x: np.tile(x.sum(0), (3, 1))),
    "reshape": (lambda t: t.transpose((1, 0)).reshape((2, 6)).contiguous() * 3.0,
                lambda x: np.full_like(x, 3)),
    "parts": (lambda t: t[1:, 0] + t[2, :2].sum(), lambda x: np.array(
        [[0, 0, 0, 0], [1, 0, 0, 0], [3, 2, 0, 0]], np.float32)),
    "repeat": (lambda t: t.repeat(2, 0) * t.repeat([1, 2, 3], 0), repeat_slope),
    "types": (lambda t: (t.as_type(tensor.float64) * 2.0).astype("float"),
              lambda x: np.full_like(x, 2)),
    "clip": (lambda t: t.clip(0, 1), lambda x: ((x > 0) & (x < 1)).astype(np.float32)),
    "negative": (lambda t: -t, lambda x: -np.ones_like(x)),
}


@pytest.mark.parametrize("axis, ddof", [(None, 0), (None, 1), (0, 0), (1, 1), ((0, 1), 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
def test_std(mode, axis, ddof, dtype):
    a = np.array([[1, 2, 4], [3, 3, 3], [7, 0, -5]], dtype)
    got = run(lambda: Tensor(data=a, dtype=dtype).std(axis, ddof=ddof), core.cpu(), mode)
    kind = np.float32 if dtype == "int32" else a.dtype
    expected = np.atleast_1d(a.astype(np.float64).std(axis, ddof=ddof)).astype(kind)
    same(got, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
    same(Tensor(data=a, dtype=dtype).std(axis, ddof=ddof, keepdims=True),
         a.astype(np.float64).std(axis, ddof=ddof, keepdims=True).astype(kind), rtol=2e-3)


@pytest.mark.parametrize("ddof", [0, 1])
def test_slope_of_std_of_equal_elements_is_0(mode, training, ddof):
    """PyTorch's, too; other rows have theirs."""
    a = np.array([[2, 2, 2, 2], [1, 2, 3, 4]], np.float32)
    t = Tensor(data=a, stores_grad=True)
    g = run(lambda: list(autograd.backward(t.std(1, ddof=ddof).sum()))[0][1], core.cpu(), mode)
    row = (a[1] - 2.5) / (a[1].std(ddof=ddof) * (4 - ddof))
    same(g, np.stack([np.zeros(4, np.float32), row]), rtol=1e-5)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(mode, training, name):
    function, gradient = GRADIENTS[name]
    a = POSITIVE
    t = Tensor(data=a, stores_grad=True)

    def call():
        pairs = list(autograd.backward(function(t).sum()))
        assert [p for p, _ in pairs][0] is t and len(pairs) == 1
        return pairs[0][1]
    same(run(call, core.cpu(), mode), gradient(a), rtol=1e-4)


def test_gradient_through_in_place_addition(mode, training):
    """y = 2 t; y += t: SINGA drops the second."""
    t = Tensor(data=POSITIVE, stores_grad=True)

    def call():
        y = t * 2.0
        y += t
        y *= 3.0
        return list(autograd.backward(y.sum()))[0][1]
    same(run(call, core.cpu(), mode), np.full_like(POSITIVE, 9))


def test_operators_of_plain_tensors_are_not_taped(training):
    t = Tensor(data=POSITIVE)
    assert (t + t).is_dummy() and (t * 2.0).sum().is_dummy()
    p = Tensor(data=POSITIVE, stores_grad=True)
    assert not (p + t).is_dummy() and (p.detach() + t).is_dummy()
    assert not p.T().is_dummy() and tensor.transpose(p).is_dummy()
    assert tensor.reshape(p, (12,)).is_dummy() and tensor.repeat(p, 2).is_dummy()
    autograd.training = False
    with pytest.raises(InvalidError, match="autograd.training is False"):
        (p * 2.0).sum().backward()


def test_a_view_becomes_a_parameter(mode, training):
    """Its elements are copied then, so that updates in place find them."""
    base = tensor.from_numpy(POSITIVE)
    w = base.T()
    w.requires_grad = w.stores_grad = True

    def call():
        return list(autograd.backward((w * w).sum()))[0][1]
    same(run(call, core.cpu(), mode), 2 * POSITIVE.T)
    base += 1
    same(w, POSITIVE.T)


# ---- halves ----

HALVES = [pytest.param(number, step, marks=pytest.mark.skipif(
    dtypes._CORE_TYPE[number] is None, reason="this core has no halves"))
    for number, step in ((tensor.float16, 2 ** -10), (tensor.bfloat16, 2 ** -7))]


@pytest.mark.parametrize("number, step", HALVES)
def test_halves(mode, number, step):
    """Numbers of few bits are kept; arithmetic of two goes to float32, as SINGA's rule has it."""
    a = np.array([[1.5, -2.0, 0.25], [3.0, 1 + step, -8.0]], np.float32)
    t = Tensor(data=a, dtype=number)
    assert t.memsize() == 12
    np.testing.assert_array_equal(t.numpy().astype(np.float32), a)

    def call(t):
        own = t.clone()
        own += 1.0
        return own, t + t, t * 2.0, t.as_type("float"), abs(t), t.sum(), t.var(1), t @ t.T()
    own, both, twice, wide, size, total, var, product = run(lambda: call(t), core.cpu(), mode)
    assert own.dtype == size.dtype == var.dtype == number
    assert both.dtype == twice.dtype == wide.dtype == product.dtype == tensor.float32
    for y, e in [(both, 2 * a), (twice, 2 * a), (wide, a), (size, abs(a)), (product, a @ a.T)]:
        np.testing.assert_allclose(y.numpy(), e, 1e-6)
    for y, e in [(own, a + 1), (total, a.sum()), (var, a.var(1))]:
        np.testing.assert_allclose(y.numpy().astype(np.float32), np.broadcast_to(e, y.shape), step)
