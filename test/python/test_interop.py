# test_interop.py - elements to and from other libraries and files: shared, copied, refused.
import array as stdlib_array
import gc
import io
import json
import os
import resource
import tracemalloc
import zipfile

import numpy as np
import pytest

import weir
from weir import _capi as capi, autograd, errors, files, interop, tensor

# NumPy before 2.1 reads only unversioned DLPack. Up to 2.2.4 all that it reads is read-only.
VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
WRITES = np.from_dlpack(np.ones(1)).flags.writeable
shown = np.from_dlpack if WRITES else np.asarray
BOOLS = np.lib.NumpyVersion(np.__version__) >= "1.25.0"     # older DLPack has no bool

DTYPES = ["float32", "float64", "int32", "int64", "uint8", "bool", "int8", "int16", "uint16",
          "uint32", "uint64"]
SHAPES = [(), (1,), (5,), (2, 3), (2, 0, 3), (2, 3, 4), (2, 3, 4, 5), (1, 3, 1, 1), (2, 1, 2, 1, 3)]


def values(shape, dtype):
    count = int(np.prod(shape, dtype=int))
    return (np.arange(count) * 37 % 101).reshape(shape).astype(dtype)


# ---- in ----

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_array_keeps_type_and_shape(shape, dtype):
    a = values(shape, dtype)
    for source in (a, np.array(a, order="F"), memoryview(a.copy())):
        t = weir.array(source)
        assert t.shape == shape
        assert t.data.to_numpy().dtype == a.dtype
        assert np.array_equal(t.data.to_numpy(), a)


def test_array_of_sequences():
    assert weir.array([1.5, 2]).dtype == tensor.float32
    assert weir.array([1, 2]).dtype == tensor.int64
    assert weir.array(3.0).shape == ()
    assert weir.array([1, 2], dtype="float64").dtype == tensor.float64
    assert weir.array(stdlib_array.array("i", [1, 2])).dtype == tensor.int32
    assert weir.tensor([[1, 2]]).shape == (1, 2)            # the module, called


def test_array_copies():
    a = np.ones(3, np.float32)
    t = weir.array(a)
    a[:] = 5
    assert (t.data.to_numpy() == 1).all()


@pytest.mark.parametrize("bad", [np.ones(2, np.complex64), np.ones(2, np.complex128),
                                 np.array(["a"]), np.array([None])])
def test_array_refuses(bad):
    with pytest.raises(errors.DtypeError, match="not supported"):
        weir.array(bad)


def test_requires_grad():
    x = weir.array([[1.0, -2.0]], requires_grad=True)
    autograd.training = True
    try:
        loss = autograd.softmax_cross_entropy(x, weir.array([0], "int32"))
        (param, grad), = autograd.backward(loss)
    finally:
        autograd.training = False
    p = 1 / (1 + np.exp(3.0))
    assert param is x and np.allclose(grad.data.to_numpy(), [[-p, p]])


# ---- DLPack and the array interface ----

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_dlpack_both_ways(shape, dtype):
    a = values(shape, dtype)
    t = weir.array(a)
    if dtype == "bool" and not BOOLS:
        with pytest.raises(RuntimeError, match="Unsupported dtype"):
            np.from_dlpack(t)
        return
    view = np.from_dlpack(t)
    assert view.dtype == a.dtype and np.array_equal(view, a)
    back = weir.from_dlpack(view if VERSIONED else view.copy("K"))     # 4-D floats: strided
    assert back.shape == shape and np.array_equal(back.data.to_numpy(), a)
    assert np.array_equal(np.asarray(t), a)


class Old:
    """As libraries before DLPack 1.0: no arguments known."""

    def __init__(self, t):
        self.t = t

    def __dlpack__(self, stream=None):
        return self.t.__dlpack__()

    def __dlpack_device__(self):
        return self.t.__dlpack_device__()


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4, 5)])
@pytest.mark.parametrize("share", [np.from_dlpack, np.asarray, lambda t: np.from_dlpack(Old(t))])
def test_shared_memory(share, shape):
    t = weir.ones(shape)
    view = share(t)
    assert view.ctypes.data == capi.memory(t.data.handle)[0]
    t.copy_from_numpy(np.full(shape, 3, np.float32))
    assert (view == 3).all()
    if view.flags.writeable:
        view[(0,) * len(shape)] = 7
        assert t.data.to_numpy()[(0,) * len(shape)] == 7


def test_writes_are_seen_by_a_graph():
    x = weir.ones((4,))
    view = shown(x)
    with weir.cpu().graph() as step:
        y = capi.weir_add(x.data.handle, x.data.handle)
    out = np.empty(4, np.float32)
    for value in (1, 5):
        view[:] = value
        step.run()
        capi.read(y, out)
        assert (out == 2 * value).all()


