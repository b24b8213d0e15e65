"""test_exact - tests that nothing is computed but by the core, and exactly: all operators, element
types, special values and numbers against NumPy, and against PyTorch where there is one."""
import itertools
import operator

import numpy as np
import pytest

from conftest import run
from weir import core, errors, tensor
from weir import singa_wrap as singa
from weir.tensor import Tensor

TYPES = {"int32": np.int32, "int64": np.int64, "uint8": np.uint8, "float16": np.float16,
         "float32": np.float32, "float64": np.float64}
BIG = 2**53
VALUES = {
    "int32": [0, 1, -1, 2, 7, -7, 255, 2**24 + 1, 2**31 - 1, -2**31],
    "int64": [0, 1, -1, 3, -10, 2**24 + 1, BIG + 1, -BIG - 1, 2**63 - 1, -2**63],
    "uint8": [0, 1, 2, 7, 128, 255],
    "float16": [0.0, 1.0, -1.5, 0.1, 5.0, np.inf, -np.inf, np.nan],
    "float32": [0.0, -0.0, 1.0, 0.1, -0.3, 5.0, -5.0, 1e30, np.inf, -np.inf, np.nan],
    "float64": [0.0, -0.0, 1.0, 0.1, -0.3, 5.0, -5.0, 1e300, np.inf, -np.inf, np.nan],
}
NUMBERS = [0, 1, -1, 2, 3, -7, 255, 256, 2**24 + 1, 2**31 - 1, BIG + 1, 0.5, -0.1, 1.0, 1e30,
           float("inf"), float("-inf"), float("nan"), True, np.int64(5), np.float32(0.5)]
ARITHMETIC = {x: getattr(operator, x) for x in
              ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")}
COMPARISONS = {x: getattr(operator, x) for x in ("lt", "le", "gt", "ge", "eq", "ne")}


def pairs(a, b):
    """Every element with every other, as two arrays."""
    x, y = np.array(VALUES[a], TYPES[a]), np.array(VALUES[b], TYPES[b])
    return np.repeat(x, len(y)), np.tile(y, len(x))


def made(array):
    return Tensor(data=array, dtype=array.dtype.name)


def is_int(name):
    return name in ("int32", "int64", "uint8")


def met(a, b):
    """The type that two types meet in, by SINGA's rule and ours."""
    if a == b == "float32":
        return "float32"
    if "float64" in (a, b):
        return "float64"
    if not (is_int(a) and is_int(b)):
        return "float32"
    return "int64" if "int64" in (a, b) else "int32"


def wrapped(x, kind):
    bits = np.dtype(kind).itemsize * 8
    x = int(x) % 2**bits
    return x - 2**bits if x >= 2**(bits - 1) else x


def whole(name, x, y, kind):
    """An operator of two Python integers, as the core has it."""
    if name == "pow":
        if y < 0:
            return x if x == 1 else (1 if y % 2 == 0 else -1) if x == -1 else 0
        return wrapped(pow(x, y, 2**64), kind)
    if name in ("truediv", "floordiv", "mod") and y == 0:
        return 0
    if name == "truediv":
        return wrapped(abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1), kind)
    return wrapped(ARITHMETIC[name](x, y), kind)


def with_numpy(name, x, y, kind):
    """The operator of two arrays in this type."""
    if np.dtype(kind).kind == "i":
        return np.array([whole(name, int(p), int(q), kind) for p, q in zip(x, y)], kind)
    with np.errstate(all="ignore"):
        return ARITHMETIC[name](x.astype(kind), y.astype(kind))


def with_torch(name, x, y, kind):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    a, b = torch.from_numpy(x.astype(kind)), torch.from_numpy(y.astype(kind))
    if np.dtype(kind).kind == "i":
        if name == "truediv":
            return torch.div(a, b, rounding_mode="trunc").numpy()
        if name == "pow":           # on tensors PyTorch takes any exponent
            return torch.pow(a, b).numpy()
    return ARITHMETIC[name](a, b).numpy()


REFERENCES = {"numpy": with_numpy, "torch": with_torch}


