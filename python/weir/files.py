"""files - tensors by name in files: safetensors and .npz, read strictly, never pickled.

A file is written beside its place and renamed when it is whole. safetensors: 8 bytes of header
size, a JSON header, the elements without holes (github.com/huggingface/safetensors); anything in a
file that does not fit to the byte is a FileError.
"""
from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, NoReturn, TypeAlias

import numpy as np

from . import _capi as capi
from . import core, dtypes
from . import interop
from .archive import add_array, read_npz, refusing
from .errors import DtypeError, FileError
from .interop import Data
from .replace import replaced
from .tensor import Tensor
from .typing import Array, Path, Shape

_Place: TypeAlias = tuple[str, Shape, int, int]         # type, shape, begin, end

HEADER_LIMIT = 100_000_000      # bytes; the format's own
# Commas and opening brackets in a header: they bound its numbers, strings, lists and tables, each
# of at most 300 bytes, so what is read takes less than 600 MB and five times the header's bytes.
VALUES_LIMIT = 2_000_000
# safetensors' names of the types that the core may have, and bytes of those it has not.
_TYPES = {"F32": core.kFloat32, "F64": core.kDouble, "F16": core.kFloat16, "BF16": core.kBFloat16,
          "I32": core.kInt, "I64": core.kInt64, "U8": core.kUChar, "BOOL": core.kBool,
          "I8": core.kChar, "I16": dtypes.int16, "U16": dtypes.uint16, "U32": dtypes.uint32,
          "U64": dtypes.uint64}
_NAMES: dict[int, str] = {number: name for name, number in _TYPES.items()}
_OTHER = {"F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}
_SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "U8": 1, "BOOL": 1, "I8": 1,
          "I16": 2, "U16": 2, "U32": 4, "U64": 8, **_OTHER}


def _tensors(tensors: Mapping[str, Data]) -> Iterator[tuple[str, Tensor]]:
    """(name, Tensor) of a dict whose values are Tensors or what interop.array takes."""
    for name, t in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, not {name!r}")
        yield name, t if isinstance(t, Tensor) else interop.array(t)


# ---- safetensors ----

def kind_of(tensor: Tensor) -> str:
    """safetensors' name of a Tensor's element type: "F32"."""
    return _NAMES[tensor.dtype]


def dtype_of_kind(kind: str) -> int:
    """SINGA's number of the element type that safetensors calls `kind`."""
    return _TYPES[kind]


def tensor_bytes(tensor: Tensor) -> bytearray:
    """The bytes of a Tensor's elements, as a file has them."""
    raw = tensor.data
    data = bytearray(raw.Size() * capi.weir_dtype_size(core.core_dtype(raw.data_type())))
    if data:
        capi.read(raw.handle, data)
    return data


