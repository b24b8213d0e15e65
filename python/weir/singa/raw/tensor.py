"""tensor - the raw tensor: SINGA's `singa_wrap.Tensor`, a Value of weir.core or a view of one.

Shallow copies share the Value, so an in-place change of one is seen by all.
"""
from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Self, SupportsIndex, TypeVar, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weir import _capi as capi, _swig
from weir import core
from weir.core import Value
from weir.errors import ShapeError
from weir.typing import Array, BinaryCall, Handle, Number, Shape, ShapeLike
from ..asserted import DtypeError
from . import arith
from . import view

S = TypeVar("S", bound=np.generic)
_NARROW: dict[str, type[np.generic]] = {"int64": np.int32, "float64": np.float32}
FLATTEN = 9999      # the axis that means all of them, in SINGA's repeat


def to_shape(shape: ShapeLike) -> Shape:
    """A shape as a tuple of ints."""
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    try:
        return tuple(operator.index(s) for s in cast("Sequence[SupportsIndex]", shape))
    except TypeError:
        raise TypeError(f"a shape must be integers, not {shape!r}; weir.array makes a tensor "
                        "of values"
                        ) from None


def SizeOf(dtype: int) -> int:
    """Bytes of one element."""
    return capi.weir_dtype_size(core.core_dtype(dtype))


