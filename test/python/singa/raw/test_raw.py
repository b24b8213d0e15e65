"""test_raw - functions of weir.singa_wrap against NumPy: elements, sums, products, losses."""
import math

import numpy as np
import pytest

from arraycheck import R, check_raw, f32, i32, raw, same
from conftest import run
from weir import _capi as capi, core, errors
from weir import singa_wrap as singa


def changed(function):
    """Of a function that changes its last argument in place: gives a changed copy of it."""
    def call(*raws):
        copy = raws[-1].Clone()
        function(*raws[:-1], copy)
        return copy
    return call


# ---- one input ----

WIDE = np.concatenate([f32(24) * 3, np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.0, 7.0],
                                             np.float32)]).reshape(4, 8)
UNIT = (R.random((3, 5)) * 1.8 - 0.9).astype(np.float32)
erf = np.vectorize(math.erf)
UNARY = [
    ("Abs", np.abs, WIDE), ("Ceil", np.ceil, WIDE), ("Floor", np.floor, WIDE),
    ("Round", lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5), WIDE), ("RoundE", np.rint, WIDE),
    ("Exp", np.exp, WIDE), ("Erf", erf, WIDE), ("Log", np.log, np.abs(WIDE) + 0.1),
    ("ReLU", lambda x: np.maximum(x, 0), WIDE), ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), WIDE),
    ("Sign", np.sign, WIDE), ("Sqrt", np.sqrt, np.abs(WIDE)), ("Square", np.square, WIDE),
    ("Negative", np.negative, WIDE), ("Cos", np.cos, WIDE), ("Cosh", np.cosh, UNIT),
    ("Acos", np.arccos, UNIT), ("Acosh", np.arccosh, UNIT + 2), ("Sin", np.sin, WIDE),
    ("Sinh", np.sinh, UNIT), ("Asin", np.arcsin, UNIT), ("Asinh", np.arcsinh, WIDE),
    ("Tan", np.tan, UNIT), ("Tanh", np.tanh, WIDE), ("Atan", np.arctan, WIDE),
    ("Atanh", np.arctanh, UNIT),
]


@pytest.mark.parametrize("name, reference, x", UNARY, ids=[c[0] for c in UNARY])
def test_unary(mode, name, reference, x):
    check_raw(mode, getattr(singa, name), reference(x.astype(np.float64)).astype(np.float32), x)


@pytest.mark.parametrize("name, reference", [("Abs", np.abs), ("Sign", np.sign),
                                             ("Square", np.square), ("Negative", np.negative)])
def test_unary_of_integers_gives_integers(mode, name, reference):
    x = i32(3, 4)
    check_raw(mode, getattr(singa, name), reference(x), x)


def test_sqrt_of_integers_gives_floats(mode):
    x = np.arange(5, dtype=np.int32)
    check_raw(mode, singa.Sqrt, np.sqrt(x).astype(np.float32), x)


# ---- two inputs ----

BINARY = {
    "__add__": np.add, "__sub__": np.subtract, "__mul__": np.multiply, "__div__": np.divide,
    "Pow": np.power, "Add": np.add, "Sub": np.subtract, "EltwiseMult": np.multiply,
    "Div": np.divide, "Maximum": np.maximum, "Minimum": np.minimum, "FloorDiv": np.floor_divide,
    "Mod": np.mod,
}
POSITIVE = np.abs(f32(2, 3, 4)) + 0.5


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1), (4,), (1,)], ids=str)
def test_binary_broadcasts_both_ways(mode, name, shape):
    b = (np.abs(R.standard_normal(shape)) + 0.5).astype(np.float32)
    function = getattr(singa, name)
    check_raw(mode, lambda x, y: (function(x, y), function(y, x)),
              (BINARY[name](POSITIVE, b), BINARY[name](b, POSITIVE)), POSITIVE, b, atol=2e-6)


SCALAR = [("AddFloat", np.add), ("SubFloat", np.subtract), ("MultFloat", np.multiply),
          ("DivFloat", np.divide), ("PowFloat", np.power)]


@pytest.mark.parametrize("name, reference", SCALAR)
def test_scalar(mode, name, reference):
    check_raw(mode, lambda x: getattr(singa, name)(x, 2.5), reference(POSITIVE, np.float32(2.5)),
              POSITIVE)


@pytest.mark.parametrize("name, reference", SCALAR)
def test_integers_with_a_number_give_floats(mode, name, reference):
    x = np.arange(1, 5, dtype=np.int32)
    check_raw(mode, lambda x: getattr(singa, name)(x, 2),
              reference(x.astype(np.float32), np.float32(2)), x)


