"""interop - tensors of other libraries, arrays, buffers and sequences become Tensors, by a copy.

The other way, elements shared with others, is weir.exchange.
"""
import numpy as np

from . import _capi as capi
from . import core
from . import errors
from . import singa_wrap as singa
from .exchange import CPU, VERSION, Exchange, may_write, on_host  # noqa: F401
from .tensor import Tensor


def from_dlpack(x, device=None, requires_grad=False):
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


def wrap(handle, device, requires_grad=False):
    """The Tensor of a handle whose elements may be written."""
    raw = singa.Tensor(capi.weir_tensor_desc(handle)[1], device,
                       core.singa_dtype(capi.weir_tensor_desc(handle)[0]))
    with device.at_once():              # taken over, not assigned
        raw.value.put(handle)
    return Tensor(data=raw, device=device, requires_grad=requires_grad, stores_grad=requires_grad)


def empty(shape, dtype, device=None, requires_grad=False):
    """A Tensor whose elements are not written yet."""
    return Tensor(shape=singa.to_shape(shape), device=core.cpu() if device is None else device,
                  dtype=core.dtype_number(dtype), requires_grad=requires_grad,
                  stores_grad=requires_grad)


def element_type(array):
    """SINGA's number of an array's element type."""
    try:
        return core.dtype_number(array.dtype)
    except TypeError:
        raise errors.DtypeError(f"elements of type {array.dtype} are not supported") from None


def _listed(numbers, dtype):
    """An array of numbers or a buffer; Python's floats in float32 unless a type is asked for."""
    plain = np.asarray(numbers)
    script = isinstance(numbers, (int, float, list, tuple))
    if dtype is None and plain.dtype == np.float64 and script:
        return np.asarray(numbers, np.float32)
    return plain


def array(data, dtype=None, device=None, requires_grad=False):
    """A Tensor with a copy of data: an array, a tensor of any library, a buffer, nested sequences.

    An array keeps its element type (SINGA's from_numpy narrows it); Python's floats become float32,
    its integers int64.
    """
    foreign = hasattr(data, "__dlpack__") and not isinstance(data, np.ndarray)
    if foreign and dtype is None:
        return from_dlpack(data, device, requires_grad)
    if foreign:
        data = from_dlpack(data, device).data.to_numpy()
    elif not (hasattr(data, "dtype") or hasattr(data, "__array_interface__")):
        data = _listed(data, dtype)
    data = np.asarray(data)
    t = empty(data.shape, element_type(data) if dtype is None else dtype, device, requires_grad)
    t.data.from_numpy(data)
    return t
