"""initializer - first values of parameters, in place: SINGA's names.

Fans of a shape: (in, out) of two axes; of three to five axes the second and the first, times the
cells of the window; else the root of the number of elements for both.
"""
from __future__ import annotations

import math
from typing import cast

import numpy as np

from weir import _capi as capi
from weir.typing import Array, Handle
from .tensor import Tensor


def _fans(t: Tensor, fan_in: float = 0, fan_out: float = 0) -> tuple[float, float]:
    shape = t.shape
    fans: tuple[float, ...]
    if len(shape) == 2:
        fans = shape
    elif 3 <= len(shape) <= 5:
        cells = math.prod(shape[2:])
        fans = (shape[1] * cells, shape[0] * cells)
    else:
        fans = (math.sqrt(math.prod(shape)),) * 2
    return fan_in or fans[0], fan_out or fans[1]


def _normal(t: Tensor, scale: float, fan: float) -> Tensor:
    return t.gaussian(0.0, math.sqrt(scale / fan))


def _uniform(t: Tensor, scale: float, fan: float) -> Tensor:
    limit = math.sqrt(3.0 * scale / fan)
    return t.uniform(-limit, limit)


def he_uniform(t: Tensor) -> Tensor:
    """He et al. 2015."""
    return _uniform(t, 2.0, _fans(t)[0])


def he_normal(t: Tensor) -> Tensor:
    """He et al. 2015: normal, variance 2 / fan in. Fills t in place and returns it."""
    return _normal(t, 2.0, _fans(t)[0])


def lecun_uniform(t: Tensor) -> Tensor:
    """LeCun et al. 1998."""
    return _uniform(t, 1.0, _fans(t)[0])


def lecun_normal(t: Tensor) -> Tensor:
    """LeCun et al. 1998: normal, variance 1 / fan in. Fills t in place and returns it."""
    return _normal(t, 1.0, _fans(t)[0])


def glorot_uniform(t: Tensor) -> Tensor:
    """Glorot and Bengio 2010."""
    return _uniform(t, 1.0, sum(_fans(t)) / 2)


def glorot_normal(t: Tensor) -> Tensor:
    """Glorot and Bengio 2010: normal, variance 2 / (fan in + fan out). Fills t in place and returns
    it."""
    return _normal(t, 1.0, sum(_fans(t)) / 2)


def _matrix(t: Tensor, who: str) -> None:
    if len(t.shape) != 2:
        raise ValueError(f"{who}: shape {t.shape}, must have 2 axes")


def _fill(t: Tensor, array: Array) -> Tensor:
    t.copy_from_numpy(np.ascontiguousarray(array, np.float32))
    return t


def eye(t: Tensor) -> Tensor:
    """1 on the diagonal of a matrix, 0 elsewhere. (SINGA takes anything but a matrix.)"""
    _matrix(t, "eye")
    return _fill(t, np.eye(t.shape[0], t.shape[1]))


def orthogonal(t: Tensor, gain: float = 1.0) -> Tensor:
    """A random matrix with orthonormal rows or columns, times gain (Saxe et al. 2013). Its normal
    numbers are those of the device. (SINGA takes anything but a matrix.)"""
    _matrix(t, "orthogonal")
    t.gaussian(0.0, 1.0)
    if 0 in t.shape:
        return t
    with t.device.at_once():
        normal, wide = capi.weir_cast(t.data.handle, capi.WEIR_F64), t.shape[0] < t.shape[1]
        q = _orthonormal(capi.weir_transpose(normal, None) if wide else normal)
        q = capi.weir_affine(q, float(gain), 0.0)
        t.data.put(capi.weir_transpose(q, None) if wide else q)
    return t


def _orthonormal(columns: Handle) -> Handle:
    """Gram and Schmidt's orthonormal columns, the part along earlier ones taken off twice, which is
    enough for rounding. As the triangle's diagonal is positive, they are distributed evenly."""
    q: Handle | None = None
    for i in range(capi.weir_tensor_desc(columns)[1][1]):
        v = capi.weir_narrow(columns, 1, i, 1)
        for _ in range(2 if i > 0 else 0):
            v = capi.weir_sub(v, capi.weir_matmul(q, capi.weir_matmul_t(q, v, True, False)))
        v = capi.weir_div(v, capi.weir_norm(v, 2, 0, False))
        q = capi.weir_copy(v) if q is None else capi.weir_concat([q, v], 1)
    return cast("Handle", q)


# ---- SINGA's deprecated names ----

def gaussian(t: Tensor, fan_in: float = 0, fan_out: float = 0) -> Tensor:
    """Normal with variance 2 / (fan_in + fan_out), the shape's where 0."""
    fan_in, fan_out = _fans(t, fan_in, fan_out)
    return t.gaussian(0.0, math.sqrt(2.0 / (fan_in + fan_out)))


def uniform(t: Tensor, fan_in: float = 0, fan_out: float = 0) -> Tensor:
    """Uniform with the same variance."""
    fan_in, fan_out = _fans(t, fan_in, fan_out)
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return t.uniform(-limit, limit)


def xavier(t: Tensor) -> Tensor:
    """Uniform up to sqrt(6 / (fan_in + fan_out)): glorot_uniform."""
    return glorot_uniform(t)


def glorot(t: Tensor) -> Tensor:
    """glorot_normal."""
    return glorot_normal(t)


def msra(t: Tensor) -> Tensor:
    """he_normal."""
    return he_normal(t)
