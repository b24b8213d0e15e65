"""view - values that show the elements of another in a different order or shape.

A write through a view changes the base; a change of the base is seen through the view, which
derives its handle again when the base has a newer version.
"""
from __future__ import annotations

import numpy as np

from weir import _capi as capi
from weir import errors
from weir.core import Value, is_float
from weir.typing import Array, Handle, Shape


class View(Value):
    """A value that shares the elements of its base. A view of a view has the same base."""

    __slots__ = ("base",)

    @property
    def moves(self) -> bool:
        """True if its order is another than the base's in memory."""
        raise NotImplementedError

    def __init__(self, base: Value, shape: Shape) -> None:
        super().__init__(base.device, base.dtype, shape)
        self.base: Value = base
        self._state = False
        if base.written:
            self._derive()

    def derive(self, handle: Handle) -> Handle:
        """Returns the view, given a handle of the base."""
        raise NotImplementedError

    def back(self, handle: Handle) -> Handle:
        """The inverse of derive: returns a handle in the base's shape, given one in the view's."""
        raise NotImplementedError

    def _derive(self) -> None:
        self._handle = self.derive(self.base.handle)
        self._graph = self.base._graph
        self._version = self.base.version

    @property
    def written(self) -> bool:
        return self.base.written

    @property
    def version(self) -> int:
        return self.base.version

    @property
    def handle(self) -> Handle:
        if self._handle is None or self._version != self.base.version:
            self._derive()
        return self._handle         # type: ignore[return-value]     # derived by now

    @property
    def owned(self) -> bool:
        return self.base.owned

    def share(self) -> None:
        self.base.share()

    @property
    def lent(self) -> bool:
        """True while the base's elements lie in memory that a model's graph writes."""
        return self.base.lent

    def show(self) -> None:
        """Notes that the address of the base's elements becomes known outside."""
        self.base.show()

    def move_out(self) -> None:
        """Copies what the base shares with a model's graph."""
        self.base.move_out()

    def writable(self) -> Handle:
        raise errors.StateError("a view has no memory of its own")

    def state(self) -> Handle:
        raise errors.StateError("a transposed tensor cannot be updated by the core; copy it first")

    def put(self, handle: Handle) -> None:
        """Replaces the elements of the base by those of a handle that has the view's shape."""
        self.base.put(self.back(handle))

    def fill(self, x: int | float) -> None:
        """Sets every element of the base to x."""
        self.base.fill(x)

    def write(self, array: Array) -> None:
        """Writes an array in the view's shape into the base."""
        self.base.write(self._host_back(np.asarray(array)))

    def _host_back(self, array: Array) -> Array:
        return array.reshape(self.base.shape)


class Transposed(View):
    """A view of the base whose axis i is the base's axis axes[i]."""

    __slots__ = ("axes",)

    def __init__(self, base: Value, axes: Shape) -> None:
        self.axes: Shape = axes
        super().__init__(base, tuple(base.shape[a] for a in axes))

    @property
    def moves(self) -> bool:
        return True

    @property
    def inverse(self) -> Shape:
        """The inverse permutation of axes."""
        return tuple(int(a) for a in np.argsort(self.axes))

    def derive(self, handle: Handle) -> Handle:
        """Returns the view's handle, given the base's."""
        return capi.weir_transpose(handle, self.axes)

    def back(self, handle: Handle) -> Handle:
        """Returns a handle in the base's shape, given one in the view's."""
        return capi.weir_transpose(handle, self.inverse)

    def _host_back(self, array: Array) -> Array:
        return array.transpose(self.inverse)


class Reshaped(View):
    """A view with the base's elements in the same order but in another shape."""

    __slots__ = ()

    @property
    def moves(self) -> bool:
        """True if the two shapes store the elements in different orders."""
        return moves(self.dtype, self.base.shape, self.shape)

    def state(self) -> Handle:
        """The base's memory under this shape: the core updates what is whole and dense."""
        self.base.state()
        return self.handle

    def derive(self, handle: Handle) -> Handle:
        """Returns the view's handle, given the base's."""
        return capi.weir_reshape(handle, self.shape)

    def back(self, handle: Handle) -> Handle:
        """Returns a handle in the base's shape, given one in the view's."""
        return capi.weir_reshape(handle, self.base.shape)


def moves(dtype: int, old: Shape, new: Shape) -> bool:
    """True if memory order differs between two shapes: images of floats are channels-last."""
    return is_float(dtype) and any(len(s) == 4 and s[1] > 1 and s[2] * s[3] > 1 for s in (old, new))


def transposed(value: Value, axes: Shape) -> Value:
    """The value with axis axes[i] as axis i; the value itself if that is no change."""
    if isinstance(value, Transposed):
        axes = tuple(value.axes[a] for a in axes)
        value = value.base
    if axes == tuple(range(len(axes))):
        return value
    return Transposed(value, axes)


def reshaped(value: Value, shape: Shape) -> Value:
    """The value with another shape; elements of its own if the order in memory must change.

    Of a transposed value a copy, as in SINGA. Of an image that is only recorded a copy too: images
    lie channels-last, so a view would keep two of them alive.
    """
    if isinstance(value, Reshaped):
        value = value.base
    if value.shape == shape:
        return value
    if isinstance(value, Transposed):
        return Value.of(capi.weir_reshape(capi.weir_copy(value.handle), shape), value.device)
    if value.written and value.recorded and moves(value.dtype, value.shape, shape):
        return Value.of(capi.weir_reshape(value.handle, shape), value.device)
    return Reshaped(value, shape)