def test_computed_results_may_be_written():
    x = weir.ones((4,))
    autograd.training = False
    y = autograd.relu(x)
    shown(y)[:] = 9
    assert (y.data.to_numpy() == 9).all() and (x.data.to_numpy() == 1).all()


def test_kept_results_are_read_only_and_follow_the_runs():
    x = weir.ones((2, 3))
    with weir.cpu().graph() as step:
        y = autograd.relu(x)
    step.run()
    view = shown(y)
    assert not view.flags.writeable and not np.asarray(y).flags.writeable
    x.copy_from_numpy(np.full((2, 3), 4, np.float32))
    step.run()
    assert (view == 4).all()
    old = np.from_dlpack(Old(y))            # cannot be told: a copy
    x.copy_from_numpy(np.full((2, 3), 6, np.float32))
    step.run()
    assert (old == 4).all() and (view == 6).all()


def test_results_on_the_tape_are_read_only():
    autograd.training = True
    try:
        y = autograd.relu(weir.ones((3,), requires_grad=True))
        assert not np.from_dlpack(y).flags.writeable
    finally:
        autograd.training = False


def test_recorded_values_are_not_shown():
    x = weir.ones((3,))
    with weir.cpu().graph() as step:
        y = autograd.relu(x)
        with pytest.raises(BufferError, match="recorded"):
            y.__dlpack__(max_version=(1, 0))
        with pytest.raises(errors.StateError):
            np.array(y)
    step.run()
    assert (np.from_dlpack(y) == 1).all()


@pytest.mark.skipif(not VERSIONED, reason="NumPy asks for no version")
def test_copy_argument():
    t = weir.ones((3,))
    same = np.from_dlpack(Asked(t, copy=False))
    other = np.from_dlpack(Asked(t, copy=True))
    if WRITES:
        same[:] = 4
    else:
        t.copy_from_numpy(np.full(3, 4, np.float32))
    assert (t.data.to_numpy() == 4).all() and (same == 4).all() and (other == 1).all()
    assert same.flags.writeable == other.flags.writeable == WRITES
    x = weir.ones((3,))
    with weir.cpu().graph() as step:
        y = autograd.relu(x)
    step.run()
    with pytest.raises(BufferError, match="read-only"):
        y.__dlpack__(copy=False)
    assert np.asarray(t).ctypes.data != np.array(t).ctypes.data


class Asked:
    """A tensor whose __dlpack__ is asked for with these arguments."""

    def __init__(self, t, **arguments):
        self.t, self.arguments = t, arguments

    def __dlpack__(self, **arguments):
        return self.t.__dlpack__(max_version=(1, 0), **self.arguments)

    def __dlpack_device__(self):
        return self.t.__dlpack_device__()


