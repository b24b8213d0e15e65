# test_archive.py - files that are replaced whole, on a disk that fails; archives that lie.
import errno
import io
import os
import random
import stat
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import weir
from weir import archive, errors, layer, model
from weir.snapshot import Snapshot


class Net(model.Model):
    def __init__(self):
        super().__init__()
        self.l1 = layer.Linear(4)

    def forward(self, x):
        return self.l1(x)


@pytest.fixture(scope="module")
def net():
    made = Net()
    made.compile([weir.ones((2, 3))], is_train=False)
    return made


def save_npz(path, net):
    weir.save_npz(path, {"a": weir.ones((3, 2)), "b": weir.zeros((5,))})


def save_safetensors(path, net):
    weir.save_safetensors(path, {"a": weir.ones((3, 2)), "b": weir.zeros((5,))})


def save_snapshot(path, net):
    with Snapshot(str(path), True) as snapshot:
        snapshot.write("a", weir.ones((3, 2)))


def save_states(path, net):
    net.save_states(str(path))


def load_states(path, net):
    net.load_states(str(path))


WRITERS = [save_npz, save_safetensors, save_snapshot, save_states]
READERS = [(save_npz, lambda path, net: weir.load_npz(path)),
           (save_safetensors, lambda path, net: weir.load_safetensors(path)),
           (save_snapshot, lambda path, net: Snapshot(str(path), False).read()),
           (save_states, load_states)]


# ---- writing ----

@pytest.mark.parametrize("save", WRITERS)
def test_the_file_and_its_folder_are_synced_and_its_mode_is_the_umask_s(save, net, tmp_path,
                                                                        monkeypatch):
    synced, sync = [], os.fsync

    def note(handle):
        synced.append(stat.S_ISDIR(os.fstat(handle).st_mode))
        sync(handle)

    monkeypatch.setattr(os, "fsync", note)
    mask = os.umask(0o027)
    try:
        save(tmp_path / "t.npz", net)
    finally:
        os.umask(mask)
    assert synced == [False, True]
    assert stat.S_IMODE(os.stat(tmp_path / "t.npz").st_mode) == 0o640
    assert os.listdir(tmp_path) == ["t.npz"]


@pytest.mark.parametrize("save", WRITERS)
@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_leaves_the_old_file_alone(save, call, code, net, tmp_path, monkeypatch):
    path = tmp_path / "t.npz"
    if save is not save_states:                 # which never overwrites
        path.write_bytes(b"old")

    def fail(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        save(path, net)
    assert os.listdir(tmp_path) == (["t.npz"] if save is not save_states else [])
    assert save is save_states or path.read_bytes() == b"old"


# ---- reading ----

MUTATIONS = 250


def mutated(data, draw):
    """The bytes with one to three of them changed, a number made large, or a part cut or doubled.
    """
    data = bytearray(data)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(data))
        how = draw.randrange(5)
        if how == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            data[at] = draw.randrange(256)
        elif how == 2:
            size = draw.choice([2, 4, 8])
            data[at:at + size] = draw.choice([b"\xff", b"\x00", b"\x7f"]) * size
        elif how == 3:
            del data[at:at + draw.randrange(1, 40)]
        else:
            data[at:at] = data[at:at + draw.randrange(1, 40)]
        if not data:
            data = bytearray(b"x")
    return bytes(data)


@pytest.mark.parametrize("save, load", READERS)
def test_mutations_raise_errors_of_the_package_alone(save, load, net, tmp_path):
    """Counted: of MUTATIONS files each is read or refused, with memory in bounds."""
    path = tmp_path / "t.npz"
    save(path, net)
    whole, draw = path.read_bytes(), random.Random(7)
    refused = 0
    tracemalloc.start()
    for _ in range(MUTATIONS):
        path.write_bytes(mutated(whole, draw))
        try:
            load(path, net)
        except errors.Error:
            refused += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused > MUTATIONS // 2
    assert peak < 2 * archive.EXPANSION * len(whole)


def npz(path, content, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("a.npy", content)


def header(shape, elements=b""):
    text = io.BytesIO()
    np.lib.format.write_array_header_1_0(text, {"descr": "<f4", "fortran_order": False,
                                                "shape": shape})
    return text.getvalue() + elements


def promises(path, size):
    """Makes the member of an archive claim to have `size` bytes when it is expanded."""
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    data[central + 24:central + 28] = struct.pack("<I", size)
    data[22:26] = struct.pack("<I", size)
    path.write_bytes(data)


@pytest.mark.parametrize("lie", ["header", "ratio", "negative", "shared", "nested"])
def test_an_archive_takes_no_more_memory_than_it_can_hold(lie, net, tmp_path):
    path = tmp_path / "t.npz"
    match = {"header": "bytes of elements", "ratio": "promises", "negative": "shape",
             "shared": "in a file of", "nested": "promise"}[lie]
    load = READERS[0][1]
    if lie == "header":
        npz(path, header((1 << 40,), bytes(16)))
    elif lie == "negative":
        npz(path, header((-1, -4), bytes(16)))
    elif lie == "ratio":
        npz(path, header((1 << 28,), bytes(16)))
        promises(path, 1 << 30)
    elif lie == "shared":                       # 64 members that are the same bytes
        npz(path, header((1 << 16,), bytes(1 << 18)))
        data = path.read_bytes()
        at, end = data.rindex(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
        entries = b"".join(data[at:end].replace(b"a.npy", b"%c.npy" % (48 + i)) for i in range(64))
        path.write_bytes(data[:at] + entries + struct.pack(
            "<IHHHHIIH", 0x06054b50, 0, 0, 64, 64, len(entries), at, 0))
    else:                                       # an archive of zeros, twice compressed
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as file:
            for i in range(300):
                file.writestr(f"{i}.npy", header((1 << 16,), bytes(1 << 18)))
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
            file.writestr("tensor_dict.npz", inner.getvalue())
            file.writestr("states_attr.json", "{}")
        load = load_states
    tracemalloc.start()
    with pytest.raises(errors.FileError, match=match):
        load(path, net)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_memory_that_is_short_is_an_error_of_the_package(net, tmp_path, monkeypatch):
    path = tmp_path / "t.npz"
    save_npz(path, net)

    def short(*arguments):
        raise MemoryError

    monkeypatch.setattr(archive, "_read_array", short)
    with pytest.raises(errors.OutOfMemoryError):
        weir.load_npz(path)
