"""test_tensor - the Tensor of weir.tensor against NumPy: operators, parts, shapes, copies."""
import copy
import operator
import pickle

import numpy as np
import pytest

from arraycheck import check, f32, i32, same
import weir
from weir import core, device, errors, tensor
from weir import singa_wrap as singa
from weir.tensor import Tensor


# ---- operators ----

ARITHMETIC = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow,
}
COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
               "eq": operator.eq, "ne": operator.ne}
POSITIVE = np.abs(f32(3, 4)) + 0.5


@pytest.mark.parametrize("op", ARITHMETIC.values(), ids=ARITHMETIC)
def test_arithmetic(mode, op):
    a, b = POSITIVE, POSITIVE[1] * 3
    two = np.float32(2)
    check(mode, lambda x, y: (op(x, y), op(y, x), op(x, 2.0), op(2.0, x), op(x, np.float32(2))),
          (op(a, b), op(b, a), op(a, two), op(two, a), op(a, two)), a, b, atol=3e-6)


@pytest.mark.parametrize("op", COMPARISONS.values(), ids=COMPARISONS)
def test_comparisons(mode, op):
    a, b = i32(5, 4).astype(np.float32), i32(4).astype(np.float32)
    check(mode, lambda x, y: (op(x, y), op(x, 1), op(1, x)), (op(a, b), op(a, 1), op(1, a)), a, b)


@pytest.mark.parametrize("op", [ARITHMETIC[x] for x in ("add", "sub", "mul", "floordiv", "mod")])
def test_integers_stay_integers(mode, op):
    a, b = i32(4, 3), np.abs(i32(3)) + 1
    check(mode, lambda x, y: op(x, y), op(a, b), a, b)


def test_division_of_integers_cuts_towards_zero(mode):
    a, b = i32(4, 3), i32(4, 3) | 1
    check(mode, operator.truediv, np.trunc(a / b).astype(np.int32), a, b)


@pytest.mark.parametrize("op", [ARITHMETIC[x] for x in ("add", "sub", "mul", "div")])
def test_integers_with_numbers_become_floats(mode, op):
    a = np.abs(i32(4, 3)) + 1
    x = a.astype(np.float32)
    two = np.float32(2)
    check(mode, lambda t: (op(t, 2), op(2, t)), (op(x, two), op(two, x)), a)


@pytest.mark.parametrize("op, symbol", [
    (operator.iadd, "+="), (operator.isub, "-="), (operator.imul, "*="), (operator.itruediv, "/="),
    (operator.ifloordiv, "//="), (operator.imod, "%="), (operator.ipow, "**=")])
@pytest.mark.parametrize("other", ["tensor", "number"])
def test_in_place(mode, op, symbol, other):
    a, b = POSITIVE, POSITIVE[0] if other == "tensor" else 2.0

    def call(x, *ys):
        own = x.clone()
        shared, kept = own.copy(), own
        own = op(own, ys[0] if ys else b)
        assert own is kept
        return own, shared, x + 0.0
    expected = op(a.copy(), np.float32(b))
    check(mode, call, (expected, expected, a), *((a, b) if other == "tensor" else (a,)), atol=3e-6)


def test_in_place_keeps_the_type(mode):
    def call(x):
        own = x.clone()
        own += 1.7
        return own
    check(mode, call, np.array([1, 2, 3], np.int32), np.array([0, 1, 2], np.int32))


def test_in_place_to_another_shape():
    t = Tensor((3,))
    with pytest.raises(errors.ShapeError, match=r"\(2, 3\)"):
        t += tensor.from_numpy(f32(2, 3))


def test_matmul(mode):
    a, b = f32(3, 3), f32(3, 3)

    def call(x, y):
        own = x.clone()
        own @= y
        return x @ y, own
    check(mode, call, (a @ b, a @ b), a, b)


def test_arrays_as_operands(mode):
    a, b = f32(3, 4), f32(3, 4)
    check(mode, lambda x: (x + b, b + x, b - x, b / x, x @ b.T, b < x, np.float64(3) * x),
          (a + b, b + a, b - a, b / a, a @ b.T, b < a, 3 * a), a, rtol=1e-4)


