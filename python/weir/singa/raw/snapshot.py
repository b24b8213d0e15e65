"""snapshot - singa_wrap's Snapshot of raw tensors, and the file it writes: "<name>.npz".

A file is written beside its place and moved there at the end, so that it is there whole or not at
all: when close() is called, the object is deleted or the program ends.
"""
import os
import tempfile
import weakref
import zipfile
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from weir import core
from weir import errors
from .tensor import CTensor


class Snapshot:
    """Snapshot(prefix, Snapshot.kWrite).Write(name, raw) ... Close(), or Snapshot(prefix).Read().
    """

    kRead, kWrite = 0, 1

    def __init__(self, prefix: str, mode: int = kRead, max_param_size: int = 10) -> None:
        del max_param_size
        self.path = prefix if prefix.endswith(".npz") else prefix + ".npz"
        self.mode = int(mode)
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
    try:
        with np.load(path, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        for array in arrays.values():
            core.dtype_number(array.dtype)
        return arrays
    except FileNotFoundError:
        raise
    except Exception as error:      # whatever a damaged file makes of its readers
        raise errors.FileError(f"{path} is not a snapshot: {error}") from error


class Writer:
    """The members of the file to be."""

    def __init__(self, path: str) -> None:
        self.path = path
        number, self.part = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)),
                                             prefix=os.path.basename(path))
        self.file = zipfile.ZipFile(os.fdopen(number, "wb"), "w")

    def add(self, name: str, array: NDArray[np.generic]) -> None:
        """One array; ValueError if the name is taken."""
        if f"{name}.npy" in self.file.namelist():
            raise ValueError(f"snapshot: {name!r} was already written")
        with self.file.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)

    def _end(self) -> None:
        stream = cast(BinaryIO, self.file.fp)
        self.file.close()
        stream.close()

    def close(self) -> None:
        """Ends the file and moves it to its place."""
        self._end()
        os.replace(self.part, self.path)

    def drop(self) -> None:
        """Ends the file and deletes it."""
        self._end()
        os.unlink(self.part)
