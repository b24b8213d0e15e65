"""tensor_class - the Tensor of scripts: a raw tensor, what autograd knows of it, its operators.

Functions of weir.tensor, copies and changes in place of SINGA's are not differentiated, as there.
Operators (+, @, **, [...]), methods that give another shape or type, and those of
weir.tensor_methods are, while autograd.training is on and an operand stores its gradient or was
made by an operator of autograd; SINGA drops such gradients silently.
"""
from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import ClassVar, Self, SupportsIndex, TypeAlias, Union, cast

import numpy as np

from weir import _capi as capi, _swig
from weir import core
from weir import names
from weir.dtypes import BY_CORE, DType
from weir.errors import StateError
from .asserted import ArgumentError, ShapeError
from . import singa_wrap as singa
from .exchange import Exchange
from .raw.tensor import CTensor, plain_array as plain_array
from .tape import Dummy, Operator, made_at_once, operator_of
from .tensor_methods import (Mask, Method, Methods, Operand, call, in_place, is_mask, operand,
                             operator, reflected, selected, set_masked, set_part)
from weir.typing import Array, ArrayLike, DTypeLike, Number, Shape, ShapeLike

float32: DType = core.kFloat32


Key: TypeAlias = Union[SupportsIndex, slice, EllipsisType]     # of one axis
Index: TypeAlias = Union[Key, tuple[Key, ...], Mask]