class Tensor(_swig.RawBase):
    """A raw tensor: SINGA's `singa_wrap.Tensor`, `tensor.CTensor`.

    Tensor(), Tensor(shape[, dtype]), Tensor(shape, device[, dtype]), Tensor(raw).
    """

    __slots__ = ()

    value: Value

    def __init__(self, shape: Tensor | ShapeLike | None = None,
                 device: core.Device | int | None = None, dtype: int | None = None) -> None:
        if isinstance(shape, Tensor):
            self.value = shape.value
            return
        if isinstance(device, int):
            device, dtype = None, device
        device = core.default_device() if device is None else device
        dtype = core.kFloat32 if dtype is None else dtype
        self.value = Value(device, dtype, () if shape is None else to_shape(shape))

    @classmethod
    def of(cls, handle: Handle, device: core.Device) -> Self:
        """The raw tensor of a result of the core."""
        return cls.over(Value.of(handle, device))

    @classmethod
    def over(cls, value: Value) -> Self:
        """The raw tensor of a value."""
        raw = cls.__new__(cls)
        raw.value = value
        return raw

    @property
    def handle(self) -> Handle:
        """The core's tensor, for reading."""
        return self.value.handle

    def own(self) -> None:
        """Copies the elements of a view into new memory: the core's updates take no views."""
        value = self.value
        if not isinstance(value, view.View):
            return
        if not value.written:
            self.value = Value(value.device, value.dtype, value.shape)
        elif value.recorded:
            self.value = Value.of(capi.weir_copy(value.handle), value.device)
        else:
            with value.device.at_once():
                self.value = Value.of(capi.weir_copy(value.handle), value.device)

    def state(self) -> Handle:
        """The handle for updates in place by the core, which takes whole tensors in their order in
        memory: other views get elements of their own first."""
        if isinstance(self.value, view.View) and self.value.moves:
            self.own()
        return self.value.state()

    def __repr__(self) -> str:
        return f"<raw tensor {self.value.shape} of type {self.value.dtype}>"

    # -- queries --

    def device(self) -> core.Device:
        """The Device on which the elements lie."""
        return self.value.device

    def data_type(self) -> int:
        """SINGA's number of the element type (kFloat32 is 0)."""
        return self.value.dtype

    @overload
    def shape(self) -> Shape: ...
    @overload
    def shape(self, axis: int) -> int: ...
    def shape(self, axis: int | None = None) -> Shape | int:
        """The shape as a tuple, or the size of one axis."""
        return self.value.shape if axis is None else self.value.shape[axis]

    def nDim(self) -> int:
        """The number of axes."""
        return len(self.value.shape)

    def Size(self) -> int:
        """The number of elements."""
        return self.value.count

    def MemSize(self) -> int:
        """Bytes of the elements."""
        return self.value.count * SizeOf(self.value.dtype)

    def transpose(self) -> bool:
        """True if the order of its elements in memory is not that of its shape."""
        return isinstance(self.value, view.Transposed)

    def initialized(self) -> bool:
        """True once elements were written or computed."""
        return self.value.written

    # -- host data --

    def SetFloatValue(self, x: Number) -> None:
        """Sets every element to x, converted to the element type."""
        self.value.fill(x if isinstance(x, int) else float(x))

    SetIntValue = SetFloatValue

    def from_numpy(self, array: ArrayLike, offset: int = 0) -> None:
        """Copies an array, converted to the tensor's type, to the elements from offset on; with
        offset 0 it has as many elements as the tensor or fewer."""
        value = self.value
        given: Array = np.asarray(array).astype(core.numpy_dtype(value.dtype), copy=False)
        if offset < 0 or offset + given.size > value.count:
            raise ValueError(f"{given.size} elements from {offset} on do not fit a tensor of shape "
                             f"{value.shape}")
        if given.size < value.count:
            whole = value.read().reshape(-1)
            whole[offset:offset + given.size] = given.reshape(-1)
            given = whole
        value.write(given.reshape(value.shape))

    def to_numpy(self) -> Array:
        """A new array of the tensor's shape and type."""
        return self.value.read()

    def CopyFloatDataFromHostPtr(self, values: ArrayLike, offset: int = 0) -> None:
        """Copies float32 numbers, an array or a list, to the elements from `offset` on."""
        self.from_numpy(np.asarray(values, np.float32), offset)

    def CopyIntDataFromHostPtr(self, values: ArrayLike, offset: int = 0) -> None:
        """Copies int32 numbers, an array or a list, to the elements from `offset` on."""
        self.from_numpy(np.asarray(values, np.int32), offset)

    def CopyHalfFloatDataFromHostPtr(self, values: ArrayLike, offset: int = 0) -> None:
        """Copies float16 numbers, an array or a list, to the elements from `offset` on."""
        self.from_numpy(np.asarray(values, np.float16), offset)

    def _values(self, n: int, dtype: type[S]) -> NDArray[S]:
        return self.to_numpy().astype(dtype, copy=False).reshape(-1)[:n]

    def GetFloatValue(self, n: int) -> NDArray[np.float32]:
        """The first n elements in row-major order, a float32 array."""
        return self._values(n, np.float32)

    def GetIntValue(self, n: int) -> NDArray[np.int32]:
        """The first n elements in row-major order, an int32 array."""
        return self._values(n, np.int32)

    def GetHalfFloatValue(self, n: int) -> NDArray[np.float16]:
        """The first n elements in row-major order, a float16 array."""
        return self._values(n, np.float16)

    # -- conversions --

    def AsType(self, dtype: int) -> Tensor:
        """A new tensor of another type; floats are cut towards zero to become integers."""
        return result(capi.weir_cast(self.handle, core.core_dtype(dtype)), self.value.device)

    def ToType(self, dtype: int) -> None:
        """The same in place: of this tensor, not of those that share its elements."""
        if dtype == self.value.dtype:
            return
        if self.value.written:
            self.value = self.AsType(dtype).value
        else:
            core.core_dtype(dtype)
            self.value = Value(self.value.device, dtype, self.value.shape)

    def ToDevice(self, device: core.Device) -> None:
        """Moves the tensor: to another device its elements are copied by way of the host."""
        old = self.value
        if device is old.device:
            return
        self.value = Value(device, old.dtype, old.shape)
        if old.written:
            self.value.write(old.read())

    def ToHost(self) -> None:
        """Moves the elements to the CPU, in place."""
        self.ToDevice(self.value.device.host())

    def ResetLike(self, other: Tensor) -> None:
        """Takes shape, type and device of another tensor; its elements are new and unwritten."""
        like = other.value
        self.value = Value(like.device, like.dtype, like.shape)

    # -- copies --

    def put(self, handle: Handle) -> None:
        """Takes over the elements of a new result of the core, converted to the tensor's type."""
        shape = capi.weir_tensor_desc(handle)[1]
        if shape != self.value.shape:
            raise ShapeError(f"a result of shape {shape} does not fit a tensor of shape "
                             f"{self.value.shape}")
        self.value.put(arith.to(handle, self.value.dtype))

    def CopyData(self, other: Tensor) -> None:
        """Copies the elements of a tensor of as many; of another device by way of the host."""
        if other.value is self.value:
            return
        if other.value.count != self.value.count:
            raise ShapeError(f"{other.value.count} elements do not fit a tensor of shape "
                             f"{self.value.shape}")
        if other.value.device is not self.value.device:
            self.from_numpy(other.to_numpy())
            return
        self.put(capi.weir_reshape(capi.weir_copy(other.handle), self.value.shape))

    def Clone(self, device: core.Device | None = None) -> Tensor:
        """A copy that shares no elements."""
        value = self.value
        if not value.written:
            return Tensor(value.shape, device or value.device, value.dtype)
        copy = result(capi.weir_copy(value.handle), value.device)
        if device is not None:
            copy.ToDevice(device)
        return copy

    def Repeat(self, repeats: int | Sequence[int], axis: int | None,
               ret: Tensor | None = None) -> Tensor:
        """NumPy's repeat: each element repeats[0], or element i of the axis repeats[i] times."""
        raw = result(_repeated(self, repeats, axis), self.value.device)
        if ret is None:
            return raw
        ret.put(raw.handle)
        return ret

    def RepeatData(self, repeats: int | Sequence[int], axis: int | None, total_repeats: int,
                   src: Tensor) -> None:
        """Takes the elements of src, repeated; total_repeats is what SINGA counts itself."""
        del total_repeats
        self.put(capi.weir_reshape(_repeated(src, repeats, axis), self.value.shape))

    # -- norms --

    def L1(self) -> float:
        """Mean of the absolute values."""
        return _norm(self, 1)

    def L2(self) -> float:
        """Root of the sum of squares, divided by the number of elements as in SINGA."""
        return _norm(self, 2)

    # -- in place --

    def _update(self, op: BinaryCall, number_op: Callable[[Tensor, Number], Handle],
                x: Tensor | Number) -> Self:
        if not isinstance(x, Tensor) and arith.is_whole(x) and not core.is_float(self.value.dtype):
            x = result(arith.scalar(x, self), self.value.device)
        if isinstance(x, Tensor):
            self.put(arith.binary(op, self, x))
        else:
            self.put(number_op(self, x))
        return self

    def __iadd__(self, x: Tensor | Number) -> Self:
        return self._update(capi.weir_add, arith.add_number, x)

    def __isub__(self, x: Tensor | Number) -> Self:
        return self._update(capi.weir_sub, arith.less_number, x)

    def __imul__(self, x: Tensor | Number) -> Self:
        return self._update(capi.weir_mul, arith.mul_number, x)

    def __itruediv__(self, x: Tensor | Number) -> Self:
        return self._update(capi.weir_div, _over, x)


