"""test_script_operator - operators that scripts derive from autograd.Operator."""
import gc

import numpy as np
import pytest

from conftest import run
from weir import autograd, core, device, singa_wrap as singa, tensor
from weir.tensor import Tensor

pytestmark = pytest.mark.usefixtures("training")

A = autograd


class NumPyCube(A.Operator):
    """x^3 by NumPy, on tensors made without naming a device."""

    def forward(self, x):
        self.x = x.to_numpy()
        return tensor.from_numpy(self.x ** 3).data

    def backward(self, dy):
        return Tensor(data=3 * self.x ** 2 * dy.to_numpy()).data


class RawCube(A.Operator):
    """x^3 by functions of raw tensors."""

    def forward(self, x):
        if autograd.training:
            self.x = x
        return singa.PowFloat(x, 3.0)

    def backward(self, dy):
        return singa.__mul__(singa.MultFloat(singa.Square(self.x), 3.0), dy)


class TwoByTwo(A.Operator):
    """(a, b) -> (a b, a + 2 b)."""

    def forward(self, a, b):
        self.a, self.b = a, b
        return singa.__mul__(a, b), singa.__add__(a, singa.MultFloat(b, 2.0))

    def backward(self, dp, ds):
        da = singa.__add__(singa.__mul__(dp, self.b), ds)
        db = singa.__add__(singa.__mul__(dp, self.a), singa.MultFloat(ds, 2.0))
        return da, db


class Fails(A.Operator):
    """Raises where it is told to."""

    def __init__(self, where, after=0):
        super().__init__()
        self.where = where
        self.left = after

    def step(self, here, x):
        if here == self.where:
            if self.left == 0:
                raise KeyError(f"told to fail in {here}")
            self.left -= 1
        return singa.MultFloat(x, 1.0)

    def forward(self, x):
        return self.step("forward", x)

    def backward(self, dy):
        return self.step("backward", dy)


def param(values):
    return Tensor(data=np.asarray(values, np.float32), stores_grad=True)


def read(x):
    return tensor.to_numpy(x) if isinstance(x, Tensor) else x.to_numpy()


X = [1., -2., 0.5]


@pytest.mark.parametrize("kind", [NumPyCube, RawCube])
def test_value_and_gradient(kind, mode):
    x = param(X)

    def step():
        y = kind()(x)[0]
        assert isinstance(y.creator, kind) and y.name.startswith(kind.__name__ + "#")
        loss = A.reduce_sum(A.mul(y, y))
        return y, A.gradients(loss)[id(x)]

    y, g = run(step, core.cpu(), mode)
    np.testing.assert_allclose(read(y), np.power(X, 3))
    np.testing.assert_allclose(read(g), 6 * np.power(X, 5))


@pytest.mark.parametrize("kind", [NumPyCube, RawCube])
def test_backward_by_hand(kind, mode):
    x, dy = param(X), Tensor(data=np.array([1, 2, 3], np.float32))
    dx = run(lambda: kind()(x)[0].creator.backward(dy.data), core.cpu(), mode)
    assert dx.device() is core.cpu()
    np.testing.assert_allclose(read(dx), 3 * np.square(X) * [1, 2, 3])


def test_between_operators_of_the_core(mode):
    x, w = param(np.ones((2, 3))), param(np.full((3, 2), 0.5))

    def step():
        h = NumPyCube()(A.matmul(x, w))[0]
        pairs = A.gradients(A.reduce_mean(A.tanh(h)))
        return pairs[id(x)], pairs[id(w)]

    dx, dw = run(step, core.cpu(), mode)
    slope = (1 - np.tanh(1.5 ** 3) ** 2) * 3 * 1.5 ** 2 / 4
    np.testing.assert_allclose(read(dx), np.full((2, 3), slope), rtol=1e-3)
    np.testing.assert_allclose(read(dw), np.full((3, 2), 2 * slope), rtol=1e-3)


def test_two_inputs_two_results(mode):
    a, b = param([2., 3.]), param([5., 7.])

    def step():
        p, s = TwoByTwo()(a, b)
        assert p.creator is s.creator
        pairs = A.gradients(A.reduce_sum(A.add(p, A.mul(s, s))))
        return p, s, pairs[id(a)], pairs[id(b)]

    p, s, da, db = (read(t) for t in run(step, core.cpu(), mode))
    np.testing.assert_array_equal(p, [10, 21])
    np.testing.assert_array_equal(s, [12, 17])
    np.testing.assert_array_equal(da, [5 + 24, 7 + 34])
    np.testing.assert_array_equal(db, [2 + 48, 3 + 68])


