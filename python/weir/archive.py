"""archive - .npz archives: written member by member, and read without trust.

What a damaged or hostile archive makes of its readers is an exception of weir.errors, and what it
makes them allocate is at most EXPANSION bytes for each of its own.
"""
from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike

from .errors import Error, FileError, OutOfMemoryError
from .typing import Array

Check = Callable[[str, tuple[int, ...], "np.dtype[np.generic]"], None]

EXPANSION = 1032        # deflate's most bytes for one (zlib, "Maximum Expansion Factor")


def add_array(archive: zipfile.ZipFile, name: str, array: ArrayLike) -> None:
    """Writes one array as numpy.savez does, under any name."""
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)


# ---- reading ----

@contextlib.contextmanager
def refusing(what: str) -> Iterator[None]:
    """Makes whatever reading raises a FileError that begins with `what`; memory that is short
    OutOfMemoryError; exceptions of weir.errors stay."""
    try:
        yield
    except Error:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(f"{what}: memory is short") from error
    except Exception as error:
        raise FileError(f"{what}: {error}") from error


def members_of(archive: zipfile.ZipFile, size: int,
               most: int | None = None) -> dict[str, zipfile.ZipInfo]:
    """The members by name, each once, of an archive of `size` bytes. Members that share bytes, that
    promise more than their bytes can hold, or more than `most` together, are refused."""
    members: dict[str, zipfile.ZipInfo] = {}
    stored = promised = 0
    for info in archive.infolist():
        if info.filename in members:
            raise FileError(f"it contains {info.filename!r} twice")
        if info.compress_type == zipfile.ZIP_STORED:
            room = info.compress_size
        elif info.compress_type == zipfile.ZIP_DEFLATED:
            room = EXPANSION * info.compress_size
        else:
            raise FileError(f"{info.filename!r} is compressed in an unknown way "
                            f"({info.compress_type})")
        if info.file_size > room:
            raise FileError(f"{info.filename!r} promises {info.file_size} bytes in "
                            f"{info.compress_size}")
        stored += info.compress_size
        promised += info.file_size
        members[info.filename] = info
    if stored > size:
        raise FileError(f"members of {stored} bytes in a file of {size}")
    if most is not None and promised > most:
        raise FileError(f"members that promise {promised} bytes, at most {most}")
    return members


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str,
                check: Check | None) -> Array:
    """One array; its header is checked against the member's size before memory is taken."""
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise FileError(f"{info.filename!r} has the unknown format {version}")
        read = (np.lib.format.read_array_header_1_0 if version == (1, 0)
                else np.lib.format.read_array_header_2_0)
        shape, fortran, dtype = read(member)
        if dtype.hasobject:
            raise FileError(f"{info.filename!r} contains pickled objects, which are never loaded")
        count = 1
        for n in shape:
            if n < 0:
                raise FileError(f"{info.filename!r} has the shape {shape}")
            count *= n
        at = member.tell()
        if at + count * dtype.itemsize != info.file_size:
            raise FileError(f"{info.filename!r}, {dtype} {shape}, has {info.file_size - at} bytes "
                            f"of elements, not {count * dtype.itemsize}")
        if check:
            check(name, shape, dtype)
        data = bytearray(count * dtype.itemsize)
        view, done = memoryview(data), 0
        while done < len(data):
            got = cast("io.BufferedReader", member).readinto(view[done:])
            if not got:
                raise FileError(f"{info.filename!r} ends after {done} of {len(data)} bytes")
            done += got
        if member.read(1):
            raise FileError(f"{info.filename!r} is longer than it says")
    array: Array = np.frombuffer(data, dtype, count)
    return array.reshape(shape, order="F" if fortran else "C")


def read_npz(file: BinaryIO, check: Check | None = None,
             most: int | None = None) -> dict[str, Array]:
    """{name: array} of an .npz file. check(name, shape, dtype) may refuse an array before memory
    is taken for it; `most` as in members_of. Call it within `refusing`."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(6) == b"\x93NUMPY":
        raise FileError("a single array, not an .npz file")
    with zipfile.ZipFile(file) as archive:
        arrays: dict[str, Array] = {}
        for member, info in members_of(archive, size, most).items():
            name = member.removesuffix(".npy")
            arrays[name] = _read_array(archive, info, name, check)
        return arrays