def test_unary_operators(mode):
    a = f32(3, 4)
    check(mode, lambda x: (-x, +x, abs(x), ~(x > 0), (x > 0) & (x < 1), (x > 1) | (x < 0),
                           (x > 0) ^ (x > 1)),
          (-a, a, abs(a), ~(a > 0), (a > 0) & (a < 1), (a > 1) | (a < 0), (a > 0) ^ (a > 1)), a)


def test_truth_and_none():
    t = tensor.zeros((2,))
    assert (t == None) is False and (t != None) is True     # noqa: E711
    for wrong in (t, tensor.Tensor((0,))):
        with pytest.raises(ValueError, match="neither true nor false: `x is not None`"):
            bool(wrong)
    assert tensor.ones((1,)) and tensor.ones((1, 1)) and not tensor.zeros((1,))
    with pytest.raises(TypeError):
        hash(t)
    with pytest.raises(TypeError):
        t + "text"
    assert (t == "text") is False


@pytest.mark.parametrize("written", ["base", "view"])
def test_views(written):
    """A transposed or reshaped Tensor shares the elements; a transposed one's reshape does not."""
    a = f32(2, 3)
    t = tensor.from_numpy(a)
    turned, flat, copied = t.T(), t.reshape((6,)), t.T().reshape((6,))
    if written == "base":
        t += 1
    else:
        flat += 1
    same(t, a + 1)
    same(turned, a.T + 1)
    same(flat, a.reshape(6) + 1)
    same(copied, a.T.reshape(6))


# ---- attributes and conversions ----

def test_constructor():
    t = Tensor()
    assert t.shape == () and t.is_empty() and t.requires_grad and not t.stores_grad
    assert t.is_dummy() and not Tensor(name="W").is_dummy()
    t = Tensor((2, 3), device.get_default_device(), tensor.int32, requires_grad=False)
    assert (t.ndim(), t.size(), t.memsize(), t.dtype) == (2, 6, 24, tensor.int32)
    assert not t.is_empty() and Tensor((0, 2)).is_empty() and not t.requires_grad
    assert tensor.PlaceHolder is Tensor
    before = Tensor.tensor_count
    assert Tensor().name == f"Dummy#{before}"


def test_data_is_converted_to_the_type_given():
    same(Tensor(data=np.array([1, 2])), np.array([1, 2], np.float32))
    same(Tensor(data=np.array([1, 2]), dtype=tensor.int32), np.array([1, 2], np.int32))
    a = np.array([0.1, 2.0])
    t = Tensor(data=a, dtype=tensor.float64)
    assert t.numpy().dtype == np.float64 and t.numpy().tolist() == a.tolist()
    raw = singa.Tensor((2,))
    assert Tensor(data=raw).data is raw


def test_creator_of_a_leaf():
    t = Tensor((2,), name="leaf")
    assert t.creator.name == "leaf" and t.creator.shape == (2,)


@pytest.mark.parametrize("dtype, expected", [(np.float32, np.float32), (np.float64, np.float32),
                                             (np.int32, np.int32), (np.int64, np.int32)])
def test_from_numpy(dtype, expected):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    t = tensor.from_numpy(a)
    same(t, a.astype(expected))
    a += 1
    assert t.numpy()[0, 0] == 0 and tensor.to_numpy(t).dtype == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.complex64, np.int16])
def test_from_numpy_of_other_types(dtype):
    with pytest.raises(AssertionError, match="conversion"):
        tensor.from_numpy(np.zeros(3, dtype))


def test_numpy_functions_on_tensors():
    a = f32(3, 4)
    t = tensor.from_numpy(a)
    np.testing.assert_array_equal(np.asarray(t), a)
    assert np.asarray(t, np.float64).dtype == np.float64
    np.testing.assert_allclose(np.exp(t), np.exp(a))
    for name in ("sum", "mean", "max", "min", "prod", "var", "std", "argmax"):
        np.testing.assert_allclose(np.asarray(getattr(np, name)(t, axis=1)),
                                   getattr(np, name)(a, axis=1), 1e-4)
    np.testing.assert_allclose(np.array(t, copy=True), a)
    with pytest.raises(ValueError, match="copy"):
        t.__array__(np.float64, copy=False)