@pytest.mark.parametrize("name, reference", [
    ("Add", np.add), ("Sub", np.subtract), ("EltwiseMult", np.multiply), ("Div", np.divide),
    ("AddFloatWithRet", np.add), ("SubFloatWithRet", np.subtract),
    ("EltwiseMultFloatWithRet", np.multiply), ("DivFloatWithRet", np.divide),
    ("PowFloatWithRet", np.power), ("PowWithRet", np.power)])
def test_into_a_destination(mode, name, reference):
    """Whatever out was before; out is what is returned."""
    x, y = POSITIVE, 2.0 if "Float" in name else POSITIVE + 1

    def call(x, y=y):
        out = singa.Tensor(x.shape())
        out.SetFloatValue(9)
        assert getattr(singa, name)(x, y, out) is out
        return out
    check_raw(mode, call, reference(x, np.float32(y)), *((x,) if "Float" in name else (x, y)))


def test_a_destination_of_another_shape_is_refused():
    with pytest.raises(errors.ShapeError, match=r"\(2, 2\)"):
        singa.Add(raw(f32(2, 3)), raw(f32(2, 3)), singa.Tensor((2, 2)))


COMPARE = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal,
           "EQ": np.equal}


@pytest.mark.parametrize("name", COMPARE)
def test_comparisons_give_0_and_1_in_float32(mode, name):
    a, b = i32(4, 5).astype(np.float32), i32(5).astype(np.float32)
    function, reference = getattr(singa, name), COMPARE[name]
    operator = getattr(singa, f"__{name.lower()}__")
    number = getattr(singa, name + "Float")
    check_raw(mode, lambda x, y: (function(x, y), operator(x, y), number(x, 2.0)),
              (reference(a, b), reference(a, b), reference(a, 2)), a, b)


def test_comparison_of_an_integer_with_a_float(mode):
    a, b = i32(4, 5), f32(4, 5) * 5
    check_raw(mode, singa.LT, a < b, a, b)


