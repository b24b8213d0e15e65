"""test_raw_tensor - the raw tensor of weir.singa_wrap: shapes, views, copies, host data, names."""
import numpy as np
import pytest

from arraycheck import check_raw, f32, i32, raw, same
from conftest import run
from weir import core, device, errors
from weir import singa_wrap as singa


# ---- shapes ----

def test_reshape_and_transpose(mode):
    x = f32(2, 3, 4)
    check_raw(mode, lambda x: (singa.Reshape(x, (6, -1)), singa.Transpose(x, (2, 0, 1)),
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
    check_raw(mode, call, (expected, expected.T), x)


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
    check_raw(mode, lambda x: singa.Broadcast(x, (2, 3, 4)), np.broadcast_to(x, (2, 3, 4)), x)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(mode, axis):
    a, b = f32(3, 3), f32(3, 3)
    check_raw(mode, lambda a, b: singa.ConcatOn(singa.VecTensor([a, b]), axis),
              np.concatenate([a, b], axis), a, b)


def test_slices_are_copies(mode):
    x = f32(5, 6)

    def call(x):
        part = singa.SliceOn(x, 1, 3, 1)
        part += 1.0
        return part, singa.SliceRows(x, 0, 2), singa.SliceColumns(x, 5, 6), singa.Add(x, 0.0)
    check_raw(mode, call, (x[:, 1:3] + 1, x[:2], x[:, 5:], x), x)
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
    check_raw(mode, call, (expected.reshape(3, 4), b), b, a)
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
    check_raw(mode, call, (expected, expected), x)


def test_repeat_by_too_few():
    with pytest.raises(ValueError, match="repeat"):
        raw(f32(2, 3)).Repeat([1, 2], 1)


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
    check_raw(mode, call, (np.trunc(x).astype(np.int32), np.trunc(x).astype(np.int32), x), x)


def test_copies(mode):
    x, y = f32(2, 3), f32(3, 2)

    def call(x, y):
        deep, other = x.Clone(), singa.Tensor((2, 3))
        other.CopyData(y)
        deep += 1.0
        return deep, other, x.Clone()
    check_raw(mode, call, (x + 1, y.reshape(2, 3), x), x, y)
    with pytest.raises(errors.ShapeError, match="5 elements"):
        raw(x).CopyData(raw(f32(5)))


def test_copy_to_another_device():
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
    check_raw(mode, lambda x: (singa.Add(x, x), singa.Exp(x), singa.DefaultTranspose(x)),
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


@pytest.mark.parametrize("name", ["CudnnDropoutHandle", "GpuLRNForward"])
def test_names_of_other_builds_are_absent(name):
    with pytest.raises(AttributeError, match="needs|does not exist"):
        getattr(singa, name)