def test_python_values():
    t = tensor.from_numpy(np.array([2.75], np.float32))
    assert (t.item(), float(t), int(t), f"{t:.1f}") == (2.75, 2.75, 2, "2.8")
    assert tensor.from_numpy(np.array([[1, 2]])).tolist() == [[1, 2]]
    for wrong in (float, int, Tensor.item):
        with pytest.raises(ValueError, match="2 elements"):
            wrong(tensor.zeros((2,)))


def test_repr():
    """All that a Tensor is; str is SINGA's text. Long ones are shortened as in NumPy."""
    t = tensor.from_numpy(np.array([1.5, 2]))
    assert repr(t) == "tensor([1.5, 2. ], shape=(2,), dtype=weir.float32, device=cpu)"
    assert str(t) == "[1.5, 2. ], float32"
    assert str(tensor.from_numpy(np.array([1, 2]))) == "[1, 2], int32"
    assert len(repr(tensor.zeros((100, 100)))) < 500
    dev = core.cpu()
    dev.EnableGraph(True)
    assert repr(tensor.ones((2,)) + 1) == \
        "tensor(<recorded, not computed>, shape=(2,), dtype=weir.float32, device=cpu)"
    dev.Reset()


def test_element_types_have_names():
    """They are SINGA's numbers, too."""
    t = tensor.ones((2,))
    assert t.dtype == weir.float32 == 0 and isinstance(t.dtype, int)
    assert (repr(t.dtype), str(weir.bool_), f"{weir.bfloat16}") == (
        "weir.float32", "weir.bool_", "weir.bfloat16")
    assert pickle.loads(pickle.dumps(weir.int64)) is weir.int64
    assert weir.zeros((2,), dtype=weir.float16).dtype is weir.float16
    assert tensor.Tensor((2,), dtype=2).dtype is weir.int32 is tensor.int32
    assert weir.int8 is core.kChar and repr(weir.zeros((2,), dtype="int8").dtype) == "weir.int8"


def test_length_and_iteration():
    a = f32(3, 2)
    t = tensor.from_numpy(a)
    assert len(t) == 3
    for i, (row, expected) in enumerate(zip(t, a)):
        same(row, expected.reshape(1, 2))
        assert row.shape == t[i].shape
    assert [float(x) for x in tensor.from_numpy(a[0])] == a[0].tolist()
    with pytest.raises(TypeError):
        len(Tensor())


# ---- parts ----

@pytest.mark.parametrize("keys", [0, -1, slice(1, 3), slice(None, -1), (0, slice(1, 2)),
                                  (slice(None), -2), (Ellipsis, 1), (1, 2, 3),
                                  (slice(None), slice(None, None, 2)),
                                  (slice(None, None, -1),)], ids=str)
def test_getitem(mode, keys):
    a = f32(3, 4, 5)
    # an integer keeps its axis
    kept = tuple(slice(k, k + 1 or None) if isinstance(k, int) else k
                 for k in (keys if isinstance(keys, tuple) else (keys,)))

    def call(t):
        part = t[keys]
        part += 1
        return part, t + 0.0
    check(mode, call, (a[kept] + 1, a), a)


@pytest.mark.parametrize("keys, value", [
    (0, 2.5), ((slice(1, 3), slice(None, 2)), np.array([7, 8])), ((Ellipsis, -1), 1),
    ((slice(None), 1), np.arange(3)), (slice(2, 2), 9), (slice(None), f32(3, 4))], ids=str)
def test_setitem(mode, keys, value):
    a = f32(3, 4)
    expected = a.copy()
    expected[keys] = value

    def call(t):
        own = t.clone()
        shared = own.T()
        own[keys] = value
        return own, shared, t + 0.0
    check(mode, call, (expected, expected.T, a), a)


