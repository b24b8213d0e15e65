"""snapshot - Snapshot: named tensors in one file, "<name>.npz". (SINGA's class fails when used.)

A file is written beside its place and moved there by close(), so that it is there whole or not at
all. close() is called when the object is deleted, at the end of a with block or of the program.
"""
import os
import tempfile
import weakref
import zipfile

import numpy as np

from weir import core
from weir import errors
from .tensor import Tensor


class Snapshot:
    """Snapshot(f, True).write(name, Tensor) ... close(), or Snapshot(f, False).read()."""

    def __init__(self, f, mode, buffer_size=10):
        del buffer_size
        self.path = f if f.endswith(".npz") else f + ".npz"
        self.mode = bool(mode)
        self._writer = None
        if self.mode:
            self._writer = _Writer(self.path)
            self._end = weakref.finalize(self, self._writer.close)

    def write(self, param_name, param_val):
        """Adds a Tensor; each name once."""
        if self._writer is None or not self._end.alive:
            raise errors.StateError("the snapshot is not open for writing")
        array = param_val.data.to_numpy() if isinstance(param_val, Tensor) else param_val
        self._writer.add(param_name, np.asarray(array))

    def read(self):
        """{name: Tensor} of a file; errors.FileError if it is not a snapshot."""
        if self.mode:
            raise errors.StateError("the snapshot is open for writing and cannot be read")
        try:
            with np.load(self.path, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
            return {name: Tensor(data=array, dtype=core.dtype_number(array.dtype))
                    for name, array in arrays.items()}
        except FileNotFoundError:
            raise
        except Exception as error:      # whatever a damaged file makes of its readers
            raise errors.FileError(f"{self.path} is not a snapshot: {error}") from error

    def close(self):
        """Puts the file in its place."""
        if self.mode:
            self._end()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and self.mode and self._end.detach():
            self._writer.drop()
        self.close()


class _Writer:
    """The members of the file to be."""

    def __init__(self, path):
        self.path = path
        number, self.part = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)),
                                             prefix=os.path.basename(path))
        self.file = zipfile.ZipFile(os.fdopen(number, "wb"), "w")

    def add(self, name, array):
        if f"{name}.npy" in self.file.namelist():
            raise ValueError(f"snapshot: {name!r} was already written")
        with self.file.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)

    def _end(self):
        stream = self.file.fp
        self.file.close()
        stream.close()

    def close(self):
        self._end()
        os.replace(self.part, self.path)

    def drop(self):
        self._end()
        os.unlink(self.part)