class Tensor(Methods, Exchange):
    """A tensor of a device: `data` is the raw tensor, `creator` the operator that made it.

    data may be a NumPy array, which is copied and converted to `dtype`, or a raw tensor, which is
    shared. A Tensor of one element is true if that is not 0, of several it is neither (`is not
    None` asks whether there is one); == compares elements, so Tensors are no dictionary keys.
    """

    tensor_count: int = 0
    data: CTensor
    shape: Shape
    device: core.Device
    dtype: int

    def __init__(self, shape: ShapeLike = (), device: core.Device | None = None,
                 dtype: DTypeLike = float32, data: CTensor | ArrayLike | None = None,
                 requires_grad: bool = True, stores_grad: bool = False,
                 creator: Operator | None = None, name: str | None = None) -> None:
        if isinstance(data, CTensor):
            self.data = data
        elif data is not None:
            array = np.asarray(data)
            self.data = CTensor(array.shape, device, core.dtype_number(dtype))
            self.data.from_numpy(array)
        else:
            self.data = CTensor(singa.to_shape(shape), device, core.dtype_number(dtype))
        self._describe()
        self.requires_grad = requires_grad
        self.stores_grad = stores_grad
        if name is None:
            self._name = self._next_name()
        elif creator is None:
            self.name = name
        else:
            self._name = name
        self._creator = creator
        self._leaf: weakref.ref[Dummy] | None = None    # weak: the Dummy in place of a creator

    def _describe(self) -> None:
        """Shape, device and type as attributes, after the raw tensor changed."""
        self.shape = self.data.shape()
        self.device = self.data.device()
        self.dtype = self.data.data_type()

    @staticmethod
    def _next_name() -> str:
        Tensor.tensor_count += 1
        return f"Dummy#{Tensor.tensor_count - 1}"

    @property
    def creator(self) -> Operator:
        """The operator that made it; a Dummy if none did."""
        creator = self._creator
        if isinstance(creator, _swig.Call):
            creator = self._creator = operator_of(creator)
        elif creator is None and self._made_by is not None:
            creator = self._creator = made_at_once(self._made_by, self)
        if creator is not None:
            return creator
        leaf = None if self._leaf is None else self._leaf()
        if leaf is None:
            leaf = Dummy(self)
            self._leaf = weakref.ref(leaf)
        return leaf

    @creator.setter
    def creator(self, operator: Operator | None) -> None:
        self._creator = operator
        self._made_by = None

    @property
    def name(self) -> str:
        """The name in texts about graphs and in errors; setting it tells the core."""
        if self._name is None:
            made = self._made_by is not None or self._creator is not None
            self._name = self.creator.output_name(0) if made else self._next_name()
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        if isinstance(name, str) and not name.startswith("Dummy#"):
            names.tell(self.data, name)

    @property
    def stores_grad(self) -> bool:
        """True for a parameter. It owns its elements: a view is copied when it becomes one."""
        return self._stores_grad

    @stores_grad.setter
    def stores_grad(self, on: bool) -> None:
        self._stores_grad = on
        if on:
            self.data.own()

    # -- queries --

    def ndim(self) -> int:
        """The number of axes."""
        return self.data.nDim()

    def size(self) -> int:
        """The number of elements."""
        return self.data.Size()

    def memsize(self) -> int:
        """Bytes of the elements."""
        return self.data.MemSize()

    def is_empty(self) -> bool:
        """True if it has no elements, or neither a shape nor a value."""
        return self.size() == 0 or self.shape == () and not self.data.initialized()

    def is_transpose(self) -> bool:
        """True if it is a transposed view of another's elements."""
        return self.data.transpose()

    def is_dummy(self) -> bool:
        """True if its name is still the generated one."""
        return re.fullmatch(r"Dummy#\d+", self.name) is not None

    def _elements(self, prefix: str = "") -> str:
        """The elements as NumPy shows them: of more than 1000 the first and last of each axis."""
        try:
            return np.array2string(self.data.to_numpy(), separator=", ", prefix=prefix)
        except StateError:
            return "<recorded, not computed>"

    def __repr__(self) -> str:
        return (f"tensor({self._elements('tensor(')}, shape={self.shape}, dtype={self.dtype}, "
                f"device={self.device.name})")

    def __str__(self) -> str:
        """The elements and the name of their type, as SINGA prints a Tensor."""
        return f"{self._elements()}, {core.dtype_name(self.dtype)}"

    def __bool__(self) -> bool:
        if self.size() != 1:
            raise ValueError(f"bool: a tensor of shape {self.shape} has {self.size()} elements, "
                             "not 1, so it is neither true nor false: `x is not None` asks whether "
                             "there is a tensor; max() and min() of a comparison ask for any or "
                             "all of its elements")
        return bool(self.item())

    # -- shape --

    def transpose(self, axes: Sequence[int] | None = None) -> Tensor:
        """A view with the axes in another order, reversed by default."""
        if axes is None:
            return call(singa.DefaultTranspose, self)
        return call(lambda x: singa.Transpose(x, axes), self)

    def T(self) -> Tensor:
        """The axes in reverse order."""
        return self.transpose()

    def reshape(self, *shape: ShapeLike) -> Tensor:
        """A view with another shape: one size may be -1. Of a transposed tensor a copy."""
        sizes = singa.to_shape(shape[0] if len(shape) == 1 else cast("Sequence[int]", shape))
        if -1 not in sizes and singa.Product(sizes) != self.size():
            raise ShapeError(f"reshape: a tensor of shape {self.shape} cannot become {sizes}")
        return call(lambda x: singa.Reshape(x, sizes), self)

    def contiguous(self) -> Tensor:
        """A Tensor with the elements in row-major order."""
        return call(singa.Contiguous, self)

    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
        """NumPy's repeat; without an axis, of the elements in a row."""
        if not isinstance(repeats, (int, np.integer)) and axis is None:
            raise ValueError("repeat: several counts need an axis")
        return call(lambda x: x.Repeat(repeats, axis), self)

    def __getitem__(self, keys: Index) -> Tensor:
        """A copy of a part. An integer keeps its axis, with size 1, as in SINGA. A mask (x > 0, or
        an array of bool) of x's first axes selects where it is not 0, along one axis: eagerly."""
        if is_mask(keys):
            return selected(self, keys)
        parts = keys if isinstance(keys, tuple) else (keys,)
        return call(lambda x: _part(x, parts), self)

    def __setitem__(self, keys: Index, value: Operand) -> None:
        """A part by steps of 1 becomes a number, an array or a Tensor, in place; so do the elements
        that a mask selects, of a number or a Tensor with a row for each."""
        if is_mask(keys):
            new = operand(value, self)
            if new is None:
                raise TypeError("only a number, an array or a Tensor can be assigned to a part")
            set_masked(self, keys, new)
            return
        bounds = _all_bounds(self.shape, keys if isinstance(keys, tuple) else (keys,))
        if any(step != 1 for _, _, step in bounds):
            raise ValueError("only slices with step 1 can be assigned to")
        new = operand(value, self)
        if new is None:
            raise TypeError("only a number, an array or a Tensor can be assigned to a part")
        begin, end, _ = zip(*bounds) if bounds else ((), (), ())
        set_part(self, begin, end, new)

    # -- conversions --

    def reset_like(self, t: Tensor) -> None:
        """Takes shape, device and type of another tensor; its elements are new."""
        self.data.ResetLike(t.data)
        self._describe()

    def as_type(self, dtype: DTypeLike) -> Tensor:
        """A new Tensor of another type."""
        number = core.dtype_number(dtype)
        return call(lambda x: x.AsType(number), self)

    def to_type(self, dtype: DTypeLike) -> Self:
        """The same in place."""
        self.data.ToType(core.dtype_number(dtype))
        self._describe()
        return self

    def to_device(self, device: core.Device) -> Self:
        """Moves the elements to a device, in place; returns self."""
        self.data.ToDevice(device)
        self._describe()
        return self

    def to_host(self) -> Self:
        """Moves the elements to the CPU, in place; returns self."""
        return self.to_device(self.device.host())

    # -- copies --

    def _like(self, raw: CTensor) -> Tensor:
        return Tensor(data=raw, requires_grad=self.requires_grad, stores_grad=self.stores_grad)

    def clone(self) -> Tensor:
        """A Tensor with the same elements in new memory."""
        return self._like(self.data.Clone())

    deepcopy = clone

    def copy(self) -> Tensor:
        """A Tensor that shares the elements: changes in place are seen by both."""
        return self._like(CTensor(self.data))

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, object]) -> Tensor:
        """A clone of the same name: in a copied model a parameter keeps its own."""
        twin = self.clone()
        twin.name = self.name
        return twin

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[object, ...]]:
        return _rebuilt, (self.data.to_numpy(), self.dtype, self.requires_grad, self.stores_grad,
                          self.name)

    def copy_from_numpy(self, np_array: Array, offset: int = 0) -> None:
        """Copies an array's elements in row-major order, converted to the tensor's type (1.5
        becomes 1 in int32), at once, while recording too. The counts must agree, the shapes need
        not. With an offset, in elements, a smaller array overwrites a part."""
        if not isinstance(np_array, np.ndarray):
            raise ArgumentError(f"copy_from_numpy: np_array is a {type(np_array).__name__}, must "
                                "be a NumPy array")
        if np_array.dtype != core.numpy_dtype(self.dtype):
            np_array = plain_array(np_array)
        if not offset and np_array.size != self.size():
            raise ShapeError(f"copy_from_numpy: an array of shape {np_array.shape} for a tensor of "
                             f"shape {self.shape}")
        if offset + np_array.size > self.size():
            raise ShapeError(f"copy_from_numpy: an array of shape {np_array.shape} from element "
                             f"{offset} on for a tensor of shape {self.shape}")
        self.data.from_numpy(np_array, offset)

    def copy_data(self, t: Tensor) -> None:
        """Takes the elements of another Tensor of as many."""
        if not isinstance(t, Tensor):
            raise ArgumentError(f"copy_data: t is a {type(t).__name__}, must be a Tensor")
        if t.size() != self.size():
            raise ShapeError(f"copy_data: a tensor of shape {t.shape} does not fit one of shape "
                             f"{self.shape}")
        self.data.CopyData(t.data)

    def copy_from(self, t: Tensor | Array, offset: int = 0) -> None:
        """copy_data or copy_from_numpy."""
        if isinstance(t, Tensor) and offset == 0:
            self.copy_data(t)
        elif isinstance(t, Tensor):
            singa.CopyDataToFrom(self.data, t.data, t.size(), offset)
        elif isinstance(t, np.ndarray):
            self.copy_from_numpy(t, offset)
        else:
            raise ValueError(f"copy_from: {type(t)} is neither a Tensor nor a NumPy array")

    # -- fills, in place --

    def _filled(self, inplace: bool, fill: Callable[..., object], *args: object) -> Self:
        if not inplace:
            raise NotImplementedError("only inplace=True is supported")
        fill(*args)
        return self

    def set_value(self, x: Number, inplace: bool = True) -> Self:
        """Sets every element to x and returns self. inplace=False: NotImplementedError."""
        return self._filled(inplace, self.data.SetFloatValue, x if isinstance(x, int) else float(x))

    def gaussian(self, mean: float, std: float, inplace: bool = True) -> Self:
        """Draws every element from a normal distribution, in place; returns self."""
        return self._filled(inplace, singa.Gaussian, mean, std, self.data)

    def uniform(self, low: float, high: float, inplace: bool = True) -> Self:
        """Draws every element from [low, high), in place; returns self."""
        return self._filled(inplace, singa.Uniform, low, high, self.data)

    def bernoulli(self, p: float, inplace: bool = True) -> Self:
        """Draws every element: 1 with probability p, else 0, in place; returns self."""
        return self._filled(inplace, singa.Bernoulli, p, self.data)

    # -- norms, and SINGA's deprecated forms of rows and columns, in place --

    def l1(self) -> float:
        """Mean of the absolute values."""
        return self.data.L1()

    def l2(self) -> float:
        """Root of the sum of squares, divided by the number of elements as in SINGA."""
        return self.data.L2()

    def add_column(self, v: Tensor) -> None:
        """Adds v (rows) to each column of a matrix, in place."""
        singa.AddColumn(v.data, self.data)

    def add_row(self, v: Tensor) -> None:
        """Adds v (columns) to each row of a matrix, in place."""
        singa.AddRow(v.data, self.data)

    def div_column(self, v: Tensor) -> None:
        """Divides each column of a matrix by v (rows), in place."""
        singa.DivColumn(v.data, self.data)

    def div_row(self, v: Tensor) -> None:
        """Divides each row of a matrix by v (columns), in place."""
        singa.DivRow(v.data, self.data)

    def mult_column(self, v: Tensor) -> None:
        """Multiplies each column of a matrix by v (rows), in place."""
        singa.MultColumn(v.data, self.data)

    def mult_row(self, v: Tensor) -> None:
        """Multiplies each row of a matrix by v (columns), in place."""
        singa.MultRow(v.data, self.data)

    # -- operators; rules of element types: weir.raw.arith --

    __add__: ClassVar[Method] = operator(singa.Add, capi.weir_add)
    __iadd__: ClassVar[Method] = in_place(singa.Add)
    __sub__: ClassVar[Method] = operator(singa.Sub, capi.weir_sub)
    __isub__: ClassVar[Method] = in_place(singa.Sub)
    __mul__: ClassVar[Method] = operator(singa.EltwiseMult, capi.weir_mul)
    __imul__: ClassVar[Method] = in_place(singa.EltwiseMult)
    __truediv__: ClassVar[Method] = operator(singa.Div, capi.weir_div)
    __itruediv__: ClassVar[Method] = in_place(singa.Div)
    # SINGA's names, of Python 2.
    __div__: ClassVar[Method] = __truediv__
    __idiv__: ClassVar[Method] = __itruediv__
    __floordiv__: ClassVar[Method] = operator(singa.FloorDiv)
    __ifloordiv__: ClassVar[Method] = in_place(singa.FloorDiv)
    __mod__: ClassVar[Method] = operator(singa.Mod)
    __imod__: ClassVar[Method] = in_place(singa.Mod)
    __pow__: ClassVar[Method] = operator(singa.Pow, capi.weir_pow)
    __ipow__: ClassVar[Method] = in_place(singa.Pow)
    __matmul__: ClassVar[Method] = operator(singa.Mult, capi.weir_matmul)
    __imatmul__: ClassVar[Method] = in_place(singa.Mult)
    __radd__: ClassVar[Method] = reflected(singa.Add)
    __rsub__: ClassVar[Method] = reflected(singa.Sub)
    __rmul__: ClassVar[Method] = reflected(singa.EltwiseMult)
    __rtruediv__: ClassVar[Method] = reflected(singa.Div)
    __rdiv__: ClassVar[Method] = __rtruediv__
    __rfloordiv__: ClassVar[Method] = reflected(singa.FloorDiv)
    __rmod__: ClassVar[Method] = reflected(singa.Mod)
    __rpow__: ClassVar[Method] = reflected(singa.Pow)
    __rmatmul__: ClassVar[Method] = reflected(singa.Mult)
    __lt__: ClassVar[Method] = operator(singa.LT)
    __le__: ClassVar[Method] = operator(singa.LE)
    __gt__: ClassVar[Method] = operator(singa.GT)
    __ge__: ClassVar[Method] = operator(singa.GE)
    __eq__: ClassVar[Method] = operator(singa.EQ)     # type: ignore[assignment]
    __ne__: ClassVar[Method] = operator(singa.NE)     # type: ignore[assignment]
    __hash__: ClassVar[None] = None    # type: ignore[assignment]
    __and__: ClassVar[Method] = operator(singa.And)
    __iand__: ClassVar[Method] = in_place(singa.And)
    __rand__: ClassVar[Method] = reflected(singa.And)
    __or__: ClassVar[Method] = operator(singa.Or)
    __ior__: ClassVar[Method] = in_place(singa.Or)
    __ror__: ClassVar[Method] = reflected(singa.Or)
    __xor__: ClassVar[Method] = operator(singa.Xor)
    __ixor__: ClassVar[Method] = in_place(singa.Xor)
    __rxor__: ClassVar[Method] = reflected(singa.Xor)


