"""exchange - elements shared with NumPy, PyTorch and others: DLPack, array interface.

No copy where memory stays in place - parameters, states, what is computed with the graph off,
results kept of a graph. Those that only the core may write (results of a graph, which each run
writes again; results on the tape; views) are shown read-only. The other way, elements that come
in, is weir.interop.
"""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, TypeAlias, TypedDict, cast

import numpy as np

from weir import _capi as capi
from weir import core
from weir import errors
from weir.typing import Array, DTypeLike, Handle, Shape
from .raw.tensor import CTensor

CPU = 1            # DLPack's number
VERSION = (1, 0)

if TYPE_CHECKING:
    Block: TypeAlias = ctypes.Array[ctypes.c_char]      # memory with the buffer protocol
else:
    Block = ctypes.Array


class ArrayInterface(TypedDict):
    """NumPy's __array_interface__, version 3."""

    version: int
    shape: Shape
    typestr: str
    data: Block | memoryview
    strides: Shape


def may_write(handle: Handle) -> bool:
    """True if others may write the elements. A result computed with the graph off becomes a state,
    so that graphs see what is written."""
    try:
        capi.weir_tensor_make_state(handle)
    except errors.Error:
        return False
    return True


def _copied(raw: CTensor) -> Handle:
    """The handle of a copy in host memory."""
    if not raw.device().is_host:
        return on_host(raw).handle
    with raw.device().at_once():
        return capi.weir_copy(raw.handle)


def on_host(raw: CTensor) -> CTensor:
    """A raw tensor on the CPU with the elements of one elsewhere."""
    host = CTensor(raw.shape(), core.cpu(), raw.data_type())
    host.CopyData(raw)
    return host


def _block(handle: Handle, strides: Shape, address: int, item: int) -> Block | None:
    """Memory of the elements as an object with the buffer protocol that holds the tensor; None if
    they do not lie upwards from their first."""
    shape = capi.weir_tensor_desc(handle)[1]
    if any(s < 0 for s in strides):
        return None
    last = sum((n - 1) * s for n, s in zip(shape, strides)) if 0 not in shape else -1
    block = (ctypes.c_char * ((last + 1) * item)).from_address(address or 1)
    block.tensor = handle       # type: ignore[attr-defined]
    return block


class Exchange:
    """What a Tensor (with its raw tensor in `data`) offers to other libraries."""

    __slots__ = ()

    data: CTensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object:
        """A DLPack capsule, of version 1 if max_version allows. copy: True a copy, False never one,
        None if needed: of read-only memory for a consumer before DLPack 1.0."""
        if stream is not None:
            raise BufferError("a CPU tensor has no stream")
        if dl_device is not None and tuple(dl_device) != (CPU, 0):
            raise BufferError(f"no export to DLPack device {tuple(dl_device)}")
        versioned = max_version is not None and tuple(max_version) >= VERSION
        is_host = self.data.device().is_host
        if not copy and is_host:
            self.data.value.show()
        handle = self.data.handle
        if copy is False and not is_host:
            raise BufferError(f"the elements are on {self.data.device().name}, whose memory is not "
                              "shared: only a copy can be had")
        try:
            if not copy and is_host:
                read_only = not may_write(handle)
                if versioned or not read_only:
                    return capi.dlpack_export(handle, versioned, read_only, False)
                if copy is False:
                    raise BufferError("the elements are read-only, which DLPack before 1.0 "
                                      "cannot say")
            return capi.dlpack_export(_copied(self.data), versioned, False, True)
        except errors.StateError as error:
            raise BufferError(str(error)) from error

    @property
    def __array_interface__(self) -> ArrayInterface:
        """NumPy's protocol, version 3; np.asarray then shares memory. Not for bfloat16."""
        raw = self.data
        if raw.data_type() == core.kBFloat16:
            raise AttributeError("NumPy has no bfloat16")
        if not raw.device().is_host:
            raise AttributeError(f"the elements are on {raw.device().name}: np.asarray copies them")
        kind = core.numpy_dtype(raw.data_type())
        raw.value.show()
        handle = raw.handle
        address, strides = capi.memory(handle)
        block = _block(handle, strides, address, kind.itemsize)
        if block is None:
            handle = _copied(raw)
            address, strides = capi.memory(handle)
            block = cast("Block",
                         _block(handle, strides, address, kind.itemsize))
        data = block if may_write(handle) else memoryview(block).toreadonly()
        return {"version": 3, "shape": tuple(raw.shape()), "typestr": kind.str, "data": data,
                "strides": tuple(s * kind.itemsize for s in strides)}

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """A NumPy array: a copy unless copy is False."""
        if copy is False:
            if not self.data.device().is_host:
                raise ValueError(f"the elements are on {self.data.device().name}: only a copy of "
                                 "them can be had")
            array = np.asarray(_Shown(self))
            kind = array.dtype if dtype is None else np.dtype(cast("np.dtype[np.generic]", dtype))
            if array.dtype != kind:
                raise ValueError(f"{array.dtype} becomes {kind} by a copy only")
            return array
        array = self.data.to_numpy()
        if dtype is None:
            return array
        return array.astype(cast("np.dtype[np.generic]", dtype), copy=False)


class _Shown:
    """The array interface of a tensor without its __array__."""

    def __init__(self, tensor: Exchange) -> None:
        self.__array_interface__ = tensor.__array_interface__
