"""test_model_files - states of models in files: whole, checked, never pickles."""
import json
import os
import zipfile

import numpy as np
import pytest

from weir import autograd, tensor
from weir.errors import FileError

from mlp import MLP, params, ready, host


@pytest.fixture(autouse=True)
def clean():
    yield
    autograd.training = False


@pytest.mark.parametrize("way", [(False, False), (True, False), (True, True)])
def test_states_are_saved_and_loaded(tmp_path, way):
    path = str(tmp_path / "net.zip")
    net, tx, tt = ready(*way)
    net(tx, tt)
    net.save_states(path, {"epoch": np.int32([3]), "t": tensor.from_numpy(np.float32([1, 2]))})
    with zipfile.ZipFile(path) as whole:
        assert sorted(whole.namelist()) == ["states_attr.json", "tensor_dict.npz"]
        attributes = json.loads(whole.read("states_attr.json"))
    assert attributes["l1.W"] == {"state_type": 0, "shape": [4, 5], "dtype": 0}
    assert attributes["epoch"]["state_type"] == 1
    other, ox, ot = ready(*way)
    other(ox, ot), other(ox, ot)
    aux = other.load_states(path)
    assert host(aux["epoch"])[0] == 3 and host(aux["t"]).tolist() == [1, 2]
    for name, p in params(other).items():
        np.testing.assert_array_equal(p, params(net)[name])
    other(ox, ot)                       # the graph works on the loaded values
    assert os.listdir(tmp_path) == ["net.zip"]


def test_a_file_is_never_overwritten(tmp_path):
    path = tmp_path / "net.zip"
    path.write_bytes(b"mine")
    with pytest.raises(AssertionError):
        ready()[0].save_states(str(path))
    assert path.read_bytes() == b"mine"


def test_a_failed_save_leaves_nothing(tmp_path):
    net, *_ = ready()
    with pytest.raises(TypeError):
        net.save_states(str(tmp_path / "a"), {"o": np.array([object()])})
    with pytest.raises(FileNotFoundError):
        net.save_states(str(tmp_path / "no folder" / "a"))
    with pytest.raises(ValueError, match="l1.W"):
        net.save_states(str(tmp_path / "a"), {"l1.W": np.ones(3)})
    assert os.listdir(tmp_path) == []


def test_states_of_another_model_are_refused(tmp_path):
    path = str(tmp_path / "net.zip")
    ready()[0].save_states(path)
    with pytest.raises(ValueError, match="compiled"):
        MLP().load_states(path)
    wide, *_ = ready(make=lambda: MLP(hidden=6))
    before = params(wide)
    with pytest.raises(ValueError, match="shape"):
        wide.load_states(path)
    for name, p in params(wide).items():
        np.testing.assert_array_equal(p, before[name])


def damaged(path, how):
    """The bytes of a saved file with one thing wrong."""
    whole = path.read_bytes()
    if how == "empty":
        return b""
    if how == "text":
        return b"this is no zip file" * 20
    if how == "cut":
        return whole[:len(whole) // 2]
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    attributes = json.loads(members["states_attr.json"])
    if how == "no json":
        del members["states_attr.json"]
    if how == "no arrays":
        del members["tensor_dict.npz"]
    if how == "broken arrays":
        members["tensor_dict.npz"] = members["tensor_dict.npz"][:100]
    if how == "broken json":
        members["states_attr.json"] = b"{"
    if how == "other json":
        members["states_attr.json"] = b"[1, 2]"
    if how == "shape":
        attributes["l1.W"]["shape"] = [10**12]
    if how == "kind":
        attributes["l1.W"]["state_type"] = 5
    if how == "missing":
        del attributes["l1.W"]
    if how in ("shape", "kind", "missing"):
        members["states_attr.json"] = json.dumps(attributes).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)
    return path.read_bytes()


@pytest.mark.parametrize("how", ["empty", "text", "cut", "no json", "no arrays", "broken arrays",
                                 "broken json", "other json", "shape", "kind", "missing"])
def test_hostile_files(how, tmp_path):
    path = tmp_path / "net.zip"
    net, *_ = ready()
    net.save_states(str(path))
    path.write_bytes(damaged(path, how))
    before = params(net)
    with pytest.raises(FileError):
        net.load_states(str(path))
    for name, p in params(net).items():
        np.testing.assert_array_equal(p, before[name])


@pytest.mark.parametrize("part", range(0, 100, 7))
def test_flipped_bytes_never_crash(part, tmp_path):
    path = tmp_path / "net.zip"
    net, *_ = ready()
    net.save_states(str(path))
    whole = bytearray(path.read_bytes())
    whole[len(whole) * part // 100] ^= 0xff
    path.write_bytes(bytes(whole))
    try:
        net.load_states(str(path))
    except (FileError, ValueError):
        pass


def test_pickles_are_refused(tmp_path):
    path = tmp_path / "net.zip"
    net, *_ = ready()
    arrays = {"l1.W": np.array([object()], dtype=object)}
    with zipfile.ZipFile(path, "w") as whole:
        with whole.open("tensor_dict.npz", "w") as inner:
            np.savez(inner, **arrays)
        whole.writestr("states_attr.json",
                       json.dumps({"l1.W": {"state_type": 0, "shape": [1], "dtype": 0}}))
    with pytest.raises(FileError):
        net.load_states(str(path))


def test_a_missing_file():
    with pytest.raises(FileNotFoundError):
        ready()[0].load_states("/nowhere/net.zip")
