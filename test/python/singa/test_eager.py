"""test_eager - plain calls with the graph off, which C makes: bits of the general way, and objects.

A function of autograd is "plain" where it builds no operator, so its class counts none.
"""
import copy
import gc
import inspect
import pickle
import weakref

import numpy as np
import pytest

import weir
from weir import autograd as A
from weir import core, singa_wrap, tensor
from weir.tensor import Tensor

ONE = [(A.ReLU, A.relu), (A.Sigmoid, A.sigmoid), (A.Tanh, A.tanh), (A.Exp, A.exp), (A.Log, A.log),
       (A.Sqrt, A.sqrt), (A.Abs, A.abs), (A.Negative, A.negative), (A.Reciprocal, A.reciprocal),
       (A.Erf, A.erf), (A.Sin, A.sin), (A.Cos, A.cos), (A.Tan, A.tan), (A.Asin, A.asin),
       (A.Acos, A.acos), (A.Atan, A.atan), (A.Sinh, A.sinh), (A.Cosh, A.cosh), (A.Asinh, A.asinh),
       (A.Acosh, A.acosh), (A.Atanh, A.atanh), (A.Sign, A.sign), (A.Ceil, A.ceil),
       (A.Floor, A.floor), (A.Round, A.round), (A.Rounde, A.rounde), (A.SoftPlus, A.softplus),
       (A.SoftSign, A.softsign), (A.ReLU6, A.relu6), (A.Gelu, A.gelu), (A.Silu, A.silu),
       (A.HardSwish, A.hardswish), (A.LogSigmoid, A.log_sigmoid)]
TWO = [(A.Add, A.add), (A.Sub, A.sub), (A.Mul, A.mul), (A.Div, A.div), (A.Pow, A.pow),
       (A.Matmul, A.matmul)]
WITH = [(A.Reshape, A.reshape, ((2, 8),)), (A.Reshape, A.reshape, ([0, -1, 2],)),
        (A.Reshape, A.reshape, (16,)), (A.Transpose, A.transpose, ((1, 0),)),
        (A.Transpose, A.transpose, (None,)), (A.SoftMax, A.softmax, (1,)),
        (A.SoftMax, A.softmax, (-1,)), (A.ReduceSum, A.reduce_sum, (None, 1)),
        (A.ReduceSum, A.reduce_sum, ([-1], 0)), (A.ReduceSum, A.reduce_sum, ([0, 1], 0)),
        (A.ReduceMean, A.reduce_mean, (1, 1)), (A.ReduceMean, A.reduce_mean, ((0,), 0))]
X = np.random.default_rng(3).uniform(-2, 2, (4, 4)).astype(np.float32)
Y = np.random.default_rng(4).uniform(0.2, 3, (4, 4)).astype(np.float32)


def f32(array, **kwargs):
    return Tensor(data=array, **kwargs)


def check_same(y, z):
    assert type(y) is Tensor and (y.shape, y.dtype, y.device) == (z.shape, z.dtype, z.device)
    assert y.requires_grad is z.requires_grad and y.stores_grad is False
    assert y.data.shape() == y.shape and y.data.data_type() == y.dtype
    np.testing.assert_array_equal(tensor.to_numpy(y), tensor.to_numpy(z))


def views():
    x = f32(X)
    late = f32(X)
    shown = late.transpose()
    late += 1
    return {"transposed": x.transpose(), "reshaped": x.reshape(2, 8).reshape(4, 4), "late": shown}


@pytest.mark.parametrize("kind, function", ONE + TWO, ids=lambda f: getattr(f, "__name__", None))
def test_bits_of_the_general_way(kind, function):
    xs = [f32(X), f32(Y)][:2 if (kind, function) in TWO else 1]
    before = kind.op_count
    y = function(*xs)
    assert kind.op_count == before, "a plain call builds no operator"
    check_same(y, kind()(*xs)[0])
    assert type(y.creator) is kind and y.name == y.creator.output_name(0)
    assert y.creator is y.creator and not y.is_dummy()


