"""mask - parts that a mask selects: x[x > 0], x[x > 0] = 0, of raw tensors.

A mask has the shape of the first axes of what it selects from. It is of bool, or a tensor of
float32 that holds 0 and 1 only, as comparisons do in SINGA.
"""
from __future__ import annotations

import numpy as np

from weir import _capi as capi
from weir import core
from weir.errors import DtypeError, ShapeError, StateError
from weir.typing import Array
from . import arith
from .math import NE, SumAsFloat
from .tensor import Tensor, host_constant, result

_RECORDED = ("x[mask]: how much a mask selects is known when its elements are, and in a recording "
             "they are not: use autograd.where, multiply by the mask, or select outside of the "
             "recording")


def Flags(mask: Tensor | Array, x: Tensor) -> Tensor:
    """The mask of x as a raw tensor of bool on x's device."""
    shape = mask.shape() if isinstance(mask, Tensor) else mask.shape
    if not shape or x.shape()[:len(shape)] != shape:
        raise ShapeError(f"a mask of shape {shape} does not select from a tensor of shape "
                         f"{x.shape()}: it must have the shape of the first axes")
    if not isinstance(mask, Tensor):
        if mask.dtype != np.bool_:
            raise DtypeError(f"x[mask]: the mask is of {mask.dtype}, must be bool; autograd.gather "
                             "takes indices")
        flags = Tensor(shape, x.device(), core.kBool)
        flags.from_numpy(mask)
        return flags
    if mask.data_type() not in (core.kBool, core.kFloat32):
        raise DtypeError(f"x[mask]: the mask is of {core.dtype_name(mask.data_type())}, must be "
                         "bool or float32 of 0 and 1, as x > 0 gives; autograd.gather takes "
                         "indices")
    flags = result(arith.flags(mask), mask.device())
    if not x.device().recording and mask.data_type() == core.kFloat32 and \
            SumAsFloat(NE(mask, flags.AsType(core.kFloat32))) > 0:
        raise DtypeError("x[mask]: a mask of float32 must hold 0 and 1 only, as x > 0 gives")
    return flags


def Places(flags: Tensor) -> Tensor:
    """The positions where the mask is true, counted in row-major order, as int32."""
    flat = result(capi.weir_reshape(flags.handle, (flags.Size(),)), flags.device())
    try:
        places = np.asarray(np.nonzero(flat.to_numpy())[0], np.int32)
    except StateError as e:
        raise StateError(_RECORDED) from e
    return result(host_constant(places, flags.device()), flags.device())


def Selected(x: Tensor, flags: Tensor, places: Tensor) -> Tensor:
    """x where the mask is true: the mask's axes become one."""
    table = capi.weir_reshape(x.handle, (flags.Size(),) + x.shape()[flags.nDim():])
    return result(capi.weir_gather(table, places.handle), x.device())


def Assigned(x: Tensor, flags: Tensor, new: Tensor) -> Tensor:
    """x, but `new` where the mask is true: one element, or a row for each place in their order."""
    wide = capi.weir_reshape(flags.handle, flags.shape() + (1,) * (x.nDim() - flags.nDim()))
    handle = capi.weir_cast(new.handle, core.core_dtype(x.data_type()))
    if new.Size() != 1 or new.nDim() > 1:           # the number of true ones so far, less one
        flat = capi.weir_reshape(flags.handle, (flags.Size(),))
        ones = capi.weir_cumsum(capi.weir_cast(flat, capi.WEIR_I32), 0, False)
        last = arith.number(new.shape(0) - 1, ones)
        rows = capi.weir_where(flat, capi.weir_sub(ones, arith.number(1, ones)), last)
        handle = capi.weir_reshape(capi.weir_gather(handle, rows), x.shape())
    return result(capi.weir_where(wide, handle, x.handle), x.device())
