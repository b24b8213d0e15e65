"""tensor - the Tensor of scripts: NumPy in and out, operators, SINGA's functions."""
import weakref

import numpy as np

from . import core
from . import singa_wrap as singa
from .singa_wrap import CTensor  # noqa: F401

float32 = core.kFloat32
float16 = core.kFloat16
int32 = core.kInt
float64 = core.kDouble
int64 = core.kInt64
uint8 = core.kUChar
bool_ = core.kBool
bfloat16 = core.kBFloat16


class Tensor:
    """A tensor of a device: `data` is the raw tensor, `creator` the operator that made it."""

    tensor_count = 0

    def __init__(self, shape=(), device=None, dtype=float32, data=None, requires_grad=True,
                 stores_grad=False, creator=None, name=None):
        device = core.cpu() if device is None else device
        if isinstance(data, np.ndarray):
            self.data = singa.Tensor(data.shape, device, core.dtype_number(dtype))
            self.data.from_numpy(data)
        elif isinstance(data, CTensor):
            self.data = data
            device = data.device()
        else:
            self.data = singa.Tensor(singa.to_shape(shape), device, core.dtype_number(dtype))
        self.shape = tuple(self.data.shape())
        self.device = device
        self.dtype = self.data.data_type()
        self.requires_grad = requires_grad
        self.stores_grad = stores_grad
        if name is None:
            name = f"Dummy#{Tensor.tensor_count}"
            Tensor.tensor_count += 1
        self.name = name
        self._creator = creator
        self._leaf = None           # weak: the Dummy in place of a creator

    @property
    def creator(self):
        """The operator that made it; a Dummy if none did."""
        if self._creator is not None:
            return self._creator
        leaf = self._leaf and self._leaf()
        if leaf is None:
            from .engine import Dummy
            leaf = Dummy(self)
            self._leaf = weakref.ref(leaf)
        return leaf

    @creator.setter
    def creator(self, operator):
        self._creator = operator

    def __repr__(self):
        return f"<Tensor {self.name} {self.shape} of type {self.dtype}>"

    def copy_from_numpy(self, array, offset=0):
        """Copies the array's elements, at once - while recording too; offset: in elements."""
        self.data.from_numpy(array)


def from_numpy(array, dev=None):
    """A new tensor: int64 becomes int32, float64 float32, as in SINGA."""
    array = np.asarray(array)
    narrow = {"int64": np.int32, "float64": np.float32}.get(array.dtype.name)
    if narrow:
        array = array.astype(narrow)
    assert array.dtype.name in ("float32", "float16", "int32"), f"no conversion from {array.dtype}"
    return Tensor(data=array, device=dev, dtype=core.dtype_number(array.dtype))


def to_numpy(t):
    """A new array of the tensor's elements."""
    return t.data.to_numpy()
