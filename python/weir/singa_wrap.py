"""singa_wrap - SINGA's low-level names: raw tensors, functions of them, the platform, flags.

A raw tensor is a Value of weir.core (shared by shallow copies) or a view of the core's. Functions
compute at once or, while the device records, become part of the graph; gradients do not pass them
unless an operator of weir.autograd calls them.
"""
import numpy as np

from . import capi
from . import core
from .core import (Device, Value, kBFloat16, kBool, kChar, kDouble, kFloat16,  # noqa: F401
                   kFloat32, kInt, kInt64, kUChar)

USE_CUDA = 0
USE_CUDNN = 0
USE_DIST = 0
USE_OPENCL = 0
USE_DNNL = 1
USE_PYTHON = 1
USE_JAVA = 0

SINGA_VERSION = 5100        # of the interface this one stands in for


def to_shape(shape):
    """A shape as a tuple of ints."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple(int(s) for s in shape)


class Tensor:
    """A raw tensor: SINGA's `singa_wrap.Tensor`, `tensor.CTensor`.

    Tensor(), Tensor(shape[, dtype]), Tensor(shape, device[, dtype]), Tensor(raw).
    """

    __slots__ = ("value", "strided", "__weakref__")

    def __init__(self, shape=None, device=None, dtype=None):
        self.strided = False
        if isinstance(shape, Tensor):
            self.value = shape.value
            self.strided = shape.strided
            return
        if isinstance(device, int):
            device, dtype = None, device
        device = core.cpu() if device is None else device
        dtype = kFloat32 if dtype is None else dtype
        self.value = Value(device, dtype, () if shape is None else to_shape(shape))

    @classmethod
    def of(cls, handle, device, strided=False):
        """The raw tensor of a result of the core."""
        raw = cls.__new__(cls)
        raw.value = Value.of(handle, device)
        raw.strided = strided
        return raw

    @property
    def handle(self):
        """The core's tensor, for reading."""
        return self.value.handle

    def __repr__(self):
        return f"<raw tensor {self.value.shape} of type {self.value.dtype}>"

    # -- queries --

    def device(self):
        return self.value.device

    def data_type(self):
        return self.value.dtype

    def shape(self, axis=None):
        return self.value.shape if axis is None else self.value.shape[axis]

    def nDim(self):
        return len(self.value.shape)

    def Size(self):
        return self.value.count

    def MemSize(self):
        return self.value.count * SizeOf(self.value.dtype)

    def transpose(self):
        """Do its elements lie in another order than its shape says?"""
        return self.strided

    def initialized(self):
        return self.value.written

    # -- host data --

    def SetFloatValue(self, x):
        if self.value.device.recording and self.value.written:
            self.value.put(capi.weir_fill(self.value.device.handle, self.value.desc, float(x)))
        else:
            capi.weir_write_fill(self.value.room(), float(x))

    def from_numpy(self, array):
        """Copies an array of as many elements, converted to the tensor's type."""
        array = np.asarray(array)
        if array.size != self.value.count:
            raise ValueError(f"{array.size} elements for a tensor of shape {self.value.shape}")
        self.value.write(array.astype(core.numpy_dtype(self.value.dtype), copy=False)
                         .reshape(self.value.shape))

    def to_numpy(self):
        """A new array of the tensor's shape and type."""
        return self.value.read()

    def CopyFloatDataFromHostPtr(self, values):
        self.from_numpy(np.asarray(values, np.float32))

    def CopyIntDataFromHostPtr(self, values):
        self.from_numpy(np.asarray(values, np.int32))

    def CopyHalfFloatDataFromHostPtr(self, values):
        self.from_numpy(np.asarray(values, np.float16))

    def _values(self, n, dtype):
        return self.to_numpy().astype(dtype, copy=False).reshape(-1)[:n]

    def GetFloatValue(self, n):
        return self._values(n, np.float32)

    def GetIntValue(self, n):
        return self._values(n, np.int32)

    def GetHalfFloatValue(self, n):
        return self._values(n, np.float16)


CTensor = Tensor


def SizeOf(dtype):
    """Bytes of one element."""
    return capi.weir_dtype_size(core.core_dtype(dtype))


def result(handle, device):
    """A new raw tensor of a result of the core."""
    return Tensor.of(handle, device)
