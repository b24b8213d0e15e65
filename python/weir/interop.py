"""interop - tensors of other libraries, arrays, buffers and sequences become Tensors, by a copy.

The other way, elements shared with others, is weir.exchange.
"""
from __future__ import annotations

from typing import TypeAlias, Union, cast


import numpy as np

from . import _capi as capi
from . import core
from . import errors
from .exchange import CPU, VERSION, Exchange, may_write, on_host  # noqa: F401
from .raw.tensor import CTensor, to_shape
from .tensor import Tensor
from .typing import Array, ArrayLike, DTypeLike, Handle, ShapeLike, SupportsDLPack

__all__ = ["array", "CPU", "Data", "element_type", "empty", "Exchange", "from_dlpack", "may_write",
           "on_host", "VERSION", "wrap"]


Data: TypeAlias = Union[ArrayLike, SupportsDLPack]      # what array copies


def from_dlpack(x: SupportsDLPack, device: core.Device | None = None,
                requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of the elements of any object with __dlpack__, in host memory."""
    kind, number = x.__dlpack_device__()
    if kind not in (CPU, 3):
        raise BufferError(f"the elements lie on DLPack device ({int(kind)}, {number}): copy them "
                          "to the host first")
    try:
        capsule = x.__dlpack__(max_version=VERSION)
    except TypeError:                   # made before version 1.0
        capsule = x.__dlpack__()
    device = core.cpu() if device is None else device
    return wrap(capi.dlpack_import(device.handle, capsule), device, requires_grad)


def wrap(handle: Handle, device: core.Device, requires_grad: bool = False) -> Tensor:
    """The Tensor of a handle whose elements may be written."""
    raw = CTensor(capi.weir_tensor_desc(handle)[1], device,
                       core.singa_dtype(capi.weir_tensor_desc(handle)[0]))
    with device.at_once():              # taken over, not assigned
        raw.value.put(handle)
    return Tensor(data=raw, device=device, requires_grad=requires_grad, stores_grad=requires_grad)


def empty(shape: ShapeLike, dtype: DTypeLike, device: core.Device | None = None,
          requires_grad: bool = False) -> Tensor:
    """A Tensor whose elements are not written yet."""
    return Tensor(shape=to_shape(shape), device=core.cpu() if device is None else device,
                  dtype=core.dtype_number(dtype), requires_grad=requires_grad,
                  stores_grad=requires_grad)


def element_type(array: Array) -> int:
    """SINGA's number of an array's element type."""
    try:
        return core.dtype_number(array.dtype)
    except TypeError:
        raise errors.DtypeError(f"elements of type {array.dtype} are not supported") from None


def _listed(numbers: object, dtype: DTypeLike | None) -> Array:
    """An array of numbers or a buffer; Python's floats in float32 unless a type is asked for."""
    plain = np.asarray(numbers)
    script = isinstance(numbers, (int, float, list, tuple))
    if dtype is None and plain.dtype == np.float64 and script:
        return np.asarray(numbers, np.float32)
    return plain


def array(data: Data, dtype: DTypeLike | None = None, device: core.Device | None = None,
          requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of data: an array, a tensor of any library, a buffer, nested sequences.

    An array keeps its element type (SINGA's from_numpy narrows it); Python's floats become float32,
    its integers int64.
    """
    if hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray):
        foreign = cast("SupportsDLPack", data)
        if dtype is None:
            return from_dlpack(foreign, device, requires_grad)
        elements = from_dlpack(foreign, device).data.to_numpy()
    elif hasattr(data, "dtype") or hasattr(data, "__array_interface__"):
        elements = np.asarray(data)
    else:
        elements = _listed(data, dtype)
    t = empty(elements.shape, element_type(elements) if dtype is None else dtype, device,
              requires_grad)
    t.data.from_numpy(elements)
    return t