def test_refused_arguments():
    t = weir.ones((3,))
    with pytest.raises(BufferError, match="stream"):
        t.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        t.__dlpack__(dl_device=(2, 0))
    assert t.__dlpack_device__() == (1, 0)
    capsule = t.__dlpack__(max_version=(1, 2), dl_device=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    assert '"dltensor"' in repr(t.__dlpack__(max_version=(0, 8)))


def test_a_capsule_is_used_once():
    d = weir.cpu()
    capsule = weir.ones((3,)).__dlpack__(max_version=(1, 0))
    capi.dlpack_import(d.handle, capsule)
    with pytest.raises(TypeError, match="used before"):
        capi.dlpack_import(d.handle, capsule)
    with pytest.raises(TypeError):
        capi.dlpack_import(d.handle, 3)


def test_views_outlive_the_tensor():
    gc.collect()
    live = weir.cpu().memory().live
    t = weir.full((1000,), 5)
    views = [np.from_dlpack(t), np.asarray(t), np.from_dlpack(Old(t))]
    del t
    gc.collect()
    assert all((v == 5).all() for v in views)
    assert weir.cpu().memory().live >= live + 4000
    views.clear()
    gc.collect()
    assert weir.cpu().memory().live == live


def test_a_replaced_value_leaves_the_memory_in_place():
    x = weir.ones((64,))
    view = np.asarray(x)
    x.data = weir.zeros((64,)).data
    gc.collect()
    junk = [weir.full((64,), 9) for _ in range(10)]
    assert (view == 1).all() and len(junk) == 10


def test_in_strided():
    a = values((4, 6, 5), "float32")
    for view in (a[::2], a[:, ::-1], a.transpose(2, 0, 1), a[1:3, 2:, 1], a[:, :0], a[..., None]):
        assert np.array_equal(weir.from_dlpack(view).data.to_numpy(), view)
        assert np.array_equal(weir.from_dlpack(Old(view)).data.to_numpy(), view)


def rss():
    """KiB, the most there ever was."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_round_trips_are_flat():
    """100,000 out and in, 100,000 capsules that nobody takes: memory stays where it was."""
    t = weir.ones((4,))
    handle = weir.cpu().handle

    def trips(n):
        for _ in range(n):
            capi.dlpack_import(handle, t.__dlpack__(max_version=(1, 0)))
            t.__dlpack__()
    trips(2000)
    live, before = weir.cpu().memory().live, rss()
    trips(100_000)
    assert weir.cpu().memory().live == live
    assert rss() - before < 200


def test_torch():
    torch = pytest.importorskip("torch")
    a = values((2, 3, 4, 5), "float32")
    t = weir.array(a)
    shared = torch.from_dlpack(t)
    assert shared.data_ptr() == capi.memory(t.data.handle)[0]
    assert shared.is_contiguous(memory_format=torch.channels_last)
    shared.fill_(3)
    assert (t.data.to_numpy() == 3).all()
    assert np.array_equal(weir.array(torch.from_numpy(a)).data.to_numpy(), a)
    assert weir.array(torch.arange(3)).dtype == tensor.int64
    assert np.array_equal(weir.from_dlpack(torch.from_numpy(a).permute(3, 1, 0, 2)).data.to_numpy(),
                          a.transpose(3, 1, 0, 2))


# ---- npz ----

def table():
    return {f"{dtype}.{i}": weir.array(values(shape, dtype))
            for dtype in DTYPES for i, shape in enumerate(SHAPES)}


def same(loaded, saved):
    assert set(loaded) == set(saved)
    for name, t in saved.items():
        a, b = loaded[name].data.to_numpy(), t.data.to_numpy()
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b), name


@pytest.mark.parametrize("compress", [False, True])
def test_npz(tmp_path, compress):
    path = tmp_path / "t.npz"
    weir.save_npz(path, table(), compress=compress)
    same(weir.load_npz(path), table())
    with np.load(path) as archive:
        assert np.array_equal(archive["float32.3"], values((2, 3), "float32"))


def test_npz_never_unpickles(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, a=np.array([{}], dtype=object))
    with pytest.raises(errors.FileError, match="pickle"):
        weir.load_npz(path)
    np.save(tmp_path / "t.npy", np.ones(3))
    with pytest.raises(errors.FileError, match="not an .npz"):
        weir.load_npz(tmp_path / "t.npy")
    with pytest.raises(FileNotFoundError):
        weir.load_npz(tmp_path / "none.npz")
    for junk in (b"", b"PK\x03\x04junk", b"junk"):
        path.write_bytes(junk)
        with pytest.raises(errors.FileError):
            weir.load_npz(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")
def test_npz_closes_what_it_refuses(tmp_path):
    path = tmp_path / "t.npz"
    path.write_bytes(b"PK\x03\x04junk")
    with pytest.raises(errors.FileError) as refused:        # it holds the frames of the failure
        weir.load_npz(path)
    links = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
    assert refused.value and os.path.realpath(path) not in links


def test_npz_cut(tmp_path):
    path = tmp_path / "t.npz"
    weir.save_npz(path, {"a": np.arange(100.0)})
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(errors.FileError):
            weir.load_npz(path)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00\xff\xff{")
    path.write_bytes(buffer.getvalue())
    with pytest.raises(errors.FileError):
        weir.load_npz(path)


# ---- safetensors ----

def written(path, header, data=b"", size=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(text) if size is None else size).to_bytes(8, "little") + text + data)
    return path


def test_safetensors(tmp_path):
    path = tmp_path / "t.safetensors"
    weir.save_safetensors(path, table(), {"made": "here"})
    same(weir.load_safetensors(path), table())
    assert files.safetensors_metadata(path) == {"made": "here"}
    assert list(weir.load_safetensors(path, names=["int64.2"])) == ["int64.2"]
    with pytest.raises(KeyError, match="nowhere"):
        weir.load_safetensors(path, names=["nowhere"])
    assert [f.name for f in tmp_path.iterdir()] == [path.name]


def test_safetensors_against_the_package(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    arrays = {name: t.data.to_numpy() for name, t in table().items()}
    path = tmp_path / "theirs.safetensors"
    package.save_file(arrays, path, metadata={"a": "b"})
    same(weir.load_safetensors(path), table())
    path = tmp_path / "ours.safetensors"
    weir.save_safetensors(path, table())
    theirs = package.load_file(path)
    for name, a in arrays.items():
        assert theirs[name].dtype == a.dtype and np.array_equal(theirs[name], a)


def test_safetensors_empty(tmp_path):
    path = tmp_path / "t"
    weir.save_safetensors(path, {})
    assert weir.load_safetensors(path) == {}


def test_safetensors_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "t"
    weir.save_safetensors(path, {"a": [1.0]})
    before = path.read_bytes()
    with pytest.raises(TypeError):
        weir.save_safetensors(path, {3: [1.0]})
    with pytest.raises(TypeError):
        weir.save_safetensors(path, {"a": [1.0]}, {"x": 1})
    with pytest.raises(ValueError):
        weir.save_safetensors(path, {"__metadata__": [1.0]})
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
HOSTILE = {
    "not an object": b"[1]", "leading space": b' {"a":1}', "no json": b"{",
    "deep": b'{"a":' * 100_000,
    "not utf-8": b'{"\xff":1}', "twice": b'{"a":1,"a":2}', "nan": b'{"a":NaN}',
    "long number": b'{"a":' + b"9" * 5000 + b"}",
    "no entry": {"a": 3}, "missing": {"a": {"dtype": "F32", "shape": [2]}},
    "more": {"a": {**GOOD, "x": 1}}, "type": {"a": {**GOOD, "dtype": "F31"}},
    "type list": {"a": {**GOOD, "dtype": ["F32"]}}, "negative": {"a": {**GOOD, "shape": [-2]}},
    "fraction": {"a": {**GOOD, "shape": [2.0]}}, "bool": {"a": {**GOOD, "shape": [True, 2]}},
    "shape text": {"a": {**GOOD, "shape": "2"}},
    "three": {"a": {**GOOD, "data_offsets": [0, 4, 8]}},
    "backwards": {"a": {**GOOD, "data_offsets": [8, 0]}},
    "small": {"a": {**GOOD, "data_offsets": [0, 4]}},
    "big": {"a": {**GOOD, "shape": [2**40, 2**40]}},
    "wraps": {"a": {**GOOD, "shape": [2**62, 4, 2], "data_offsets": [0, 0]}},
    "hole": {"a": {**GOOD, "shape": [1], "data_offsets": [4, 8]}},
    "overlap": {"a": GOOD, "b": {**GOOD, "shape": [1], "data_offsets": [4, 8]}},
    "beyond": {"a": {**GOOD, "shape": [4], "data_offsets": [0, 16]}}, "left over": {},
    "metadata": {"a": GOOD, "__metadata__": {"x": 1}}, "metadata list": {"__metadata__": []},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_safetensors_hostile(tmp_path, name):
    with pytest.raises(errors.FileError):
        weir.load_safetensors(written(tmp_path / "t", HOSTILE[name], b"12345678"))


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**63, 2**64 - 1, 100_000_001])
def test_safetensors_hostile_size(tmp_path, size):
    with pytest.raises(errors.FileError):
        weir.load_safetensors(written(tmp_path / "t", {"a": GOOD}, b"12345678", size))


@pytest.mark.parametrize("part", [b"[],", b"{},", b"0,", b'"",', b"[", b'{"a":'])
def test_safetensors_header_of_many_values(tmp_path, part):
    """They are counted before anything is made of them."""
    text = b'{"a":[' + part * (files.VALUES_LIMIT + 1)
    path = written(tmp_path / "t", text)
    tracemalloc.start()
    try:
        with pytest.raises(errors.FileError, match="values, at most 2000000"):
            weir.load_safetensors(path)
        assert tracemalloc.get_traced_memory()[1] < len(text) + 1_000_000
    finally:
        tracemalloc.stop()


def test_safetensors_cut(tmp_path):
    path = written(tmp_path / "t", {"a": GOOD}, b"12345678")
    whole = path.read_bytes()
    assert weir.load_safetensors(path)["a"].shape == (2,)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(errors.FileError):
            weir.load_safetensors(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(errors.FileError):
        weir.load_safetensors(path)


def test_safetensors_types_that_are_not_there(tmp_path):
    path = written(tmp_path / "t", {"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}},
                   b"12345678")
    with pytest.raises(errors.DtypeError, match="'a'.*C64"):
        weir.load_safetensors(path)
    assert weir.load_safetensors(path, names=[]) == {}
    nine = written(tmp_path / "n", {"a": {**GOOD, "shape": [1] * 8 + [2]}}, b"12345678")
    with pytest.raises((errors.Error, TypeError)):
        weir.load_safetensors(nine)


def test_shown_without_copy():
    t = weir.ones((2,))
    assert t.__array__(copy=False).ctypes.data == capi.memory(t.data.handle)[0]
    assert t.__array__(np.float64).dtype == np.float64
    with pytest.raises(ValueError):
        t.__array__(np.float64, copy=False)
    assert interop.may_write(t.data.handle)