def test_one_of_two_results_is_used(mode):
    a, b = param([2., 3.]), param([5., 7.])

    def step():
        pairs = A.gradients(A.reduce_sum(TwoByTwo()(a, b)[1]))
        return pairs[id(a)], pairs[id(b)]

    da, db = run(step, core.cpu(), mode)
    np.testing.assert_array_equal(read(da), [1, 1])
    np.testing.assert_array_equal(read(db), [2, 2])


def test_an_input_without_a_gradient(mode):
    a, b = param([2., 3.]), Tensor(data=np.array([5, 7], np.float32), requires_grad=False)
    dy = Tensor(data=np.ones(2, np.float32))
    da, db = run(lambda: TwoByTwo()(a, b)[0].creator.backward(dy.data, dy.data), core.cpu(), mode)
    np.testing.assert_array_equal(read(da), [6, 8])
    assert db is None


def test_one_operator_called_twice(mode):
    """Its memory stays good for the first call; state of its own is that of the last."""
    x, w, op = param([1., 2.]), param([3., 4.]), RawCube()

    def step():
        first, second = op(x)[0], op(w)[0]
        return first, second, A.gradients(A.reduce_sum(second))[id(w)]

    first, second, g = run(step, core.cpu(), mode)
    np.testing.assert_array_equal(read(first), [1, 8])
    np.testing.assert_array_equal(read(second), [27, 64])
    np.testing.assert_array_equal(read(g), [27, 48])


def test_runs_see_new_inputs():
    dev, x = core.cpu(), param([1., 2.])
    dev.EnableGraph(True)
    y = NumPyCube()(x)[0]
    dev.EnableGraph(False)
    for value in (2., 3., -1.):
        x.copy_from_numpy(np.full(2, value, np.float32))
        dev.RunGraph()
        np.testing.assert_array_equal(read(y), [value ** 3] * 2)
    dev.Reset()


def test_outside_training():
    autograd.training = False
    y = RawCube()(param(X))[0]
    np.testing.assert_allclose(read(y), np.power(X, 3))


def test_forward_by_hand():
    """forward and backward can be called directly: they compute on raw tensors, without a tape."""
    op, x = RawCube(), param(X)
    y = op.forward(x.data)
    assert y.device() is core.cpu()
    np.testing.assert_allclose(read(op.backward(y)), 3 * np.power(X, 5))


def test_tensors_without_a_device_are_elsewhere_only_inside():
    seen = []

    class Looks(A.Operator):
        def forward(self, x):
            seen.append((x.device(), device.get_default_device()))
            return x

    Looks()(param(X))
    assert seen[0][0] is seen[0][1] is core.scratch()
    assert device.get_default_device() is core.cpu()


def test_other_types_and_empty_ones(mode):
    class Passes(A.Operator):
        def forward(self, *xs):
            return xs

        def backward(self, *dys):
            return dys

    a = Tensor(data=np.arange(3, dtype=np.int32), dtype=tensor.int32)
    b, c = param(np.zeros((0, 4))), param([4.])
    ys = run(lambda: Passes()(a, b, c), core.cpu(), mode)
    assert [y.dtype for y in ys] == [tensor.int32, tensor.float32, tensor.float32]
    assert read(ys[0]).tolist() == [0, 1, 2] and ys[1].shape == (0, 4) and read(ys[2]) == 4


# ---- failures ----

def test_an_exception_in_forward(mode):
    x = param(X)
    with pytest.raises(KeyError, match="told to fail in forward"):
        run(lambda: Fails("forward")(x), core.cpu(), mode)


def test_an_exception_in_forward_of_a_run():
    dev, x = core.cpu(), param(X)
    dev.EnableGraph(True)
    y = A.relu(Fails("forward", after=2)(x)[0])     # one call to learn the shapes, one run
    dev.EnableGraph(False)
    dev.RunGraph()
    with pytest.raises(KeyError, match="told to fail in forward"):
        dev.RunGraph()
    np.testing.assert_array_equal(read(A.relu(x)), np.maximum(X, 0))
    dev.Reset()
    del y


def test_an_exception_in_backward():
    x = param(X)
    with pytest.raises(KeyError, match="told to fail in backward"):
        A.gradients(A.reduce_sum(Fails("backward")(x)[0]))
    y = Fails("backward")(x)[0]
    with pytest.raises(KeyError, match="told to fail in backward"):
        y.creator.backward(y.data)
    assert A.gradients(A.reduce_sum(A.relu(x)))