class Entry(NamedTuple):
    """A tensor on its way into a file: its bytes are asked for when it is their turn."""

    name: str
    kind: str                       # safetensors' name of the element type
    shape: Shape
    make: Callable[[], bytes | bytearray]

    @property
    def size(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * _SIZES[self.kind]


def write_safetensors(path: Path, entries: Iterable[Entry],
                      metadata: Mapping[str, str] | None = None,
                      keep_previous: bool = False) -> None:
    """Writes entries, those of the longest elements first, then by name, as the C library does."""
    items = sorted(entries, key=lambda entry: (-_SIZES[entry.kind], entry.name))
    header: dict[str, object] = {}
    at = 0
    if metadata:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("metadata: names and values must be strings")
        header["__metadata__"] = dict(metadata)
    for entry in items:
        if entry.name == "__metadata__" or entry.name in header:
            raise ValueError("no tensor may be called __metadata__" if entry.name == "__metadata__"
                             else f"two tensors are called {entry.name!r}")
        end = at + entry.size
        header[entry.name] = {"dtype": entry.kind, "shape": list(entry.shape),
                              "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise FileError(f"{os.fspath(path)}: a header of {len(text)} bytes, at most "
                        f"{HEADER_LIMIT}")
    with replaced(path, keep_previous) as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for entry in items:
            f.write(entry.make())


def save_safetensors(path: Path, tensors: Mapping[str, Data],
                     metadata: Mapping[str, str] | None = None) -> None:
    """Writes a dict of tensors (or arrays); metadata: a dict of strings."""
    write_safetensors(path, [Entry(name, kind_of(t), tuple(t.shape), partial(tensor_bytes, t))
                             for name, t in _tensors(tensors)], metadata)


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("it contains a name twice")
    return table


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not valid JSON")


def _header(path: str, view: memoryview) -> tuple[dict[str, object], int]:
    """(dict of entries, where the elements begin) of a file's bytes."""
    if len(view) < 8:
        raise FileError(f"{path}: {len(view)} bytes are too few for a safetensors file")
    size = int.from_bytes(view[:8], "little")
    if size > HEADER_LIMIT or size > len(view) - 8:
        raise FileError(f"{path}: a header of {size} bytes in a file of {len(view)}, at most "
                        f"{HEADER_LIMIT}")
    text = bytes(view[8:8 + size])
    values = sum(text.count(mark) for mark in (b",", b"[", b"{"))
    if values > VALUES_LIMIT:
        raise FileError(f"{path}: a header of {values} values, at most {VALUES_LIMIT}")
    try:
        if text[:1] != b"{":
            raise ValueError("it does not begin with {")
        header = json.loads(text.decode(), object_pairs_hook=_pairs, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: malformed header: {error}") from None
    return header, 8 + size


def _whole(values: object) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _entry(path: str, name: str, entry: object) -> _Place:
    """(dtype, shape, begin, end), sizes and types checked."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileError(f"{path}: '{name}' must have exactly dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in _SIZES:
        raise FileError(f"{path}: '{name}' has the unknown type {kind!r}")
    if not _whole(shape) or not _whole(offsets) or len(offsets) != 2:
        raise FileError(f"{path}: shape and data_offsets of '{name}' must be whole numbers, not "
                        f"{shape!r} and {offsets!r}")
    count = 1
    for size in shape:
        count *= size
    if offsets[1] - offsets[0] != count * _SIZES[kind]:
        raise FileError(f"{path}: '{name}', {kind} {tuple(shape)}, has {count * _SIZES[kind]} "
                        f"bytes, its data_offsets {offsets}")
    return kind, tuple(shape), offsets[0], offsets[1]


def _entries(path: str, view: memoryview) -> tuple[dict[str, _Place], dict[str, str], int]:
    """({name: entry}, metadata, where the elements begin); nothing overlaps, nothing is left."""
    header, start = _header(path, view)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileError(f"{path}: __metadata__ must hold strings")
    entries = {name: _entry(path, name, entry) for name, entry in header.items()}
    at = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != at:
            raise FileError(f"{path}: '{name}' begins at byte {begin}, the one before it ends at "
                            f"{at}")
        at = end
    if start + at != len(view):
        raise FileError(f"{path}: elements of {at} bytes in a file that has {len(view) - start}")
    return entries, metadata, start


class Archive(Mapping[str, Array]):
    """The tensors of an open safetensors file as arrays; bfloat16 as float32, which it fits in.

    Arrays are views of the file, valid while it is open.
    """

    metadata: dict[str, str]

    def __init__(self, path: str, view: memoryview) -> None:
        self.path = path
        self._view = view
        self._entries, self.metadata, self._start = _entries(path, view)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def kind(self, name: str) -> str:
        """safetensors' name of the element type of a tensor: "F32"."""
        return self._entries[name][0]

    def shape(self, name: str) -> Shape:
        """The shape of a tensor."""
        return self._entries[name][1]

    def bytes(self, name: str) -> memoryview:
        """The elements of a tensor as the file has them: little-endian."""
        _, _, begin, end = self._entries[name]
        return self._view[self._start + begin:self._start + end]

    def __getitem__(self, name: str) -> Array:
        kind, shape = self.kind(name), self.shape(name)
        if kind not in _TYPES:
            raise DtypeError(f"{self.path}: '{name}' has elements of type {kind}, which are not "
                             "supported")
        if kind == "BF16":
            halves = np.frombuffer(self.bytes(name), np.uint16).astype(np.uint32)
            return (halves << 16).view(np.float32).reshape(shape)
        return np.frombuffer(self.bytes(name), core.numpy_dtype(_TYPES[kind])).reshape(shape)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """The bytes of a file as a memoryview."""
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        data = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(data)
        try:
            yield view
        finally:
            with contextlib.suppress(BufferError):      # arrays that still live close it later
                view.release()
                data.close()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """A safetensors file for reading, checked."""
    with _mapped(path) as view:
        yield Archive(os.fspath(path), view)


def load_safetensors(path: Path, names: Iterable[str] | None = None,
                     device: core.Device | None = None) -> dict[str, Tensor]:
    """{name: Tensor} of a file; names: of these alone."""
    tensors = {}
    with opened(path) as archive:
        for name in archive if names is None else names:
            if name not in archive:
                raise KeyError(f"{archive.path} has no tensor '{name}'")
            kind = archive.kind(name)
            if kind not in _TYPES:
                raise DtypeError(f"{archive.path}: '{name}' has elements of type {kind}, which are "
                                 "not supported")
            t = interop.empty(archive.shape(name), _TYPES[kind], device)
            handle = t.data.value.writable()
            with archive.bytes(name) as part:
                if part:
                    capi.write(handle, part)
            tensors[name] = t
    return tensors


def safetensors_metadata(path: Path) -> dict[str, str]:
    """The strings that a file says of itself."""
    with opened(path) as archive:
        return archive.metadata


# ---- npz ----

def save_npz(path: Path, tensors: Mapping[str, Data], compress: bool = False) -> None:
    """Writes a dict of tensors (or arrays) that numpy.load reads; bfloat16 becomes float32."""
    arrays = {name: t.data.to_numpy() for name, t in _tensors(tensors)}
    with replaced(path) as f, zipfile.ZipFile(
            f, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            add_array(archive, name, array)


def load_npz(path: Path, device: core.Device | None = None) -> dict[str, Tensor]:
    """{name: Tensor} of an .npz file; element types stay what they are. A missing file is a
    FileNotFoundError; one that is no .npz file, or promises more than it can hold, a FileError."""
    with open(path, "rb") as f, refusing(os.fspath(path)):
        return {name: interop.array(array, device=device) for name, array in read_npz(f).items()}