@pytest.mark.parametrize("kind, function, args", WITH, ids=lambda f: getattr(f, "__name__", None))
def test_functions_with_arguments(kind, function, args):
    x = f32(X)
    before = kind.op_count
    y = function(x, *args)
    assert kind.op_count == before
    check_same(y, kind(*args)(x)[0])
    assert type(y.creator) is kind
    of = {key: value for key, value in vars(y.creator).items() if key in ("shape", "perm", "axis")}
    assert of.items() <= vars(kind(*args)).items()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8", "bool"])
@pytest.mark.parametrize("kind, function", [(A.ReLU, A.relu), (A.Exp, A.exp), (A.Add, A.add),
                                            (A.Matmul, A.matmul)])
def test_types(kind, function, dtype):
    x, y = f32(X * 9), f32(Y).as_type(dtype)
    for xs in {A.add: [(y, y), (x, y), (y, x)], A.matmul: [(y, y)]}.get(function, [(y,)]):
        check_same(function(*xs), kind()(*xs)[0])
    check_same(A.reshape(y, (8, 2)), A.Reshape((8, 2))(y)[0])
    check_same(A.reduce_sum(y, 0, 0), A.ReduceSum(0, 0)(y)[0])


@pytest.mark.parametrize("name", ["transposed", "reshaped", "late"])
def test_views(name):
    v, before = views()[name], A.Add.op_count
    y = A.add(v, f32(Y))
    assert A.Add.op_count == before + (name == "late")
    check_same(y, A.Add()(v, f32(Y))[0])
    check_same(v + f32(Y), y)


def test_shapes():
    number, row, empty = weir.array(2.0).reshape(()), f32(X[:1]), f32(X[:0])
    assert number.shape == () and A.add(number, number).shape == (1,) == A.exp(number).shape
    assert (number + number).shape == ()
    check_same(A.mul(row, f32(X.T[:, :1].copy())), A.Mul()(row, f32(X.T[:, :1].copy()))[0])
    check_same(A.exp(empty), A.Exp()(empty)[0])
    check_same(A.matmul(f32(X[0]), f32(X[1])), A.Matmul()(f32(X[0]), f32(X[1]))[0])
    fresh = Tensor((2, 2))
    assert tensor.to_numpy(A.exp(fresh)).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("x", [3, 2.5, -1, True, np.float32(0.1), 2**70, float("inf"), 10**400])
def test_numbers(x):
    t = f32(X)
    for dtype in "float32", "float64", "float16", "int32":
        a = t.as_type(dtype)
        for method, raw in (("__add__", singa_wrap.Add), ("__sub__", singa_wrap.Sub),
                            ("__mul__", singa_wrap.EltwiseMult)):
            try:
                expected = raw(a.data, x.item() if isinstance(x, np.generic) else x)
            except OverflowError:
                with pytest.raises(OverflowError):
                    getattr(a, method)(x)
                continue
            got = getattr(a, method)(x)
            assert got.dtype == expected.data_type()
            np.testing.assert_array_equal(tensor.to_numpy(got), expected.to_numpy())


def test_methods():
    x, y = f32(X), f32(Y)
    for got, want in [(x + y, X + Y), (x - y, X - Y), (x * y, X * Y), (x / y, X / Y), (-x, -X),
                      (x.relu(), np.maximum(X, 0)), (y.sqrt(), np.sqrt(Y)), (abs(x), np.abs(X))]:
        np.testing.assert_allclose(tensor.to_numpy(got), want, 1e-6)
        assert got.requires_grad and got.is_dummy() and type(got.creator) is A.Dummy
    with pytest.raises(TypeError):
        x + "text"
    np.testing.assert_allclose(tensor.to_numpy(x + Y), X + Y)
    assert (x @ y).shape == (4, 4) and (x ** y).shape == (4, 4)


def test_recorded():
    x, y, before = f32(X), f32(Y), A.Add.op_count
    with core.cpu().graph() as step:
        z = A.relu(A.add(x, y)) + 1.0
    assert A.Add.op_count == before + 1
    step.run()
    np.testing.assert_array_equal(tensor.to_numpy(z), np.maximum(X + Y, 0) + np.float32(1))


