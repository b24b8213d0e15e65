"""snapshot - singa_wrap's Snapshot of raw tensors, and the file it writes: "<name>.npz".

A file is written beside its place and moved there at the end, so that it is there whole or not at
all: when close() is called, the object is deleted or the program ends.
"""
import contextlib
import weakref
import zipfile
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from weir import archive
from weir import core
from weir import errors
from weir.replace import replaced
from .tensor import CTensor


class Snapshot:
    """Snapshot(prefix, Snapshot.kWrite).Write(name, raw) ... Close(), or Snapshot(prefix).Read().
    """

    kRead: int = 0
    kWrite: int = 1

    def __init__(self, prefix: str, mode: int = kRead, max_param_size: int = 10) -> None:
        del max_param_size
        self.path: str = prefix if prefix.endswith(".npz") else prefix + ".npz"
        self.mode: int = int(mode)
        self._writer = None
        if self.mode == self.kWrite:
            self._writer = Writer(self.path)
            self._end = weakref.finalize(self, self._writer.close)

    def Write(self, key: str, param: CTensor) -> None:
        """Adds a raw tensor; each name once."""
        if self._writer is None or not self._end.alive:
            raise errors.StateError("the snapshot is not open for writing")
        self._writer.add(key, param.to_numpy())

    def Read(self) -> list[tuple[str, CTensor]]:
        """(name, raw tensor) of all; errors.FileError if the file is not a snapshot."""
        if self.mode == self.kWrite:
            raise errors.StateError("the snapshot is open for writing and cannot be read")
        pairs = []
        for name, array in read_arrays(self.path).items():
            raw = CTensor(array.shape, None, core.dtype_number(array.dtype))
            raw.value.write(array)
            pairs.append((name, raw))
        return pairs

    def Close(self) -> None:
        """Puts a file that was written in its place."""
        if self._writer is not None:
            self._end()

    def drop(self) -> None:
        """Forgets what was written: there will be no file."""
        if self._writer is not None and self._end.detach():
            self._writer.drop()


def read_arrays(path: str) -> dict[str, NDArray[np.generic]]:
    """The arrays of a file by name; errors.FileError if it is not a snapshot."""
    with open(path, "rb") as file, archive.refusing(f"{path} is not a snapshot"):
        arrays = archive.read_npz(file)
        for array in arrays.values():
            core.dtype_number(array.dtype)
        return arrays


class Writer:
    """The members of the file to be."""

    def __init__(self, path: str) -> None:
        self.new: contextlib.AbstractContextManager[BinaryIO] = replaced(path)
        self.file: zipfile.ZipFile = zipfile.ZipFile(self.new.__enter__(), "w")

    def add(self, name: str, array: NDArray[np.generic]) -> None:
        """One array; ValueError if the name is taken."""
        if f"{name}.npy" in self.file.namelist():
            raise ValueError(f"snapshot: {name!r} was already written")
        archive.add_array(self.file, name, array)

    def close(self) -> None:
        """Ends the file and moves it to its place; after a failure there is no new file."""
        try:
            self.file.close()
        except BaseException as error:
            self.new.__exit__(type(error), error, None)
            raise
        self.new.__exit__(None, None, None)

    def drop(self) -> None:
        """Forgets what was written."""
        with contextlib.suppress(OSError):
            self.file.close()
        forgotten = errors.StateError("the snapshot is dropped")
        with contextlib.suppress(errors.StateError):
            self.new.__exit__(type(forgotten), forgotten, None)
