"""test_raw - weir.singa_wrap against NumPy: every function of raw tensors, graph off and on."""
import math

import numpy as np
import pytest

from conftest import run
from weir import core, errors
from weir import singa_wrap as singa

R = np.random.default_rng(7)


def raw(array):
    """A raw tensor of the array's type: float32, int32 or float64."""
    array = np.asarray(array)
    t = singa.Tensor(array.shape, core.dtype_number(array.dtype))
    t.from_numpy(array)
    return t


def f32(*shape):
    return R.standard_normal(shape).astype(np.float32)


def i32(*shape):
    return R.integers(-9, 10, shape).astype(np.int32)


def same(t, expected, rtol=1e-5, atol=1e-6):
    """The raw tensor has shape, type and values of the array."""
    expected = np.asarray(expected)
    assert t.shape() == expected.shape
    wanted = {"f": np.float32, "i": np.int32, "b": np.float32, "u": np.float32}
    if expected.dtype != np.float64 or t.data_type() != core.kDouble:
        assert t.to_numpy().dtype == wanted[expected.dtype.kind]
    np.testing.assert_allclose(t.to_numpy(), expected, rtol, atol)


def check(mode, function, expected, *arrays, **tolerance):
    """function of raw tensors against an array, or a tuple of them against as many."""
    raws = [raw(a) for a in arrays]
    ys = run(lambda: function(*raws), core.cpu(), mode)
    if not isinstance(expected, tuple):
        ys, expected = (ys,), (expected,)
    assert len(ys) == len(expected)
    for y, e in zip(ys, expected):
        same(y, e, **tolerance)


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
    check(mode, getattr(singa, name), reference(x.astype(np.float64)).astype(np.float32), x)


@pytest.mark.parametrize("name, reference", [("Abs", np.abs), ("Sign", np.sign),
                                             ("Square", np.square), ("Negative", np.negative)])
def test_unary_of_integers_gives_integers(mode, name, reference):
    x = i32(3, 4)
    check(mode, getattr(singa, name), reference(x), x)


def test_sqrt_of_integers_gives_floats(mode):
    x = np.arange(5, dtype=np.int32)
    check(mode, singa.Sqrt, np.sqrt(x).astype(np.float32), x)


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
    check(mode, lambda x, y: (function(x, y), function(y, x)),
          (BINARY[name](POSITIVE, b), BINARY[name](b, POSITIVE)), POSITIVE, b, atol=2e-6)


SCALAR = [("AddFloat", np.add), ("SubFloat", np.subtract), ("MultFloat", np.multiply),
          ("DivFloat", np.divide), ("PowFloat", np.power)]


@pytest.mark.parametrize("name, reference", SCALAR)
def test_scalar(mode, name, reference):
    check(mode, lambda x: getattr(singa, name)(x, 2.5), reference(POSITIVE, np.float32(2.5)),
          POSITIVE)


