"""dtypes - element types: SINGA's numbers, the core's, NumPy's types and names."""
from __future__ import annotations

import enum
from typing import cast

import numpy as np

from . import _capi as capi
from . import errors


class DType(enum.IntEnum):
    """An element type: SINGA's number (the first five) or ours, with a name that is shown.

    SINGA's `char` is `int8`.

    It is an int and equal to its number; `weir.float32` is DType.float32.
    """

    (float32, float16, int32, int8, float64, uint8, int64, bool, bfloat16, int16, uint16, uint32,
     uint64) = range(13)
    char = int8

    def __repr__(self) -> str:
        return f"weir.{self.name}{'_' if self.name == 'bool' else ''}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)


# SINGA's names, then those of weir.
kFloat32: DType = DType.float32
kFloat16: DType = DType.float16
kInt: DType = DType.int32
kChar: DType = DType.int8
kDouble: DType = DType.float64
kUChar: DType = DType.uint8
kInt64: DType = DType.int64
kBool: DType = DType.bool
kBFloat16: DType = DType.bfloat16
float32: DType = kFloat32
float16: DType = kFloat16
int32: DType = kInt
float64: DType = kDouble
uint8: DType = kUChar
int64: DType = kInt64
bool_: DType = kBool
bfloat16: DType = kBFloat16
int8: DType = kChar
int16: DType = DType.int16
uint16: DType = DType.uint16
uint32: DType = DType.uint32
uint64: DType = DType.uint64

_CORE_TYPE: dict[int, int] = {
    kFloat32: capi.WEIR_F32,
    kFloat16: capi.WEIR_F16,
    kInt: capi.WEIR_I32,
    kDouble: capi.WEIR_F64,
    kUChar: capi.WEIR_U8,
    kInt64: capi.WEIR_I64,
    kBool: capi.WEIR_BOOL,
    kBFloat16: capi.WEIR_BF16,
    kChar: capi.WEIR_I8,
    int16: capi.WEIR_I16,
    uint16: capi.WEIR_U16,
    uint32: capi.WEIR_U32,
    uint64: capi.WEIR_U64,
}
_SINGA_TYPE = {core: DType(number) for number, core in _CORE_TYPE.items()}
# SINGA's numbers by the core's.
BY_CORE: list[int] = [_SINGA_TYPE[core] for core in range(len(_SINGA_TYPE))]
_NUMPY_TYPE: dict[int, type[np.generic]] = {
    kFloat32: np.float32,
    kFloat16: np.float16,
    kInt: np.int32,
    kDouble: np.float64,
    kUChar: np.uint8,
    kInt64: np.int64,
    kBool: np.bool_,
    kChar: np.int8,
    int16: np.int16,
    uint16: np.uint16,
    uint32: np.uint32,
    uint64: np.uint64,
}
_NAMES = {"float32": kFloat32, "float": kFloat32, "float16": kFloat16, "int32": kInt, "int": kInt,
          "float64": kDouble, "double": kDouble, "uint8": kUChar, "int64": kInt64, "bool": kBool,
          "bfloat16": kBFloat16, "int8": kChar, "char": kChar, "int16": int16, "uint16": uint16,
          "uint32": uint32, "uint64": uint64}


def dtype_number(dtype: object) -> DType:
    """SINGA's number of an element type given as number, name or NumPy type."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, int) and not isinstance(dtype, bool) and dtype in _CORE_TYPE:
        return DType(dtype)
    if isinstance(dtype, str) and dtype in _NAMES:
        return _NAMES[dtype]
    try:
        name = np.dtype(cast("np.dtype[np.generic]", dtype)).name
    except TypeError:
        name = ""
    if name in _NAMES:
        return _NAMES[name]
    raise TypeError(f"unknown element type {dtype!r} (expected {', '.join(_NAMES)})")


def core_dtype(number: int) -> int:
    """The core's number for SINGA's."""
    core = _CORE_TYPE.get(number)
    if core is None:
        raise errors.DtypeError(f"element type {DType(number)} is not supported"
                                if number in list(DType) else f"unknown element type {number}")
    return core


def singa_dtype(core: int) -> DType:
    """SINGA's number of an element type that is given by the core's number."""
    return _SINGA_TYPE[core]


def numpy_dtype(number: int) -> np.dtype[np.generic]:
    """The NumPy type of SINGA's number; bfloat16, which NumPy lacks, becomes float32."""
    return np.dtype(_NUMPY_TYPE.get(number, np.float32))


def dtype_name(number: int) -> str:
    """"float32", "int32", ..., of SINGA's number."""
    return "bfloat16" if number == kBFloat16 else numpy_dtype(number).name


def is_float(number: int) -> bool:
    """True for float32, float16, float64 and bfloat16, given by SINGA's number."""
    return number in (kFloat32, kFloat16, kDouble, kBFloat16)
