"""test_snapshot - tensors in files: what was written comes back, files are whole or not there."""
import os
import subprocess
import sys

import numpy as np
import pytest

from weir import tensor
from weir.errors import FileError, StateError
from weir.snapshot import Snapshot


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "model")


def some():
    rng = np.random.default_rng(0)
    return {"conv1.W": rng.normal(size=(3, 2, 4, 4)).astype(np.float32),
            "a name/with marks": np.float32([1.5]), "file": np.arange(5, dtype=np.int32),
            "none": np.zeros((0, 4), np.float32)}


def write(path, arrays):
    snapshot = Snapshot(path, True)
    for name, array in arrays.items():
        snapshot.write(name, tensor.from_numpy(array))
    snapshot.close()


def test_round_trip(path):
    write(path, some())
    got = Snapshot(path, False, 20).read()
    assert list(got) == list(some())
    for name, array in some().items():
        assert got[name].shape == array.shape
        np.testing.assert_array_equal(tensor.to_numpy(got[name]), array)
    with np.load(path + ".npz") as plain:
        np.testing.assert_array_equal(plain["conv1.W"], some()["conv1.W"])


def test_it_appears_whole(path):
    snapshot = Snapshot(path, True)
    snapshot.write("a", tensor.from_numpy(np.float32([1])))
    assert not os.path.exists(path + ".npz")
    del snapshot                            # as SINGA's scripts leave it
    assert os.path.exists(path + ".npz")


def test_end_of_the_program(path):
    program = ("import numpy as np\nfrom weir import tensor\nfrom weir.snapshot import Snapshot\n"
               f"s = Snapshot({path!r}, True)\ns.write('a', tensor.from_numpy(np.float32([1])))\n"
               "import sys; sys.keep = s\n")
    subprocess.run([sys.executable, "-c", program], check=True)
    assert list(Snapshot(path, False).read()) == ["a"]


def test_an_error_in_a_with_block_leaves_the_old_file(path):
    write(path, {"a": np.float32([1])})
    with pytest.raises(KeyError):
        with Snapshot(path, True) as snapshot:
            snapshot.write("a", tensor.from_numpy(np.float32([2])))
            raise KeyError
    assert tensor.to_numpy(Snapshot(path, False).read()["a"])[0] == 1
    assert len(os.listdir(os.path.dirname(path))) == 1
    with Snapshot(path, True) as snapshot:
        snapshot.write("a", tensor.from_numpy(np.float32([2])))
    assert tensor.to_numpy(Snapshot(path, False).read()["a"])[0] == 2


def test_wrong_use(path):
    snapshot = Snapshot(path, True)
    snapshot.write("a", tensor.from_numpy(np.float32([1])))
    with pytest.raises(ValueError):
        snapshot.write("a", tensor.from_numpy(np.float32([1])))
    with pytest.raises(StateError):
        snapshot.read()
    snapshot.close()
    with pytest.raises(StateError):
        snapshot.write("b", tensor.from_numpy(np.float32([1])))
    with pytest.raises(StateError):
        Snapshot(path, False).write("b", tensor.from_numpy(np.float32([1])))


def test_no_file(path):
    with pytest.raises(FileNotFoundError):
        Snapshot(path, False).read()


@pytest.mark.parametrize("content", [b"", b"text" * 50, "cut", "pickle"])
def test_hostile_files(path, content):
    write(path, some())
    if content == "cut":
        with open(path + ".npz", "rb") as file:
            content = file.read()[:-30]
    if content == "pickle":
        np.savez(path + ".npz", a=np.array([object()], dtype=object))
    else:
        with open(path + ".npz", "wb") as file:
            file.write(content)
    with pytest.raises(FileError):
        Snapshot(path, False).read()