def agree(y, expected, name="", kind=None):
    """The same type, numbers and infinities; powers and quotients of floats to a few units."""
    got = y.numpy()
    assert got.dtype == np.dtype(kind or expected.dtype), (got.dtype, expected.dtype)
    loose = name == "pow" and got.dtype.kind == "f"
    if loose:
        np.testing.assert_allclose(got, expected, 1e-6)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("a, b", itertools.product(TYPES, TYPES))
@pytest.mark.parametrize("reference", REFERENCES)
def test_operators_of_two_tensors(reference, a, b, name):
    x, y = pairs(a, b)
    kind = met(a, b)
    if reference == "torch" and np.dtype(kind).kind == "i" and name in ("truediv", "floordiv",
                                                                        "mod"):
        keep = (y != 0) & ~((y.astype(np.int64) == -1) & (x == np.iinfo(kind).min))
        x, y = x[keep], y[keep]     # PyTorch raises, or stops the process
    agree(ARITHMETIC[name](made(x), made(y)), REFERENCES[reference](name, x, y, kind), name)


def rule(a, c, name, swap):
    """(type to compute in, type of the result) of a tensor with a number."""
    if not is_int(a):
        kind = "float64" if a == "float64" else "float32"
        return kind, kind
    exact = isinstance(c, (int, np.integer)) and name != "truediv"
    if exact and name == "pow" and (a != "int64" if swap else c < 0):
        exact = False
    return ("int64", "int64" if a == "int64" else "float32") if exact else ("float32", "float32")