@pytest.mark.usefixtures("training")
def test_in_training():
    w, x, plain = f32(X, stores_grad=True), f32(Y), f32(Y, requires_grad=False)
    y = A.mul(w, x)
    assert [source[1] for source in y.creator.src] == [id(w), id(x)]
    loss = A.reduce_sum(A.exp(y) + w * x)
    grad, = [tensor.to_numpy(g) for t, g in A.backward(loss) if t is w]
    np.testing.assert_allclose(grad, Y * np.exp(X * Y) + Y, 1e-5)
    before = A.Mul.op_count
    z = A.mul(plain, plain)
    assert A.Mul.op_count == before and not z.requires_grad
    with weir.no_grad():
        y = A.mul(w, x)
        assert A.Mul.op_count == before and y.requires_grad and not y.creator.src
    assert A.mul(w, x).creator.src
    with pytest.raises(RuntimeError, match="not called in training"):
        z.creator.backward(z.data)


def gradient(function, x, *others):
    """(the result, the gradient of x) of a sum of squares of the result."""
    y = function(x, *others)
    grads = A.gradients(A.reduce_sum(A.mul(y, y), None, 0))
    return y, grads[id(x)]


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("kind, function, args",
                         [(kind, f, ()) for kind, f in ONE if kind not in (A.Acosh, A.Atanh)] +
                         [(kind, f, ("y",)) for kind, f in TWO] + WITH,
                         ids=lambda f: getattr(f, "__name__", None))
def test_gradients_of_the_general_way(kind, function, args):
    w, others = f32(Y / 4, stores_grad=True), [f32(Y)] if args == ("y",) else []
    of_kind = kind() if others or not args else kind(*args)
    before = kind.op_count
    y, g = gradient(lambda *xs: function(*xs, *(() if others else args)), w, *others)
    z, h = gradient(lambda *xs: of_kind(*xs)[0], w, *others)
    check_same(y, z)
    check_same(g, h)
    assert type(y.creator) is kind and y.creator.src[0][1:] == (id(w), w, True)
    assert kind.op_count > before and y.name == y.creator.output_name(0)


@pytest.mark.usefixtures("training")
def test_operators_are_made_when_asked_for():
    w, x = f32(X, stores_grad=True), f32(Y)
    before = A.Mul.op_count, A.Exp.op_count
    y = A.exp(A.mul(w, x))
    z = y + x
    assert (A.Mul.op_count, A.Exp.op_count) == before
    exp = y.creator
    assert y.creator is exp and z.creator.src[0][0] is exp
    assert A.Mul.op_count == before[0]
    (mul, _, none, stores), = exp.src
    assert A.Mul.op_count == before[0] + 1
    assert type(mul) is A.Mul and none is None and not stores
    assert [source[3] for source in mul.src] == [True, False]
    assert type(mul.src[1][0]) is A.Dummy and mul.src[1][0] is x.creator
    assert A.infer_dependency(exp)[1][id(x)] == 1
    dx, dy = mul.backward(weir.ones((4, 4)).data)
    np.testing.assert_array_equal(dx.to_numpy(), Y)
    np.testing.assert_array_equal(dy.to_numpy(), X)


@pytest.mark.usefixtures("training")
def test_sources_that_are_gone():
    w = f32(X, stores_grad=True)
    y = A.mul(w, f32(Y))
    loss = A.reduce_sum(A.mul(y, y), None, 0)
    del y
    gc.collect()
    np.testing.assert_allclose(tensor.to_numpy(A.gradients(loss)[id(w)]), 2 * X * Y * Y, 1e-5)
    product = loss.creator.src[0][0].src[0][0]
    assert type(product.src[1][0]) is A.Dummy and product.src[1][2] is None
    with pytest.raises(AttributeError, match="no longer exists"):
        product.src[1][0].shape
    assert len(A.infer_dependency(loss.creator)[0]) == 5


@pytest.mark.usefixtures("training")
def test_the_same_input_twice_and_one_without_a_gradient():
    w, plain = f32(X, stores_grad=True), f32(Y, requires_grad=False)
    y = A.mul(w, w)
    first, second = y.creator.backward(weir.ones((4, 4)).data)
    np.testing.assert_array_equal(first.to_numpy(), X)
    np.testing.assert_array_equal(second.to_numpy(), X)
    y = A.mul(w, plain)
    np.testing.assert_array_equal(
        y.creator.backward(weir.ones((4, 4)).data)[0].to_numpy(), Y)
    assert y.requires_grad and (w + plain).requires_grad