CTensor = Tensor


def _norm(x: Tensor, p: int) -> float:
    """A norm divided by the number of elements; of integers in float64."""
    handle = x.handle if core.is_float(x.value.dtype) else arith.cast(x, core.kDouble)
    norm = capi.weir_norm(handle, p, 0, False)
    return _read_number(capi.weir_div(norm, arith.number(x.value.count, norm)))


def _over(x: Tensor, c: Number) -> Handle:
    return arith.with_number(capi.weir_div, x, c)


def _read_number(handle: Handle) -> float:
    out = np.empty((), core.numpy_dtype(core.singa_dtype(capi.weir_tensor_desc(handle)[0])))
    capi.read(handle, out)
    return float(out.item())


def result(handle: Handle, device: core.Device) -> Tensor:
    """A new raw tensor of a result of the core."""
    return Tensor.of(handle, device)


def host_constant(array: Array, device: core.Device) -> Handle:
    """The handle of a NumPy array of int32 or float32, written at once."""
    dtype = capi.WEIR_I32 if array.dtype == np.int32 else capi.WEIR_F32
    handle = capi.weir_input(device.handle, (dtype, array.shape))
    capi.write(handle, np.ascontiguousarray(array))
    return handle


def plain_array(array: ArrayLike) -> Array:
    """The array, of one of the types that SINGA knows: 64-bit numbers become 32-bit ones; integers
    that do not fit are an error (SINGA wraps them)."""
    array = np.asarray(array)
    narrow = _NARROW.get(array.dtype.name)
    if narrow:
        if narrow is np.int32 and array.size and not -2**31 <= array.min() <= array.max() < 2**31:
            raise OverflowError(f"integers from {array.min()} to {array.max()} do not fit int32; "
                                "weir.array keeps int64")
        array = array.astype(narrow)
    if array.dtype.name not in ("float32", "float16", "int32"):
        raise DtypeError(f"from NumPy: no conversion from {array.dtype}, must be float32, float64, "
                         "float16, int32 or int64")
    return array


def _repeated(x: Tensor, repeats: int | Sequence[int], axis: int | None) -> Handle:
    """The handle of x repeated along an axis; FLATTEN or None: of its elements in a row."""
    handle, shape = x.handle, x.value.shape
    if axis is None or axis == FLATTEN:
        handle, shape, axis = capi.weir_reshape(handle, (-1,)), (x.value.count,), 0
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis < len(shape):
        raise ValueError(f"repeat: axis {axis} is out of range for shape {shape}")
    times = [int(r) for r in ([repeats] if isinstance(repeats, (int, np.integer)) else repeats)]
    if any(t < 0 for t in times) or len(times) not in (1, shape[axis]):
        raise ValueError(f"repeat: counts {times} do not match {shape[axis]} elements")
    if len(set(times)) == 1:
        return capi.weir_repeat(handle, axis, times[0])
    index = np.repeat(np.arange(len(times), dtype=np.int32), times)
    order = (axis,) + tuple(i for i in range(len(shape)) if i != axis)
    rows = capi.weir_gather(capi.weir_transpose(handle, order), host_constant(index, x.device()))
    return capi.weir_transpose(rows, tuple(int(i) for i in np.argsort(order)))
