"""initializer - first values of parameters, in place: SINGA's names.

Fans of a shape: (in, out) of two axes; of three to five axes the second and the first, times the
cells of the window; else the root of the number of elements for both.
"""
import math

import numpy as np


def _fans(t, fan_in=0, fan_out=0):
    shape = t.shape
    if len(shape) == 2:
        fans = shape
    elif 3 <= len(shape) <= 5:
        cells = math.prod(shape[2:])
        fans = (shape[1] * cells, shape[0] * cells)
    else:
        fans = (math.sqrt(math.prod(shape)),) * 2
    return fan_in or fans[0], fan_out or fans[1]


def _normal(t, scale, fan):
    return t.gaussian(0.0, math.sqrt(scale / fan))


def _uniform(t, scale, fan):
    limit = math.sqrt(3.0 * scale / fan)
    return t.uniform(-limit, limit)


def he_uniform(t):
    """He et al. 2015."""
    return _uniform(t, 2.0, _fans(t)[0])


def he_normal(t):
    return _normal(t, 2.0, _fans(t)[0])


def lecun_uniform(t):
    """LeCun et al. 1998."""
    return _uniform(t, 1.0, _fans(t)[0])


def lecun_normal(t):
    return _normal(t, 1.0, _fans(t)[0])


def glorot_uniform(t):
    """Glorot and Bengio 2010."""
    return _uniform(t, 1.0, sum(_fans(t)) / 2)


def glorot_normal(t):
    return _normal(t, 1.0, sum(_fans(t)) / 2)


def _matrix(t, who):
    if len(t.shape) != 2:
        raise ValueError(f"{who}: shape {t.shape}, must have 2 axes")


def _fill(t, array):
    t.copy_from_numpy(np.ascontiguousarray(array, np.float32))
    return t


def eye(t):
    """1 on the diagonal of a matrix, 0 elsewhere. (SINGA takes anything but a matrix.)"""
    _matrix(t, "eye")
    return _fill(t, np.eye(*t.shape))


def orthogonal(t, gain=1.0):
    """A random matrix with orthonormal rows or columns, times gain (Saxe et al. 2013). Its normal
    numbers are those of the device. (SINGA takes anything but a matrix.)"""
    _matrix(t, "orthogonal")
    t.gaussian(0.0, 1.0)
    normal = t.data.to_numpy().astype(np.float64)
    q, r = np.linalg.qr(normal if t.shape[0] >= t.shape[1] else normal.T)
    q = q * np.where(np.diagonal(r) < 0, -1.0, 1.0)      # the distribution is uniform then
    return _fill(t, gain * (q if t.shape[0] >= t.shape[1] else q.T))


# ---- SINGA's deprecated names ----

def gaussian(t, fan_in=0, fan_out=0):
    """Normal with variance 2 / (fan_in + fan_out), the shape's where 0."""
    fan_in, fan_out = _fans(t, fan_in, fan_out)
    return t.gaussian(0.0, math.sqrt(2.0 / (fan_in + fan_out)))


def uniform(t, fan_in=0, fan_out=0):
    """Uniform with the same variance."""
    fan_in, fan_out = _fans(t, fan_in, fan_out)
    limit = math.sqrt(6.0 / (fan_in + fan_out))
    return t.uniform(-limit, limit)


def xavier(t):
    """Uniform up to sqrt(6 / (fan_in + fan_out)): glorot_uniform."""
    return glorot_uniform(t)


def glorot(t):
    """glorot_normal."""
    return glorot_normal(t)


def msra(t):
    """he_normal."""
    return he_normal(t)