def test_setitem_refuses():
    t = tensor.zeros((4,))
    with pytest.raises(ValueError, match="slices with step 1"):
        t[::2] = 1
    with pytest.raises(ValueError, match="out of range"):
        t[4] = 1
    with pytest.raises(TypeError, match="number"):
        t[0] = "text"
    with pytest.raises(errors.ShapeError):
        t[:2] = np.zeros(3)


@pytest.mark.parametrize("keys", [3, -4, slice(0, 9), (0, 0, 0, 0), (Ellipsis, Ellipsis)], ids=str)
def test_getitem_out_of_range(keys):
    with pytest.raises(ValueError):
        tensor.zeros((3, 4))[keys]


def test_getitem_of_another_kind():
    with pytest.raises(TypeError):
        tensor.zeros((3,))["a"]


# ---- shapes ----

def test_shapes(mode):
    a = f32(2, 3, 4)
    check(mode, lambda t: (t.transpose(), t.T(), t.transpose((2, 0, 1)), t.reshape((6, 4)),
                           t.reshape(4, -1), t.T().contiguous(), t.view(24), t.permute(1, 0, 2),
                           t.flatten(), t.flatten(1)),
          (a.T, a.T, a.transpose(2, 0, 1), a.reshape(6, 4), a.reshape(4, -1), a.T, a.reshape(24),
           a.transpose(1, 0, 2), a.reshape(24), a.reshape(2, 12)), a)


def test_squeeze_unsqueeze_expand(mode):
    a = f32(2, 1, 3, 1)
    check(mode, lambda t: (t.squeeze(), t.squeeze(1), t.squeeze((1, -1)), t.unsqueeze(0),
                           t.unsqueeze(-1), t.expand(2, 4, 3, 5), t.expand((7, -1, -1, -1, 2))),
          (a.squeeze(), a.squeeze(1), a.squeeze((1, -1)), a[None], a[..., None],
           np.broadcast_to(a, (2, 4, 3, 5)), np.broadcast_to(a, (7, 2, 1, 3, 2))), a)
    t = tensor.from_numpy(a)
    with pytest.raises(ValueError, match="squeeze"):
        t.squeeze(0)
    with pytest.raises(ValueError, match="unsqueeze"):
        t.unsqueeze(6)


def test_shape_functions(mode):
    a, b = f32(2, 3), f32(2, 3)
    check(mode, lambda t, u: (tensor.reshape(t, (3, 2)), tensor.transpose(t),
                              tensor.transpose(t, (1, 0)), tensor.contiguous(tensor.transpose(t)),
                              tensor.concatenate([t, u], 0), tensor.concatenate((t, u), 1)),
          (a.reshape(3, 2), a.T, a.T, a.T, np.concatenate([a, b], 0), np.concatenate([a, b], 1)),
          a, b)


def test_reshape_to_another_size():
    with pytest.raises(AssertionError):
        tensor.zeros((2, 3)).reshape((4, 2))


def test_is_transpose():
    t = tensor.zeros((2, 3))
    assert not t.is_transpose() and t.T().is_transpose() and not t.T().T().is_transpose()


@pytest.mark.parametrize("repeats, axis", [(2, None), (2, 0), (3, 1), ([1, 2, 0], 1), ([2, 1], -2)],
                         ids=str)
def test_repeat(mode, repeats, axis):
    a = f32(2, 3)
    check(mode, lambda t: (t.repeat(repeats, axis), tensor.repeat(t, repeats, axis)),
          (np.repeat(a, repeats, axis),) * 2, a)


def test_repeat_counts_need_an_axis():
    with pytest.raises(ValueError, match="axis"):
        tensor.zeros((2,)).repeat([1, 2])


# ---- types, devices, copies ----

@pytest.mark.parametrize("dtype, kind", [("int", np.int32), (tensor.int32, np.int32),
                                         ("float", np.float32), (singa.kFloat32, np.float32),
                                         (np.int32, np.int32)], ids=str)
def test_as_type(mode, dtype, kind):
    a = f32(3, 4) * 4
    expected = np.trunc(a).astype(kind) if kind == np.int32 else a

    def call(t):
        own = t.clone()
        assert own.to_type(dtype) is own
        return t.as_type(dtype), own, t.astype(dtype)
    check(mode, call, (expected,) * 3, a)