def test_integers_by_integers_stay_integers(mode):
    """Exactly: SINGA loses bits above 2 to the 24."""
    a, b = i32(3, 4) + 20_000_001, i32(3, 4) | 1
    check_raw(mode, lambda x, y: (singa.Add(x, y), singa.Sub(x, y), singa.EltwiseMult(x, y),
                                  singa.Div(x, y), singa.FloorDiv(x, y), singa.Mod(x, y)),
              (a + b, a - b, a * b, np.trunc(a / b).astype(np.int32), a // b, a % b), a, b)


def test_mixed_types_meet_in_float32(mode):
    a, b = i32(3, 4) | 1, f32(3, 4)
    check_raw(mode, lambda x, y: (singa.Add(x, y), singa.Div(y, x)),
              ((a + b).astype(np.float32), (b / a).astype(np.float32)), a, b)


def test_float64_stays_float64(mode):
    a, b = R.standard_normal((3, 4)), f32(4)
    y = run(lambda: singa.Add(raw(a), raw(b)), core.cpu(), mode)
    assert y.data_type() == singa.kDouble
    np.testing.assert_allclose(y.to_numpy(), a + b, 1e-15)


def test_logic(mode):
    a, b = np.array([0, 0, 1, 2.5], np.float32), np.array([0, 3, 0, 1], np.float32)
    check_raw(mode, lambda x, y: (singa.And(x, y), singa.Or(x, y), singa.Xor(x, y), singa.Not(x)),
              (np.logical_and(a, b), np.logical_or(a, b), np.logical_xor(a, b), np.logical_not(a)),
              a, b)
    with pytest.raises(TypeError, match="bit operations"):
        singa.And(raw(i32(3)), raw(i32(3)))


def test_clip(mode):
    x = f32(4, 5)
    check_raw(mode, lambda x: (singa.Clip(x, -0.5, 0.25), singa.Clip(x, low=0), singa.Clip(x)),
              (np.clip(x, -0.5, 0.25), np.maximum(x, 0), x), x)


@pytest.mark.parametrize("op", ["__iadd__", "__isub__", "__imul__", "__itruediv__"])
@pytest.mark.parametrize("other", ["raw", "number"])
def test_in_place_operators_change_all_that_share(mode, op, other):
    x, y = f32(3, 4), POSITIVE[0] if other == "raw" else 2.0

    def call(x, *ys):
        own = x.Clone()
        shared = singa.Tensor(own)
        assert getattr(own, op)(ys[0] if ys else y) is own
        return own, shared
    expected = getattr(x.copy(), op)(np.float32(y))
    check_raw(mode, call, (expected, expected), *((x, y) if other == "raw" else (x,)))


@pytest.mark.parametrize("tensor_alpha", [False, True])
def test_axpy(mode, tensor_alpha):
    x, y = f32(3, 4), f32(3, 4)
    alpha = np.array([0.3], np.float32)

    def call(x, y, a):
        out = y.Clone()
        singa.Axpy(a if tensor_alpha else 0.3, x, out)
        return out
    check_raw(mode, call, y + np.float32(0.3) * x, x, y, alpha)


# ---- reductions ----

@pytest.mark.parametrize("axis", [0, 1])
def test_sum_and_average(mode, axis):
    x = f32(5, 7)
    check_raw(mode, lambda x: (singa.Sum(x, axis), singa.Average(x, axis)),
              (x.sum(axis), x.mean(axis)), x)


def test_sum_of_everything(mode):
    x = f32(5, 7)
    check_raw(mode, singa.SumAll, np.array([x.sum()]), x)


def test_sum_as_float():
    x = f32(5, 7)
    assert abs(singa.SumAsFloat(raw(x)) - x.sum()) < 1e-5


def test_sum_of_many_is_exact_enough():
    """A million of 0.1 in blocks; one after the other in float32 loses 1 %."""
    t = singa.Tensor((1000, 1000))
    t.SetFloatValue(0.1)
    assert abs(singa.SumAll(t).to_numpy()[0] / 1e5 - 1) < 2e-6


def test_integer_sums_are_integers(mode):
    x = i32(5, 7)
    check_raw(mode, lambda x: singa.Sum(x, 0), x.sum(0, dtype=np.int64), x)


def test_sums_of_rows_and_columns(mode):
    x = f32(5, 7)

    def call(x):
        rows, columns = singa.Tensor((7,)), singa.Tensor((5, 1))
        singa.SumRows(x, rows)
        singa.SumColumns(x, columns)
        return rows, columns
    check_raw(mode, call, (x.sum(0), x.sum(1, keepdims=True)), x)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_arg_reduce(mode, axis):
    x = f32(5, 7)
    expected = np.atleast_1d(x.argmax(axis)).astype(np.int32)
    check_raw(mode, lambda x: singa.ArgReduce(capi.weir_argmax, x, axis), expected, x)


def test_axis_out_of_range():
    with pytest.raises(ValueError, match="axis 2"):
        singa.Sum(raw(f32(2, 3)), 2)


# ---- matrices ----

@pytest.mark.parametrize("a, b", [((3, 4), (4,)), ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                                  ((1, 7, 8), (8, 8)), ((2, 1, 3, 4), (5, 4, 2))], ids=str)
def test_mult(mode, a, b):
    a, b = f32(*a), f32(*b)
    check_raw(mode, singa.Mult, a @ b, a, b)


def test_mult_of_transposed(mode):
    a, b = f32(4, 3), f32(5, 4)
    check_raw(mode, lambda a, b: singa.Mult(singa.DefaultTranspose(a), singa.DefaultTranspose(b)),
              a.T @ b.T, a, b)


def test_mult_into_a_destination(mode):
    a, b, c = f32(3, 4), f32(4, 5), f32(3, 5)

    def call(a, b, c):
        first, second = singa.Tensor((3, 5)), c.Clone()
        singa.MultWithRet(a, b, first)
        singa.MultWithScale(0.5, a, b, 2.0, second)
        return first, second
    check_raw(mode, call, (a @ b, 0.5 * (a @ b) + 2 * c), a, b, c)


def test_mult_of_shapes_that_do_not_fit():
    with pytest.raises(errors.ShapeError, match="matmul"):
        singa.Mult(raw(f32(3, 4)), raw(f32(3, 4)))


@pytest.mark.parametrize("name, op", [("Add", np.add), ("Sub", np.subtract),
                                      ("Mult", np.multiply), ("Div", np.divide)])
def test_rows_and_columns(mode, name, op):
    m, row, column = f32(3, 4), POSITIVE[0, 0], POSITIVE[0, :, 0].copy()
    check_raw(mode, lambda r, c, m: (changed(getattr(singa, name + "Row"))(r, m),
                                     changed(getattr(singa, name + "Column"))(c, m)),
              (op(m, row), op(m, column[:, None])), row, column, m)


def test_rows_and_columns_with_scale(mode):
    m, row, column = f32(3, 4), f32(4), f32(3)

    def call(r, c, m):
        a, b = m.Clone(), m.Clone()
        singa.AddRowWithScale(0.5, 2.0, r, a)
        singa.AddColumnWithScale(3.0, 1.0, c, b)
        return a, b
    check_raw(mode, call, (0.5 * row + 2 * m, 3 * column[:, None] + m), row, column, m)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bkj->bik", "ij,kj->ki", "i,j->ij",
                                      "ij,ij->"])
def test_einsum(mode, equation):
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5}
    a, b = (f32(*[sizes[x] for x in part]) for part in equation.split("->")[0].split(","))
    check_raw(mode, lambda a, b: singa.Einsum(equation, a, b),
              np.atleast_1d(np.einsum(equation, a, b)), a, b)


