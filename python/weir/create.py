"""create - constructors that NumPy and PyTorch users expect: zeros, ones, full, arange, randn, ...

All compute at once, even while the device records. dtype is a name, a NumPy type or SINGA's
number, float32 by default; requires_grad makes autograd.backward give the gradient.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex, cast

from . import _capi as capi
from . import core
from . import interop
from .interop import array, from_dlpack  # noqa: F401
from .tensor import Tensor
from .typing import DTypeLike, Number, ShapeLike

__all__ = ["arange", "array", "empty", "eye", "from_dlpack", "full", "full_like", "ones",
           "ones_like", "rand", "randn", "zeros", "zeros_like"]


def full(shape: ShapeLike, value: Number, dtype: DTypeLike = "float32",
         device: core.Device | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor of a shape, each element `value` converted to dtype."""
    t = interop.empty(shape, dtype, device, requires_grad)
    with t.device.at_once():
        t.data.SetFloatValue(value)
    return t


def zeros(shape: ShapeLike, dtype: DTypeLike = "float32", device: core.Device | None = None,
          requires_grad: bool = False) -> Tensor:
    """A Tensor of zeros."""
    return full(shape, 0, dtype, device, requires_grad)


def ones(shape: ShapeLike, dtype: DTypeLike = "float32", device: core.Device | None = None,
         requires_grad: bool = False) -> Tensor:
    """A Tensor of ones."""
    return full(shape, 1, dtype, device, requires_grad)


def empty(shape: ShapeLike, dtype: DTypeLike = "float32", device: core.Device | None = None,
          requires_grad: bool = False) -> Tensor:
    """A tensor to be written; 0 until then."""
    return interop.empty(shape, dtype, device, requires_grad)


def full_like(t: Tensor, value: Number) -> Tensor:
    """A Tensor with the shape, element type and device of t, each element `value`."""
    return full(t.shape, value, t.dtype, t.device)


def zeros_like(t: Tensor) -> Tensor:
    """A Tensor of zeros with the shape, element type and device of t."""
    return full_like(t, 0)


def ones_like(t: Tensor) -> Tensor:
    """A Tensor of ones with the shape, element type and device of t."""
    return full_like(t, 1)


def arange(start: int | float, stop: int | float | None = None, step: int | float = 1,
           dtype: DTypeLike | None = None, device: core.Device | None = None) -> Tensor:
    """start, start + step, ... before stop; int64 if all three are integers, else float32."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ValueError("arange: step is 0")
    if dtype is None:
        whole = all(isinstance(x, int) for x in (start, stop, step))
        dtype = core.kInt64 if whole else core.kFloat32
    device = core.cpu() if device is None else device
    count = max(0, math.ceil((stop - start) / step))
    kind = core.core_dtype(core.dtype_number(dtype))
    with device.at_once():
        handle = capi.weir_arange(device.handle, kind, count, start, step)
    return interop.wrap(handle, device)


def rand(*shape: ShapeLike, lo: float = 0.0, hi: float = 1.0, dtype: DTypeLike = "float32",
         device: core.Device | None = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [lo, hi)."""
    t = interop.empty(_sizes(shape), dtype, device, requires_grad)
    capi.weir_write_uniform(t.data.value.writable(), lo, hi)
    return t


def randn(*shape: ShapeLike, mean: float = 0.0, std: float = 1.0, dtype: DTypeLike = "float32",
          device: core.Device | None = None, requires_grad: bool = False) -> Tensor:
    """Normal."""
    t = interop.empty(_sizes(shape), dtype, device, requires_grad)
    capi.weir_write_normal(t.data.value.writable(), mean, std)
    return t


def _sizes(shape: tuple[ShapeLike, ...]) -> ShapeLike:
    """randn(2, 3) and randn((2, 3)) are the same."""
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        return shape[0]
    return cast("tuple[SupportsIndex, ...]", shape)


def eye(n: int, m: int | None = None, dtype: DTypeLike = "float32",
        device: core.Device | None = None) -> Tensor:
    """Ones on the diagonal."""
    device = core.cpu() if device is None else device
    kind = core.core_dtype(core.dtype_number(dtype))
    with device.at_once():
        rows = capi.weir_reshape(capi.weir_arange(device.handle, capi.WEIR_I64, n, 0, 1), (n, 1))
        columns = capi.weir_arange(device.handle, capi.WEIR_I64, m or n, 0, 1)
        handle = capi.weir_cast(capi.weir_eq(rows, columns), kind)
    return interop.wrap(handle, device)
