"""files - tensors by name in files: safetensors and .npz, read strictly, never pickled.

A file is written beside its place and renamed when it is whole. safetensors: 8 bytes of header
size, a JSON header, the elements without holes (github.com/huggingface/safetensors); whatever does
not fit to the byte is a FileError.
"""
from __future__ import annotations

import contextlib
import json
import mmap
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NoReturn, TypeAlias

import numpy as np

from . import _capi as capi
from . import core
from . import interop
from .errors import DtypeError, FileError
from .interop import Data
from .tensor import Tensor
from .typing import Path, Shape

Entry: TypeAlias = tuple[str, Shape, int, int]          # type, shape, begin, end

HEADER_LIMIT = 100_000_000      # the format's own
# safetensors' names of the types that the core may have, and bytes of those it has not.
_TYPES = {"F32": core.kFloat32, "F64": core.kDouble, "F16": core.kFloat16, "BF16": core.kBFloat16,
          "I32": core.kInt, "I64": core.kInt64, "U8": core.kUChar, "BOOL": core.kBool}
_NAMES = {number: name for name, number in _TYPES.items()}
_OTHER = {"I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "U32": 4, "U64": 8, "C64": 8}
_SIZES = {"F32": 4, "F64": 8, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "U8": 1, "BOOL": 1, **_OTHER}


@contextlib.contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    """A binary file that replaces the path unless an exception is raised."""
    path = os.fspath(path)
    handle, work = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".weir-")
    try:
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(work, 0o666 & ~mask)
        os.replace(work, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(work)
        raise


def _tensors(tensors: Mapping[str, Data]) -> Iterator[tuple[str, Tensor]]:
    """(name, Tensor) of a dict whose values are Tensors or what interop.array takes."""
    for name, t in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, not {name!r}")
        yield name, t if isinstance(t, Tensor) else interop.array(t)


# ---- safetensors ----

def _bytes_of(tensor: Tensor) -> bytearray:
    raw = tensor.data
    data = bytearray(raw.Size() * capi.weir_dtype_size(core.core_dtype(raw.data_type())))
    if data:
        capi.read(raw.handle, data)
    return data


def save_safetensors(path: Path, tensors: Mapping[str, Data],
                     metadata: Mapping[str, str] | None = None) -> None:
    """Writes a dict of tensors (or arrays); metadata: a dict of strings."""
    items = sorted(_tensors(tensors), key=lambda item: (-_SIZES[_NAMES[item[1].dtype]], item[0]))
    header: dict[str, object] = {}
    at = 0
    if metadata:
        if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
            raise TypeError("metadata: names and values must be strings")
        header["__metadata__"] = dict(metadata)
    for name, t in items:
        if name == "__metadata__":
            raise ValueError("no tensor may be called __metadata__")
        kind = _NAMES[t.dtype]
        end = at + t.data.Size() * _SIZES[kind]
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise FileError(f"{path}: a header of {len(text)} bytes, at most {HEADER_LIMIT}")
    with _written(path) as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, t in items:
            f.write(_bytes_of(t))


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
    try:
        if text[:1] != b"{":
            raise ValueError("it does not begin with {")
        header = json.loads(text.decode(), object_pairs_hook=_pairs, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: malformed header: {error}") from None
    return header, 8 + size


def _whole(values: object) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 2**63 for v in values)


def _entry(path: str, name: str, entry: object) -> Entry:
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


def _entries(path: str, view: memoryview) -> tuple[dict[str, Entry], dict[str, str], int]:
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


def _load(path: str, view: memoryview, names: Iterable[str] | None,
          device: core.Device | None) -> dict[str, Tensor]:
    entries, _, start = _entries(path, view)
    tensors = {}
    for name in entries if names is None else names:
        if name not in entries:
            raise KeyError(f"{path} has no tensor '{name}'")
        kind, shape, begin, end = entries[name]
        if kind not in _TYPES:
            raise DtypeError(f"{path}: '{name}' has elements of type {kind}, which are not "
                             "supported")
        t = interop.empty(shape, _TYPES[kind], device)
        handle = t.data.value.writable()
        if end > begin:
            with view[start + begin:start + end] as part:
                capi.write(handle, part)
        tensors[name] = t
    return tensors


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    """The bytes of a file as a memoryview."""
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size == 0:
            yield memoryview(b"")
            return
        with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            yield view


def load_safetensors(path: Path, names: Iterable[str] | None = None,
                     device: core.Device | None = None) -> dict[str, Tensor]:
    """{name: Tensor} of a file; names: of these alone."""
    with _mapped(path) as view:
        return _load(os.fspath(path), view, names, device)


def safetensors_metadata(path: Path) -> dict[str, str]:
    """The strings that a file says of itself."""
    with _mapped(path) as view:
        return _entries(os.fspath(path), view)[1]


# ---- npz ----

def save_npz(path: Path, tensors: Mapping[str, Data], compress: bool = False) -> None:
    """Writes a dict of tensors (or arrays) that numpy.load reads; bfloat16 becomes float32."""
    arrays = {name: t.data.to_numpy() for name, t in _tensors(tensors)}
    with _written(path) as f, zipfile.ZipFile(
            f, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load_npz(path: Path, device: core.Device | None = None) -> dict[str, Tensor]:
    """{name: Tensor} of an .npz file; element types stay what they are."""
    try:
        with open(path, "rb") as f:         # NumPy may leave a damaged file open that it opened
            loaded = np.load(f, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                raise FileError(f"{path} holds a single array and is not an .npz file")
            with loaded as archive:
                return {name: interop.array(archive[name], device=device)
                        for name in archive.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: {error}") from error