Tensor.made = Tensor
_swig.set_classes(Tensor, CTensor, core.Value, BY_CORE)


def _rebuilt(array: Array, dtype: int, requires_grad: bool, stores_grad: bool, name: str) -> Tensor:
    return Tensor(data=array, dtype=dtype, requires_grad=requires_grad, stores_grad=stores_grad,
                  name=name)


def _bounds(key: Key, size: int) -> tuple[int, int, int]:
    """(begin, end, step) of an index or a slice of an axis; ValueError if it leaves the axis."""
    if isinstance(key, (int, np.integer)):
        at = int(key) + size if key < 0 else int(key)
        if not 0 <= at < size:
            raise ValueError(f"index {key} is out of range of {size} elements")
        return at, at + 1, 1
    if not isinstance(key, slice):
        raise TypeError(f"index {key!r} is neither an integer nor a slice")
    for at in (key.start, key.stop):
        if at is not None and not -size <= at <= size:
            raise ValueError(f"index {at} is out of range of {size} elements")
    return key.indices(size)


def _all_bounds(shape: Shape, keys: tuple[Key, ...]) -> list[tuple[int, int, int]]:
    """_bounds of every axis."""
    dots = [i for i, key in enumerate(keys) if key is Ellipsis]
    if len(dots) > 1:
        raise ValueError("an index may contain only one ...")
    if dots:
        missing = len(shape) - len(keys) + 1
        keys = keys[:dots[0]] + (slice(None),) * missing + keys[dots[0] + 1:]
    if len(keys) > len(shape):
        raise ValueError(f"{len(keys)} indices are too many for shape {shape}")
    keys += (slice(None),) * (len(shape) - len(keys))
    return [_bounds(key, size) for key, size in zip(keys, shape)]


def _part(raw: CTensor, keys: tuple[Key, ...]) -> CTensor:
    """A copy of a part of a raw tensor."""
    bounds = _all_bounds(raw.shape(), keys)
    return singa.Slice(raw, *zip(*bounds)) if bounds else raw.Clone()
