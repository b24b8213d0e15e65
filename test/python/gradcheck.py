"""gradcheck - an operator against NumPy: values, and gradients against central differences in f64.

A case names a call on Tensors and a function of f64 arrays that means the same. Gradients come both
from y.creator.backward, given raw tensors, and from autograd.backward of a weighted sum of all
results.
"""
import numpy as np

from conftest import run
from weir import autograd, core, tensor
from weir.tensor import Tensor


class Case:
    """call(*Tensors) -> Tensor or tuple; reference(*f64 arrays) -> the same in NumPy.

    Inputs of an integer type have no gradient. grad False: only values are compared.
    """

    def __init__(self, name, call, reference, *inputs, grad=True, rtol=1e-4, atol=1e-5):
        self.name = name
        self.call = call
        self.reference = reference
        self.inputs = [np.asarray(x) for x in inputs]
        self.grad = grad
        self.rtol = rtol
        self.atol = atol
        self._slopes = {}

    def __repr__(self):
        return self.name

    @property
    def floats(self):
        return [i for i, x in enumerate(self.inputs) if x.dtype.kind == "f"]

    def tensors(self):
        made = []
        for x in self.inputs:
            kind = np.float32 if x.dtype.kind == "f" else np.int32
            t = Tensor(data=x.astype(kind), dtype=core.dtype_number(kind))
            t.stores_grad = x.dtype.kind == "f"
            made.append(t)
        return made

    def expected(self, inputs=None):
        ys = self.reference(*(self.inputs if inputs is None else inputs))
        return [np.asarray(y) for y in (ys if isinstance(ys, tuple) else (ys,))]

    def weights(self):
        """The gradient given for each result."""
        rng = np.random.default_rng(7)
        return [rng.uniform(-1, 1, y.shape or (1,)) for y in self.expected()]

    def differences(self, i):
        """Central differences of the weighted sum of the results in input i."""
        if i not in self._slopes:
            self._slopes[i] = self._differences(i, 1e-5)
        return self._slopes[i]

    def _differences(self, i, step):
        inputs = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in self.inputs]
        weights, x = self.weights(), inputs[i]
        slope = np.zeros(x.shape)

        def total():
            return sum(float(np.sum(y.reshape(w.shape) * w))
                       for y, w in zip(self.expected(inputs), weights))

        for at in np.ndindex(*x.shape):
            here = x[at]
            x[at] = here + step
            above = total()
            x[at] = here - step
            slope[at] = (above - total()) / (2 * step)
            x[at] = here
        return slope

    def close(self, got, wanted):
        np.testing.assert_allclose(got, wanted.reshape(got.shape), rtol=self.rtol, atol=self.atol)


def results(case, xs):
    ys = case.call(*xs)
    return ys if isinstance(ys, tuple) else (ys,)


def check_value(case, mode):
    xs = case.tensors()
    ys = run(lambda: results(case, xs), core.cpu(), mode)
    wanted = case.expected()
    assert len(ys) == len(wanted)
    for y, want in zip(ys, wanted):
        assert isinstance(y, Tensor) and y.shape == (want.shape or (1,))
        case.close(tensor.to_numpy(y), want)


def check_creator(case, mode):
    """y.creator.backward(raw dy...)"""
    xs = case.tensors()
    dys = [Tensor(data=w.astype(np.float32)) for w in case.weights()]

    def both():
        ys = results(case, xs)
        return ys[0].creator.backward(*[dy.data for dy in dys])

    grads = run(both, core.cpu(), mode)
    grads = grads if isinstance(grads, tuple) else (grads,)
    assert len(grads) in (len(xs), len(case.floats))
    for i in case.floats:
        assert tuple(grads[i].shape()) == xs[i].shape
        case.close(grads[i].to_numpy(), case.differences(i))


def check_backward(case, mode):
    """autograd.backward"""
    xs = case.tensors()
    dys = [Tensor(data=w.astype(np.float32), requires_grad=False) for w in case.weights()]

    def both():
        terms = [autograd.reduce_sum(autograd.mul(y, dy))
                 for y, dy in zip(results(case, xs), dys)]
        loss = autograd.add_all(*terms)
        return [(id(x), g) for x, g in autograd.backward(loss)]

    pairs = dict(run(both, core.cpu(), mode))
    assert set(pairs) == {id(xs[i]) for i in case.floats}
    for i in case.floats:
        assert pairs[id(xs[i])].shape == xs[i].shape
        case.close(tensor.to_numpy(pairs[id(xs[i])]), case.differences(i))


def flat(shape, lo=-2.0, hi=2.0, seed=0):
    """Distinct numbers of [lo, hi], none near a kink of the operators, in random order."""
    n = int(np.prod(shape))
    values = np.linspace(lo, hi, 2 * n + 3)[1::2][:n]
    return np.random.default_rng(seed).permutation(values).reshape(shape)
