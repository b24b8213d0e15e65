"""replace - writes a file beside its place, syncs it and renames it.

The path has the old file or the new one at any moment, even if the process is killed; a kill may
leave PATH.NUMBER.tmp. The same steps as in the C library (src/model/file/replace.c).
"""
from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from .errors import FileError
from .typing import Path

_numbers = itertools.count()


def _place(path: Path) -> str:
    """The file that the path stands for: symbolic links are followed."""
    place = os.path.realpath(path) if os.path.islink(path) else os.fspath(path)
    if os.path.lexists(place) and not stat.S_ISREG(os.lstat(place).st_mode):
        raise FileError(f"{os.fspath(path)}: is not a regular file")
    return place


def _create(place: str) -> tuple[int, str]:
    """A new file beside the place, with the mode that any new file gets, and its name."""
    while True:
        work = f"{place}.{os.getpid()}-{next(_numbers)}.tmp"
        with contextlib.suppress(FileExistsError):
            return os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), work


def _keep(place: str, work: str) -> None:
    """A second name PLACE.bak for the old file, put in place by a rename, too."""
    try:
        os.link(place, work + ".bak")
    except FileNotFoundError:
        return
    try:
        os.replace(work + ".bak", place + ".bak")
    finally:                # a rename leaves it if both were names of one file already
        with contextlib.suppress(FileNotFoundError):
            os.unlink(work + ".bak")


def _sync_folder(place: str) -> None:
    """Makes the new name last."""
    folder = os.open(os.path.dirname(place) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def replaced(path: Path, keep_previous: bool = False) -> Iterator[BinaryIO]:
    """A binary file that replaces the path when the block ends, and vanishes if it raises.

    keep_previous: the file that is replaced stays as PATH.bak.
    """
    place = _place(path)
    handle, work = _create(place)
    try:
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        if keep_previous:
            _keep(place, work)
        os.replace(work, place)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(work)
        raise
    _sync_folder(place)