@pytest.mark.parametrize("swap", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("a", TYPES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_operators_with_numbers(reference, a, name, swap):
    for c in NUMBERS:
        x = np.array(VALUES[a], TYPES[a])
        within, kind = rule(a, c, name, swap)
        y = np.full(len(x), c, within)
        if reference == "torch" and within == "int64" and name in ("floordiv", "mod"):
            divisor = x if swap else y
            x, y = x[(divisor != 0) & (divisor != -1)], y[(divisor != 0) & (divisor != -1)]
            if not x.size:
                continue
        t = made(x)
        got = ARITHMETIC[name](c, t) if swap else ARITHMETIC[name](t, c)
        x, y = (y, x) if swap else (x, y)
        agree(got, REFERENCES[reference](name, x, y, within).astype(kind), name)


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.parametrize("a", TYPES)
def test_comparisons_are_exact(a, name, mode):
    """Integers with integers and floats as numbers are, whatever their types hold."""
    op = COMPARISONS[name]
    x = np.array(VALUES[a], TYPES[a])
    for c in [*NUMBERS, -2**70, 2**63, 2**31, BIG, 2**24]:
        if is_int(a):
            expected = [float(op(int(v), c.item() if isinstance(c, np.generic) else c)) for v in x]
        else:
            expected = op(x.astype(met(a, "float32")), np.dtype(met(a, "float32")).type(c))
        got = run(lambda: op(made(x), c), core.cpu(), mode)
        np.testing.assert_array_equal(got.numpy(), expected, f"{name} {c}")
    for b in TYPES:
        x, y = pairs(a, b)
        if is_int(a) == is_int(b):
            expected = op(x, y)
        else:
            expected = op(x.astype(np.float64), y.astype(np.float64))
        np.testing.assert_array_equal(op(made(x), made(y)).numpy(), expected)


@pytest.mark.parametrize("a", ["int32", "int64", "uint8", "bool"])
def test_reductions_of_integers_are_exact(a, mode):
    rows = {"int32": [[2**24, 2**24 + 1], [2**31 - 1, 2**31 - 1], [-2**31, -1]],
            "int64": [[BIG, BIG + 1], [2**62, 2**62], [-2**63, -1]],
            "uint8": [[255, 255], [200, 100], [0, 3]], "bool": [[1, 1], [0, 1], [0, 0]]}[a]
    x = np.array(rows, a)
    t = made(x)
    y = run(lambda: (t.sum(1), t.prod(1), t.max(1), t.min(1), t.argmax(1), t.argmin(1), t.sum(),
                     t.mean(1)), core.cpu(), mode)
    with np.errstate(over="ignore"):
        agree(y[0], x.sum(1, dtype=np.int64))
        agree(y[1], x.prod(1, dtype=np.int64))
        agree(y[6], x.sum(dtype=np.int64).reshape(1))
    number = np.int32 if a == "bool" else x.dtype
    agree(y[2], x.max(1).astype(number))
    agree(y[3], x.min(1).astype(number))
    agree(y[4], x.argmax(1).astype(np.int32))
    agree(y[5], x.argmin(1).astype(np.int32))
    if a != "int64":
        agree(y[7], (x.sum(1, dtype=np.int64) / 2).astype(np.float32))


@pytest.mark.parametrize("a", ["int32", "int64", "uint8"])
def test_functions_of_integers_are_exact(a):
    x = np.array(VALUES[a], TYPES[a])
    t = made(x)
    with np.errstate(over="ignore"):
        agree(abs(t), abs(x))
        agree(-t, -x)
        agree(t.square(), x * x)
    agree(t.sign(), np.sign(x))
    for same in (t.floor(), t.ceil(), t.round()):
        agree(same, x)
    agree(t.clip(1, 200), x.clip(1, 200))
    agree(t.clip(0.5, 7.5), x.clip(1, 7))
    if a == "int64":
        agree(t.clip(-BIG - 1, BIG + 1), x.clip(-BIG - 1, BIG + 1))
    with pytest.raises(ValueError):
        t.clip(0.2, 0.8)


def test_products_of_integers_are_exact(mode):
    a = np.array([[2**30, 3], [2**31 - 1, -5]], np.int32)
    b = np.array([[2**30, 1], [7, 2**31 - 1]], np.int32)
    with np.errstate(over="ignore"):
        check = run(lambda: (made(a) @ made(b), made(a) @ made(b[0]), made(a[0]) @ made(b),
                             tensor.einsum("ij,kj->ik", made(a), made(b)),
                             made(np.stack([a, b])) @ made(b)), core.cpu(), mode)
        for got, expected in zip(check, (a @ b, a @ b[0], a[0] @ b, a @ b.T,
                                         np.stack([a, b]) @ b)):
            agree(got, expected)


def test_integers_in_place_are_exact():
    t = made(np.array([2**24 + 1, 2**31 - 1], np.int32))
    t += 1
    assert t.tolist() == [2**24 + 2, -2**31]
    t -= 2
    assert t.tolist() == [2**24, 2**31 - 2]
    raw = singa.Tensor((1,), core.kInt64)
    raw.SetIntValue(BIG + 1)
    raw += 1
    assert raw.to_numpy().tolist() == [BIG + 2]
    assert tensor.full((2,), BIG + 1, dtype="int64").tolist() == [BIG + 1] * 2
    with pytest.raises(errors.Error, match="fill_int: i32 has no"):
        tensor.full((2,), 2**31, dtype="int32")
    with pytest.raises(OverflowError):
        made(np.zeros(1, np.int64)) + 2**63


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_quotients_of_tenths(kind):
    """k / 10 by 0.1: half of the rounded quotients are whole by chance."""
    x = (np.arange(20000) / 10).astype(kind)
    c = np.array(0.1, kind)
    t = made(x)
    np.testing.assert_array_equal((t // c).numpy(), x // c)
    np.testing.assert_array_equal((t % c).numpy(), x % c)
    assert (made(np.array([1.0], kind)) // 0.1).tolist() == [9.0]
    assert (made(np.array([5.0], kind)) % float("inf")).tolist() == [5.0]


def test_integers_that_do_not_fit_are_refused():
    fits = np.array([2**31 - 1, -2**31])
    assert tensor.from_numpy(fits).tolist() == fits.tolist()
    for wrong in (2**31, -2**31 - 1):
        with pytest.raises(OverflowError, match="do not fit int32"):
            tensor.from_numpy(np.array([0, wrong]))
    wide = made(np.array([1, 2], np.int64))
    assert (wide + np.array([2**31, BIG])).tolist() == [2**31 + 1, BIG + 2]
