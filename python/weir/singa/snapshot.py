"""snapshot - Snapshot: named tensors in one file, "<name>.npz". (SINGA's class fails when used.)

A file is written beside its place and moved there by close(), so that it is there whole or not at
all. close() is called when the object is deleted, at the end of a with block or of the program.
"""
from __future__ import annotations

from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from weir import core
from .raw import snapshot
from .raw.tensor import CTensor
from .tensor import Tensor


class Snapshot:
    """Snapshot(f, True).write(name, Tensor) ... close(), or Snapshot(f, False).read()."""

    def __init__(self, f: str, mode: bool, buffer_size: int = 10) -> None:
        self.mode: bool = bool(mode)
        self._raw = snapshot.Snapshot(f, int(self.mode), buffer_size)
        self.path: str = self._raw.path

    def write(self, param_name: str, param_val: Tensor | ArrayLike) -> None:
        """Adds a Tensor; each name once."""
        if isinstance(param_val, Tensor):
            self._raw.Write(param_name, param_val.data)
            return
        array = np.asarray(param_val)
        raw = CTensor(array.shape, None, core.dtype_number(array.dtype))
        raw.value.write(array)
        self._raw.Write(param_name, raw)

    def read(self) -> dict[str, Tensor]:
        """{name: Tensor} of a file; errors.FileError if it is not a snapshot."""
        return {name: Tensor(data=raw) for name, raw in self._raw.Read()}

    def close(self) -> None:
        """Puts the file in its place."""
        self._raw.Close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is not None:
            self._raw.drop()
        self.close()