@pytest.mark.usefixtures("training")
def test_a_long_chain_is_freed():
    y = f32(X, stores_grad=True)
    for _ in range(100_000):
        y = A.negative(y)
    live = core.cpu().memory().live
    del y
    gc.collect()
    assert core.cpu().memory().live < live
    assert not weir._capi.weir_tensor_needs_grad(tensor.from_numpy(X).data.handle)


@pytest.mark.usefixtures("training")
def test_a_failing_call_leaves_the_tape_off():
    w = f32(X, stores_grad=True)
    for call in (lambda: A.add(w, f32(X[:3])), lambda: w @ f32(X[:3]),
                 lambda: A.reshape(w, (3, 5))):
        with pytest.raises(ValueError):
            call()
        raw = singa_wrap.ReLU(w.data)       # a raw function: not remembered
        assert not weir._capi.weir_tensor_needs_grad(raw.handle)


def test_one_object_for_a_call():
    x = f32(X)
    x + x
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        made = A.add(x, x)
        assert len(gc.get_objects()) == before + 1
        assert made.data.handle is made.data.handle
    finally:
        gc.enable()


def test_elements_are_shared_as_before():
    x = f32(X)
    y = A.add(x, x)
    other = y.copy()
    y += 1.0
    np.testing.assert_array_equal(tensor.to_numpy(other), X + X + np.float32(1))
    y.set_value(3)
    assert tensor.to_numpy(A.add(y, other)).tolist() == [[6.0] * 4] * 4
    y.to_type("int32")
    assert A.add(y, y).dtype == tensor.int32


def test_life():
    class Mine(Tensor):
        pass

    x = Mine(data=X)
    x.loop, x.note = x, "kept"
    y = A.relu(x)
    assert type(y) is Tensor and type(x + x) is Tensor and x.note == "kept"
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    y.mark = [y]
    for twin in (pickle.loads(pickle.dumps(A.relu(y))), copy.deepcopy(y), copy.copy(y)):
        np.testing.assert_array_equal(tensor.to_numpy(twin), np.maximum(X, 0))
    bare = Tensor.__new__(Tensor)
    for name in "data", "shape", "device", "dtype", "requires_grad":
        with pytest.raises(AttributeError, match=name):
            getattr(bare, name)
    with pytest.raises(TypeError, match="inputs must be Tensors"):
        A.relu(bare.name)


def test_functions_as_objects():
    assert pickle.loads(pickle.dumps(A.relu)) is A.relu is copy.deepcopy(A.relu)
    assert list(inspect.signature(A.relu).parameters) == ["x"]
    assert list(inspect.signature(A.matmul).parameters) == ["x", "w"]
    assert A.relu.__doc__ == "max(x, 0)." and A.relu.__name__ == "relu"


@pytest.mark.parametrize("call, error, text", [
    (lambda x: A.relu(), TypeError, "relu: 0 inputs are given, expected 1"),
    (lambda x: A.add(x), TypeError, "add: 1 inputs are given, expected 2"),
    (lambda x: A.add(x, 3.0), TypeError, "inputs must be Tensors"),
    (lambda x: A.add(x, z=x), TypeError, "unknown argument 'z'"),
    (lambda x: A.add(x, f32(X[:3])), ValueError, "add: input 1 does not broadcast"),
    (lambda x: A.matmul(x, f32(X[:3])), ValueError, "matmul"),
    (lambda x: A.reshape(x, (3, 5)), ValueError, "reshape"),
    (lambda x: A.transpose(x, (0, 0)), ValueError, "not a permutation"),
    (lambda x: A.softmax(x, 5), ValueError, "axis 5 is out of range"),
    (lambda x: A.reduce_sum(x, [2]), ValueError, "axis 2 is out of range"),
    (lambda x: x + f32(X[:3]), ValueError, "add: input 1 does not broadcast"),
])
def test_mistakes(call, error, text):
    with pytest.raises(error, match=text):
        call(f32(X))