def test_an_exception_in_backward_of_a_run():
    dev, x = core.cpu(), param(X)
    dev.EnableGraph(True)
    g = A.gradients(A.reduce_sum(Fails("backward", after=1)(x)[0]))
    dev.EnableGraph(False)
    dev.RunGraph()
    with pytest.raises(KeyError, match="told to fail in backward"):
        dev.RunGraph()
    dev.Reset()
    del g


class Wrong(A.Operator):
    def __init__(self, results):
        super().__init__()
        self.results = results

    def forward(self, x):
        return x

    def backward(self, dy):
        return self.results(dy)


@pytest.mark.parametrize("results, words", [
    (lambda dy: (dy, dy), "backward returned 2 tensors, expected 1"),
    (lambda dy: singa.Tensor((5,), dy.device()), "backward returned shape")])
def test_a_wrong_gradient(results, words):
    with pytest.raises(ValueError, match=words):
        A.gradients(A.reduce_sum(Wrong(results)(param(X))[0]))


def test_a_class_without_methods():
    class Nothing(A.Operator):
        pass

    with pytest.raises(NotImplementedError, match="Nothing does not define forward"):
        Nothing()(param(X))


def test_a_class_without_backward():
    class Forward(A.Operator):
        def forward(self, x):
            return x

    with pytest.raises(NotImplementedError, match="Forward does not define backward"):
        A.gradients(A.reduce_sum(Forward()(param(X))[0]))


# ---- nothing is left ----

def live():
    gc.collect()
    return core.cpu().memory().live, core.scratch().memory().live


def leaves_nothing(before):
    """A block that is used again may be a sixteenth larger than what it stands for."""
    return all(abs(now - then) <= then / 16 for now, then in zip(live(), before))


@pytest.mark.parametrize("same", [False, True], ids=["new", "same"])
def test_calls_leave_nothing(same):
    x, op = param(np.ones(1000)), RawCube()
    objects, before = None, None
    for i in range(2000):
        y = (op if same else RawCube())(x)[0]
        A.gradients(A.reduce_sum(y))
        if i == 100:
            objects, before = len(gc.get_objects()), live()
    assert leaves_nothing(before)
    assert len(gc.get_objects()) < objects + 100


def test_recordings_leave_nothing():
    dev, x, before = core.cpu(), param(np.ones(1000)), None
    for i in range(60):
        dev.EnableGraph(True)
        y = NumPyCube()(x)[0]
        g = A.gradients(A.reduce_sum(y))
        dev.EnableGraph(False)
        dev.RunGraph()
        del y, g
        if i == 20:
            before = live()
    assert live() == before
    dev.Reset()


def test_an_operator_needs_an_input():
    class Nothing(autograd.Operator):
        def forward(self):
            return ()

    with pytest.raises(TypeError, match="Nothing#0: an operator needs an input"):
        Nothing()()


class HalfSquares(A.Operator):
    """A loss: half the sum of squares. Notes what its backward is given."""

    def __init__(self):
        super().__init__()
        self.given = []

    def forward(self, x):
        self.x = x
        y = singa.MultFloat(singa.Square(x), 0.5)
        return singa.SumAll(y)

    def backward(self, dy=1.0):
        self.given.append(dy if isinstance(dy, float) else "raw")
        return singa.MultFloat(self.x, dy if isinstance(dy, float) else 7.0)


@pytest.mark.parametrize("dy, given", [(None, 1.0), (2, 2.0), (0.5, 0.5), ("tensor", "raw")])
def test_a_loss_of_a_script_gets_a_number(mode, dy, given):
    x = tensor.from_numpy(np.array([1.0, -2.0], np.float32))
    x.stores_grad = True
    loss = HalfSquares()
    dy = tensor.from_numpy(np.array([3.0], np.float32)) if dy == "tensor" else dy
    pairs = run(lambda: list(A.backward(loss(x)[0], dy)), core.cpu(), mode)
    assert set(loss.given) == {given}
    factor = 7.0 if given == "raw" else given
    assert np.array_equal(pairs[0][1].numpy(), factor * np.array([1.0, -2.0], np.float32))


def test_an_operator_before_the_loss_gets_a_raw_tensor():
    x = tensor.from_numpy(np.array([1.0, -2.0], np.float32))
    x.stores_grad = True
    op = HalfSquares()
    list(A.backward(op(x)[0]))
    list(A.backward(A.mul(op(x)[0], op(x)[0])))
    assert op.given == [1.0, "raw", "raw"]
