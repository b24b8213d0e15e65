"""test_initializer - distributions of first values, identities, orthogonal matrices."""
import numpy as np
import pytest

from weir import core, initializer, tensor

SHAPES = [(40, 90), (30, 50, 8), (30, 50, 4, 8), (12, 20, 4, 4, 4), (4000,)]


def fans(shape):
    if len(shape) == 2:
        return shape
    if len(shape) == 1:
        return shape[0] ** 0.5, shape[0] ** 0.5
    cells = int(np.prod(shape[2:]))
    return shape[1] * cells, shape[0] * cells


KINDS = {
    "he_uniform": lambda i, o: (2.0, i), "he_normal": lambda i, o: (2.0, i),
    "lecun_uniform": lambda i, o: (1.0, i), "lecun_normal": lambda i, o: (1.0, i),
    "glorot_uniform": lambda i, o: (1.0, (i + o) / 2),
    "glorot_normal": lambda i, o: (1.0, (i + o) / 2),
    "xavier": lambda i, o: (1.0, (i + o) / 2), "glorot": lambda i, o: (1.0, (i + o) / 2),
    "msra": lambda i, o: (2.0, i), "gaussian": lambda i, o: (1.0, (i + o) / 2),
    "uniform": lambda i, o: (1.0, (i + o) / 2),
}
UNIFORM = ("he_uniform", "lecun_uniform", "glorot_uniform", "xavier", "uniform")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_distribution(kind, shape):
    core.cpu().SetRandSeed(5)
    t = tensor.Tensor(shape)
    getattr(initializer, kind)(t)
    a = tensor.to_numpy(t)
    scale, fan = KINDS[kind](*fans(shape))
    std = (scale / fan) ** 0.5
    assert abs(a.mean()) < 0.1 * std
    assert abs(a.std() / std - 1) < 0.1
    limit = 3 ** 0.5 * std
    if kind in UNIFORM:
        assert 0.9 * limit < a.max() <= limit and -limit <= a.min() < -0.9 * limit
    else:
        assert a.max() > 1.2 * limit        # not cut off


def test_given_fans():
    t = tensor.Tensor((100, 100))
    initializer.gaussian(t, 20, 30)
    assert abs(tensor.to_numpy(t).std() / (2 / 50) ** 0.5 - 1) < 0.05


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2)])
def test_eye(shape):
    t = tensor.Tensor(shape)
    initializer.eye(t)
    np.testing.assert_array_equal(tensor.to_numpy(t), np.eye(*shape))


@pytest.mark.parametrize("gain", [1.0, 2.5])
@pytest.mark.parametrize("shape", [(6, 6), (4, 9), (9, 4)])
def test_orthogonal(shape, gain):
    t = tensor.Tensor(shape)
    initializer.orthogonal(t, gain)
    a = tensor.to_numpy(t) / gain
    square = a @ a.T if shape[0] <= shape[1] else a.T @ a
    np.testing.assert_allclose(square, np.eye(min(shape)), atol=1e-5)


def test_orthogonal_draws_from_the_device():
    drawn = []
    for seed in (1, 1, 2):
        core.cpu().SetRandSeed(seed)
        t = tensor.Tensor((5, 5))
        initializer.orthogonal(t)
        drawn.append(tensor.to_numpy(t))
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


@pytest.mark.parametrize("what", [initializer.eye, initializer.orthogonal])
def test_matrices_only(what):
    with pytest.raises(ValueError):
        what(tensor.Tensor((2, 3, 4)))