# ---- random numbers ----

@pytest.mark.parametrize("name, args, mean, deviation", [
    ("Gaussian", (1.0, 2.0), 1.0, 2.0), ("Uniform", (-1.0, 3.0), 1.0, 4 / math.sqrt(12)),
    ("Bernoulli", (0.3,), 0.3, math.sqrt(0.21))])
def test_random_fills(mode, name, args, mean, deviation):
    def call():
        out = singa.Tensor((100, 200))
        getattr(singa, name)(*args, out)
        return out
    x = run(call, core.cpu(), mode).to_numpy()
    assert abs(x.mean() - mean) < 0.05 and abs(x.std() - deviation) < 0.05
    if name == "Bernoulli":
        assert set(np.unique(x)) == {0.0, 1.0}


def test_recorded_draws_differ_from_run_to_run():
    dev, out = core.cpu(), singa.Tensor((50,))
    dev.EnableGraph(True)
    singa.Gaussian(0, 1, out)
    dev.EnableGraph(False)
    dev.RunGraph()
    first = out.to_numpy()
    dev.RunGraph()
    assert not np.array_equal(first, out.to_numpy())
    dev.Reset()


def test_seed_repeats_the_draws(mode):
    def draws():
        core.cpu().SetRandSeed(5)

        def call():
            out = singa.Tensor((64,))
            singa.Uniform(0, 1, out)
            return out
        return run(call, core.cpu(), mode).to_numpy()
    np.testing.assert_array_equal(draws(), draws())


# ---- softmax and losses ----

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape, axis", [((5,), None), ((3, 4), None), ((3, 4), 1), ((3, 4), 0),
                                         ((2, 3, 4), 1), ((2, 3, 4), -1)], ids=str)
def test_softmax(mode, shape, axis):
    x = f32(*shape)
    rows = len(shape) - 1 if axis is None else axis % len(shape)
    flat = x.astype(np.float64).reshape(int(np.prod(shape[:rows])), -1)
    args = () if axis is None else (axis,)
    check_raw(mode, lambda x: (singa.SoftMax(x, *args), singa.LogSoftMax(x, *args)),
              (softmax(flat).reshape(shape).astype(np.float32),
               np.log(softmax(flat)).reshape(shape).astype(np.float32)), x)


def test_softmax_of_large_numbers():
    large = raw(np.array([[1000.0, 1000.0]], np.float32))
    same(singa.SoftMax(large), np.full((1, 2), 0.5, np.float32))


def test_softmax_without_axis_of_a_cube():
    with pytest.raises(errors.ShapeError, match="axis"):
        singa.SoftMax(raw(f32(2, 2, 2)))


def test_softmax_backward(mode):
    x, dy = f32(3, 4), f32(3, 4)
    y = softmax(x.astype(np.float64))
    expected = y * (dy - (dy * y).sum(1, keepdims=True))
    check_raw(mode, lambda dy, y: singa.SoftMaxBackward(dy, 1, y), expected.astype(np.float32), dy,
              y.astype(np.float32))


def test_relu_backward(mode):
    x, dy = WIDE, f32(*WIDE.shape)
    check_raw(mode, singa.ReLUBackward, np.where(x > 0, dy, 0), dy, x)


TARGETS = {
    "labels": np.array([0, 2, 3, 1, 2], np.int32),
    "column": np.array([[0], [2], [3], [1], [2]], np.int32),
    "float labels": np.array([0, 2, 3, 1, 2], np.float32),
    "one-hot": np.eye(4, dtype=np.int32)[[0, 2, 3, 1, 2]],
    "float one-hot": np.eye(4, dtype=np.float32)[[0, 2, 3, 1, 2]],
    "multi-hot": np.array([[1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1], [0, 1, 0, 1], [1, 0, 0, 0]],
                          np.float32),
}


@pytest.mark.parametrize("name", TARGETS)
def test_cross_entropy(mode, name):
    t = TARGETS[name]
    p = softmax(f32(5, 4).astype(np.float64))
    shares = t if t.size == 20 else np.eye(4)[t.reshape(-1).astype(int)]
    shares = shares / shares.sum(1, keepdims=True)
    check_raw(mode, lambda p, t: (singa.CrossEntropyFwd(p, t), singa.SoftmaxCrossEntropyBwd(p, t)),
              (-(shares * np.log(p)).sum(1).astype(np.float32), (p - shares).astype(np.float32)),
              p.astype(np.float32), t)


def test_cross_entropy_of_probability_0_is_finite():
    loss = singa.CrossEntropyFwd(raw(np.array([[0, 1]], np.float32)), raw(np.array([0], np.int32)))
    same(loss, np.array([-np.log(1.17549435e-38)], np.float32))
