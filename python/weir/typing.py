"""typing - types that annotations of the package name, for those of programs too.

What a function accepts is wider than what it returns: a shape is accepted as a number or several
and returned as a tuple, a number as Python's or NumPy's and returned as Python's.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, SupportsIndex, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike

from . import _capi as capi

__all__ = ["Array", "ArrayLike", "Axes", "Budget", "DTypeLike", "Handle", "Number", "Path", "Shape",
           "ShapeLike", "Stateful", "SupportsDLPack"]

Number: TypeAlias = Union[int, float, np.integer, np.floating]
Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = np.ndarray[Shape, np.dtype[np.generic]]      # elements of any type
ShapeLike: TypeAlias = Union[SupportsIndex, Sequence[SupportsIndex]]
Axes: TypeAlias = Union[int, Sequence[int]]             # one axis or several
# An element type: a name, SINGA's number, NumPy's type or Python's.
DTypeLike: TypeAlias = Union[int, str, type[np.generic], type[bool], type[int], type[float],
                             np.dtype[np.generic]]
Path: TypeAlias = Union[str, os.PathLike[str]]
Budget: TypeAlias = Union[int, float, str]              # bytes, or a text: "512MB", "75%"


class Stateful(Protocol):
    """What saves and restores itself as a dictionary of texts and numbers: loaders, EarlyStop."""

    def state_dict(self) -> Mapping[str, object]:
        """Where the object is."""
        ...

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Goes on where state_dict was taken, or raises InvalidError and changes nothing."""


class SupportsDLPack(Protocol):
    """What offers its elements by DLPack: tensors of PyTorch, arrays of NumPy, CuPy and JAX."""

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> object:
        """A capsule with the elements."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """The kind and the number of the device that they lie on."""
        ...


# What the modules of the package pass to each other: tensors and devices of the core.
Handle: TypeAlias = capi.weir_tensor
if TYPE_CHECKING:
    DeviceHandle: TypeAlias = capi._weir_device
else:
    DeviceHandle = object
Desc: TypeAlias = tuple[int, Shape]                     # the core's element type, shape
UnaryCall: TypeAlias = Callable[[Handle], Handle]
BinaryCall: TypeAlias = Callable[[Handle, Handle], Handle]