@pytest.mark.parametrize("name, reference", SCALAR)
def test_integers_with_a_number_give_floats(mode, name, reference):
    x = np.arange(1, 5, dtype=np.int32)
    check(mode, lambda x: getattr(singa, name)(x, 2),
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
    check(mode, call, reference(x, np.float32(y)), *((x,) if "Float" in name else (x, y)))


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
    check(mode, lambda x, y: (function(x, y), operator(x, y), number(x, 2.0)),
          (reference(a, b), reference(a, b), reference(a, 2)), a, b)


def test_comparison_of_an_integer_with_a_float(mode):
    a, b = i32(4, 5), f32(4, 5) * 5
    check(mode, singa.LT, a < b, a, b)


def test_integers_by_integers_stay_integers(mode):
    """Exactly: SINGA loses bits above 2 to the 24."""
    a, b = i32(3, 4) + 20_000_001, i32(3, 4) | 1
    check(mode, lambda x, y: (singa.Add(x, y), singa.Sub(x, y), singa.EltwiseMult(x, y),
                              singa.Div(x, y), singa.FloorDiv(x, y), singa.Mod(x, y)),
          (a + b, a - b, a * b, np.trunc(a / b).astype(np.int32), a // b, a % b), a, b)


def test_mixed_types_meet_in_float32(mode):
    a, b = i32(3, 4) | 1, f32(3, 4)
    check(mode, lambda x, y: (singa.Add(x, y), singa.Div(y, x)),
          ((a + b).astype(np.float32), (b / a).astype(np.float32)), a, b)


def test_float64_stays_float64(mode):
    a, b = R.standard_normal((3, 4)), f32(4)
    y = run(lambda: singa.Add(raw(a), raw(b)), core.cpu(), mode)
    assert y.data_type() == singa.kDouble
    np.testing.assert_allclose(y.to_numpy(), a + b, 1e-15)


def test_logic(mode):
    a, b = np.array([0, 0, 1, 2.5], np.float32), np.array([0, 3, 0, 1], np.float32)
    check(mode, lambda x, y: (singa.And(x, y), singa.Or(x, y), singa.Xor(x, y), singa.Not(x)),
          (np.logical_and(a, b), np.logical_or(a, b), np.logical_xor(a, b), np.logical_not(a)),
          a, b)
    with pytest.raises(TypeError, match="bit operations"):
        singa.And(raw(i32(3)), raw(i32(3)))


def test_clip(mode):
    x = f32(4, 5)
    check(mode, lambda x: (singa.Clip(x, -0.5, 0.25), singa.Clip(x, low=0), singa.Clip(x)),
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
    check(mode, call, (expected, expected), *((x, y) if other == "raw" else (x,)))


@pytest.mark.parametrize("tensor_alpha", [False, True])
def test_axpy(mode, tensor_alpha):
    x, y = f32(3, 4), f32(3, 4)
    alpha = np.array([0.3], np.float32)

    def call(x, y, a):
        out = y.Clone()
        singa.Axpy(a if tensor_alpha else 0.3, x, out)
        return out
    check(mode, call, y + np.float32(0.3) * x, x, y, alpha)


# ---- reductions ----

@pytest.mark.parametrize("axis", [0, 1])
def test_sum_and_average(mode, axis):
    x = f32(5, 7)
    check(mode, lambda x: (singa.Sum(x, axis), singa.Average(x, axis)),
          (x.sum(axis), x.mean(axis)), x)


def test_sum_of_everything(mode):
    x = f32(5, 7)
    check(mode, singa.SumAll, np.array([x.sum()]), x)


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
    check(mode, lambda x: singa.Sum(x, 0), x.sum(0).astype(np.int32), x)


def test_sums_of_rows_and_columns(mode):
    x = f32(5, 7)

    def call(x):
        rows, columns = singa.Tensor((7,)), singa.Tensor((5, 1))
        singa.SumRows(x, rows)
        singa.SumColumns(x, columns)
        return rows, columns
    check(mode, call, (x.sum(0), x.sum(1, keepdims=True)), x)


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_arg_reduce(mode, axis):
    from weir import capi
    x = f32(5, 7)
    expected = np.atleast_1d(x.argmax(axis)).astype(np.int32)
    check(mode, lambda x: singa.ArgReduce(capi.weir_argmax, x, axis), expected, x)


def test_axis_out_of_range():
    with pytest.raises(ValueError, match="axis 2"):
        singa.Sum(raw(f32(2, 3)), 2)


# ---- shapes ----

def test_reshape_and_transpose(mode):
    x = f32(2, 3, 4)
    check(mode, lambda x: (singa.Reshape(x, (6, -1)), singa.Transpose(x, (2, 0, 1)),
                           singa.DefaultTranspose(x),
                           singa.Reshape(singa.DefaultTranspose(x), (24,)),
                           singa.Contiguous(singa.DefaultTranspose(x))),
          (x.reshape(6, -1), x.transpose(2, 0, 1), x.T, x.T.reshape(24), x.T), x)


def test_transposed_flag():
    x = raw(f32(2, 3))
    t = singa.DefaultTranspose(x)
    assert t.transpose() and not x.transpose()
    assert not singa.DefaultTranspose(t).transpose() and not singa.Contiguous(t).transpose()


@pytest.mark.parametrize("bad", [(5,), (-1, 4), (-1, -1)], ids=str)
def test_reshape_to_another_size(bad):
    with pytest.raises(ValueError, match="cannot become"):
        singa.Reshape(raw(f32(2, 3)), bad)


@pytest.mark.parametrize("bad", [(0, 0), (0,), (0, 2)], ids=str)
def test_transpose_by_no_permutation(bad):
    with pytest.raises(ValueError, match="permutation"):
        singa.Transpose(raw(f32(2, 3)), bad)


VIEWS = {
    "transpose": (lambda t: singa.Transpose(t, (1, 0, 2)), lambda x: x.transpose(1, 0, 2)),
    "reshape": (lambda t: singa.Reshape(t, (4, 6)), lambda x: x.reshape(4, 6)),
    "both": (lambda t: singa.Transpose(singa.Reshape(t, (4, 6)), (1, 0)),
             lambda x: x.reshape(4, 6).T),
    "twice": (lambda t: singa.Transpose(singa.Transpose(t, (1, 2, 0)), (1, 0, 2)),
              lambda x: x.transpose(1, 2, 0).transpose(1, 0, 2)),
    "image": (lambda t: singa.Reshape(t, (1, 2, 3, 4)), lambda x: x.reshape(1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("written", ["base", "view"])
def test_views_share_elements(mode, name, written):
    """A change of either is seen in both."""
    look, reference = VIEWS[name]
    x = f32(2, 3, 4)
    expected = x.copy()
    view = reference(expected)
    view += np.arange(24, dtype=np.float32).reshape(view.shape)
    if written == "base":
        expected = x + np.arange(24, dtype=np.float32).reshape(x.shape)

    # Recorded, only what was there before the recording shares the elements of an image.
    base = raw(x)
    t = look(base)
    steps = raw(np.arange(24, dtype=np.float32))

    def call(base, steps):
        target = base if written == "base" else t
        target += singa.Reshape(steps, target.shape())
        return target
    dev = core.cpu()
    if mode == "off":
        call(base, steps)
    else:
        dev.EnableGraph(True)
        call(base, steps)
        dev.EnableGraph(False)
        dev.RunGraph()
    same(base, expected)
    same(t, reference(expected))


def test_view_of_a_recorded_value_follows_it(mode):
    x = f32(3, 4)

    def call(x):
        y = singa.Add(x, x)
        t = singa.DefaultTranspose(y)
        y += 1.0
        t *= 2.0
        return y, t
    expected = (x + x + 1) * 2
    check(mode, call, (expected, expected.T), x)


def test_host_writes_through_a_view():
    base = raw(f32(2, 3))
    t = singa.DefaultTranspose(base)
    x = f32(3, 2)
    t.from_numpy(x)
    same(base, x.T)
    t.SetFloatValue(4)
    same(base, np.full((2, 3), 4, np.float32))


def test_broadcast(mode):
    x = f32(3, 1)
    check(mode, lambda x: singa.Broadcast(x, (2, 3, 4)), np.broadcast_to(x, (2, 3, 4)), x)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(mode, axis):
    a, b = f32(3, 3), f32(3, 3)
    check(mode, lambda a, b: singa.ConcatOn(singa.VecTensor([a, b]), axis),
          np.concatenate([a, b], axis), a, b)


def test_slices_are_copies(mode):
    x = f32(5, 6)

    def call(x):
        part = singa.SliceOn(x, 1, 3, 1)
        part += 1.0
        return part, singa.SliceRows(x, 0, 2), singa.SliceColumns(x, 5, 6), singa.Add(x, 0.0)
    check(mode, call, (x[:, 1:3] + 1, x[:2], x[:, 5:], x), x)
    with pytest.raises(ValueError, match="SliceOn"):
        singa.SliceOn(raw(x), 2, 9, 0)


def test_copy_data_to_from(mode):
    a, b = f32(3, 4), f32(10)
    expected = a.copy().reshape(-1)
    expected[5:9] = b[2:6]

    def call(b, a):
        out = a.Clone()
        singa.CopyDataToFrom(out, b, 4, 5, 2)
        whole = singa.Tensor((10,))
        singa.CopyDataToFrom(whole, b, 10)
        return out, whole
    check(mode, call, (expected.reshape(3, 4), b), b, a)
    with pytest.raises(errors.ShapeError, match="CopyDataToFrom"):
        singa.CopyDataToFrom(raw(a), raw(b), 4, 9)


@pytest.mark.parametrize("repeats, axis", [([2], 0), ([3], 9999), ([1, 2, 3], 1), ([0, 2, 1], 1)],
                         ids=str)
def test_repeat(mode, repeats, axis):
    x = f32(2, 3)
    expected = np.repeat(x, repeats if len(repeats) > 1 else repeats[0],
                         None if axis == 9999 else axis)

    def call(x):
        out = singa.Tensor(expected.shape)
        singa.RepeatDataToFrom(False, repeats, axis, expected.size, out, x)
        return x.Repeat(repeats, axis), out
    check(mode, call, (expected, expected), x)


def test_repeat_by_too_few():
    with pytest.raises(ValueError, match="repeat"):
        raw(f32(2, 3)).Repeat([1, 2], 1)


# ---- matrices ----

@pytest.mark.parametrize("a, b", [((3, 4), (4,)), ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                                  ((1, 7, 8), (8, 8)), ((2, 1, 3, 4), (5, 4, 2))], ids=str)
def test_mult(mode, a, b):
    a, b = f32(*a), f32(*b)
    check(mode, singa.Mult, a @ b, a, b)


def test_mult_of_transposed(mode):
    a, b = f32(4, 3), f32(5, 4)
    check(mode, lambda a, b: singa.Mult(singa.DefaultTranspose(a), singa.DefaultTranspose(b)),
          a.T @ b.T, a, b)


def test_mult_into_a_destination(mode):
    a, b, c = f32(3, 4), f32(4, 5), f32(3, 5)

    def call(a, b, c):
        first, second = singa.Tensor((3, 5)), c.Clone()
        singa.MultWithRet(a, b, first)
        singa.MultWithScale(0.5, a, b, 2.0, second)
        return first, second
    check(mode, call, (a @ b, 0.5 * (a @ b) + 2 * c), a, b, c)


def test_mult_of_shapes_that_do_not_fit():
    with pytest.raises(errors.ShapeError, match="matmul"):
        singa.Mult(raw(f32(3, 4)), raw(f32(3, 4)))


@pytest.mark.parametrize("name, op", [("Add", np.add), ("Sub", np.subtract),
                                      ("Mult", np.multiply), ("Div", np.divide)])
def test_rows_and_columns(mode, name, op):
    m, row, column = f32(3, 4), POSITIVE[0, 0], POSITIVE[0, :, 0].copy()
    check(mode, lambda r, c, m: (changed(getattr(singa, name + "Row"))(r, m),
                                 changed(getattr(singa, name + "Column"))(c, m)),
          (op(m, row), op(m, column[:, None])), row, column, m)


def test_rows_and_columns_with_scale(mode):
    m, row, column = f32(3, 4), f32(4), f32(3)

    def call(r, c, m):
        a, b = m.Clone(), m.Clone()
        singa.AddRowWithScale(0.5, 2.0, r, a)
        singa.AddColumnWithScale(3.0, 1.0, c, b)
        return a, b
    check(mode, call, (0.5 * row + 2 * m, 3 * column[:, None] + m), row, column, m)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bkj->bik", "ij,kj->ki", "i,j->ij",
                                      "ij,ij->"])
def test_einsum(mode, equation):
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5}
    a, b = (f32(*[sizes[x] for x in part]) for part in equation.split("->")[0].split(","))
    check(mode, lambda a, b: singa.Einsum(equation, a, b),
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
    check(mode, lambda x: (singa.SoftMax(x, *args), singa.LogSoftMax(x, *args)),
          (softmax(flat).reshape(shape).astype(np.float32),
           np.log(softmax(flat)).reshape(shape).astype(np.float32)), x)


def test_softmax_of_large_numbers():
    same(singa.SoftMax(raw(np.array([[1000.0, 1000.0]], np.float32))), np.full((1, 2), 0.5))


def test_softmax_without_axis_of_a_cube():
    with pytest.raises(errors.ShapeError, match="axis"):
        singa.SoftMax(raw(f32(2, 2, 2)))


def test_softmax_backward(mode):
    x, dy = f32(3, 4), f32(3, 4)
    y = softmax(x.astype(np.float64))
    expected = y * (dy - (dy * y).sum(1, keepdims=True))
    check(mode, lambda dy, y: singa.SoftMaxBackward(dy, 1, y), expected.astype(np.float32), dy,
          y.astype(np.float32))


def test_relu_backward(mode):
    x, dy = WIDE, f32(*WIDE.shape)
    check(mode, singa.ReLUBackward, np.where(x > 0, dy, 0), dy, x)


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
    check(mode, lambda p, t: (singa.CrossEntropyFwd(p, t), singa.SoftmaxCrossEntropyBwd(p, t)),
          (-(shares * np.log(p)).sum(1).astype(np.float32), (p - shares).astype(np.float32)),
          p.astype(np.float32), t)


def test_cross_entropy_of_probability_0_is_finite():
    loss = singa.CrossEntropyFwd(raw(np.array([[0, 1]], np.float32)), raw(np.array([0], np.int32)))
    same(loss, np.array([-np.log(1.17549435e-38)], np.float32))


# ---- the raw tensor ----

def test_constructors():
    dev = core.cpu()
    assert singa.Tensor().shape() == ()
    assert singa.Tensor([2, 3]).data_type() == singa.kFloat32
    assert singa.Tensor((2, 3), singa.kInt).data_type() == singa.kInt
    t = singa.Tensor((2, 3), dev, singa.kInt)
    assert (t.device() is dev, t.nDim(), t.Size(), t.MemSize()) == (True, 2, 6, 24)
    assert t.shape() == (2, 3) and t.shape(1) == 3


def test_initialized():
    t = singa.Tensor((2,))
    assert not t.initialized()
    t.SetFloatValue(1)
    assert t.initialized() and singa.Tensor(t).initialized()


def test_what_was_never_written_is_0():
    same(singa.Tensor((2, 3)), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("dtype, expected", [(singa.kFloat32, 2.5), (singa.kInt, 2),
                                             (singa.kDouble, 2.5)])
def test_set_value(mode, dtype, expected):
    def call():
        t = singa.Tensor((3,), dtype)
        t.SetFloatValue(2.5)
        return t
    assert run(call, core.cpu(), mode).to_numpy().tolist() == [expected] * 3


def test_set_value_is_recorded():
    """A counter set to 0 and incremented in a graph is 1 after each run."""
    dev, t = core.cpu(), singa.Tensor((2,))
    dev.EnableGraph(True)
    t.SetFloatValue(0)
    t += 1.0
    dev.EnableGraph(False)
    for _ in range(3):
        dev.RunGraph()
        same(t, np.ones(2, np.float32))
    dev.Reset()


@pytest.mark.parametrize("values", [[1, 2, 3], np.array([1, 2, 3])], ids=["list", "array"])
def test_host_pointers(values):
    t, i = singa.Tensor((3,)), singa.Tensor((3,), singa.kInt)
    t.CopyFloatDataFromHostPtr(values)
    i.CopyIntDataFromHostPtr(values)
    assert t.GetFloatValue(2).tolist() == [1, 2] and t.GetFloatValue(3).dtype == np.float32
    assert i.GetIntValue(3).tolist() == [1, 2, 3] and i.GetIntValue(3).dtype == np.int32
    t.CopyHalfFloatDataFromHostPtr(values)
    assert t.GetHalfFloatValue(3).dtype == np.float16


def test_host_values_are_in_logical_order():
    x = f32(2, 3, 4, 5)
    t = singa.Transpose(raw(x), (3, 0, 2, 1))
    np.testing.assert_array_equal(t.GetFloatValue(120), x.transpose(3, 0, 2, 1).reshape(-1))


def test_types(mode):
    x = f32(2, 3) * 5

    def call(x):
        whole = x.AsType(singa.kInt)
        own = x.Clone()
        own.ToType(singa.kInt)
        return whole, own, x.Clone()
    check(mode, call, (np.trunc(x).astype(np.int32), np.trunc(x).astype(np.int32), x), x)


def test_copies(mode):
    x, y = f32(2, 3), f32(3, 2)

    def call(x, y):
        deep, other = x.Clone(), singa.Tensor((2, 3))
        other.CopyData(y)
        deep += 1.0
        return deep, other, x.Clone()
    check(mode, call, (x + 1, y.reshape(2, 3), x), x, y)
    with pytest.raises(errors.ShapeError, match="5 elements"):
        raw(x).CopyData(raw(f32(5)))


def test_copy_to_another_device():
    from weir import device
    other = device.open_cpu(threads=1)
    x = f32(2, 3, 4, 5)
    t = raw(x)
    copy = t.Clone(other)
    assert copy.device() is other
    same(copy, x)
    t.ToDevice(other)
    t.ToHost()
    same(t, x)
    here = singa.Tensor(x.shape)
    here.CopyData(copy)
    same(here, x)


def test_reset_like():
    t = raw(f32(3))
    t.ResetLike(raw(i32(2, 2)))
    assert t.shape() == (2, 2) and t.data_type() == singa.kInt and not t.initialized()


def test_norms():
    x = f32(3, 4)
    assert abs(raw(x).L1() - np.abs(x).mean()) < 1e-6
    assert abs(raw(x).L2() - np.sqrt((x ** 2).sum()) / 12) < 1e-6


def test_too_many_values():
    with pytest.raises(ValueError, match="7 elements"):
        raw(f32(2, 3)).from_numpy(f32(7))


def test_reading_a_recorded_value_is_an_error():
    dev, x = core.cpu(), raw(f32(3))
    dev.EnableGraph(True)
    y = singa.Add(x, x)
    with pytest.raises(errors.StateError, match="recorded"):
        y.to_numpy()
    with pytest.raises(errors.StateError):
        singa.SumAsFloat(y)
    dev.Reset()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)], ids=str)
def test_no_elements(mode, shape):
    x = np.zeros(shape, np.float32)
    check(mode, lambda x: (singa.Add(x, x), singa.Exp(x), singa.DefaultTranspose(x)),
          (x, x, x.T), x)


# ---- flags and names ----

def test_flags_and_constants():
    for name in ("USE_CUDA", "USE_DIST", "USE_OPENCL", "USE_DNNL", "USE_CUDNN", "USE_PYTHON",
                 "USE_JAVA"):
        assert getattr(singa, name) in (0, 1)
    assert (singa.kFloat32, singa.kFloat16, singa.kInt, singa.kChar, singa.kDouble) == (0, 1, 2, 3,
                                                                                        4)
    assert isinstance(singa.SINGA_VERSION, int)
    assert singa.SizeOf(singa.kFloat32) == 4 and singa.SizeOf(singa.kDouble) == 8
    assert singa.Product((2, 3, 4)) == 24 and singa.Product([]) == 1
    singa.InitLogging("")


def test_containers():
    v = singa.VecTensor([singa.Tensor((1,))])
    v.append(singa.Tensor((2,)))
    assert len(v) == 2 and list(singa.VecInt([1, 2])) == [1, 2]
    assert list(singa.Shape([3])) == [3] and singa.VecVecSize([[1]])[0] == [1]


@pytest.mark.parametrize("name", ["CudnnConvHandle", "GpuConvForward", "CudnnRNNHandle",
                                  "Communicator", "NcclIdHolder"])
def test_names_of_other_builds_are_absent(name):
    with pytest.raises(AttributeError, match="needs"):
        getattr(singa, name)