def test_as_type_of_no_type():
    with pytest.raises(TypeError):
        tensor.zeros((2,)).as_type("no type")
    with pytest.raises(TypeError):
        tensor.zeros((2,)).to_type(77)


def test_reset_like():
    t = tensor.zeros((2,))
    t.reset_like(Tensor((3, 4), dtype=tensor.int32))
    assert t.shape == (3, 4) and t.dtype == tensor.int32


def test_devices():
    other = device.open_cpu(threads=1)
    a = f32(2, 3, 4, 5)
    t = tensor.from_numpy(a, other)
    assert t.device is other
    t.to_device(core.cpu())
    assert t.device is core.cpu()
    same(t, a)
    host = tensor.to_host(t)
    t.to_host()
    t += 1
    same(host, a)
    with pytest.raises(errors.DeviceError):
        tensor.ones((2,), other) + tensor.ones((2,))


def test_copies(mode):
    a = f32(2, 3)

    def call(t):
        own = t.clone()
        deep, shared, other, more = own.deepcopy(), own.copy(), Tensor((2, 3)), Tensor((2, 3))
        other.copy_data(own)
        more.copy_from(own)
        own += 1
        return own, deep, shared, other, more
    check(mode, call, (a + 1, a, a + 1, a, a), a)


def test_copies_keep_what_autograd_knows():
    t = Tensor((2,), requires_grad=False)
    assert not t.clone().requires_grad and not t.copy().requires_grad
    p = Tensor((2,), stores_grad=True)
    assert p.clone().stores_grad


def test_python_copies():
    a = f32(2, 3)
    t = Tensor(data=a, name="w", stores_grad=True)
    deep, shared, back = copy.deepcopy(t), copy.copy(t), pickle.loads(pickle.dumps(t))
    t += 1
    same(deep, a)
    same(shared, a + 1)
    same(back, a)
    assert back.name == "w" and back.stores_grad


def test_copy_from_numpy():
    t, a = tensor.zeros((2, 3)), f32(2, 3)
    t.copy_from_numpy(a)
    same(t, a)
    t.copy_from_numpy(np.arange(6))
    same(t, np.arange(6, dtype=np.float32).reshape(2, 3))
    t.copy_from_numpy(np.array([9.0, 8.0]), offset=2)
    same(t, np.array([[0, 1, 9], [8, 4, 5]], np.float32))
    raw = singa.Tensor((6,))
    tensor.copy_from_numpy(raw, a)
    np.testing.assert_array_equal(raw.to_numpy(), a.reshape(6))


@pytest.mark.parametrize("wrong", [np.zeros(5, np.float32), np.zeros(6, np.uint8), [0] * 6],
                         ids=["size", "type", "list"])
def test_copy_from_numpy_refuses(wrong):
    with pytest.raises(AssertionError):
        tensor.zeros((2, 3)).copy_from_numpy(wrong)


def test_copy_data_of_another_size():
    with pytest.raises(AssertionError):
        tensor.zeros((2, 3)).copy_data(tensor.zeros((5,)))
    with pytest.raises(ValueError):
        tensor.zeros((2, 3)).copy_from("text")


def test_copy_data_to_from(mode):
    a, b = f32(2, 3), f32(8)
    expected = a.copy().reshape(-1)
    expected[1:4] = b[5:]

    def call(t, u):
        own = t.clone()
        tensor.copy_data_to_from(own, u, 3, 1, 5)
        return own
    check(mode, call, expected.reshape(2, 3), a, b)


def test_host_data_is_written_at_once_while_recording():
    """The same placeholder is refreshed before each run."""
    dev, x = core.cpu(), tensor.from_numpy(np.zeros(3, np.float32))
    dev.EnableGraph(True)
    y = x * 2.0
    dev.EnableGraph(False)
    for _ in range(2):
        a = f32(3)
        x.copy_from_numpy(a)
        dev.RunGraph()
        same(y, a * 2)
    dev.Reset()
